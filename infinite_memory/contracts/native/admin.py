"""Commands for scopes, statistics, maintenance and the service itself."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from infinite_memory import __version__
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import ChoicesField, FlagField, NameField, ObjectField, TextField
from infinite_memory.contracts.fields import Field, Fields, Json
from infinite_memory.contracts.native.repair import MAX_NAMED, named
from infinite_memory.contracts.native.serializers import serialize_scope
from infinite_memory.contracts.native.table import TABLE, CommandContext
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.maintenance import Done, Operation
from infinite_memory.engine.stats import SecondModelStats
from infinite_memory.errors import InvalidRequestError, ScopeArchivedError, truncated_repr
from infinite_memory.jobs.consolidation import Tidied, Tidying
from infinite_memory.models import Scope
from infinite_memory.store.scope_cache import check_name

Maintenance = enum.Enum("Maintenance", {operation.name: operation.value for operation in (*Operation, *Tidying)})  # type: ignore[misc]
MIB = 1024 * 1024


@TABLE.command(
    "create_memory_scope",
    NameField(name="scope_name", about="Its name: any text of 1 to 256 characters", required=True, new=True),
    TextField(name="description", about="What it is for", blank=True, limit="query_chars"),
    title="Create a scope",
)  # fmt: skip
async def create_memory_scope(call: CommandContext) -> Reply:
    """Make a new scope: a context of its own, such as a project or a part of life. Names that differ only in case are the
    same."""
    scope = await create_scope(call.engine, call.fields)
    return {"scope_id": scope.scope_id, "scope_name": scope.name, "outcome": "created"}


async def create_scope(engine: Engine, fields: Fields) -> Scope:
    """Create the scope that a request names."""
    name = fields.text("scope_name")
    check_name(name, "scope_name")
    return await engine.scopes.create(name, fields.find_text("description") or "")


@TABLE.command("list_memory_scopes", title="List scopes", read_only=True, idempotent=True)
async def list_memory_scopes(call: CommandContext) -> Reply:
    """List every scope with its description. Archived ones are left out; `get_memory_stats` names them."""
    return {
        "scopes": [serialize_scope(scope) for scope in await call.engine.scopes.list_all() if scope.archived_at is None]
    }


@TABLE.command(
    "set_active_scope",
    NameField(name="scope", about="Name of the scope", required=True),
    title="Choose the active scope", idempotent=True,
)  # fmt: skip
async def set_active_scope(call: CommandContext) -> Reply:
    """Choose the scope that this session stores into and reads from when a request names none."""
    name = call.fields.text("scope")
    check_name(name)
    scope = await call.engine.scopes.get(name)
    if scope.archived_at is not None:
        raise ScopeArchivedError(scope.name)
    await call.session.activate(scope.name)
    return {"scope": scope.name, "outcome": "active"}


@TABLE.command("get_memory_stats", title="Statistics", read_only=True, idempotent=True)
async def get_memory_stats(call: CommandContext) -> Reply:
    """Count memories, scopes and conversations, and tell the state of the parts."""
    return {"stats": await collect_stats(call)}


async def collect_stats(call: CommandContext) -> Json:
    """Return the statistics of the whole memory, within the caller's visibility."""
    figures = await call.engine.stats.collect()
    stats: Json = {
        "total_memories": figures.total,
        "conversation_count": figures.conversations,
        "scopes": figures.by_scope,
        "archived_scopes": figures.archived,
        "last_backup": figures.last_backup,
        "db_size_mb": round(figures.size_bytes / MIB, 1),
        "soft_deleted": figures.soft_deleted,
        "facts": figures.facts,
        "set_aside": figures.set_aside,
        "pending_embeddings": figures.pending,
        "model": {"name": figures.model, "state": figures.model_state, "space": figures.space},
        "sidecar": {"state": figures.sidecar_state, "count": figures.sidecar_count},
        "mongodb": {"version": figures.server, "deployment": figures.deployment},
        "version": __version__,
    }
    if (problem := call.engine.stats.pending_problem) is not None:
        stats["pending_problem"] = problem
    if call.session.ignored:
        stats["ignored_settings"] = call.session.ignored
    if call.has_administration and (failing := await (await call.administration()).failing_jobs()):
        stats["failing_jobs"] = [
            {
                "job": job.name,
                "failure": job.failure,
                "at": format_instant(job.last_run_at) if job.last_run_at else None,
            }
            for job in failing
        ]
    if figures.second is not None:
        stats["model"]["second"] = _serialize_second(figures.second)
    if figures.language_hint:
        stats["model"]["hint"] = figures.language_hint
    if figures.model_failure:
        stats["model"]["failure"] = figures.model_failure
    return stats


@TABLE.command(
    "optimize_memory",
    ChoicesField(
        name="operations", about="What to do; default: what changes no words (purge_deleted, check_sidecar, compact)",
        choices=Maintenance,
    ),
    FlagField(name="dry_run", about="Only tell what would be done", default=False),
    title="Tidy up", destructive=True, idempotent=True,
)  # fmt: skip
async def optimize_memory(call: CommandContext) -> Reply:
    """Tidy up. By default no words are changed: permanently remove what was soft-deleted long ago, compare the index with the
    database and mend it, compact index and database (`freed_bytes`: what the disk got back). Only when named: `deduplicate`
    merges equal texts, `merge_similar` those that differ in fillers and endings, `prune` hides by the settings under retention,
    `summarize` adds summaries of old conversations; `restore_memory` brings back what was merged or pruned. Each entry of
    `operations` says what was done."""
    reply: Reply = {"operations": [], "counts": {}}
    async for name, results in tidy_up(call):
        for result in results:
            if isinstance(result, Tidied):
                reply.setdefault("details", {})[name] = result.details
            else:
                _add_figures(reply, result)
        reply["operations"] += [result.message for result in results]
        reply["counts"][name] = sum(result.count for result in results)
    return reply | ({"dry_run": True} if call.fields.flag("dry_run") else {})


async def tidy_up(call: CommandContext) -> AsyncIterator[tuple[str, Sequence[Done | Tidied]]]:
    """Run the operations of an `optimize_memory` request one by one, and return the result of each."""
    operations: list[enum.Enum] = call.fields["operations"] or list(Operation)
    dry_run = call.fields.flag("dry_run")
    for number, name in enumerate(operation.value for operation in operations):
        call.progress(number, len(operations))
        if name in {tidying.value for tidying in Tidying}:
            tidier = (await call.administration()).open_tidier()
            yield name, [await tidier.run(Tidying(name), dry_run=dry_run, agreement=call.agreement)]
        elif name == Operation.PURGE_DELETED.value and call.has_administration:
            yield name, [await _purge(call, dry_run=dry_run)]
        else:
            yield (
                name,
                await call.engine.maintenance.optimize([Operation(name)], dry_run=dry_run, agreement=call.agreement),
            )


async def _purge(call: CommandContext, *, dry_run: bool) -> Done:
    """Purge old memories by a trusted clock, as the nightly job does; report if the current clock would purge more."""
    reference, purge = await (await call.administration()).find_purge_reference(), [Operation.PURGE_DELETED]
    optimize = call.engine.maintenance.optimize
    [done] = await optimize(purge, dry_run=dry_run, agreement=call.agreement, as_of=reference.as_of)
    if reference.waits_until is None or not (await optimize(purge, dry_run=True))[0].count:
        return done
    day = f"{reference.waits_until:%Y-%m-%d}"
    note = f"nothing is permanently removed before {day}, for the clock was set: how long ago something was forgotten is not known"
    return replace(done, note=note)


def _serialize_second(second: SecondModelStats) -> Json:
    figures: Json = {"name": second.name, "state": second.state}
    if second.state not in ("off", "not needed"):
        figures |= {"space": second.space, "pending_embeddings": second.pending}
        if second.problem is not None:
            figures["problem"] = second.problem
    return figures


def _add_figures(reply: Reply, result: Done) -> None:
    """Add the space freed in the database's files to a reply, and why not everything was done."""
    if result.freed_bytes is not None:
        reply["freed_bytes"] = result.freed_bytes
    if result.note is not None:
        is_compacting = result.operation is Operation.COMPACT
        note = f"the database was not compacted: {result.note}" if is_compacting else result.note
        reply["note"] = "; ".join(filter(None, (reply.get("note"), note)))


@TABLE.command("reindex", title="Rebuild the index", idempotent=True)
async def reindex(call: CommandContext) -> Reply:
    """Build the search index again from the database. Needed only when `health_check` or the doctor says so."""
    return {"count": await call.engine.maintenance.reindex(call.progress)}


@TABLE.command("health_check", title="Health", read_only=True, idempotent=True)
async def health_check(call: CommandContext) -> Reply:
    """Tell whether database, model and index work, with a word on what does not; and which documents in the database are set
    aside because they cannot be read."""
    health = await call.engine.stats.health()
    reply: Reply = {
        "healthy": health.is_well,
        "checks": {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar},
        "set_aside": named(health.set_aside),
    }
    if len(health.set_aside) > MAX_NAMED:
        reply["note"] = f"the first {MAX_NAMED} of {len(health.set_aside):,} documents that are set aside are named"
    return reply


@TABLE.command("ping", title="Ping", read_only=True, idempotent=True, offline=True)
async def ping(call: CommandContext) -> Reply:
    """Answer at once; tells nothing but that the service is there."""
    return {"pong": True, "version": __version__}


_SHOWN = ("type", "enum", "items", "properties", "default", "minimum", "maximum")  # keys of a field's schema in help


@TABLE.command(
    "help",
    TextField(name="command", about="Name of one command; without it all are listed"),
    title="Help", read_only=True, idempotent=True, offline=True,
)  # fmt: skip
async def help_(call: CommandContext) -> Reply:
    """List every command with its fields."""
    requested = call.fields.find_text("command")
    commands = [command for command in TABLE if requested is None or command.name == requested]
    if not commands:
        near = TABLE.nearest(requested or "")
        hint = f"did you mean {' or '.join(near)}?" if near else "help without a command lists all"
        raise InvalidRequestError("command", f"{truncated_repr(requested)} is not a command; {hint}")
    return {
        "commands": [
            {
                "action": command.name,
                "title": command.title,
                "about": command.about,
                "fields": _serialize_fields(command.fields),
            }
            for command in commands
        ],
        "active_scope": call.session.active_scope,
        "timezone": call.session.zone.key,
    } | ({"ignored_settings": call.session.ignored} if call.session.ignored else {})


def _serialize_fields(fields: Sequence[Field]) -> list[Json]:
    out: list[Json] = []
    for field in fields:
        schema = field.described()
        entry: Json = {"name": field.name, "about": field.about, "required": field.required}
        entry |= {key: schema[key] for key in _SHOWN if key in schema}
        if isinstance(field, ObjectField):
            entry["fields"] = _serialize_fields(field.fields)
        out.append(entry)
    return out
