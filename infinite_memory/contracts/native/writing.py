"""Commands that store and change memories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Field, Fields, Json, parse_fields
from infinite_memory.contracts.kinds import (
    FlagField,
    InstantField,
    ListField,
    NameField,
    NumberField,
    ObjectField,
    TagsField,
    TextField,
)
from infinite_memory.contracts.metadata import depth_of
from infinite_memory.contracts.native.replies import memory_out
from infinite_memory.contracts.native.table import TABLE, Call, IdField, memory_id
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine.parts import Changes, Draft, Kept
from infinite_memory.engine.remember import changed
from infinite_memory.engine.scopes import check_name
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, LimitExceededError
from infinite_memory.models import MemoryRecord, fold


class KindField(TextField):
    """A text; anything else under that name is the client's own affair."""

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip())


class SureField(NumberField):
    """A number in the range; anything else under that name is the client's own affair (a percentage, say)."""

    def takes(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high


_SCOPE = NameField(name="scope", about="Where it belongs; default: the active scope")
_TAGS = TagsField(name="tags", about="Tags for finding it again")

_ABOUT_IT: tuple[Field, ...] = (
    TextField(
        name="source", about="Where it comes from: conversation, user_profile, summary, or a word of yours", limit="query_chars"
    ),
    InstantField(name="timestamp", about="When it happened; default: now"),
    TextField(name="conversation_id", about="Conversation it belongs to", limit="query_chars"),
    TextField(name="speaker", about="Who said it", limit="query_chars"),
    TextField(name="title", about="A short title", limit="query_chars"),
    NumberField(name="importance", about="How much it matters, 0 to 10", low=0, high=10),
    KindField(name="type", about="What kind of memory it is, a word of yours", limit="query_chars"),
    SureField(name="confidence", about="How sure it is, 0 to 1", low=0, high=1),
)  # fmt: skip
_ALSO_FREE = ("type", "confidence")  # they come back in metadata, as they came

STORE_FIELDS: tuple[Field, ...] = (
    TextField(name="content", about="The text to remember", required=True, limit="text_bytes"),
    ObjectField(
        name="metadata", about="What is known about it; other keys are kept and returned", free=True,
        fields=(_SCOPE, _TAGS, *_ABOUT_IT),
    ),
    _SCOPE,
    _TAGS,
)  # fmt: skip


@TABLE.command("store_memory", *STORE_FIELDS, title="Store a memory")
async def store_memory(call: Call) -> Reply:
    """Store a piece of information for good. Use it when the user asks to remember something, or says something worth
    keeping: facts, preferences, decisions, dates. One fact for each memory. The same text stored twice is two memories."""
    kept = await call.engine.remember(_draft(call, call.fields), create_scope=call.session.auto_create)
    return _kept(kept)


@TABLE.command(
    "store_memories",
    ListField(name="memories", about="What `store_memory` takes, one entry for each memory", required=True,
              item=STORE_FIELDS, most=1000),
    FlagField(name="atomic", about="Whether one bad entry refuses all", default=False),
    title="Store several memories",
)  # fmt: skip
async def store_memories(call: Call) -> Reply:
    """Store several memories at once. Each entry of `results` is in the place of its memory, with an id or an error of its
    own; one bad entry spoils no other, unless `atomic` is true."""
    drafts: list[Draft | InfiniteMemoryError] = []
    for at, entry in enumerate(call.fields["memories"]):
        try:
            drafts.append(_entry(call, entry, f"memories[{at}]"))
        except InvalidRequestError as problem:
            if call.fields.flag("atomic"):
                raise
            drafts.append(problem)
    good = [draft for draft in drafts if isinstance(draft, Draft)]
    done: list[Kept | InfiniteMemoryError] = []
    if call.fields.flag("atomic"):
        done += await call.engine.remember_all(good, create_scope=call.session.auto_create)
    elif good:
        done += await call.engine.remember_each(good, create_scope=call.session.auto_create)
    taken = iter(done)
    results = [next(taken) if isinstance(draft, Draft) else draft for draft in drafts]
    stored = sum(isinstance(one, Kept) for one in results)
    return {
        "stored": stored,
        "failed": len(results) - stored,
        "results": [_kept(one) if isinstance(one, Kept) else _failed(one) for one in results],
    }


@TABLE.command(
    "update_memory",
    IdField(name="memory_id", about="Id of the memory", required=True),
    TextField(name="content", about="Its new text", limit="text_bytes"),
    _TAGS,
    ObjectField(
        name="metadata", about="What changes about it; free keys are added or replaced", free=True,
        fields=(_TAGS, *_ABOUT_IT),
    ),
    title="Change a memory", destructive=True, idempotent=True,
)  # fmt: skip
async def update_memory(call: Call) -> Reply:
    """Change the text, tags or other parts of a memory. What it said before stays readable with `get_memory`. Use it when a
    fact has changed or was wrong."""
    fields, meta = call.fields, call.fields.inner("metadata")
    if meta.free.get("scope") is not None:
        raise InvalidRequestError(
            "metadata.scope", "a memory stays in its scope; store it in the other one, then delete it here"
        )
    tags = _one_of(fields["tags"], meta["tags"], "tags")
    if "content" not in fields and tags is None and not meta.free and not list(meta.given()):
        raise InvalidRequestError("content", "nothing is to change: give content, tags or metadata")
    changes = Changes(
        text=fields.find_text("content"),
        tags=tags,
        source=meta.find_text("source"),
        type=meta.find_text("type"),
        title=meta.find_text("title"),
        importance=meta.find_number("importance"),
        confidence=meta.find_number("confidence"),
        speaker=meta.find_text("speaker"),
        conversation_id=meta.find_text("conversation_id"),
        occurred_at=meta.find_instant("timestamp"),
        metadata=_free(meta) or None,
        no_longer=frozenset(_ALSO_FREE) & set(meta.free),
    )

    def check(old: MemoryRecord) -> None:
        if changes.metadata is not None:
            _check_metadata(changed(old, changes).metadata, call)

    kept = await call.engine.update(memory_id(fields), changes, check=check)
    return _kept(kept) | {"outcome": "updated", "revision": kept.memory.revision}


@TABLE.command(
    "get_memory",
    IdField(name="memory_id", about="Id of the memory", required=True),
    title="Read a memory", read_only=True, idempotent=True,
)  # fmt: skip
async def get_memory(call: Call) -> Reply:
    """Read one memory by its id, whole, with what it said before it was changed."""
    memory = await call.engine.get(memory_id(call.fields))
    history = await call.engine.history(memory.memory_id)
    return {
        "memory": memory_out(call.engine, memory)
        | {
            "created_at": instant_out(memory.created_at),
            "updated_at": instant_out(memory.updated_at),
            "revision": memory.revision,
        },
        "revisions": [
            memory_out(call.engine, old) | {"revision": old.revision, "updated_at": instant_out(old.updated_at)}
            for old in history
        ],
    }


def _entry(call: Call, entry: Any, path: str) -> Draft:
    if not isinstance(entry, dict):
        raise InvalidRequestError.wrong(path, entry, "an object with `content`")
    return _draft(call, parse_fields(STORE_FIELDS, entry, path, call.checking))


def _draft(call: Call, fields: Fields) -> Draft:
    meta = fields.inner("metadata")
    metadata = _free(meta)
    _check_metadata(metadata, call, meta.path)
    scope = _one_of(fields["scope"], meta["scope"], "scope", fold) or call.session.active_scope
    check_name(scope, fields.at("scope") if "scope" in fields else meta.at("scope"))
    return Draft(
        text=fields.text("content"),
        scope=scope,
        source=meta.find_text("source") or "conversation",
        tags=_one_of(fields["tags"], meta["tags"], "tags") or (),
        type=meta.find_text("type"),
        title=meta.find_text("title"),
        importance=meta.find_number("importance"),
        confidence=meta.find_number("confidence"),
        speaker=meta.find_text("speaker"),
        conversation_id=meta.find_text("conversation_id"),
        occurred_at=meta.find_instant("timestamp"),
        metadata=metadata,
    )


def _one_of(top: Any, inner: Any, name: str, same: Any = lambda value: value) -> Any:
    """Take a field that may stand at the top level or in metadata; both given and different is a bad request."""
    if top is not None and inner is not None and same(top) != same(inner):
        raise InvalidRequestError(name, f"{top!r} here and {inner!r} in metadata.{name} differ; give it once")
    return inner if top is None else top


def _free(meta: Fields) -> Json:
    """Give what comes back as metadata."""
    return {**meta.free, **{name: meta[name] for name in _ALSO_FREE if name in meta}}


def _check_metadata(metadata: Mapping[str, Any], call: Call, path: str = "metadata") -> None:
    limits = call.session.limits
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > limits.metadata_bytes:
        raise LimitExceededError(path, size, limits.metadata_bytes, "bytes")
    if (depth := depth_of(metadata)) > limits.metadata_depth:
        raise LimitExceededError(path, depth, limits.metadata_depth, "levels")


def _kept(kept: Kept) -> Json:
    reply: Json = {"memory_id": kept.memory.memory_id, "scope": kept.scope.name, "outcome": "stored"}
    if kept.pending is not None:
        reply |= {
            "embedding": "pending",
            "note": f"stored; it is found by meaning once it is embedded ({kept.pending})",
        }
    return reply


def _failed(problem: InfiniteMemoryError) -> Json:
    from infinite_memory.contracts.native.failures import failure

    return {"status": "ERROR"} | failure(problem)
