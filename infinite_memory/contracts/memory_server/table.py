"""The tools of the Memory Server: their fields, and what each does."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.base import Reply, Table
from infinite_memory.contracts.fields import Checking, Fields, Json
from infinite_memory.contracts.kinds import (
    AnyField,
    IntegerField,
    NumberField,
    TagsField,
    TextField,
    check_limit,
)
from infinite_memory.contracts.memory_server.limits import QUERY_CHARS, MemoryServerLimits
from infinite_memory.contracts.memory_server.records import item_out, line_out, link_out, text_of
from infinite_memory.contracts.native.table import Session
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine import Engine
from infinite_memory.engine.parts import Draft, Where
from infinite_memory.engine.scopes import GLOBAL
from infinite_memory.errors import InvalidRequestError, LimitExceededError, shown
from infinite_memory.models import Filter, MemoryRecord, TagsMode, tag_key

TAG = re.compile(r"[a-z0-9:_-]{1,100}")
TAG_PATTERN = "^[a-z0-9:_-]{1,100}$"


@dataclass(slots=True)
class Call:
    """One tool call on its way."""

    engine: Engine
    session: Session
    limits: MemoryServerLimits
    fields: Fields
    checking: Checking


TABLE: Table[Call] = Table()


class PlainTagsField(TagsField):
    """Tags of ``[a-z0-9:_-]`` only; anything else is refused, not folded."""

    def parse(self, value: Any, path: str, checking: Checking) -> tuple[str, ...]:
        for at, tag in enumerate(value if isinstance(value, list) else ()):
            if isinstance(tag, str) and not TAG.fullmatch(tag):
                raise InvalidRequestError.wrong(f"{path}[{at}]", tag, f"a tag that matches {TAG_PATTERN}")
        tags = super().parse(value, path, checking)
        for tag in tags:
            if not TAG.fullmatch(tag):
                raise InvalidRequestError.wrong(path, tag, f"a tag that matches {TAG_PATTERN}")
        return tags

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string", "pattern": TAG_PATTERN}}


class ClampedField(IntegerField):
    """A whole number of at least ``low``; above the limit it is lowered to it."""

    def parse(self, value: Any, path: str, checking: Checking) -> int:
        most = int(getattr(checking.limits, self.limit or ""))
        number = super(ClampedField, dataclasses.replace(self, limit=None)).parse(value, path, checking)
        return min(number, most)

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.low}


def limit_field() -> ClampedField:
    """How many entries are given at most."""
    return ClampedField(name="limit", about="Most results; what is above the maximum is lowered to it",
                        low=1, high=2**53, limit="top_k")  # fmt: skip


_TYPE = TextField(name="type", about="Only this type", blank_is_absent=True, limit="query_chars")
_TAGS = PlainTagsField(name="tags", about="Only memories that bear one of these tags")


@TABLE.command(
    "memory_create",
    TextField(name="type", about="What kind of memory: note, decision, runbook, todo, or a word of yours", required=True,
              limit="query_chars"),
    AnyField(name="content", about="What to remember, as a JSON object; wrap plain text as {\"text\": ...}", required=True),
    TextField(name="source", about="Where it comes from", required=True, limit="query_chars"),
    PlainTagsField(name="tags", about="Tags for finding it again, as project:alpha or topic:etl"),
    NumberField(name="confidence", about="How sure it is, 0 to 1", required=True, low=0, high=1),
    title="Save a memory", idempotent=True,
)  # fmt: skip
async def memory_create(call: Call) -> Reply:
    """Save a memory. The same type, source and content saved again is the same memory, whatever the order of keys: its tags are
    united and the higher confidence is kept. Use it for what will matter later: decisions, interfaces, fixes that worked."""
    fields = call.fields
    content = fields["content"]
    size = len(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
    if size > call.limits.content_chars:
        raise LimitExceededError("content", size, call.limits.content_chars, "characters of JSON")
    text = text_of(content)
    check_limit("text_bytes", text, "content", call.checking.limits)
    done = await call.engine.upsert(
        Draft(
            text=text,
            scope=call.session.active_scope,
            source=fields.text("source").strip(),
            tags=fields["tags"] or (),
            type=fields.text("type").strip(),
            confidence=fields.find_number("confidence"),
            structured=content,
        ),
        create_scope=call.session.auto_create,
    )
    memory = done.kept.memory
    item = item_out(memory) | {
        "confidence": memory.confidence,
        "updatedAt": instant_out(memory.updated_at),
        "outcome": done.outcome.value,
    }
    said = f"{done.outcome.value}: {line_out(memory)} confidence={memory.confidence}"
    if done.kept.pending is not None:
        said += f"\nIt is found by meaning once it is embedded ({done.kept.pending})."
    return _result(call, said, [item], [memory])


@TABLE.command(
    "memory_search",
    TextField(name="query", about=f"What to look for, by meaning; at most {QUERY_CHARS} characters", required=True,
              limit="query_chars"),
    _TYPE, _TAGS, limit_field(),
    title="Search memories", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_search(call: Call) -> Reply:
    """Find memories by meaning, best first. The result has ids and links; read a memory whole with resources/read. Use it before
    answering what may depend on earlier work."""
    found = await call.engine.recall(call.fields.text("query"), where_of(call), _limit(call))
    items = [item_out(match.memory) | {"similarity": match.confidence} for match in found.matches]
    lines = [line_out(match.memory, match.confidence) for match in found.matches]
    said = _found(lines) + (f"\nNote: {found.note}" if found.note is not None else "")
    reply = _result(call, said, items, [match.memory for match in found.matches])
    if found.note is not None:
        reply["structuredContent"]["note"] = found.note
    return reply


@TABLE.command(
    "memory_list",
    _TYPE, _TAGS, limit_field(),
    title="List memories", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_list(call: Call) -> Reply:
    """List memories by type and tags, newest first, without searching."""
    most = call.fields.integer("limit") if "limit" in call.fields else call.limits.max_limit
    listing = await call.engine.list_memories(where_of(call), most)
    lines = [line_out(memory) for memory in listing.memories]
    reply = _result(call, _found(lines), [item_out(memory) for memory in listing.memories], listing.memories)
    reply["structuredContent"]["total"] = listing.total
    return reply


def where_of(call: Call) -> Where:
    """Turn the fields into a filter over the active scope and Global; several tags mean any of them."""
    kind = call.fields.find_text("type")
    return where(call.session, kind, call.fields["tags"] or ())


def where(session: Session, kind: str | None, tags: Sequence[str]) -> Where:
    """Make a filter over the active scope and Global."""
    rest = Filter(
        tag_keys=frozenset(map(tag_key, tags)), tags_mode=TagsMode.ANY, type=kind.strip() if kind is not None else None
    )
    return Where(tuple(dict.fromkeys((session.active_scope, GLOBAL))), rest, lenient=True)


def find_limit(text: str | None, limits: MemoryServerLimits, default: int) -> int:
    """Read the limit of an address: as a tool's, or *default* without one.

    Raises:
        InvalidRequestError: it is no number of at least 1.
    """
    if text is None:
        return min(default, limits.max_limit)
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number < float("inf"):
        raise InvalidRequestError.wrong("limit", text, f"a whole number from 1 to {limits.max_limit}")
    return int(min(number, limits.max_limit))


def _limit(call: Call) -> int:
    return call.fields.integer("limit") if "limit" in call.fields else call.limits.default_limit


def _found(lines: Sequence[str]) -> str:
    if not lines:
        return "No memories found."
    return f"Found {len(lines)} memories. Read one whole with resources/read of its mem:// address.\n" + "\n".join(
        lines
    )


def _result(call: Call, said: str, items: list[Json], memories: Sequence[MemoryRecord]) -> Reply:
    structured: Json = {"items": items}
    if call.checking.warnings:
        structured["warnings"] = call.checking.warnings
        said += "".join(f"\nWarning: {shown(one)[1:-1]}" for one in call.checking.warnings)
    return {
        "content": [{"type": "text", "text": said}, *(link_out(memory) for memory in memories)],
        "structuredContent": structured,
    }
