"""Commands that forget and restore memories."""

from __future__ import annotations

from dataclasses import dataclass

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import (
    ChoiceField,
    FlagField,
    IntegerField,
    NameField,
    NumberField,
    ObjectField,
    TextField,
)
from infinite_memory.contracts.native.serializers import serialize_memory
from infinite_memory.contracts.native.table import TABLE, CommandContext, IdField, memory_id
from infinite_memory.engine.types import MAX_REPORTED_IDS, ForgetMode, ForgetResult, ForgetTarget
from infinite_memory.errors import InvalidRequestError, truncated_repr
from infinite_memory.models import MemoryId, fold

QUERY_LIMIT = 10
NOT_FORGOTTEN = "it was not forgotten; nothing was changed"
MIN_CONFIDENCE = {ForgetMode.SOFT: 0.75, ForgetMode.HARD: 0.95}  # a permanent deletion needs a better match


@TABLE.command(
    "delete_memory",
    ObjectField(name="target", about="What to forget; several selectors narrow", required=True, fields=(
        IdField(name="memory_id", about="Id of a memory"),
        NameField(name="scope", about="A scope: alone, the whole scope; with others, where to look"),
        TextField(name="tag", about="A tag"),
        TextField(name="query", about="What the memory says; only close matches are taken", limit="query_chars"),
    )),
    ChoiceField(name="forget_mode", about="soft hides and can be undone, hard removes permanently", choices=ForgetMode,
                default=ForgetMode.SOFT),
    NumberField(name="min_confidence", about="How sure a match of `query` must be; default 0.75, hard 0.95", low=0, high=1),
    IntegerField(name="limit", about="Most memories that `query` may take; default 10", low=1, high=1000),
    FlagField(name="dry_run", about="Only tell what would go", default=False),
    title="Forget", destructive=True, idempotent=True,
)  # fmt: skip
async def delete_memory(call: CommandContext) -> Reply:
    """Forget memories by id, scope, tag or words. Soft (the default) hides them everywhere and is undone by
    `restore_memory`; hard removes them permanently. Use it only when the user asks to forget something."""
    return serialize_forgotten(await forget(call), text_name="text")


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """The result of a deletion, its mode, and whether it was a dry run."""

    result: ForgetResult
    mode: ForgetMode
    dry_run: bool


async def forget(call: CommandContext) -> ForgetReport:
    """Forget the memories that a `delete_memory` request names.

    Raises:
        InvalidRequestError: no target is named, or the named one is empty.
    """
    fields, named = call.fields, call.fields.inner("target")
    if not list(named.given()):
        empty = named.at(named.empty[0]) if named.empty else "target"
        raise InvalidRequestError(empty, "is empty; one of memory_id, scope, tag or query was expected")
    if list(named.given()) == ["scope"] and named.empty:
        # Omitted by a client that sends every field, or a filter that was computed wrongly: do not risk the scope on a guess.
        raise InvalidRequestError(named.at(named.empty[0]), "is empty; leave it out to mean the whole scope")
    for name in ("limit", "min_confidence"):
        if name in fields and "query" not in named:
            raise InvalidRequestError(name, "goes with a query; without one, everything that is named is taken")
    mode: ForgetMode = fields["forget_mode"]
    least = fields.find_number("min_confidence")
    found_id = named.find_text("memory_id")
    target = ForgetTarget(
        memory_id=MemoryId(found_id) if found_id else None,
        scope=named.find_text("scope"),
        tag=named.find_text("tag"),
        query=named.find_text("query"),
        min_confidence=MIN_CONFIDENCE[mode] if least is None else least,
        limit=fields.integer("limit") if "limit" in fields else QUERY_LIMIT,
        max_texts=call.session.max_texts,
    )
    dry_run = fields.flag("dry_run")
    result = await call.engine.forget.matching(target, mode, dry_run=dry_run, agreement=call.agreement)
    return ForgetReport(result, mode, dry_run)


def serialize_forgotten(report: ForgetReport, *, text_name: str) -> Reply:
    """Serialize a deletion; *text_name* is the contract's name of a memory's text."""
    result, mode = report.result, report.mode
    reply: Reply = {
        "deleted_count": 0 if report.dry_run else len(result.memory_ids),
        "memory_ids": list(result.memory_ids[:MAX_REPORTED_IDS]),
        "forget_mode": mode.value,
    }
    if report.dry_run:
        reply |= {"dry_run": True, "would_delete": len(result.memory_ids)}
    if result.texts:
        reply["memories"] = [
            {"memory_id": forgotten_id, text_name: result.texts[forgotten_id]}
            for forgotten_id in result.memory_ids[:MAX_REPORTED_IDS]
            if forgotten_id in result.texts
        ]
    if result.removed_scope is not None:
        reply["scope"] = result.removed_scope.name
    notes = [result.note] if result.note else []
    if count := len(result.doubles):
        notes.append(
            f"{count:,} of them {'was' if count == 1 else 'were'} hidden as {'a duplicate' if count == 1 else 'duplicates'}"
        )
    if len(result.memory_ids) > MAX_REPORTED_IDS:
        notes.append(f"the first {MAX_REPORTED_IDS:,} ids are listed")
    if result.removed_scope is not None and not report.dry_run:
        notes.append("the scope is archived; restore_memory with its name undoes it" if mode is ForgetMode.SOFT else
                     "the scope and all that was in it are permanently removed")  # fmt: skip
    if notes:
        reply["note"] = "; ".join(notes)
    return reply


@TABLE.command(
    "restore_memory",
    IdField(name="memory_id", about="Id of a soft-deleted memory"),
    NameField(name="scope", about="Name of an archived scope, instead of an id"),
    title="Undo forgetting", idempotent=True,
)  # fmt: skip
async def restore_memory(call: CommandContext) -> Reply:
    """Bring back a memory that was soft-deleted, or a scope that was archived; for a scope that is not archived, all that
    was soft-deleted in it. What was permanently removed cannot come back; what is not forgotten stays as it is."""
    scope = call.fields.find_text("scope")
    if (scope is None) == ("memory_id" not in call.fields):
        raise InvalidRequestError("memory_id", "give either memory_id or scope")
    if scope is not None:
        archived = {
            fold(stored_scope.name)
            for stored_scope in await call.engine.scopes.list_all()
            if stored_scope.archived_at is not None
        }
        restored, count = await call.engine.scopes.restore(scope, only_archived=call.session.only_archived)
        is_restored = count > 0 or fold(scope) in archived
        reply: Reply = {"scope": restored.name, "outcome": get_outcome(is_restored), "restored_count": count}
        if not is_restored:
            reply["note"] = "nothing was hidden in this scope; what was permanently removed is gone"
        return reply
    result = await call.engine.memories.restore(memory_id(call.fields))
    memory, outcome = result.memory, get_outcome(result.is_restored)
    reply = {"memory_id": memory.memory_id, "memory": serialize_memory(call.engine, memory), "outcome": outcome}
    home = call.engine.scopes.find_by_id(memory.scope_id)
    if home is not None and home.archived_at is not None:
        reply["note"] = (
            f"the scope {truncated_repr(home.name)} is archived, and the memory is not seen before that is taken out again:"
            " restore_memory with scope instead of memory_id"
        )
    elif not result.is_restored:
        reply["note"] = NOT_FORGOTTEN
    return reply


def get_outcome(is_restored: bool) -> str:
    """Return the message about a memory that was to be restored."""
    return "restored" if is_restored else "unchanged"
