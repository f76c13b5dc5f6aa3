"""Forgetting: what goes, how far, and how it comes back.

Soft forgetting hides at once everywhere and is undone by `restore`. Hard forgetting removes text, vectors, revisions and links,
also of what was hidden before. A target that names a scope alone is the scope itself: archived softly, dropped hard; `Global` is
only emptied.
"""

from __future__ import annotations

import enum
import itertools

from infinite_memory.engine.parts import Forgotten, Parts, Target, Where
from infinite_memory.engine.recall import Recalling
from infinite_memory.engine.scopes import check_name, is_global
from infinite_memory.errors import MemoryNotFoundError
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope, floor_to_millisecond, tag_key
from infinite_memory.sidecar.base import Sidecar
from infinite_memory.store.base import Located

PAGE = 1000  # ids taken from a listing at a time
IDS_TOLD = 1000  # a scope of a million is not answered with a million ids, nor read to be counted


class ForgetMode(enum.Enum):
    """How far forgetting goes."""

    SOFT = "soft"
    HARD = "hard"


class Forgetting(Recalling):
    """The engine's methods that hide, remove and bring back."""

    parts: Parts

    async def forget(self, target: Target, mode: ForgetMode, *, dry_run: bool = False) -> Forgotten:
        """Forget what *target* names; with *dry_run* only say what would go, with the texts of the first `IDS_TOLD`.

        Raises:
            ScopeNotFoundError: the target's scope does not exist.
            InvalidRequestError: the target's scope is a reserved word.
            EmbeddingError: the target has a query and the model cannot be used.
        """
        sidecar = await self.parts.index.sidecar()
        if target.scope is not None:
            check_name(target.scope, "target.scope")
        scope = await self.parts.scopes.get(target.scope) if target.scope is not None else None
        whole_scope = scope if (target.memory_id, target.tag, target.query) == (None, None, None) else None
        if whole_scope is not None and whole_scope.archived_at is not None and mode is ForgetMode.SOFT:
            return Forgotten((), note="the scope is archived already; nothing was changed")
        located = await self._located(sidecar, target, scope, mode)
        texts: dict[MemoryId, str] = {}
        if target.query is not None or dry_run:
            texts, located = await self._texts(located)
        removes = whole_scope is not None and not is_global(whole_scope)
        if dry_run:
            return Forgotten(tuple(located), texts, whole_scope if removes else None, "nothing was changed (dry_run)")
        if removes and whole_scope is not None:
            await self._forget_scope(whole_scope, mode)
            return Forgotten(tuple(located), texts, whole_scope)
        gone = await self._forget_memories(located, mode)
        return Forgotten(tuple(gone), texts, None, None if gone else "nothing matches the target; nothing was changed")

    async def forget_one(self, memory_id: MemoryId, scope: str) -> None:
        """Hide one memory of a scope; one that is hidden already stays so.

        Raises:
            MemoryNotFoundError: the scope has none of that id, live or hidden.
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        sidecar = await self.parts.index.sidecar()
        [place] = await self.parts.scopes.get_visible([scope], lenient=False)
        located = dict(sidecar.locate([memory_id])) or await self.parts.store.locate([memory_id])
        if located.get(memory_id) != place.scope_id:
            raise MemoryNotFoundError(memory_id)
        await self._forget_memories(located, ForgetMode.SOFT)

    async def restore(self, memory_id: MemoryId) -> MemoryRecord:
        """Bring back a softly forgotten memory; one that is live is given as it is.

        Raises:
            MemoryNotFoundError: it never was, or was removed for good.
        """
        await self.parts.index.sidecar()
        located = await self.parts.store.locate([memory_id])
        await self.parts.store.undelete(located)
        found = await self.parts.store.fetch(located, vectors=True)
        if memory_id not in found:
            raise MemoryNotFoundError(memory_id)
        await self.parts.index.wrote([found[memory_id]])
        return found[memory_id]

    async def restore_scope(self, name: str) -> tuple[Scope, int]:
        """Take an archived scope out again, with all that was in it; of one that is not archived (Global never is), bring back
        what was softly forgotten in it.

        Returns:
            The scope, and how many memories are seen again by it.

        Raises:
            ScopeNotFoundError: there is none of that name.
        """
        sidecar = await self.parts.index.sidecar()
        scope = await self.parts.scopes.get(name)
        if scope.archived_at is not None:
            scope = await self.parts.store.set_scope_archived(scope.scope_id, None)
            await self.parts.scopes.refresh()
            self.parts.index.scopes_changed()
            return scope, sidecar.count(Filter(scope_ids=frozenset({scope.scope_id})))
        hidden = list((await self.parts.store.deleted_ids({scope.scope_id}, None)).items())
        count = 0
        for at in range(0, len(hidden), PAGE):
            back = await self.parts.store.undelete(dict(hidden[at : at + PAGE]))
            found = await self.parts.store.fetch(dict.fromkeys(back, scope.scope_id), vectors=True)
            await self.parts.index.wrote(list(found.values()))
            count += len(found)
        return scope, count

    async def purge(self, located: Located) -> list[MemoryId]:
        """Remove memories for good, wherever they stand."""
        return await self._forget_memories(located, ForgetMode.HARD)

    async def _texts(self, located: Located) -> tuple[dict[MemoryId, str], Located]:
        """Read the texts of the first `IDS_TOLD` memories; those of them that are gone meanwhile are left out of *located*."""
        told = dict(itertools.islice(located.items(), IDS_TOLD))
        found = await self.parts.store.fetch(told, deleted=None)
        there = {one: scope_id for one, scope_id in located.items() if one in found or one not in told}
        return {one: memory.text for one, memory in found.items()}, there

    async def _own(self, located: Located) -> Located:
        """Leave out what whoever asks must not see, before any of it is read; here that is nothing."""
        return located

    async def _located(self, sidecar: Sidecar, target: Target, scope: Scope | None, mode: ForgetMode) -> Located:
        """Find the memories that every given part of *target* names; hard forgetting also takes hidden ones."""
        if target.query is not None:
            return await self._nearest(sidecar, target, scope)
        if target.memory_id is not None:
            return await self._one(sidecar, target, scope, mode)
        scope_ids = frozenset({scope.scope_id}) if scope else None
        keys = frozenset({tag_key(target.tag)}) if target.tag is not None else frozenset()
        every = frozenset(one.scope_id for one in self.parts.scopes.all()) if mode is ForgetMode.HARD else None
        live = _list_all(sidecar, Filter(scope_ids=scope_ids or every, tag_keys=keys))  # hard: in archived scopes too
        located = await self._own(sidecar.locate(live))
        if mode is ForgetMode.HARD:
            hidden = await self._own(await self.parts.store.deleted_ids(scope_ids, None))
            if keys and hidden:
                memories = await self.parts.store.fetch(hidden, deleted=True)
                hidden = {one: hidden[one] for one, memory in memories.items() if keys <= memory.tag_keys}
            located = {**located, **hidden}
        return located

    async def _one(self, sidecar: Sidecar, target: Target, scope: Scope | None, mode: ForgetMode) -> Located:
        assert target.memory_id is not None
        located: Located = dict(sidecar.locate([target.memory_id]))
        if mode is ForgetMode.HARD:
            located = located or await self.parts.store.locate([target.memory_id])
        elif located.get(target.memory_id) in self.parts.scopes.archived_ids():
            return {}  # hidden already
        if scope is not None and set(located.values()) - {scope.scope_id}:
            return {}
        if target.tag is not None:
            found = await self.parts.store.fetch(located, deleted=None)
            if any(tag_key(target.tag) not in memory.tag_keys for memory in found.values()):
                return {}
        return located

    async def _nearest(self, sidecar: Sidecar, target: Target, scope: Scope | None) -> Located:
        assert target.query is not None
        rest = Filter(
            tag_keys=frozenset({tag_key(target.tag)}) if target.tag is not None else frozenset(),
            memory_ids=frozenset({target.memory_id}) if target.memory_id is not None else None,
        )
        where = Where((scope.name,) if scope else None, rest)
        near = await self.nearest(target.query, where, target.limit, min_confidence=target.min_confidence)
        return sidecar.locate([match.memory.memory_id for match in near])

    async def _forget_memories(self, located: Located, mode: ForgetMode) -> list[MemoryId]:
        if not located:
            return []
        async with self.parts.index.removing(located):
            if mode is ForgetMode.SOFT:
                gone = await self.parts.store.soft_delete(located, floor_to_millisecond(self.parts.clock()))
            else:
                gone = await self.parts.store.remove(located)
        if mode is ForgetMode.HARD:
            self.parts.index.save_soon()
        return gone

    async def _forget_scope(self, scope: Scope, mode: ForgetMode) -> None:
        if mode is ForgetMode.HARD:
            await self.parts.store.drop_scope(scope.scope_id)
            self.parts.index.scope_removed(scope.scope_id)
        else:
            await self.parts.store.set_scope_archived(scope.scope_id, floor_to_millisecond(self.parts.clock()))
        await self.parts.scopes.refresh()
        self.parts.index.scopes_changed()
        if mode is ForgetMode.HARD:
            self.parts.index.save_soon()


def _list_all(sidecar: Sidecar, where: Filter) -> list[MemoryId]:
    listed: list[MemoryId] = []
    cursor: str | None = None
    while True:
        page = sidecar.list_page(where, PAGE, cursor, newest_first=True)
        listed += page.memory_ids
        cursor = page.next_cursor
        if cursor is None:
            return listed
