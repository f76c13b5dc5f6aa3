"""Removes forgotten or edited text from the summaries that quote it verbatim.

A summary (`jobs.consolidation`) contains the most central turns of a conversation verbatim, each on its own lines. If one of them is
forgotten or edited, its lines are removed from the summary in the same request, and nothing else: the summary may be all that is left of
the other turns. A summary written by a model paraphrases, so it is removed whole, as the turn is: hidden, or permanently removed.

Only summaries that list the turn in their ``sources`` are changed, so that forgetting one's own memory cannot change invisible ones:
ids cannot be chosen. A summary without sources (of an older version, or by a model about a very long conversation) is changed if it
is visible and in the turn's scope.

Why a summary is identified by its id: any client can write source, tag and metadata, and a memory that looks like a summary would lose
text and history with a turn that it lists. The id is derived from its metadata (`id_keys.SUMMARY_OF`), and no other memory can have such
an id. Older summaries lack that; their id starts with the end of the conversation, long before they were created.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Sequence
from functools import partial

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.errors import MemoryChangedError
from infinite_memory.index.base import call
from infinite_memory.index.listing import batches, list_ids
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, ScopeId, content_hash, floor_to_millisecond
from infinite_memory.store.base import Located, Store
from infinite_memory.store.id_keys import SOURCES, SUMMARY_OF, is_summary_of
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.text.offload import run_at_once_or_in_thread

SUMMARY = "summary"
"""The source and tag of a summary."""

WRITTEN_BY = "written_by"
"""Metadata key of the model that wrote a summary; extractive ones lack it."""

MAX_SOURCES = 200  # a summary by a model lists all turns it read, up to this many

QUIET = dt.timedelta(days=30)
"""A conversation without turns for this long is old, and gets a summary."""

BATCH = 100  # memories read at a time: each may be a megabyte
TRIES = 20  # attempts to change a summary that others are editing


class SummaryQuotes:
    """Removes forgotten text from summaries."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, clock: Clock) -> None:
        self._access, self._store, self._index, self._scopes, self._clock = access, store, index, scopes, clock

    async def cut(self, summaries: Iterable[MemoryRecord], located: Located, *, hard: bool) -> None:
        """Remove the texts of *located* from those *summaries*, live or soft-forgotten, that list them, and from their earlier versions.

        An empty summary is hidden, or with *hard* permanently removed.

        Raises:
            StoreError: a summary could not be read or written; the caller must not change anything then.
        """
        for summary in summaries:
            if is_summary(summary):
                turns = await self._fetch(
                    {source: located[source] for source in get_sources(summary) if source in located}
                )
                await self._cut(summary, turns, hard=hard)

    async def cut_unnamed(self, located: Located, *, hard: bool) -> None:
        """Remove the texts of *located* from summaries without sources of their conversations, in their scopes; as in `cut`."""
        every = frozenset(scope.scope_id for scope in self._scopes.all())
        where = Filter(scope_ids=every, tag_keys=frozenset({SUMMARY}))
        sidecar = await self._index.sidecar()
        if not await call(sidecar, lambda: sidecar.count(where)):
            return
        for batch in batches(located, BATCH):
            by_place: dict[tuple[ScopeId, str], list[MemoryRecord]] = {}
            for turn in await self._fetch({memory_id: located[memory_id] for memory_id in batch}):
                if turn.conversation_id:
                    by_place.setdefault((turn.scope_id, turn.conversation_id), []).append(turn)
            for (scope_id, conversation), turns in by_place.items():
                filter_ = dataclasses.replace(where, scope_ids=frozenset({scope_id}), conversation_id=conversation)
                for ids in batches(await call(sidecar, partial(list_ids, sidecar, filter_)), BATCH):
                    summaries = await self._store.fetch(await call(sidecar, partial(sidecar.locate, ids)))
                    for summary in summaries.values():
                        is_asked = summary.memory_id not in located and SOURCES not in summary.metadata
                        if is_asked and is_summary(summary) and self._access.allows(summary):
                            of_them = [turn for turn in turns if summary.owners in ({}, turn.owners)]
                            await self._cut(summary, of_them, hard=hard)

    async def _fetch(self, located: Located) -> list[MemoryRecord]:
        turns = await self._store.fetch(located, deleted=None)
        return [turn for turn in turns.values() if not is_summary(turn)]

    async def _cut(self, memory: MemoryRecord, turns: Sequence[MemoryRecord], *, hard: bool) -> None:
        summary: MemoryRecord | None = memory
        for _ in range(TRIES if turns else 0):
            if summary is None or not is_summary(summary):
                return
            try:
                await self._cut_one(summary, turns, hard=hard)
                return
            except MemoryChangedError:  # edited just now
                located = {memory.memory_id: memory.scope_id}
                summary = (await self._store.fetch(located, deleted=None)).get(memory.memory_id)

    async def _cut_one(self, summary: MemoryRecord, turns: Sequence[MemoryRecord], *, hard: bool) -> None:
        texts = [turn.text for turn in turns]
        text = await run_at_once_or_in_thread([summary.text, *texts], partial(without_turns, summary.text, texts))
        is_told = WRITTEN_BY in summary.metadata and any(turn.occurred_at <= summary.occurred_at for turn in turns)
        if is_told or not text:
            await self._take_away(summary, hard=hard)
        elif text != summary.text:
            now = floor_to_millisecond(self._clock())
            hashed = await run_at_once_or_in_thread([text], partial(content_hash, text))
            changed = dataclasses.replace(summary, text=text, content_hash=hashed, embedding=None, updated_at=now)
            await self._remove_versions(summary.memory_id, texts)
            stored = await self._store.replace(changed, keep_revision=False)
            if stored.deleted_at is None:
                await self._index.on_written([stored])

    async def _remove_versions(self, memory_id: MemoryId, turns: Sequence[str]) -> None:
        """Remove earlier versions that contain one of *turns*."""
        before: int | None = None
        while (page := await self._store.get_revisions(memory_id, before)).revisions:
            saying = [
                version.revision
                for version in page.revisions
                if await run_at_once_or_in_thread([version.text, *turns], partial(_says, version.text, turns))
            ]
            await self._store.remove_versions(memory_id, saying)
            before = page.revisions[0].revision
            if not page.older:
                return

    async def _take_away(self, summary: MemoryRecord, *, hard: bool) -> None:
        located = {summary.memory_id: summary.scope_id}
        if hard:
            async with self._index.removing(located):
                await self._store.remove(located)
            self._index.save_soon()
        elif summary.deleted_at is None:
            async with self._index.removing(located):
                await self._store.soft_delete(located, floor_to_millisecond(self._clock()))


def is_summary(memory: MemoryRecord) -> bool:
    """True if a memory was created by `jobs.consolidation`, whatever its current text."""
    if SUMMARY_OF in memory.metadata or SOURCES in memory.metadata:
        return is_summary_of(memory.memory_id, memory.metadata.get(SUMMARY_OF))
    ended_at = memory.occurred_at
    return (
        memory.source == SUMMARY
        and int(memory.memory_id[:8], 16) == int(ended_at.timestamp()) & 0xFFFFFFFF
        and memory.created_at - ended_at >= QUIET
    )


def _says(text: str, turns: Iterable[str]) -> bool:
    return without_turns(text, turns) != text


def get_sources(quoting: MemoryRecord) -> tuple[MemoryId, ...]:
    """Return the ids of the memories that a digest or summary quotes; empty if it lists none."""
    named = quoting.metadata.get(SOURCES)
    return (
        tuple(MemoryId(source) for source in named if isinstance(source, str))
        if isinstance(named, list | tuple)
        else ()
    )


def without_turns(text: str, turns: Iterable[str]) -> str:
    """Return *text* without the lines that are one of *turns*, each of which may be several lines.

    Each line gets its own start and end marker, so that a single pass per turn removes every occurrence, even two in a row, in time
    linear in the lengths of text and turn.
    """
    framed = _framed(text)
    for turn in turns:
        if turn.strip("\n"):
            framed = framed.replace(_framed(turn), "")
    return framed[1:-1].replace("\n\n", "\n")


def _framed(text: str) -> str:
    return "\n" + text.replace("\n", "\n\n") + "\n"
