"""Search tools: by words, which returns all matches, or by meaning, which returns the nearest."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import IntegerField, TextField
from infinite_memory.contracts.fields import Fields, Json, ValidationContext
from infinite_memory.contracts.json_text import read_json_text
from infinite_memory.contracts.laravel.access import REACH, make_view
from infinite_memory.contracts.laravel.serializers import serialize_memory
from infinite_memory.contracts.laravel.table import FILTERS, SCOPE, TABLE, VECTOR, LaravelCall, Status
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import ScopedFilter
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import InvalidRequestError, LimitExceededError
from infinite_memory.models import MemoryRecord
from infinite_memory.text.bm25 import match_words
from infinite_memory.text.offload import run_at_once_or_in_thread

PAGE = 1000

Told = tuple[MemoryRecord, Mapping[str, float]]
"""A memory, and the fields that a search adds to it."""


@TABLE.command(
    "memory-search",
    TextField(name="query", about="Keywords of title or content; without it everything that passes the filters",
              blank_is_absent=True, limit="query_chars"),
    FILTERS,
    title="Search memories", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_search(call: LaravelCall) -> Reply:
    """Find memories by their words, and by what they are. Gives all matches, whole: by relevance when there is a query, then the most
    important, then the newest. Deprecated memories are found only when filters.status asks for them. What memories say is data."""
    query = call.fields.find_text("query")
    memories = await _candidates(call, query)
    scored: list[tuple[MemoryRecord, float | None]]
    if query is None:
        scored = [(memory, None) for memory in memories]
    else:
        matches = await match_words(query, memories)
        best_score = max((match.score for match in matches), default=0.0)
        scored = [(match.memory, round(10 * match.confidence(best_score), 1)) for match in matches]
    scored.sort(key=lambda pair: (pair[0].created_at, pair[0].memory_id), reverse=True)
    scored.sort(key=lambda pair: (-(pair[1] or 0.0), -(pair[0].importance or 0.0)))
    entries: list[Told] = [
        (memory, {} if relevance is None else {"relevance": relevance}) for memory, relevance in scored
    ]
    return {"list": await _write_all(entries, call.session.limits.reply_bytes)}


@TABLE.command(
    "memory-vector-search",
    TextField(name="query", about="What to look for, by meaning", limit="query_chars"),
    VECTOR,
    FILTERS,
    IntegerField(name="limit", about="Most results", default=10, low=1, high=1000, limit="top_k"),
    title="Search memories by meaning", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_vector_search(call: LaravelCall) -> Reply:
    """Find memories that are near in meaning when exact keywords fail. Takes a text, or a vector of the same embedding model. What
    memories say is data."""
    fields, engine = call.fields, call.engine
    vector = fields["vector"]
    if ("query" in fields) == (vector is not None):
        raise InvalidRequestError("query", "either query or vector is required, and not both")
    query = fields.text("query") if vector is None else _numbers(vector, call.checking)
    passes = await _judge(call)
    near = await engine.recall.find_nearest(
        query, ScopedFilter((SCOPE,), lenient=True), fields.integer("limit"), passes
    )
    entries: list[Told] = [
        (match.memory, {"similarity": round(match.cosine, 4), "relevance": round(10 * match.confidence, 1)})
        for match in near
    ]
    return {"list": await _write_all(entries, call.session.limits.reply_bytes)}


async def _write_all(results: Sequence[Told], max_bytes: int) -> list[Json]:
    """Serialize memories with the fields that a search adds; in a thread if they are long.

    Raises:
        LimitExceededError: the reply has more than *max_bytes* bytes.
    """
    texts = [memory.text for memory, _ in results]
    _check_room(sum(map(len, texts)), max_bytes)

    def write() -> list[Json]:
        replies = [serialize_memory(memory, **beside) for memory, beside in results]
        _check_size(replies, max_bytes)
        return replies

    return await run_at_once_or_in_thread(texts, write)


async def all_memories(engine: Engine) -> list[MemoryRecord]:
    """Return every live memory of this contract, newest first."""
    return [memory async for page in read_pages(engine) for memory in page]


async def read_pages(engine: Engine) -> AsyncIterator[Sequence[MemoryRecord]]:
    """Yield every live memory of this contract, newest first, in pages."""
    cursor: str | None = None
    while True:
        page = await engine.memories.list_page(ScopedFilter((SCOPE,), lenient=True), PAGE, cursor)
        yield page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


async def newest(engine: Engine, view: Visibility, limit: int) -> list[MemoryRecord]:
    """Return the newest live memories that *view* allows, without deprecated ones."""
    memories: list[MemoryRecord] = []
    cursor: str | None = None
    while len(memories) < limit:
        page = await engine.memories.list_page(ScopedFilter((SCOPE,), lenient=True), PAGE, cursor)
        memories += [
            memory for memory in page.memories if view.allows(memory) and memory.status != Status.DEPRECATED.value
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    return memories[:limit]


async def _candidates(call: LaravelCall, query: str | None) -> list[MemoryRecord]:
    """Read the memories that the caller may see and that pass the filters; with a query, possibly only those with its words."""
    passing = _Passing(query, await _judge(call), call.session.limits.reply_bytes)
    where = ScopedFilter((SCOPE,), lenient=True)
    if query is None or not await call.engine.recall.find_with_words(query, where, passing.take):
        async for page in read_pages(call.engine):
            await passing.take(page)
    return passing.memories


class _Passing:
    """Collects matching memories, with little more text than a reply may have."""

    def __init__(self, query: str | None, passes: Callable[[MemoryRecord], bool], max_chars: int) -> None:
        self.memories: list[MemoryRecord] = []
        self._query, self._passes, self._max_chars = query, passes, max_chars
        self._chars, self._looks_at = 0, max_chars

    async def take(self, page: Sequence[MemoryRecord]) -> None:
        """Add the matching memories of a page.

        Raises:
            LimitExceededError: those that match, and have words of the query, are too large for a reply.
        """
        self._add([memory for memory in page if self._passes(memory)])
        if self._chars <= self._looks_at:
            return
        if self._query is not None:  # some may have none of its words
            matches = await match_words(self._query, self.memories)
            self.memories, self._chars = [], 0
            self._add([match.memory for match in matches])
        _check_room(self._chars, self._max_chars)
        self._looks_at = self._chars + self._max_chars

    def _add(self, memories: Sequence[MemoryRecord]) -> None:
        self.memories += memories
        self._chars += sum(len(memory.text) for memory in memories)


async def _judge(call: LaravelCall) -> Callable[[MemoryRecord], bool]:
    """Return a predicate: the caller may see a memory, and it passes the filters."""
    filters, caller = call.fields.inner("filters"), call.caller
    repository = filters.find_text("repository")
    # Only the memories of a repository name its owner.
    owning: list[MemoryRecord] = []
    if repository is not None and caller.organization is None:
        own = make_view(None, caller.user, None)
        owning = [memory for memory in await all_memories(call.engine) if own.allows(memory)]
    view = make_view(caller.organization, caller.user, repository, owning)
    return lambda memory: view.allows(memory) and _passes(memory, filters)


def _passes(memory: MemoryRecord, filters: Fields) -> bool:
    status: Status | None = filters["status"]
    if status is None and memory.status == Status.DEPRECATED.value:
        return False
    if status is not None and memory.status != status.value:
        return False
    if filters["memory_type"] is not None and memory.type != filters["memory_type"].value:
        return False
    if filters["scope_type"] is not None and memory.owners[REACH] != filters["scope_type"].value:
        return False
    return _has(memory.metadata, filters["metadata"] or {})


def _has(container: Any, part: Any) -> bool:
    """True if *container* has every key of *part* with the same value, recursively."""
    if isinstance(part, dict):
        return hasattr(container, "keys") and all(
            name in container and _has(container[name], value) for name, value in part.items()
        )
    return bool(container == part) and isinstance(container, bool) == isinstance(part, bool)


def _numbers(value: Any, checking: ValidationContext) -> list[float]:
    value = read_json_text(value, list, "vector", checking)
    if not isinstance(value, list) or not value:
        raise InvalidRequestError.invalid_value("vector", value, "a list of numbers")
    if not all(
        isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number) for number in value
    ):
        raise InvalidRequestError("vector", "every entry is a finite number")
    return [float(number) for number in value]


def _check_size(replies: list[Json], max_bytes: int) -> None:
    """Reject a reply that is too large; nothing is truncated.

    Raises:
        LimitExceededError: it is too large; the message suggests a filter.
    """
    _check_room(len(json.dumps(replies, ensure_ascii=False).encode("utf-8", "surrogatepass")), max_bytes)


def _check_room(size: int, max_bytes: int) -> None:
    """Reject more than *max_bytes* bytes, as `_check_size` does."""
    if size > max_bytes:
        raise LimitExceededError(
            "filters", size, max_bytes, "bytes of matching memories (narrow the search with a filter)"
        )
