"""Search in a user's memories: five engines, and their fusion."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from infinite_memory.contracts.agentmem.access import (
    check_agent,
    format_id,
    list_ids,
    list_memories,
    make_filter,
    see_user,
)
from infinite_memory.contracts.agentmem.table import (
    TABLE,
    USER,
    AgentMemCall,
    MemoryType,
    SearchType,
    agent_id,
    memory_type,
)
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import ChoiceField, IntegerField, NumberField, TextField
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import EmbeddingError, SidecarNotReadyError
from infinite_memory.models import MemoryId, MemoryRecord
from infinite_memory.text.bm25 import match_words

RRF_K = 60  # the constant of the paper that introduced reciprocal rank fusion (Cormack and others, 2009)
FUSED = (SearchType.VECTOR, SearchType.BM25, SearchType.FUZZY)
"""The engines of a hybrid search; full text is a stricter BM25 and would only count it twice."""

_MODES = {
    SearchType.VECTOR: Mode.SEMANTIC,
    SearchType.BM25: Mode.TEXT,
    SearchType.FULLTEXT: Mode.TEXT,
    SearchType.FUZZY: Mode.FUZZY,
}
MATCHING_ALL = frozenset({SearchType.VECTOR, SearchType.HYBRID})
"""By meaning every memory has some similarity, so all that pass the filters match."""

COUNTED = 1000  # how many hits are counted if words or a minimum score decide
MIN_COUNT = 20  # candidates of each engine
GROWTH_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit, with its score from 0 to 1, decreasing with rank. ``count`` is how often its text was stored."""

    memory: MemoryRecord
    score: float
    count: int = 1


@TABLE.command(
    "agentmem_search_memories",
    TextField(name="query", about="What to look for", required=True, limit="query_chars"),
    USER,
    agent_id("Only memories of this agent"),
    IntegerField(name="limit", about="Most results", default=10, low=1, high=100),
    ChoiceField(name="search_type", about="Search engine", choices=SearchType, default=SearchType.HYBRID),
    memory_type("Only memories of this type"),
    NumberField(name="min_score", about="Least score of a result", low=0, high=1),
    title="Search memories", read_only=True, idempotent=True,
)  # fmt: skip
async def search_memories(call: AgentMemCall) -> Reply:
    """Search a user's memories semantically, by words, or by both. Use it before answering what may depend on what is known of the
    user."""
    began = time.monotonic()
    search_result = await find_memories(call)
    reply: Json = {
        "success": True,
        "results": [_result(hit) for hit in search_result.hits],
        "total": search_result.total,
        "total_results": search_result.total,
        "search_time_ms": round(1000 * (time.monotonic() - began)),
    }
    return reply | ({"note": search_result.note} if search_result.note else {})


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """The best hits, the total, and a note on what could not be used or counted."""

    hits: Sequence[Scored]
    total: int
    note: str | None


async def find_memories(call: AgentMemCall) -> FoundMemories:
    """Run the search of an `agentmem_search_memories` request; results count as used."""
    fields = call.fields
    agent = fields.find_text("agent_id")
    await check_agent(call.engine, agent)
    visibility = see_user(fields.text("user_id"), agent)
    limit, how, kind = fields.integer("limit"), fields["search_type"], fields["memory_type"]
    least = fields.find_number("min_score") or 0.0
    counts_hits = how not in MATCHING_ALL or least > 0
    depth = max(limit, COUNTED) if counts_hits else limit
    hits, note = await search(call.engine, fields.text("query"), visibility, depth, how, kind)
    passing = [hit for hit in hits if hit.score >= least]
    if counts_hits:
        total = sum(hit.count for hit in passing)
        if len(hits) == depth:
            note = "; ".join(filter(None, [note, f"total counts among the best {depth:,}"]))
    else:
        total = await call.engine.memories.count(await _visible(call.engine, visibility, kind))
    if call.session.counts_use:
        call.engine.recall.record_use(hit.memory for hit in passing[:limit])
    return FoundMemories(passing[:limit], total, note)


async def search(
    engine: Engine, query: str, visibility: Visibility, limit: int, how: SearchType, kind: MemoryType | None = None
) -> tuple[list[Scored], str | None]:
    """Search what *visibility* allows, best first; the text is a note about an engine that a hybrid search had to skip.

    Results do not count as used: more candidates are examined than shown.

    Raises:
        EmbeddingError: a vector search, and the model is unavailable.
        SidecarNotReadyError: a search by words, which are still being indexed.
    """
    if how is not SearchType.HYBRID:
        return (await _one_engine(engine, query, visibility, limit, how, kind))[:limit], None
    asked = [
        _one_engine(engine, query, visibility, max(2 * limit, MIN_COUNT), search_type, kind) for search_type in FUSED
    ]
    done = await asyncio.gather(*asked, return_exceptions=True)
    lists = [hits for hits in done if not isinstance(hits, BaseException)]
    failed = [
        (search_type, hits) for search_type, hits in zip(FUSED, done, strict=True) if isinstance(hits, BaseException)
    ]
    for _, exc in failed:
        if not lists or not isinstance(exc, EmbeddingError | SidecarNotReadyError):
            raise exc
    return fused(lists)[:limit], "; ".join(f"without {search_type.value}: {exc}" for search_type, exc in failed) or None


def fused(lists: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Fuse ranked lists by reciprocal rank; a hit keeps its best score of any engine, lowered where it would rise with rank."""
    ranks: dict[MemoryId, float] = {}
    by_id: dict[MemoryId, Scored] = {}
    for hits in lists:
        for rank, hit in enumerate(hits, start=1):
            key = hit.memory.memory_id
            ranks[key] = ranks.get(key, 0.0) + 1 / (RRF_K + rank)
            if key not in by_id or hit.score > by_id[key].score:
                by_id[key] = hit
    order = sorted(by_id, key=lambda key: (by_id[key].memory.created_at, key), reverse=True)
    order.sort(key=lambda key: -ranks[key])
    lowest, ranked = 1.0, []
    for key in order:
        lowest = min(lowest, by_id[key].score)
        ranked.append(dataclasses.replace(by_id[key], score=lowest))
    return ranked


async def _one_engine(
    engine: Engine, query: str, visibility: Visibility, limit: int, how: SearchType, kind: MemoryType | None
) -> list[Scored]:
    """Search with one engine, widening until *limit* memories are visible or there are no more."""
    depth = limit + MIN_COUNT
    where = await _visible(engine, visibility, kind)
    while True:
        results = await engine.recall.search(query, where, depth, mode=_MODES[how], counts_use=False)
        hits = [
            Scored(match.memory, match.confidence, 1 + len(match.repeated_at))
            for match in results.matches
            if visibility.allows(match.memory)
        ]
        if how is SearchType.FULLTEXT:
            matches = await match_words(query, [hit.memory for hit in hits])
            complete = {match.memory.memory_id for match in matches if match.has_all}
            hits = [hit for hit in hits if hit.memory.memory_id in complete]
        if len(hits) >= limit or len(results.matches) < depth:
            return hits
        depth *= GROWTH_FACTOR


async def _visible(engine: Engine, visibility: Visibility, kind: MemoryType | None) -> ScopedFilter:
    """Return a filter for what *visibility* allows."""
    where = make_filter(visibility, kind)
    if visibility.is_filtered:
        return where
    # Filtered before ranking: of equal texts of two agents a recall returns one.
    if visibility.exact_owners:
        allowed = await list_ids(engine, visibility)
    else:
        allowed = frozenset(memory.memory_id for memory in await list_memories(engine, visibility, kind))
    return dataclasses.replace(where, rest=dataclasses.replace(where.rest, memory_ids=allowed))


def _result(hit: Scored) -> Json:
    memory = hit.memory
    return {
        "memory_id": format_id(memory.memory_id),
        "content": memory.text,
        "score": round(hit.score, 4),
        "relevance_score": round(hit.score, 4),
        "memory_type": memory.type,
        "created_at": format_instant(memory.occurred_at),
        "user_id": memory.owners["user_id"],
        "metadata": dict(memory.metadata),
    } | {name: value for name, value in memory.owners.items() if name != "user_id"}
