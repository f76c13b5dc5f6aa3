"""Searching a user's memories: five engines, and their fusion."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from infinite_memory.contracts.agentmem.people import Sight, check_agent, id_out, ids_of_agent, memories_of, where_of
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
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import ChoiceField, IntegerField, NumberField, TextField
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine import Engine
from infinite_memory.engine.by_words import match_words
from infinite_memory.engine.parts import Mode
from infinite_memory.errors import EmbeddingError, SidecarNotReadyError
from infinite_memory.models import MemoryId, MemoryRecord

RRF_K = 60  # the constant of the paper that introduced reciprocal rank fusion (Cormack and others, 2009)
FUSED = (SearchType.VECTOR, SearchType.BM25, SearchType.FUZZY)
"""What a hybrid search fuses; full text is a stricter BM25 and would only count it twice."""

_MODES = {
    SearchType.VECTOR: Mode.SEMANTIC,
    SearchType.BM25: Mode.TEXT,
    SearchType.FULLTEXT: Mode.TEXT,
    SearchType.FUZZY: Mode.FUZZY,
}
LEAST = 20  # candidates of each engine
WIDEN = 4


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit, with its score from 0 to 1, falling with rank."""

    memory: MemoryRecord
    score: float


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
    fields = call.fields
    sight = Sight(fields.text("user_id"), fields.find_text("agent_id"))
    await check_agent(call.engine, sight.agent_id)
    found, note = await search(
        call.engine, fields.text("query"), sight, fields.integer("limit"), fields["search_type"], fields["memory_type"]
    )
    least = fields.find_number("min_score") or 0.0
    results = [_result(one) for one in found if one.score >= least]
    reply: Json = {
        "success": True,
        "results": results,
        "total": len(results),
        "total_results": len(results),
        "search_time_ms": round(1000 * (time.monotonic() - began)),
    }
    return reply | ({"note": note} if note else {})


async def search(
    engine: Engine, query: str, sight: Sight, limit: int, how: SearchType, kind: MemoryType | None = None
) -> tuple[list[Scored], str | None]:
    """Find what *sight* shows, best first; the text is a note about an engine that a hybrid search had to do without.

    Raises:
        EmbeddingError: the search goes by meaning alone and the model cannot be used.
        SidecarNotReadyError: the search goes by words alone and they are still being indexed.
    """
    if how is not SearchType.HYBRID:
        return (await _one_engine(engine, query, sight, limit, how, kind))[:limit], None
    asked = [_one_engine(engine, query, sight, max(2 * limit, LEAST), one, kind) for one in FUSED]
    done = await asyncio.gather(*asked, return_exceptions=True)
    lists = [hits for hits in done if not isinstance(hits, BaseException)]
    failed = [(one, hits) for one, hits in zip(FUSED, done, strict=True) if isinstance(hits, BaseException)]
    for _, problem in failed:
        if not lists or not isinstance(problem, EmbeddingError | SidecarNotReadyError):
            raise problem
    return fused(lists)[:limit], "; ".join(f"without {one.value}: {problem}" for one, problem in failed) or None


def fused(lists: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Fuse ranked lists by reciprocal rank; a hit keeps the best score an engine gave it, lowered where it would rise with rank."""
    ranks: dict[MemoryId, float] = {}
    best: dict[MemoryId, Scored] = {}
    for hits in lists:
        for rank, hit in enumerate(hits, start=1):
            key = hit.memory.memory_id
            ranks[key] = ranks.get(key, 0.0) + 1 / (RRF_K + rank)
            if key not in best or hit.score > best[key].score:
                best[key] = hit
    order = sorted(best, key=lambda key: (best[key].memory.created_at, key), reverse=True)
    order.sort(key=lambda key: -ranks[key])
    lowest, made = 1.0, []
    for key in order:
        lowest = min(lowest, best[key].score)
        made.append(Scored(best[key].memory, lowest))
    return made


async def _one_engine(
    engine: Engine, query: str, sight: Sight, limit: int, how: SearchType, kind: MemoryType | None
) -> list[Scored]:
    """Search by one engine, wider until *limit* memories are visible or there are no more."""
    wanted = limit + LEAST
    where = where_of(sight.user_id, kind)
    if sight.agent_id is not None:  # chosen before ranking: of equal texts of two agents a recall gives one
        if sight.with_shared:
            allowed = frozenset(one.memory_id for one in await memories_of(engine, sight, kind))
        else:
            allowed = await ids_of_agent(engine, sight.user_id, sight.agent_id)
        where = dataclasses.replace(where, rest=dataclasses.replace(where.rest, memory_ids=allowed))
    while True:
        found = await engine.recall(query, where, wanted, mode=_MODES[how])
        hits = [Scored(one.memory, one.confidence) for one in found.matches if sight.shows(one.memory)]
        if how is SearchType.FULLTEXT:
            whole = {one.memory.memory_id for one in match_words(query, [hit.memory for hit in hits]) if one.has_all}
            hits = [hit for hit in hits if hit.memory.memory_id in whole]
        if len(hits) >= limit or len(found.matches) < wanted:
            return hits
        wanted *= WIDEN


def _result(hit: Scored) -> Json:
    memory = hit.memory
    return {
        "memory_id": id_out(memory.memory_id),
        "content": memory.text,
        "score": round(hit.score, 4),
        "relevance_score": round(hit.score, 4),
        "memory_type": memory.type,
        "created_at": instant_out(memory.created_at),
        "user_id": memory.owners["user_id"],
        "metadata": dict(memory.metadata),
    } | {name: value for name, value in memory.owners.items() if name != "user_id"}
