"""The tools of the Memory Server: their fields and handlers."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.base import Reply, Table
from infinite_memory.contracts.field_types import AnyField, IntegerField, NumberField, TagsField, TextField, check_limit
from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.json_text import read_json_text
from infinite_memory.contracts.mcp import NOTICE, parse_limit, with_notice
from infinite_memory.contracts.memory_server.limits import CONTENT_LEVELS, QUERY_CHARS, MemoryServerLimits
from infinite_memory.contracts.memory_server.serializers import (
    format_content,
    format_line,
    serialize_item,
    serialize_link,
)
from infinite_memory.contracts.metadata import measure_depth
from infinite_memory.contracts.session import ClientSession, RequestContext
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.types import NewMemory, ScopedFilter
from infinite_memory.errors import InvalidRequestError, LimitExceededError, format_count, truncated_repr
from infinite_memory.models import Filter, MemoryRecord, TagsMode, tag_key
from infinite_memory.normalization import is_blank
from infinite_memory.store.scope_cache import GLOBAL

TAG = re.compile(r"[a-z0-9:_-]{1,100}")
TAG_PATTERN = "^[a-z0-9:_-]{1,100}$"


@dataclass(slots=True)
class CommandContext(RequestContext):
    """A running tool call."""

    limits: MemoryServerLimits


TABLE: Table[CommandContext] = Table()


class PlainTagsField(TagsField):
    """Tags of ``[a-z0-9:_-]`` only; others are rejected, not normalized."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> tuple[str, ...]:
        for index, tag in enumerate(value if isinstance(value, list) else ()):
            if isinstance(tag, str) and not TAG.fullmatch(tag):
                raise InvalidRequestError.invalid_value(f"{path}[{index}]", tag, f"a tag that matches {TAG_PATTERN}")
        tags = super().parse(value, path, checking)
        for tag in tags:
            if not TAG.fullmatch(tag):
                raise InvalidRequestError.invalid_value(path, tag, f"a tag that matches {TAG_PATTERN}")
        return tags

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string", "pattern": TAG_PATTERN}}


class ContentField(AnyField):
    """Structured content; an object sent as JSON text is parsed, so that storing it again finds the same memory."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> Any:
        if isinstance(value, str) and is_blank(value):
            raise InvalidRequestError(
                path, "is blank; an object, or a text with at least one visible character, was expected"
            )
        try:
            return read_json_text(value, dict, path, checking)
        except InvalidRequestError:
            return value  # a text that only starts like an object


class ClampedField(IntegerField):
    """An integer of at least ``low``; above the limit it is lowered to it."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> int:
        maximum = int(getattr(checking.limits, self.limit or ""))
        number = super(ClampedField, dataclasses.replace(self, limit=None)).parse(value, path, checking)
        return min(number, maximum)

    def expected(self, high: int) -> str:
        return f"a whole number of at least {self.low:,}"

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.low}


def limit_field() -> ClampedField:
    """Return the field of the maximum number of entries."""
    return ClampedField(name="limit", about="Most results; what is above the maximum is lowered to it",
                        low=1, high=2**53, limit="top_k")  # fmt: skip


_TYPE = TextField(name="type", about="Only this type", blank_is_absent=True, limit="query_chars")
_TAGS = PlainTagsField(name="tags", about="Only memories that bear one of these tags")


@TABLE.command(
    "memory_create",
    TextField(name="type", about="What kind of memory: note, decision, runbook, todo, or a word of yours", required=True,
              limit="query_chars"),
    ContentField(name="content", about="What to remember, as a JSON object; wrap plain text as {\"text\": ...}", required=True),
    TextField(name="source", about="Where it comes from", required=True, limit="query_chars"),
    PlainTagsField(name="tags", about="Tags for finding it again, as project:alpha or topic:etl"),
    NumberField(name="confidence", about="How sure it is, 0 to 1", required=True, low=0, high=1),
    title="Save a memory", idempotent=True,
)  # fmt: skip
async def memory_create(call: CommandContext) -> Reply:
    """Save a memory. The same type, source and content saved again is the same memory, whatever the order of keys: its tags are
    united and the higher confidence is kept. Use it for what will matter later: decisions, interfaces, fixes that worked."""
    fields = call.fields
    content = fields["content"]
    size = len(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
    if size > call.limits.content_chars:
        raise LimitExceededError("content", size, call.limits.content_chars, "characters of JSON")
    if (depth := measure_depth(content)) > CONTENT_LEVELS:
        raise LimitExceededError("content", depth, CONTENT_LEVELS, "levels")
    text = format_content(content)
    check_limit("text_bytes", text, "content", call.checking.limits)
    done = await call.engine.memories.upsert(
        NewMemory(
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
    memory = done.result.memory
    item = serialize_item(memory) | {
        "confidence": memory.confidence,
        "updatedAt": format_instant(memory.updated_at),
        "outcome": done.outcome.value,
    }
    message = f"{done.outcome.value}: {format_line(memory)} confidence={memory.confidence}"
    if done.result.pending is not None:
        message += f"\nIt is found by meaning once it is embedded ({done.result.pending})."
    return _result(call, message, [item], [memory])


@TABLE.command(
    "memory_search",
    TextField(name="query", about=f"What to look for, by meaning; at most {QUERY_CHARS} characters", required=True,
              limit="query_chars"),
    _TYPE, _TAGS, limit_field(),
    title="Search memories", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_search(call: CommandContext) -> Reply:
    """Find memories by meaning, best first. The result has ids and links; read a memory whole with resources/read. Use it before
    answering what may depend on earlier work."""
    results = await call.engine.recall.search(call.fields.text("query"), make_filter(call), _limit(call))
    items = [serialize_item(match.memory) | {"similarity": match.confidence} for match in results.matches]
    lines = [format_line(match.memory, match.confidence) for match in results.matches]
    text = _found(lines) + (f"\nNote: {results.note}" if results.note is not None else "")
    reply = _result(call, text, items, [match.memory for match in results.matches])
    if results.note is not None:
        reply["structuredContent"]["note"] = results.note
    return reply


@TABLE.command(
    "memory_list",
    _TYPE, _TAGS, limit_field(),
    title="List memories", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_list(call: CommandContext) -> Reply:
    """List memories by type and tags, newest first, without searching."""
    limit = call.fields.integer("limit") if "limit" in call.fields else call.limits.max_limit
    listing = await call.engine.memories.list_page(make_filter(call), limit)
    lines = [format_line(memory) for memory in listing.memories]
    reply = _result(call, _found(lines), [serialize_item(memory) for memory in listing.memories], listing.memories)
    reply["structuredContent"]["total"] = listing.total
    return reply


def make_filter(call: CommandContext) -> ScopedFilter:
    """Return a filter from the fields, over the active scope and Global; several tags match any of them."""
    kind = call.fields.find_text("type")
    return where(call.session, kind, call.fields["tags"] or ())


def where(session: ClientSession, kind: str | None, tags: Sequence[str]) -> ScopedFilter:
    """Return a filter over the active scope and Global."""
    rest = Filter(
        tag_keys=frozenset(map(tag_key, tags)), tags_mode=TagsMode.ANY, type=kind.strip() if kind is not None else None
    )
    return ScopedFilter(tuple(dict.fromkeys((session.active_scope, GLOBAL))), rest, lenient=True)


def find_limit(text: str | None, limits: MemoryServerLimits, default: int) -> int:
    """Parse the limit of a URI: as a tool's, or *default* without one.

    Raises:
        InvalidRequestError: it is not an integer of at least 1.
    """
    return parse_limit(text, min(default, limits.max_limit), limits.max_limit)


def _limit(call: CommandContext) -> int:
    return call.fields.integer("limit") if "limit" in call.fields else call.limits.default_limit


def _found(lines: Sequence[str]) -> str:
    if not lines:
        return "No memories found."
    count = format_count(len(lines), "memory")
    return f"Found {count}. Read one whole with resources/read of its mem:// address.\n" + "\n".join(lines)


def _result(call: CommandContext, said: str, items: list[Json], memories: Sequence[MemoryRecord]) -> Reply:
    structured: Json = {"items": items}
    if memories:
        structured = with_notice(structured)
        said = f"{NOTICE}\n{said}"
    if call.checking.warnings:
        structured["warnings"] = call.checking.warnings
        said += "".join(f"\nWarning: {truncated_repr(warning)[1:-1]}" for warning in call.checking.warnings)
    return {
        "content": [{"type": "text", "text": said}, *(serialize_link(memory) for memory in memories)],
        "structuredContent": structured,
    }
