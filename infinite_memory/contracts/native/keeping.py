"""Commands about scopes, figures, upkeep and the service itself."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from infinite_memory import __version__
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Field, Json
from infinite_memory.contracts.kinds import (
    ChoicesField,
    FlagField,
    NameField,
    ObjectField,
    TextField,
)
from infinite_memory.contracts.native.replies import scope_out
from infinite_memory.contracts.native.table import TABLE, Call
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine.scopes import check_name
from infinite_memory.engine.upkeep import Done, Operation
from infinite_memory.errors import InvalidRequestError, shown
from infinite_memory.lifecycle.job_states import failing_jobs
from infinite_memory.lifecycle.tidying import Tidied, Tidier, Tidying

Maintenance = enum.Enum("Maintenance", {one.name: one.value for one in (*Operation, *Tidying)})  # type: ignore[misc]
MIB = 1024 * 1024


@TABLE.command(
    "create_memory_scope",
    NameField(name="scope_name", about="Its name: any text of 1 to 256 characters", required=True),
    TextField(name="description", about="What it is for", blank=True, limit="query_chars"),
    title="Create a scope",
)  # fmt: skip
async def create_memory_scope(call: Call) -> Reply:
    """Make a new scope: a context of its own, such as a project or a part of life. Names that differ only in case are the
    same."""
    name = call.fields.text("scope_name")
    check_name(name, "scope_name")
    scope = await call.engine.create_scope(name, call.fields.find_text("description") or "")
    return {"scope_id": scope.scope_id, "scope_name": scope.name, "outcome": "created"}


@TABLE.command("list_memory_scopes", title="List scopes", read_only=True, idempotent=True)
async def list_memory_scopes(call: Call) -> Reply:
    """List every scope with its description. Archived ones say so."""
    return {"scopes": [scope_out(scope) for scope in await call.engine.list_scopes() if scope.archived_at is None]}


@TABLE.command(
    "set_active_scope",
    NameField(name="scope", about="Name of the scope", required=True),
    title="Choose the active scope", idempotent=True,
)  # fmt: skip
async def set_active_scope(call: Call) -> Reply:
    """Choose the scope that this session stores into and reads from when a request names none."""
    name = call.fields.text("scope")
    check_name(name)
    scope = await call.engine.get_scope(name)
    call.session.active_scope = scope.name
    if call.session.tell is not None:
        await call.session.tell({"active_scope": scope.name})
    return {"scope": scope.name, "outcome": "active"}


@TABLE.command("get_memory_stats", title="Statistics", read_only=True, idempotent=True)
async def get_memory_stats(call: Call) -> Reply:
    """Count memories, scopes and conversations, and tell the state of the parts."""
    one = await call.engine.figures()
    stats: Json = {
        "total_memories": one.total,
        "conversation_count": one.conversations,
        "scopes": one.by_scope,
        "archived_scopes": one.archived,
        "last_backup": one.last_backup,
        "db_size_mb": round(one.size_bytes / MIB, 1),
        "soft_deleted": one.soft_deleted,
        "facts": one.facts,
        "pending_embeddings": one.pending,
        "model": {"name": one.model, "state": one.model_state, "space": one.space},
        "sidecar": {"state": one.sidecar_state, "count": one.sidecar_count},
        "mongodb": {"version": one.server, "deployment": one.deployment},
        "version": __version__,
    }
    if (problem := call.engine.parts.index.pending_problem) is not None:
        stats["pending_problem"] = problem
    if call.session.ignored:
        stats["ignored_settings"] = call.session.ignored
    if failing := await failing_jobs(call.engine.parts.store):
        stats["failing_jobs"] = [
            {"job": job.name, "failure": job.failure, "at": instant_out(job.last_run_at) if job.last_run_at else None}
            for job in failing
        ]
    if one.language_hint:
        stats["model"]["hint"] = one.language_hint
    if one.model_failure:
        stats["model"]["failure"] = one.model_failure
    return {"stats": stats}


@TABLE.command(
    "optimize_memory",
    ChoicesField(
        name="operations", about="What to do; default: what changes no words (compact, check_sidecar, purge_deleted)",
        choices=Maintenance,
    ),
    FlagField(name="dry_run", about="Only tell what would be done", default=False),
    title="Tidy up", idempotent=True,
)  # fmt: skip
async def optimize_memory(call: Call) -> Reply:
    """Tidy up. By default no words are changed: compact the index, compare it with the database and mend it, remove for good
    what was softly forgotten long ago. Only when named: `deduplicate` merges equal texts, `merge_similar` those that differ
    in fillers and endings, `prune` hides by the settings under retention, `summarize` adds summaries of old conversations;
    `restore_memory` brings back what was merged or pruned. Each entry of `operations` says what was done."""
    wanted: list[enum.Enum] = call.fields["operations"] or list(Operation)
    dry_run = call.fields.flag("dry_run")
    reply: Reply = {"operations": [], "counts": {}}
    for number, name in enumerate(one.value for one in wanted):
        call.progress(number, len(wanted))
        one: Done | Tidied
        if name in {tidying.value for tidying in Tidying}:
            one = await Tidier(call.engine).run(Tidying(name), dry_run=dry_run)
            reply.setdefault("details", {})[name] = one.details
        else:
            [one] = await call.engine.optimize([Operation(name)], dry_run=dry_run)
        reply["operations"].append(one.said)
        reply["counts"][name] = one.count
    return reply | ({"dry_run": True} if dry_run else {})


@TABLE.command("reindex", title="Rebuild the index", idempotent=True)
async def reindex(call: Call) -> Reply:
    """Build the search index anew from the database. Needed only when `health_check` or the doctor says so."""
    return {"count": await call.engine.reindex(call.progress)}


@TABLE.command("health_check", title="Health", read_only=True, idempotent=True)
async def health_check(call: Call) -> Reply:
    """Tell whether database, model and index work, with a word on what does not."""
    health = await call.engine.health()
    return {
        "healthy": health.is_well,
        "checks": {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar},
    }


@TABLE.command("ping", title="Ping", read_only=True, idempotent=True, offline=True)
async def ping(call: Call) -> Reply:
    """Answer at once; tells nothing but that the service is there."""
    return {"pong": True, "version": __version__}


_SHOWN = ("type", "enum", "items", "properties", "default", "minimum", "maximum")  # of a field's schema, in help


@TABLE.command(
    "help",
    TextField(name="command", about="Name of one command; without it all are listed"),
    title="Help", read_only=True, idempotent=True, offline=True,
)  # fmt: skip
async def help_(call: Call) -> Reply:
    """List every command with its fields."""
    wanted = call.fields.find_text("command")
    commands = [command for command in TABLE if wanted is None or command.name == wanted]
    if not commands:
        near = TABLE.nearest(wanted or "")
        hint = f"did you mean {' or '.join(near)}?" if near else "help without a command lists all"
        raise InvalidRequestError("command", f"{shown(wanted)} is not a command; {hint}")
    return {
        "commands": [
            {"action": one.name, "title": one.title, "about": one.about, "fields": _fields_out(one.fields)}
            for one in commands
        ],
        "active_scope": call.session.active_scope,
        "timezone": call.session.zone.key,
    } | ({"ignored_settings": call.session.ignored} if call.session.ignored else {})


def _fields_out(fields: Sequence[Field]) -> list[Json]:
    out: list[Json] = []
    for field in fields:
        schema = field.described()
        entry: Json = {"name": field.name, "about": field.about, "required": field.required}
        entry |= {key: schema[key] for key in _SHOWN if key in schema}
        if isinstance(field, ObjectField):
            entry["fields"] = _fields_out(field.fields)
        out.append(entry)
    return out
