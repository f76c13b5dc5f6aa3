"""Commands that store and change memories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import (
    FlagField,
    InstantField,
    IntegerField,
    ListField,
    NameField,
    NumberField,
    ObjectField,
    TagsField,
    TextField,
)
from infinite_memory.contracts.fields import Field, Fields, Json, parse_fields
from infinite_memory.contracts.large_requests import check_fields, in_thread
from infinite_memory.contracts.metadata import measure_depth
from infinite_memory.contracts.native.serializers import serialize_memory
from infinite_memory.contracts.native.table import TABLE, CommandContext, IdField, memory_id
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.records import changed
from infinite_memory.engine.types import MemoryUpdate, NewMemory, StoreResult
from infinite_memory.errors import (
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    MemoryChangedError,
    format_count,
    truncated_repr,
)
from infinite_memory.models import DETAILS, FIELDS, FieldType, MemoryRecord, fold
from infinite_memory.store.base import RevisionPage
from infinite_memory.store.scope_cache import check_name

FEW_ENTRIES = 20  # larger bulks are validated in a thread
BEFORE_FIELD = IntegerField(
    name="before_revision",
    about="Only versions before this revision, where a reply could not hold all",
    low=1,
    high=1 << 53,
)


class KindField(TextField):
    """A text; any other type under that name is free metadata."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip())


class SureField(NumberField):
    """A number in the range; anything else under that name is free metadata (a percentage, say)."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high


_SCOPE = NameField(name="scope", about="Where it belongs; default: the active scope")
_TAGS = TagsField(name="tags", about="Tags for finding it again")


def _detail_field(name: str) -> Field:
    """Return the request field of one of `models.DETAILS`: validated and described as in `models.FIELDS`."""
    detail = FIELDS[name]
    if detail.type is FieldType.TEXT:
        return TextField(name=name, about=detail.title, limit="query_chars")
    assert detail.maximum is not None, name
    return NumberField(name=name, about=detail.title, low=0, high=detail.maximum)


_DETAILS = ("conversation_id", "speaker", "title", "importance")
"""Optional fields of a memory. Its type and confidence are free metadata if they are not a text or a number."""

_SOURCE = TextField(
    name="source", about="Where it comes from: conversation, user_profile, summary, or a word of yours", limit="query_chars"
)  # fmt: skip
_ABOUT_IT: tuple[Field, ...] = (
    *(_detail_field(name) for name in _DETAILS),
    KindField(name="type", about=FIELDS["type"].title, limit="query_chars"),
    SureField(name="confidence", about=FIELDS["confidence"].title, low=0, high=1),
)  # fmt: skip
_ALSO_FREE = ("type", "confidence")  # returned in metadata, unmodified

STORE_FIELDS: tuple[Field, ...] = (
    TextField(name="content", about="The text to remember", required=True, limit="text_bytes"),
    ObjectField(
        name="metadata", about="What is known about it; other keys are kept and returned", free=True,
        fields=(_SCOPE, _TAGS, _SOURCE, InstantField(name="timestamp", about="When it happened; default: now"), *_ABOUT_IT),
    ),
    _SCOPE,
    _TAGS,
)  # fmt: skip


@TABLE.command("store_memory", *STORE_FIELDS, title="Store a memory")
async def store_memory(call: CommandContext) -> Reply:
    """Store a piece of information for good. Use it when the user asks to remember something, or says something worth
    keeping: facts, preferences, decisions, dates. One fact for each memory. The same text stored twice is two memories."""
    return _kept(await store(call))


async def store(call: CommandContext) -> StoreResult:
    """Store the memory of a `store_memory` request."""
    draft = await check_fields(dict(call.fields.inner("metadata").free), lambda: _draft(call, call.fields))
    try:
        return await call.engine.memories.store(draft.new, create_scope=call.session.auto_create)
    except InvalidRequestError as exc:
        raise _as_asked(exc, [draft]) from exc


@TABLE.command(
    "store_memories",
    ListField(name="memories", about="What `store_memory` takes, one entry for each memory", required=True,
              item=STORE_FIELDS, max_items=1000),
    FlagField(name="atomic", about="Whether one bad entry refuses all", default=False),
    title="Store several memories",
)  # fmt: skip
async def store_memories(call: CommandContext) -> Reply:
    """Store several memories at once. Each entry of `results` is in the place of its memory, with an id or an error of its
    own; one bad entry spoils no other, unless `atomic` is true."""
    entries = call.fields["memories"]
    drafts = await in_thread(lambda: _drafts(call, entries)) if len(entries) > FEW_ENTRIES else _drafts(call, entries)
    good = [draft for draft in drafts if isinstance(draft, _Draft)]
    new = [draft.new for draft in good]
    done: list[StoreResult | InfiniteMemoryError] = []
    if call.fields.flag("atomic"):
        try:
            done += await call.engine.memories.store_all(new, create_scope=call.session.auto_create)
        except InvalidRequestError as exc:
            raise _as_asked(exc, good) from exc
    elif good:
        done += await call.engine.memories.store_each(new, create_scope=call.session.auto_create)
    pairs = zip(done, good, strict=True)
    outcomes = (
        _as_asked(outcome, [draft]) if isinstance(outcome, InvalidRequestError) else outcome for outcome, draft in pairs
    )
    results = [next(outcomes) if isinstance(draft, _Draft) else draft for draft in drafts]
    stored = sum(isinstance(result, StoreResult) for result in results)
    return {
        "stored": stored,
        "failed": len(results) - stored,
        "results": [_kept(result) if isinstance(result, StoreResult) else _failed(result) for result in results],
    }


@TABLE.command(
    "update_memory",
    IdField(name="memory_id", about="Id of the memory", required=True),
    TextField(name="content", about="Its new text", limit="text_bytes"),
    _TAGS,
    ObjectField(
        name="metadata", about="What changes about it; free keys are added or replaced", free=True,
        fields=(_TAGS, _SOURCE, InstantField(name="timestamp", about="When it happened"), *_ABOUT_IT),
    ),
    title="Change a memory", destructive=True, idempotent=True,
)  # fmt: skip
async def update_memory(call: CommandContext) -> Reply:
    """Change the text, tags or other parts of a memory. What it said before stays readable with `get_memory`. Use it when a
    fact has changed or was wrong."""
    result = await update(call)
    return _kept(result) | {"revision": result.memory.revision} | serialize_update(result)


def serialize_update(result: StoreResult) -> Json:
    """Return the fields of a reply about an update."""
    if result.is_changed:
        return {"outcome": "updated"}
    return {"outcome": "unchanged", "note": "it says that already; nothing was changed"}


async def update(call: CommandContext) -> StoreResult:
    """Apply an `update_memory` request.

    Raises:
        InvalidRequestError: there is nothing to change, or the scope would change.
    """
    fields, meta = call.fields, call.fields.inner("metadata")
    if meta.free.get("scope") is not None:
        raise InvalidRequestError(
            "metadata.scope",
            "a memory stays in its scope here; the page, `infinite-memory move ID --to SCOPE` or "
            "POST /api/v1/memories/{id}/move moves it",
        )
    tags = _one_of(fields["tags"], meta["tags"], "tags")
    if "content" not in fields and tags is None and not meta.free and not list(meta.given()):
        raise InvalidRequestError("content", "nothing is to change: give content, tags or metadata")
    changes = MemoryUpdate(
        text=fields.find_text("content"),
        tags=tags,
        source=meta.find_text("source"),
        occurred_at=meta.find_instant("timestamp"),
        metadata=_free(meta) or None,
        **_details(meta),
        no_longer=frozenset(_ALSO_FREE) & set(meta.free),
    )

    # Metadata too large by itself is also too large after merging; checking that blocks nobody.
    await check_fields(changes.metadata or {}, lambda: _check_metadata(changes.metadata or {}, call))

    def check(old: MemoryRecord) -> None:
        if call.session.expected_revision not in (None, old.revision):
            raise MemoryChangedError(old.memory_id)
        if changes.metadata is not None:
            _check_metadata(changed(old, changes).metadata, call)

    return await call.engine.memories.update(memory_id(fields), changes, check=check)


@TABLE.command(
    "get_memory",
    IdField(name="memory_id", about="Id of the memory", required=True),
    BEFORE_FIELD,
    title="Read a memory", read_only=True, idempotent=True,
)  # fmt: skip
async def get_memory(call: CommandContext) -> Reply:
    """Read one memory by its id, whole, with what it said before it was changed."""
    memory = await call.engine.memories.get(memory_id(call.fields))
    before = call.fields.integer(BEFORE_FIELD.name) if BEFORE_FIELD.name in call.fields else None
    history = await call.engine.memories.history(memory.memory_id, before)
    reply = {
        "memory": serialize_memory(call.engine, memory)
        | {
            "created_at": format_instant(memory.created_at),
            "updated_at": format_instant(memory.updated_at),
            "revision": memory.revision,
        },
        "revisions": [
            serialize_memory(call.engine, old)
            | {"revision": old.revision, "updated_at": format_instant(old.updated_at)}
            | ({"moved_at": format_instant(moved_at)} if (moved_at := history.moved_at.get(old.revision)) else {})
            for old in history.revisions
        ],
    }
    return reply | older_revisions(history)


def older_revisions(page: RevisionPage) -> Reply:
    """Return the fields of a reply about versions that did not fit into it: none if all did."""
    if not page.older:
        return {}
    first = page.revisions[0].revision
    note = (
        f"{format_count(page.older, 'version')} before revision {first:,} left out; before_revision={first} lists more"
    )
    return {"older_revisions": page.older, "note": note}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A memory to store, and the request's name for the field of its scope."""

    new: NewMemory
    scope_field: str


def _as_asked(exc: InvalidRequestError, drafts: Sequence[_Draft]) -> InvalidRequestError:
    """Return the error about a new scope's name with the request's field for that name; any other error unchanged."""
    fields = [draft.scope_field for draft in drafts if draft.new.scope == exc.name]
    return InvalidRequestError(fields[0], exc.problem, name=exc.name) if fields else exc


def _drafts(call: CommandContext, entries: Sequence[Any]) -> list[_Draft | InfiniteMemoryError]:
    """Validate entries; in place of an invalid one is its error, which is raised if all must be valid."""
    drafts: list[_Draft | InfiniteMemoryError] = []
    for index, entry in enumerate(entries):
        try:
            drafts.append(_entry(call, entry, f"memories[{index}]"))
        except InvalidRequestError as exc:
            if call.fields.flag("atomic"):
                raise
            drafts.append(exc)
    return drafts


def _entry(call: CommandContext, entry: Any, path: str) -> _Draft:
    if not isinstance(entry, dict):
        raise InvalidRequestError.invalid_value(path, entry, "an object with `content`")
    return _draft(call, parse_fields(STORE_FIELDS, entry, path, call.checking))


def _draft(call: CommandContext, fields: Fields) -> _Draft:
    meta = fields.inner("metadata")
    metadata = _free(meta)
    _check_metadata(metadata, call, meta.path)
    scope = _one_of(fields["scope"], meta["scope"], "scope", fold) or call.session.active_scope
    scope_field = meta.at("scope") if "scope" in meta and "scope" not in fields else fields.at("scope")
    check_name(scope, scope_field)
    new = NewMemory(
        text=fields.text("content"),
        scope=scope,
        source=meta.find_text("source") or "conversation",
        tags=_one_of(fields["tags"], meta["tags"], "tags", _folded) or (),
        occurred_at=meta.find_instant("timestamp"),
        metadata=metadata,
        **_details(meta),
    )
    return _Draft(new, scope_field)


def _one_of(top: Any, nested: Any, name: str, normalize: Any = lambda value: value) -> Any:
    """Return a field that may be at the top level or in metadata; two different values are an error."""
    if top is not None and nested is not None and normalize(top) != normalize(nested):
        raise InvalidRequestError(
            name, f"{_said(top)} here and {_said(nested)} in metadata.{name} differ; give it once"
        )
    return nested if top is None else top


def _folded(tags: tuple[str, ...]) -> set[str]:
    return {fold(tag) for tag in tags}


def _said(value: Any) -> str:
    return truncated_repr(list(value) if isinstance(value, tuple) else value)


def _details(meta: Fields) -> dict[str, Any]:
    provided = [field for field in DETAILS if field.name in meta]
    return {
        field.name: meta.find_text(field.name) if field.type is FieldType.TEXT else meta.find_number(field.name)
        for field in provided
    }


def _free(meta: Fields) -> Json:
    """Return the metadata to store unmodified."""
    return {**meta.free, **{name: meta[name] for name in _ALSO_FREE if name in meta}}


def _check_metadata(metadata: Mapping[str, Any], call: CommandContext, path: str = "metadata") -> None:
    limits = call.session.limits
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > limits.metadata_bytes:
        raise LimitExceededError(path, size, limits.metadata_bytes, "bytes")
    if (depth := measure_depth(metadata)) > limits.metadata_depth:
        raise LimitExceededError(path, depth, limits.metadata_depth, "levels")


def _kept(result: StoreResult) -> Json:
    reply: Json = {"memory_id": result.memory.memory_id, "scope": result.scope.name, "outcome": "stored"}
    return reply | serialize_pending(result)


def serialize_pending(result: StoreResult) -> Json:
    """Return the fields of a reply about a memory that is not embedded yet: none if it is."""
    if result.pending is None:
        return {}
    return {"embedding": "pending", "note": f"stored; it is found by meaning once it is embedded ({result.pending})"}


def _failed(exc: InfiniteMemoryError) -> Json:
    from infinite_memory.contracts.errors import failure

    return {"status": "ERROR"} | failure(exc)
