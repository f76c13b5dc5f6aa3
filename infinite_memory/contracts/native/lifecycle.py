"""Commands about the memory as a whole: backup, restore, export and import."""

from __future__ import annotations

import enum
from pathlib import Path

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import ChoiceField, FlagField, NameField, TextField
from infinite_memory.contracts.native.table import TABLE, Call
from infinite_memory.errors import InvalidRequestError
from infinite_memory.lifecycle.backup import Backup, Backups, Listed
from infinite_memory.lifecycle.export import ExportFormat, export
from infinite_memory.lifecycle.importers import FORMATS
from infinite_memory.lifecycle.importing import import_older, import_path
from infinite_memory.lifecycle.restore import Restoring
from infinite_memory.lifecycle.rotation import scheduled_backup
from infinite_memory.store.copies import RestoreMode

ImportFormat = enum.Enum("ImportFormat", {one.name: one.name for one in FORMATS})  # type: ignore[misc]

_FILE = TextField(
    name="file", about="Name of a backup as `list_backups` gives it, or a path", required=True, limit="query_chars"
)


@TABLE.command(
    "backup_memory",
    FlagField(name="scheduled", about="Count it as a scheduled one, and remove scheduled ones that are too old", default=False),
    title="Back up",
)  # fmt: skip
async def backup_memory(call: Call) -> Reply:
    """Write everything into one backup file, and read it back before saying so. Earlier backups are never overwritten."""
    backups = Backups.of(call.engine.parts)
    if not call.fields.flag("scheduled"):
        return _backup_out(await backups.create(progress=call.progress))
    made, removed = await scheduled_backup(call.engine.parts, backups, call.session.zone, call.progress)
    return _backup_out(made) | {"removed": [one.name for one in removed]}


@TABLE.command("list_backups", title="List backups", read_only=True, idempotent=True)
async def list_backups(call: Call) -> Reply:
    """List the backups in the backup folder, oldest first. `verify_backup` tells whether one is whole."""
    backups = Backups.of(call.engine.parts)
    return {"backups": [_listed_out(one) for one in await backups.list_all()], "folder": str(backups.folder)}


@TABLE.command("verify_backup", _FILE, title="Verify a backup", read_only=True, idempotent=True)
async def verify_backup(call: Call) -> Reply:
    """Read a whole backup and check every part of it. One that is damaged, cut off or of a newer version is an error that
    says where."""
    return {"whole": True} | _backup_out(await Backups.of(call.engine.parts).verify(call.fields.text("file")))


@TABLE.command(
    "restore_backup",
    _FILE,
    ChoiceField(
        name="mode",
        about="Over existing memories: replace puts the backup in their place (they are backed up first), merge adds what "
        "is missing and changes nothing",
        choices=RestoreMode,
    ),
    NameField(name="scope", about="Restore only this scope of the backup, as a new scope"),
    NameField(name="as_scope", about="Name of that new scope; default: its own"),
    title="Restore a backup",
    destructive=True,
)
async def restore_backup(call: Call) -> Reply:
    """Restore a backup, all of it or nothing. Into an empty memory it needs no mode; over existing memories say replace or
    merge. Use it only when the user asks for it."""
    fields = call.fields
    report = await Restoring.of(call.engine.parts).restore(
        fields.text("file"),
        fields["mode"],
        only_scope=fields.find_text("scope"),
        as_scope=fields.find_text("as_scope"),
        progress=call.progress,
    )
    reply: Reply = {
        "backup_file": report.file.name,
        "mode": report.mode.value,
        "restored_memories": report.done.memories,
        "restored_scopes": report.done.scopes,
        "skipped_memories": report.done.skipped,
        "dropped_scopes": report.done.dropped_scopes,
    }
    if report.saved is not None:
        reply["saved_before"] = report.saved.file.name
    return reply


@TABLE.command(
    "export_memory",
    ChoiceField(name="format", about="How it is written", choices=ExportFormat, default=ExportFormat.JSONL),
    NameField(name="scope", about="Only this scope; default: all, archived ones too"),
    FlagField(name="include_deleted", about="Whether softly forgotten memories are in it too", default=False),
    title="Export", idempotent=True,
)  # fmt: skip
async def export_memory(call: Call) -> Reply:
    """Write what is remembered into a new file that other programs and people can read: JSON Lines (all fields), Markdown
    or CSV."""
    parts = call.engine.parts
    await parts.index.sidecar()
    done = await export(
        parts,
        Backups.of(parts).folder,
        form=call.fields["format"],
        scope=call.fields.find_text("scope"),
        deleted=call.fields.flag("include_deleted"),
        progress=call.progress,
    )
    return {
        "export_file": done.file.name,
        "path": str(done.file),
        "size_bytes": done.size_bytes,
        "counts": dict(done.counts),
    }


@TABLE.command(
    "import_memory",
    TextField(name="path", about="A file or folder on this machine", limit="query_chars"),
    ChoiceField(name="format", about="What it is; default: found by looking", choices=ImportFormat),
    TextField(
        name="mongodb_uri", about="Instead of a path: the server of an older InfiniteMemoryMCP's database", limit="query_chars"
    ),
    TextField(name="database", about="With mongodb_uri: the database's name; default: the URI's", limit="query_chars"),
    NameField(name="scope", about="Where everything goes; default: where our own exports say, else Global"),
    FlagField(name="dry_run", about="Only tell what would be added", default=False),
    title="Import", idempotent=True,
)  # fmt: skip
async def import_memory(call: Call) -> Reply:
    """Import memories: our own exports (JSON Lines, CSV, Markdown), what other memories and assistants export, or the MongoDB
    database of an older InfiniteMemoryMCP. Importing the same twice adds nothing. Use it only when the user asks for it."""
    fields, parts = call.fields, call.engine.parts
    path, uri = fields.find_text("path"), fields.find_text("mongodb_uri")
    form: ImportFormat | None = fields["format"]
    scope, dry_run = fields.find_text("scope"), fields.flag("dry_run")
    if (path is None) == (uri is None):
        raise InvalidRequestError("path", "give either path or mongodb_uri")
    for name, beside, goes in (("database", uri, "mongodb_uri"), ("format", path, "path")):
        if name in fields and beside is None:
            raise InvalidRequestError(name, f"goes with {goes}")
    if uri is not None:
        done = await import_older(
            parts,
            uri,
            fields.find_text("database"),
            scope=scope,
            dry_run=dry_run,
            progress=call.progress,
        )
    else:
        named = form.value if form is not None else None
        done = await import_path(
            parts, Path(path or "").expanduser(), form=named, scope=scope, dry_run=dry_run,
            progress=call.progress,
        )  # fmt: skip
    reply: Reply = {"format": done.form, "added": done.added, "present": done.present, "skipped": done.refused_count}
    if beside_memories := {kind: count for kind, count in done.also.items() if count}:
        reply["also_added"] = beside_memories
    if done.refused:
        reply["skipped_entries"] = [{"entry": one.where, "why": one.why} for one in done.refused]
    return reply | ({"dry_run": True} if call.fields.flag("dry_run") else {})


def _backup_out(one: Backup) -> Json:
    reply: Json = {
        "backup_file": one.file.name,
        "path": str(one.file),
        "size_bytes": one.size_bytes,
        "checksum": f"sha256:{one.checksum}",
        "created_at": one.created_at,
        "counts": dict(one.counts),
        "encrypted": one.is_encrypted,
    }
    if not one.is_consistent:
        reply["note"] = "the server is standalone and has no snapshots: what was written meanwhile may be in part"
    return reply


def _listed_out(one: Listed) -> Json:
    reply: Json = {
        "backup_file": one.file.name,
        "size_bytes": one.size_bytes,
        "created_at": one.created_at,
        "reason": one.reason,
        "encrypted": one.is_encrypted,
    }
    return reply | ({"fault": one.fault} if one.fault else {})
