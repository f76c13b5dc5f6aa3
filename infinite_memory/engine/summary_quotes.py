"""Takes what is forgotten or edited out of the summaries that say it word for word.

A summary (`jobs.consolidation`) holds the most central turns of a conversation as they were said, a turn on lines of its own. Where one
of them is forgotten or edited, its lines go from the summary in the same request, and nothing else of it: the other turns may be gone
but for the summary. One that a model wrote says things in its own words, so it goes whole, as the turn does: hidden, or removed for good.

Only what names the turn among its ``sources`` is touched, so that nobody who forgets a memory of their own changes what they do not see:
ids cannot be chosen. A summary that names none (of an older version, or of a very long conversation that a model wrote of) is touched
where it stands in the scope of the turn and is seen.

Why a summary is known by its id: source, tag and metadata can be written by any client, and what looks like a summary would lose text
and history with a turn that it names. The id is made of what is in its metadata (`id_keys.SUMMARY_OF`), and nobody makes one of another
memory. Those of older versions, which lack that, have an id that begins with the end of the conversation, long before they were made.
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
"""In the metadata of a summary: the model that wrote it; those of its own turns lack it."""

MAX_SOURCES = 200  # a summary of a model names all that it read, if those are no more

QUIET = dt.timedelta(days=30)
"""A conversation is old, and gets a summary, when nothing was said in it for so long."""

BATCH = 100  # memories read at a time: each may be a megabyte
TRIES = 20  # of a summary that others edit at the same moment


class SummaryQuotes:
    """Keeps summaries from saying what was forgotten."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, clock: Clock) -> None:
        self._access, self._store, self._index, self._scopes, self._clock = access, store, index, scopes, clock

    async def cut(self, summaries: Iterable[MemoryRecord], located: Located, *, hard: bool) -> None:
        """Take the texts of *located* out of *summaries*, live or hidden, that name them, and out of their earlier versions.

        One of which nothing is left is hidden, or with *hard* removed for good.

        Raises:
            StoreError: they could not be read or written; then nothing else must be either.
        """
        for summary in summaries:
            if is_summary(summary):
                turns = await self._fetch(
                    {source: located[source] for source in get_sources(summary) if source in located}
                )
                await self._cut(summary, turns, hard=hard)

    async def cut_unnamed(self, located: Located, *, hard: bool) -> None:
        """Take the texts of *located* out of those summaries of their conversations, in their scopes, that name no turns; as in `cut`."""
        every = frozenset(scope.scope_id for scope in self._scopes.all())
        where = Filter(scope_ids=every, tag_keys=frozenset({SUMMARY}))
        sidecar = await self._index.sidecar()
        if not await call(sidecar, lambda: sidecar.count(where)):
            return
        for batch in batches(located, BATCH):
            by_place: dict[tuple[ScopeId, str], list[MemoryRecord]] = {}
            for turn in await self._fetch({one: located[one] for one in batch}):
                if turn.conversation_id:
                    by_place.setdefault((turn.scope_id, turn.conversation_id), []).append(turn)
            for (scope_id, conversation), turns in by_place.items():
                narrow = dataclasses.replace(where, scope_ids=frozenset({scope_id}), conversation_id=conversation)
                for ids in batches(await call(sidecar, partial(list_ids, sidecar, narrow)), BATCH):
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
            except MemoryChangedError:  # somebody edits it at this moment
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
            stored = await self._store.replace(changed, revise=False)
            if stored.deleted_at is None:
                await self._index.on_written([stored])

    async def _remove_versions(self, memory_id: MemoryId, turns: Sequence[str]) -> None:
        """Remove those earlier versions that say one of *turns*."""
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
    """True if `jobs.consolidation` made a memory, whatever it says by now."""
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
    """Return the memories that a digest or a summary quotes; none of a memory that names none."""
    named = quoting.metadata.get(SOURCES)
    return tuple(MemoryId(one) for one in named if isinstance(one, str)) if isinstance(named, list | tuple) else ()


def without_turns(text: str, turns: Iterable[str]) -> str:
    """Return *text* without the lines that are one of *turns*, each of which may be several lines.

    A line begins and ends with a mark of its own here, so that one pass over the text takes out all that is said in a turn, twice in a
    row too; it takes as long as the text and the turn together are long.
    """
    framed = _framed(text)
    for turn in turns:
        if turn.strip("\n"):
            framed = framed.replace(_framed(turn), "")
    return framed[1:-1].replace("\n\n", "\n")


def _framed(text: str) -> str:
    return "\n" + text.replace("\n", "\n\n") + "\n"
