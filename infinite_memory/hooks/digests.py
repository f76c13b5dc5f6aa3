"""Stores a digest of each captured session as a memory: made at its end, remade if the session continues, removed with what it quotes.

A digest has the type ``digest``, so `prune` keeps it when the turns it was made from are old; from then on it is the session's record, and
later turns of the session get their own digest. Its id is derived from the session and its text: making it again changes nothing, and a
forgotten one stays forgotten. It quotes: if a quoted turn is changed or forgotten, and not merely pruned, the engine removes the digest
in the same request (`engine.quotations`), and it is remade from the remaining turns. `check` finds changes made in other ways, such as a
restored backup.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from infinite_memory.config import Config
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.quotations import DIGEST, KEY, get_sources, to_content
from infinite_memory.engine.types import ForgetMode, ForgetTarget, MemoryPage, NewMemory, ScopedFilter
from infinite_memory.errors import AlreadyExistsError, MemoryNotFoundError, ScopeNotFoundError, without_surrogates
from infinite_memory.hooks.digest import Said, make_digest
from infinite_memory.hooks.digest_writing import choose_shown, write_digest
from infinite_memory.hooks.ledger import Ledger
from infinite_memory.hooks.projects import Project
from infinite_memory.llm.base import ChatModel
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope

MAX_TURNS = 2000  # of a session are read, the last ones
PAGE = 50  # digests read at a time, with their sources
CHECK_ALL_S = 6 * 3600.0  # how often all digests of a project are checked; at other starts only the newest page
QUIET_S = 600.0  # a session whose transcript has not grown for this long has ended, with or without an event


class Digests:
    """Makes and checks the digests of a project. Not reentrant: the caller serialises calls."""

    def __init__(
        self, engine: Engine, project: Project, ledger: Ledger, source: str, purged_before: dt.datetime | None
    ) -> None:
        """*purged_before* is as in `find_unsound`."""
        self._engine, self._project, self._ledger, self._source = engine, project, ledger, source
        self._purged_before = purged_before

    async def refresh(self, session_id: str, removed: Sequence[MemoryRecord] = ()) -> bool:
        """Make the digest of a session unless it has a current one; True if one was stored.

        Args:
            removed: Its digests that were removed because of what they quoted, and not at the user's request.

        Raises:
            InfiniteMemoryError: the digest could not be stored, or the old one not removed.
            OSError: the ledger cannot be read or written.
        """
        scope = await self._engine.scopes.find(self._project.scope)
        if scope is None:
            return False
        conversation = without_surrogates(session_id)
        existing = await self._list_digests(conversation)
        turns = [memory for memory in await self._list(Filter(conversation_id=conversation)) if memory.type != DIGEST]
        unsound = await find_unsound(self._engine, existing, self._purged_before)
        intact = [old for old in existing if old not in unsound and turns and _begin(old) < turns[0].occurred_at]
        replaced = [old for old in existing if old not in intact]
        covered = max((_end(old) for old in intact), default=None)
        turns = [turn for turn in turns if covered is None or turn.occurred_at > covered]
        utterances = [Said(turn.memory_id, turn.speaker, turn.text, turn.occurred_at) for turn in turns]
        digest = await asyncio.to_thread(make_digest, utterances)
        if digest is None:
            await self._remove(unsound)
            return False
        last = turns[-1].occurred_at
        standing = [old for old in replaced if old not in unsound]
        same = next(
            (old for old in standing if old.text == digest.text or (_is_written(old) and _end(old) == last)), None
        )
        if same is not None:
            await self._remove([old for old in replaced if old is not same])
            return False
        is_new = await self._store(session_id, scope, [*replaced, *removed], NewMemory(
            text=digest.text, scope=scope.name, source=self._source, tags=(DIGEST,), type=DIGEST, conversation_id=conversation,
            occurred_at=turns[-1].occurred_at,
            metadata={"from": turns[0].occurred_at.isoformat(), "to": turns[-1].occurred_at.isoformat(), "sources": list(digest.sources)},
        ))  # fmt: skip
        await self._remove(replaced if is_new else unsound)
        return is_new

    async def rewrite(self, session_id: str, model: ChatModel) -> bool:
        """Replace the extractive digest of a session with one written by *model*; True if it was replaced.

        Raises:
            ModelError: the model does not answer; the digest stays as it is.
            InfiniteMemoryError, OSError: as in `refresh`.
        """
        conversation = without_surrogates(session_id)
        scope = await self._engine.scopes.find(self._project.scope)
        existing = await self._list_digests(conversation)
        if scope is None or not existing or _is_written(existing[-1]):
            return False
        old = existing[-1]
        turns = [memory for memory in await self._list(Filter(conversation_id=conversation)) if memory.type != DIGEST]
        quoted = choose_shown([turn for turn in turns if _begin(old) <= turn.occurred_at <= _end(old)])
        if not quoted:
            return False  # they were pruned
        text = await write_digest(model, quoted)
        metadata = dict(old.metadata) | {"written_by": model.name, "sources": [turn.memory_id for turn in quoted]}
        new = NewMemory(
            text=text, scope=scope.name, source=self._source, tags=(DIGEST,), type=DIGEST, conversation_id=conversation,
            occurred_at=old.occurred_at, metadata=metadata,
        )  # fmt: skip
        is_new = await self._store(session_id, scope, [old], new)
        await self._remove([old] if is_new else [])
        return is_new

    async def check(self, *, all_of_them: bool = True, remakes: bool = True) -> None:
        """Remake the digests of the project that quote forgotten or changed memories. Errors as in `refresh`.

        An old digest is removed after its replacement is stored, so the next check finishes an interrupted one.

        Args:
            all_of_them: Check every digest, not only the newest `PAGE`.
            remakes: Make new digests; otherwise unsound ones are only removed.
        """
        sessions: dict[str, None] = {}
        cursor: str | None = None
        while True:
            page = await self._page(Filter(type=DIGEST), PAGE, cursor)
            if page is None:
                break
            digests = await self._engine.memories.keep_digests(page.memories)
            unsound = await find_unsound(self._engine, digests, self._purged_before)
            await self._remove([digest for digest in unsound if not (remakes and digest.conversation_id)])
            sessions |= dict.fromkeys(
                digest.conversation_id for digest in unsound if remakes and digest.conversation_id
            )
            cursor = page.next_cursor
            if cursor is None or not all_of_them:
                break
        for session_id in sessions:
            await self.refresh(session_id)

    async def _store(self, session_id: str, scope: Scope, replaced: Sequence[MemoryRecord], new: NewMemory) -> bool:
        """Store a digest, unless the same text was stored before and is gone without being *replaced* now: then it was forgotten.

        The session may return to an earlier text, so the id also depends on the digests that are replaced.
        """
        key = self._key(session_id, replaced)
        plain = await self._engine.memories.make_ids(to_content(self._key(session_id, ()), new.text))
        ids = await self._engine.memories.make_ids(to_content(key, new.text))
        new = dataclasses.replace(new, metadata=dict(new.metadata) | {KEY: key})
        [noted] = await asyncio.to_thread(self._ledger.noted, [ids])
        if noted or await self._engine.memories.find_taken(scope, ids):
            return False
        await asyncio.to_thread(self._ledger.make_room, 2)
        with contextlib.suppress(AlreadyExistsError):
            stored = await self._engine.memories.store(dataclasses.replace(new, memory_id=ids[0]))
            if await find_unsound(self._engine, [stored.memory], self._purged_before):
                await self._remove([stored.memory])  # a quoted turn was forgotten in the meantime
                return False
        await asyncio.to_thread(self._ledger.note, [ids[0], plain[0]] if replaced else [ids[0]])
        return True

    def _key(self, session_id: str, replaced: Iterable[MemoryRecord]) -> str:
        parts = [str(self._project.root), session_id, *sorted(digest.memory_id for digest in replaced)]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    async def _list_digests(self, conversation: str) -> list[MemoryRecord]:
        """Return the digests of a session, oldest first."""
        listed = await self._list(Filter(conversation_id=conversation, type=DIGEST))
        return await self._engine.memories.keep_digests(listed)

    async def _remove(self, digests: Iterable[MemoryRecord]) -> None:
        for digest in digests:
            with contextlib.suppress(MemoryNotFoundError):
                await self._engine.forget.matching(ForgetTarget(memory_id=digest.memory_id), ForgetMode.HARD)

    async def _list(self, where: Filter) -> list[MemoryRecord]:
        """Return the last `MAX_TURNS` memories of the project, oldest first."""
        page = await self._page(where, MAX_TURNS)
        return [] if page is None else list(reversed(page.memories))

    async def _page(self, where: Filter, limit: int, cursor: str | None = None) -> MemoryPage | None:
        """Return a page of the project's memories, newest first; None if its scope does not exist."""
        try:
            return await self._engine.memories.list_page(ScopedFilter((self._project.scope,), where), limit, cursor)
        except ScopeNotFoundError:
            return None


async def find_unsound(
    engine: Engine, digests: Sequence[MemoryRecord], purged_before: dt.datetime | None
) -> list[MemoryRecord]:
    """Return the digests that quote a memory that was changed since or is gone, unless `prune` hid it.

    Args:
        purged_before: Memories older than this may have been pruned and then purged (`retention.purge_pruned_days`); None: none were.
    """
    return _unsound(digests, await _find_quoted(engine, digests), purged_before)


async def _find_quoted(engine: Engine, digests: Sequence[MemoryRecord]) -> Mapping[MemoryId, MemoryRecord]:
    """Return the memories that digests quote, live or soft-forgotten; missing ones are left out."""
    quoted = {source for digest in digests for source in get_sources(digest)}
    return await engine.memories.find(sorted(quoted), deleted=None) if quoted else {}


def _unsound(
    digests: Sequence[MemoryRecord], memories: Mapping[MemoryId, MemoryRecord], purged_before: dt.datetime | None
) -> list[MemoryRecord]:
    """Return the result of `find_unsound`, given that of `_find_quoted` as *memories*."""
    sound = {memory_id for memory_id, memory in memories.items() if memory.deleted_at is None or memory.is_pruned}
    hidden = memories.keys() - sound
    changed_at = {
        memory_id: memories[memory_id].updated_at for memory_id in sound if memories[memory_id].deleted_at is None
    }
    return [
        digest
        for digest in digests
        if not hidden.isdisjoint(get_sources(digest))
        or any(changed_at.get(source, digest.created_at) > digest.created_at for source in get_sources(digest))
        or not (sound.issuperset(get_sources(digest)) or (purged_before is not None and _end(digest) < purged_before))
    ]


async def find_in_place_of_turns(
    engine: Engine, digests: Sequence[MemoryRecord], purged_before: dt.datetime | None
) -> list[MemoryRecord]:
    """Return the sound digests whose turns are all gone; otherwise the turns are found themselves."""
    quoted = await _find_quoted(engine, digests)
    live = {memory_id for memory_id, memory in quoted.items() if memory.deleted_at is None}
    unsound = _unsound(digests, quoted, purged_before)
    return [digest for digest in digests if digest not in unsound and live.isdisjoint(get_sources(digest))]


def purged_before(config: Config) -> dt.datetime | None:
    """Return the instant before which pruned memories may have been purged; None if they never are."""
    days = config.retention.purge_pruned_days
    return None if days is None else dt.datetime.now(dt.UTC) - dt.timedelta(days=days)


def is_quiet(file: Path) -> bool:
    """True if a transcript has not grown for `QUIET_S`, or is gone."""
    try:
        return time.time() - file.stat().st_mtime > QUIET_S
    except (OSError, ValueError):
        return True


def _is_written(digest: MemoryRecord) -> bool:
    """True if a model wrote a digest."""
    return "written_by" in digest.metadata


def _begin(digest: MemoryRecord) -> dt.datetime:
    return _instant(digest, "from")


def _end(digest: MemoryRecord) -> dt.datetime:
    return _instant(digest, "to")


def _instant(digest: MemoryRecord, name: str) -> dt.datetime:
    """Return an instant of the digest's metadata; the digest's own timestamp if the metadata is invalid."""
    try:
        instant = dt.datetime.fromisoformat(str(digest.metadata.get(name)))
    except ValueError:
        return digest.occurred_at
    return instant if instant.tzinfo else digest.occurred_at
