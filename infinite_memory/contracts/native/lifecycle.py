"""Commands for the whole memory: backup, restore, export and import."""

from __future__ import annotations

import datetime as dt
import enum

from infinite_memory.backup.restore import RestoreReport, Wish
from infinite_memory.backup.retention import scheduled_backup
from infinite_memory.backup.service import Backup, Listed
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import ChoiceField, FlagField, NameField, TextField
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.table import TABLE, CommandContext
from infinite_memory.contracts.session import ClientSession
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.errors import ConfigError, InvalidRequestError, format_count, without_surrogates
from infinite_memory.jobs.administration import Administration
from infinite_memory.store.copies import RestoreMode
from infinite_memory.transfer.export import ExportFormat
from infinite_memory.transfer.formats import FORMATS, Refused
from infinite_memory.transfer.import_folders import ImportFolders
from infinite_memory.transfer.importer import Imported
from infinite_memory.transfer.preview import ImportPreview, Sample

ImportFormat = enum.Enum("ImportFormat", {import_format.name: import_format.name for import_format in FORMATS})  # type: ignore[misc]

_FILE = TextField(
    name="file", about="Name of a backup as `list_backups` gives it, or a path", required=True, limit="query_chars"
)

_ALLOW_UNLOCKED = FlagField(
    name="allow_unlocked", about="Take a backup that is not locked though this memory's backups are", default=False
)


def _check_lock(session: ClientSession) -> None:
    """Reject a backup that would not be encrypted as the client's settings say.

    Raises:
        ConfigError: they name another key than the daemon started with.
    """
    if session.is_lock_ignored:
        raise ConfigError(
            "backup.key_file or backup.passphrase_file was set after the daemon began, so its backups would be locked with another "
            "key, or with none; restart the daemon (infinite-memory daemon stop), then try again"
        )


@TABLE.command(
    "backup_memory",
    FlagField(name="scheduled", about="Count it as a scheduled one, and remove scheduled ones that are too old", default=False),
    title="Back up",
)  # fmt: skip
async def backup_memory(call: CommandContext) -> Reply:
    """Write everything into one backup file, and read it back before saying so. Earlier backups are never overwritten."""
    _check_lock(call.session)
    backups = (await call.administration()).open_backups()
    if not call.fields.flag("scheduled"):
        return serialize_backup(await backups.create(progress=call.progress))
    backup, removed = await scheduled_backup(backups, call.session.zone, call.progress)
    return serialize_backup(backup) | {"removed": [file.name for file in removed]}


@TABLE.command("list_backups", title="List backups", read_only=True, idempotent=True)
async def list_backups(call: CommandContext) -> Reply:
    """List the backups in the backup folder, oldest first. `verify_backup` tells whether one is whole."""
    backups = (await call.administration()).open_backups()
    return {"backups": [serialize_listed(backup) for backup in await backups.list_all()], "folder": str(backups.folder)}


@TABLE.command("verify_backup", _FILE, _ALLOW_UNLOCKED, title="Verify a backup", read_only=True, idempotent=True)
async def verify_backup(call: CommandContext) -> Reply:
    """Read a whole backup and check every part and every document of it. One that is damaged, cut off, of a newer version or
    that a restore would not take is an error that says where."""
    name, allow_unlocked = call.fields.text("file"), call.fields.flag("allow_unlocked")
    backups = (await call.administration()).open_backups()
    return {"whole": True} | serialize_backup(await backups.verify(name, allow_unlocked=allow_unlocked))


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
    NameField(name="as_scope", about="Name of that new scope; default: its own", new=True),
    FlagField(name="dry_run", about="Only check everything and tell what would change", default=False),
    _ALLOW_UNLOCKED,
    title="Restore a backup",
    destructive=True,
)
async def restore_backup(call: CommandContext) -> Reply:
    """Restore a backup, all of it or nothing. Into an empty memory it needs no mode; over existing memories say replace or
    merge. With dry_run it only tells what would be restored, replaced and removed. Use it only when the user asks for it."""
    return _serialize_restored(await restore(call))


async def restore(call: CommandContext) -> RestoreReport:
    """Restore the backup of a `restore_backup` request."""
    _check_lock(call.session)  # it decrypts the file, and encrypts the backup made before
    fields = call.fields
    wish = Wish(
        fields["mode"],
        fields.find_text("scope"),
        fields.find_text("as_scope"),
        dry_run=fields.flag("dry_run"),
        allow_unlocked=fields.flag("allow_unlocked"),
        mark=call.agreement.contents[0] if call.agreement is not None else None,
    )
    restoring = (await call.administration()).open_restoring()
    return await restoring.restore(fields.text("file"), wish, call.progress)


def _serialize_restored(report: RestoreReport) -> Reply:
    reply: Reply = {
        "backup_file": report.file.name,
        "mode": report.mode.value,
        "restored_memories": report.done.memories,
        "restored_scopes": report.done.scopes,
        "skipped_memories": report.done.skipped,
        "dropped_scopes": report.done.dropped_scopes,
        "replaced_memories": report.done.replaced,
        "removed_memories": report.done.removed,
    }
    if report.dry_run:
        reply["dry_run"] = True
    if report.saved is not None:
        reply["saved_before"] = report.saved.file.name
    return reply


@TABLE.command(
    "export_memory",
    ChoiceField(name="format", about="How it is written", choices=ExportFormat, default=ExportFormat.JSONL),
    NameField(name="scope", about="Only this scope; default: all, archived ones too"),
    FlagField(name="include_deleted", about="Whether soft-deleted memories are in it too", default=False),
    title="Export", idempotent=True,
)  # fmt: skip
async def export_memory(call: CommandContext) -> Reply:
    """Write what is remembered into a new file that other programs and people can read: JSON Lines (all fields), Markdown
    or CSV."""
    administration = await call.administration()
    done = await administration.export(
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
    TextField(name="path", about="A file or folder in the home's imports folder, or in those of the setting import.folders",
              limit="query_chars"),
    ChoiceField(name="format", about="What it is; default: found by looking", choices=ImportFormat),
    TextField(
        name="mongodb_uri", about="Instead of a path: the server of an older InfiniteMemoryMCP's database", limit="query_chars"
    ),
    TextField(name="database", about="With mongodb_uri: the database's name; default: the URI's", limit="query_chars"),
    NameField(name="scope", about="Where everything goes; default: where our own exports say, else Global"),
    FlagField(name="dry_run", about="Only tell what would be added", default=False),
    title="Import", idempotent=True,
)  # fmt: skip
async def import_memory(call: CommandContext) -> Reply:
    """Import memories: our own exports (JSON Lines, CSV, Markdown), what other memories and assistants export, or the MongoDB
    database of an older InfiniteMemoryMCP. Importing the same twice adds nothing. Use it only when the user asks for it."""
    done = await take_in(call)
    with_values = call.session.reads_any_path or call.session.uploads is not None
    return _serialize_import(done, dry_run=call.fields.flag("dry_run"), with_values=with_values)


async def take_in(call: CommandContext) -> Imported:
    """Run the import of an `import_memory` request."""
    fields = call.fields
    path, uri = fields.find_text("path"), fields.find_text("mongodb_uri")
    form: ImportFormat | None = fields["format"]
    scope, dry_run = fields.find_text("scope"), fields.flag("dry_run")
    if (path is None) == (uri is None):
        raise InvalidRequestError("path", "give either path or mongodb_uri")
    for name, beside, goes in (("database", uri, "mongodb_uri"), ("format", path, "path")):
        if name in fields and beside is None:
            raise InvalidRequestError(name, f"goes with {goes}")
    administration = await call.administration()
    importer = administration.open_importer()
    if uri is not None:
        return await importer.import_legacy(
            uri,
            fields.find_text("database"),
            scope=scope,
            dry_run=dry_run,
            agreement=call.agreement,
            progress=call.progress,
        )
    return await importer.import_path(
        path or "",
        folders=_find_folders(call.session, administration),
        form=form.value if form is not None else None,
        scope=scope,
        dry_run=dry_run,
        agreement=call.agreement,
        progress=call.progress,
    )


def _find_folders(session: ClientSession, administration: Administration) -> ImportFolders | None:
    """Return the folders in which the file must be; None if the caller may name any path."""
    if session.reads_any_path:
        return None
    return administration.import_folders() if session.uploads is None else ImportFolders((session.uploads,))


def _serialize_import(imported: Imported, *, dry_run: bool, with_values: bool) -> Reply:
    """Serialize the result of an import; the content of entries is only for callers that may read the file."""
    reply: Reply = {
        "format": imported.form,
        "added": imported.added,
        "present": imported.present,
        "skipped": imported.refused_count,
    }
    if imported.path is not None:
        reply["path"] = without_surrogates(str(imported.path))
    if imported.beside:
        reply["note"] = (
            f"{imported.beside:,} of them bear the name or id of a memory that says something else; both are kept"
        )
    if beside_memories := {kind: count for kind, count in imported.also.items() if count}:
        reply["also_added"] = beside_memories
    if imported.refused:
        reply["skipped_entries"] = [_serialize_refused(entry, with_value=with_values) for entry in imported.refused]
        reply["skipped_reasons"] = dict(imported.reasons.most_common())
    if with_values and imported.preview is not None and imported.added:
        reply["preview"] = _serialize_preview(imported.preview)
    return reply | ({"dry_run": True} if dry_run else {})


def _serialize_preview(preview: ImportPreview) -> Json:
    """Serialize the result of a dry run; a time missing from the file is null."""
    scopes = [{"name": scope.name, "added": scope.count, "is_new": scope.is_new} for scope in preview.scopes]
    return {
        "samples": [_serialize_sample(sample) for sample in preview.samples],
        "scopes": scopes,
        "in_other_scopes": preview.in_other_scopes,
        "earliest": _find_instant(preview.earliest),
        "latest": _find_instant(preview.latest),
        "undated": preview.undated,
        "forgotten": preview.forgotten,
    }


def _serialize_sample(sample: Sample) -> Json:
    speaker = {"speaker": sample.speaker} if sample.speaker else {}
    timestamp = _find_instant(sample.occurred_at)
    return {"text": sample.text, "timestamp": timestamp, "scope": sample.scope, "tags": list(sample.tags)} | speaker


def _find_instant(instant: dt.datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)


def _serialize_refused(entry: Refused, *, with_value: bool) -> Json:
    value = {"value": without_surrogates(entry.value)} if with_value and entry.value is not None else {}
    return {"entry": without_surrogates(entry.where), "why": entry.reason} | value


def serialize_backup(backup: Backup) -> Json:
    """Serialize a backup that was created or verified."""
    reply: Json = {
        "backup_file": backup.file.name,
        "path": str(backup.file),
        "size_bytes": backup.size_bytes,
        "checksum": f"sha256:{backup.checksum}",
        "created_at": backup.created_at,
        "counts": dict(backup.counts),
        "encrypted": backup.is_encrypted,
    }
    notes = []
    if not backup.is_consistent:
        notes.append("the server is standalone and has no snapshots: what was written meanwhile may be in part")
    if aside := backup.counts.get("set_aside", 0):
        notes.append(
            f"beside the others it holds {format_count(aside, 'document')} that cannot be read, which a restore keeps apart"
        )
    return reply | ({"note": "; ".join(notes)} if notes else {})


def serialize_listed(backup: Listed) -> Json:
    """Serialize a backup as listed in its folder."""
    reply: Json = {
        "backup_file": without_surrogates(backup.file.name),
        "size_bytes": backup.size_bytes,
        "created_at": backup.created_at,
        "reason": backup.reason,
        "encrypted": backup.is_encrypted,
    }
    return reply | ({"fault": backup.fault} if backup.fault else {})
