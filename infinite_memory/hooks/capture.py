"""Stores the turns of a session, each once, reading its transcript from the last offset.

A memory's id is a keyed hash of scope, speaker, timestamp and text: reading a turn again, after a crash, from a rewritten transcript
or from the copy in a resumed session, finds the existing memory, even if the user has forgotten it since. A hard-forgotten one is
found in the project's ledger (`ledger`). A fork gives some of its copies a new timestamp; those carry a mark. Turns copied from a
session that was read are skipped. Copies from another session, or one whose record is gone, are compared by speaker and text with
the ledger (everything ever stored) and with the stored memories.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from infinite_memory.contracts.native.serializers import cut_text
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import NewMemory
from infinite_memory.errors import AlreadyExistsError, InfiniteMemoryError, InvalidRequestError, without_surrogates
from infinite_memory.hooks.control import Control
from infinite_memory.hooks.files import Json
from infinite_memory.hooks.ledger import Ledger
from infinite_memory.hooks.masking import mask
from infinite_memory.hooks.projects import Project
from infinite_memory.hooks.sessions import Reading, Sessions, head_of, size_of
from infinite_memory.hooks.transcript import ASSISTANT, USER, Chunk, Turn, read_chunk, read_saying
from infinite_memory.models import Scope, content_hash

log = logging.getLogger(__name__)

REMEMBER = "remember"
"""The tag and type of a ``#remember`` line; retention never prunes memories that have it (`jobs.consolidation`)."""

TURN = "turn"
"""The type of a captured turn."""

BATCH = 50
MAX_TURN_CHARS = 100_000  # longer ones are truncated, such as a pasted log
MAX_SECRET_CHARS = 10_000  # a secret that crosses the cut is masked as a whole first
REMEMBERED_IMPORTANCE = 8.0


class Capture:
    """Stores transcripts as memories. Not reentrant: the caller serialises calls."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def capture(
        self, engine: Engine, reading: Reading, project: Project, control: Control, *, stores: bool,
        until: float | None = None,
    ) -> None:  # fmt: skip
        """Store the new part of a transcript; if *stores* is false, only mark it as read. Turns after *until* are left for later.

        Raises:
            InfiniteMemoryError: a turn could not be stored; it is read again next time.
            OSError: the transcript cannot be read, or the home is not writable.
        """
        size = size_of(reading.transcript)
        if size is None:
            raise FileNotFoundError("the transcript is not there, or is no .jsonl file of this user's")
        path = Path(reading.transcript)
        head = await asyncio.to_thread(head_of, path)
        if size < reading.offset or (reading.head and head != reading.head):
            reading.offset, reading.is_skipping, reading.context = 0, False, {}
        reading.head = head
        while True:
            chunk = await asyncio.to_thread(
                lambda: read_chunk(
                    path, reading.offset, is_skipping=reading.is_skipping, until=until, context=reading.context
                )
            )
            if not stores:
                reading.withheld_until = max(reading.withheld_until, until or time.time())
            turns = [turn for turn in chunk.turns if stores and _is_allowed(turn, reading, control)]
            if turns:
                await self._store(engine, turns, reading, project)
            self._advance(reading, chunk)
            if chunk.is_last:
                return

    async def capture_said(
        self, engine: Engine, message: Json, reading: Reading, project: Project, control: Control, *, stores: bool
    ) -> None:
        """Store a turn that is in the event itself, for a client without usable transcripts; the offset counts such events.

        Raises:
            ValueError: the event is malformed.
            InfiniteMemoryError: the turn could not be stored; it is read again next time.
        """
        speaker, text, timestamp, key = (message.get(name) for name in ("speaker", "text", "at", "key"))
        if speaker not in (USER, ASSISTANT) or not isinstance(text, str) or not isinstance(timestamp, float):
            raise ValueError("the event does not tell who said what, and when")
        turns, skips = read_saying(str(speaker), text, timestamp, str(key or ""), is_skipping=reading.is_skipping)
        if stores and (allowed := [turn for turn in turns if _is_allowed(turn, reading, control)]):
            await self._store(engine, allowed, reading, project)
        reading.offset, reading.is_skipping = reading.offset + 1, skips
        self._sessions.save_reading(reading)

    def _advance(self, reading: Reading, chunk: Chunk) -> None:
        reading.offset, reading.is_skipping, reading.context = chunk.offset, chunk.is_skipping, chunk.context
        reading.unread += chunk.unread
        self._sessions.save_reading(reading)

    async def _store(self, engine: Engine, turns: Sequence[Turn], reading: Reading, project: Project) -> None:
        """Store the turns that are not stored yet; one that the engine refuses is counted and does not block the others."""
        scope = await engine.scopes.open(project.scope)
        parents = {turn.copied_from for turn in turns if turn.is_copy} - {reading.session_id}
        read = {parent for parent in parents if await asyncio.to_thread(self._sessions.has_read, parent)}
        copies = (
            await _list_said(engine, scope, reading)
            if any(turn.is_copy and turn.copied_from not in read for turn in turns)
            else frozenset()
        )
        ledger, new = self._sessions.ledger(project.root), [turn for turn in turns if turn.copied_from not in read]
        in_events = await _find_told(engine, ledger, [turn for turn in new if turn.is_copy], reading, project)
        for batch in _batches([turn for turn in new if turn.key not in in_events]):
            copied = {turn.key for turn in batch if turn.is_copy}
            drafts = {
                turn.key: draft
                for turn, draft in await asyncio.to_thread(_drafts, batch, reading, project)
                if not (turn.is_copy and (draft.speaker, content_hash(draft.text)) in copies)
            }
            notes = {key: await engine.memories.make_ids(f"hook-said/{project.root}/{key}") for key in drafts}
            texts = {key: await _make_text_ids(engine, drafts[key], project) for key in drafts if key not in copied}
            noted = dict(zip(notes, await asyncio.to_thread(ledger.noted, notes.values()), strict=True))
            fresh = {key: draft for key, draft in drafts.items() if not noted[key]}
            both = {key: [of[key][0] for of in (notes, texts) if key in of] for key in fresh}
            await asyncio.to_thread(ledger.make_room, sum(map(len, both.values())))
            stored, refused, failed = await _remember(engine, scope, fresh)
            await asyncio.to_thread(
                ledger.note, [ledger_id for key in fresh if key not in failed for ledger_id in both[key]]
            )
            reading.stored, reading.unread = reading.stored + stored, reading.unread + refused
            if failed:
                raise next(iter(failed.values()))


async def _find_told(
    engine: Engine, ledger: Ledger, copies: Sequence[Turn], reading: Reading, project: Project
) -> set[str]:
    """Return the keys of those *copies* whose texts were stored from the session that they were copied from.

    Checked before any of them is stored, and not recorded for copies: a user who says "yes" twice said it twice.
    """
    drafts = await asyncio.to_thread(_drafts, copies, reading, project)
    ids = {turn.key: await _make_text_ids(engine, draft, project) for turn, draft in drafts}
    noted = await asyncio.to_thread(ledger.noted, ids.values()) if ids else []
    return {key for key, is_noted in zip(ids, noted, strict=True) if is_noted}


async def _make_text_ids(engine: Engine, new_memory: NewMemory, project: Project) -> Sequence[str]:
    """Return the ledger's ids for speaker and text, independent of the timestamp."""
    utterance = f"{new_memory.speaker}\0{content_hash(new_memory.text)}"
    return await engine.memories.make_ids(f"hook-said-whenever/{project.root}/{utterance}")


async def _remember(
    engine: Engine, scope: Scope, keyed: dict[str, NewMemory]
) -> tuple[int, int, dict[str, InfiniteMemoryError]]:
    """Store memories under ids derived from their keys, unless an id is taken, even by a forgotten memory.

    Returns:
        The number stored, the number refused as invalid, and the failures by key, which may succeed on a retry.

    Raises:
        InfiniteMemoryError: the whole batch failed.
    """
    ids = {key: await engine.memories.make_ids(f"hook/{scope.scope_id}/{key}") for key in keyed}
    stored_ids = await engine.memories.find_taken(
        scope, [memory_id for several in ids.values() for memory_id in several]
    )
    new = {
        key: dataclasses.replace(draft, memory_id=ids[key][0])
        for key, draft in keyed.items()
        if not any(memory_id in stored_ids for memory_id in ids[key])
    }
    refused, failed = 0, dict[str, InfiniteMemoryError]()
    for key, result in zip(new, await engine.memories.store_each(list(new.values())) if new else (), strict=True):
        if isinstance(result, InvalidRequestError):
            refused += 1
            log.warning("a turn cannot be stored: %s", type(result).__name__, extra={"event": "turn_refused"})
        elif isinstance(result, InfiniteMemoryError) and not isinstance(result, AlreadyExistsError):
            failed[key] = result
    return len(new) - refused - len(failed), refused, failed


def _batches(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    for start in range(0, len(turns), BATCH):
        yield turns[start : start + BATCH]


def _drafts(turns: Sequence[Turn], reading: Reading, project: Project) -> list[tuple[Turn, NewMemory]]:
    """Return each turn with the memory to store for it; secrets are masked here."""
    return [(turn, _draft(turn, reading, project)) for turn in turns]


def _draft(turn: Turn, reading: Reading, project: Project) -> NewMemory:
    text, masked = mask(turn.text[: MAX_TURN_CHARS + MAX_SECRET_CHARS])
    text, masked = cut_text(text, MAX_TURN_CHARS), masked + turn.masked
    return NewMemory(
        text=text,
        scope=project.scope,
        source=reading.client,
        tags=(REMEMBER,) if turn.is_remembered else (),
        type=REMEMBER if turn.is_remembered else TURN,
        importance=REMEMBERED_IMPORTANCE if turn.is_remembered else None,
        speaker=turn.speaker,
        conversation_id=without_surrogates(reading.session_id),
        occurred_at=turn.at,
        metadata={"masked": masked} if masked else {},
    )


async def _list_said(engine: Engine, scope: Scope, fork: Reading) -> frozenset[tuple[str | None, str]]:
    """Return (speaker, content hash) of the memories in a scope, without the session *fork*; needed only for its copies."""
    own = without_surrogates(fork.session_id)
    return frozenset(
        [
            (memory.speaker, memory.content_hash)
            async for memory in engine.memories.stream(scope)
            if memory.conversation_id != own
        ]
    )


def _is_allowed(turn: Turn, reading: Reading, control: Control) -> bool:
    """True if capture was on at the time of a turn. One without a timestamp counts as said now, unless capture was ever off."""
    if turn.at is None:
        return not reading.withheld_until and not control.is_paused_at(time.time())
    said_at = turn.at.timestamp()
    return said_at > reading.withheld_until and not control.is_paused_at(said_at)
