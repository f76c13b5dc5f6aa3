"""Soft and hard forgetting of memories and scopes.

Soft forgetting hides memories everywhere at once and is undone by `Memories.restore`. Hard forgetting removes text, vectors, revisions
and links, also of memories hidden before. A target with only a scope means the scope itself: soft forgetting archives it, hard
forgetting drops it; `Global` is only emptied. Restricted callers forget memories only; scopes stay.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import re
from collections.abc import AsyncIterator, Mapping, Sequence

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.doubles import find_doubles
from infinite_memory.engine.forget_targets import TargetFinder, get_condition
from infinite_memory.engine.quotations import Quotations
from infinite_memory.engine.recall import Recall
from infinite_memory.engine.types import (
    MAX_REPORTED_IDS,
    ForgetMode,
    ForgetResult,
    ForgetTarget,
    MemoryPage,
    ScopedFilter,
)
from infinite_memory.errors import ChangedSinceAskedError, InfiniteMemoryError, InvalidRequestError, MemoryNotFoundError
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.listing import batches
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import MemoryId, MemoryRecord, Scope, ScopeId, floor_to_millisecond
from infinite_memory.store.base import Deletion, Located, Store
from infinite_memory.store.conditions import ANY, Condition
from infinite_memory.store.scope_cache import ScopeCache, check_name, is_global

UNCHANGED = "nothing was changed (dry_run)"


class Forget:
    """Hides or removes memories that a caller may see."""

    def __init__(
        self, *, access: Access, recall: Recall, store: Store, index: IndexSync, scopes: ScopeCache, clock: Clock,
        quotations: Quotations,
    ) -> None:  # fmt: skip
        self._access, self._quotations = access, quotations
        self._store, self._index, self._scopes, self._clock = store, index, scopes, clock
        self._targets = TargetFinder(access=access, recall=recall, store=store, scopes=scopes)

    async def matching(
        self, target: ForgetTarget, mode: ForgetMode, *, dry_run: bool = False, agreement: Agreement | None = None
    ) -> ForgetResult:
        """Forget the memories that match *target*; with *dry_run* only report them, with the texts of the first ones.

        For restricted callers a target with only a scope means all memories visible to them in it. With *agreement* nothing is forgotten
        that the user has not confirmed.

        Raises:
            ScopeNotFoundError: the target's scope does not exist.
            InvalidRequestError: the target's scope is a reserved word.
            ChangedSinceAskedError: other memories than *agreement* would be forgotten; nothing was changed.
            EmbeddingError: the target has a query and the model cannot be used.
        """
        if not self._access.sees_everything:
            return await self._matching_visible(target, mode, dry_run=dry_run, agreement=agreement)
        sidecar = await self._index.sidecar()
        if target.scope is not None:
            check_name(target.scope, "target.scope")
        scope = await self._scopes.get(target.scope) if target.scope is not None else None
        whole_scope = scope if (target.memory_id, target.tag, target.query) == (None, None, None) else None
        if whole_scope is not None and whole_scope.archived_at is not None and mode is ForgetMode.SOFT:
            return ForgetResult((), note="the scope is archived already; nothing was changed")
        removed = whole_scope if whole_scope is not None and not is_global(whole_scope) else None
        if agreement is not None:
            agreement.check_scopes(*([removed] if removed is not None else []))
        if removed is not None:
            return await self._forget_whole_scope(sidecar, removed, mode, dry_run=dry_run, agreement=agreement)
        condition, partial = get_condition(target), None if target.memory_id else self._access.behind_note
        if target.query is not None:
            located, condition, partial = await self._targets.find_nearest(sidecar, target, scope)
        else:
            located = await self._targets.find(sidecar, target, scope, mode)
        return await self._forget_selected(
            sidecar, target, mode, located, condition, partial, dry_run=dry_run, agreement=agreement
        )

    async def _forget_whole_scope(
        self, sidecar: VectorIndex, scope: Scope, mode: ForgetMode, *, dry_run: bool, agreement: Agreement | None
    ) -> ForgetResult:
        """Archive or drop a scope with its contents."""
        is_closed = mode is ForgetMode.HARD and (agreement is not None or not dry_run)
        async with self._closed(scope if is_closed else None):
            partial = self._access.behind_note
            located = await self._targets.find(sidecar, ForgetTarget(scope=scope.name), scope, mode)
            if is_closed:
                located = await self._with_unseen(scope, located)
            texts: dict[MemoryId, str] = {}
            if dry_run or agreement is not None:
                texts, located = await self._texts(located, MAX_REPORTED_IDS)
            if dry_run:
                return ForgetResult(tuple(located), texts, scope, _joined(UNCHANGED, partial))
            if agreement is not None:
                await agreement.check_memories(located, texts)
            with self._quotations.under_way():
                quoting = await self._quotations.remove_of_scope(scope.scope_id, hard=mode is ForgetMode.HARD)
                await self._remove_scope(scope, mode)
            self._quotations.report(quoting)
            return ForgetResult(tuple(located), texts, scope)

    async def _forget_selected(
        self, sidecar: VectorIndex, target: ForgetTarget, mode: ForgetMode, located: Located, condition: Condition,
        partial: str | None, *, dry_run: bool, agreement: Agreement | None,
    ) -> ForgetResult:  # fmt: skip
        """Forget the memories *located* for *target*; hard forgetting includes those merged into them."""
        if not located and (missing := await self._targets.describe_missing_tag(sidecar, target)) is not None:
            return ForgetResult((), note=_joined(missing, "nothing was changed", partial))
        doubles: Located = {}
        if mode is ForgetMode.HARD:
            doubles = await find_doubles(self._access, self._store, located)
            located = {**located, **doubles}
        texts: dict[MemoryId, str] = {}
        if dry_run or target.query is not None or agreement is not None:
            texts, located = await self._texts(located, target.max_texts if agreement is None else MAX_REPORTED_IDS)
        if dry_run:
            return ForgetResult(tuple(located), texts, None, _joined(UNCHANGED, partial), frozenset(doubles))
        if agreement is not None:
            await agreement.check_memories(located, texts)
        return await self._forget_located(located, texts, mode, doubles, condition, partial)

    @contextlib.asynccontextmanager
    async def _closed(self, scope: Scope | None) -> AsyncIterator[None]:
        """Archive a scope while it is being removed, so that nothing is stored into it after it was listed; None does nothing."""
        if scope is None or scope.archived_at is not None:
            yield
            return
        await self._store.set_scope_archived(scope.scope_id, floor_to_millisecond(self._clock()))
        await self._scopes.refresh()
        try:
            yield
        except BaseException:
            with contextlib.suppress(InfiniteMemoryError):  # the original error is raised
                await self._store.set_scope_archived(scope.scope_id, None)
                await self._scopes.refresh()
            raise

    async def _with_unseen(self, scope: Scope, located: Located) -> Located:
        """Add memories of a closed scope that the index does not know yet, at least one if there are any.

        Raises:
            ChangedSinceAskedError: memories are being moved into it.
        """
        contents = await self._store.list_contents(scope.scope_id)
        if contents.is_receiving:
            raise ChangedSinceAskedError("memories are being moved into it")
        for ids in batches(contents.memory_ids - located.keys(), MAX_REPORTED_IDS):
            if memories := await self._store.fetch(dict.fromkeys(ids, scope.scope_id), deleted=None):
                return {**located, **dict.fromkeys(memories, scope.scope_id)}
        return located

    async def _matching_visible(
        self, target: ForgetTarget, mode: ForgetMode, *, dry_run: bool, agreement: Agreement | None
    ) -> ForgetResult:
        sidecar = await self._index.sidecar()
        if target.scope is not None:
            self._access.check_scope(target.scope)
        located: Located = {}
        condition, partial = get_condition(target), None if target.memory_id else self._access.behind_note
        if target.query is not None:
            scopes: Sequence[Scope | None] = (
                [None] if target.scope is None else await self._access.existing_scopes([target.scope])
            )
            for scope in scopes:
                near, condition, partial = await self._targets.find_nearest(sidecar, target, scope)
                located = {
                    memory_id: memory.scope_id
                    for memory_id, memory in (await self._access.fetch(near, deleted=None)).items()
                }
        elif target.memory_id is not None:
            located = await self._targets.find_visible_by_id(target, mode)
        else:
            names = self._access.scope_names() if target.scope is None else (target.scope,)
            for named in await self._access.existing_scopes(names):
                located = {**located, **await self._targets.find(sidecar, target, named, mode)}
        return await self._forget_selected(
            sidecar, target, mode, located, condition, partial, dry_run=dry_run, agreement=agreement
        )

    async def _forget_located(
        self, located: Located, texts: dict[MemoryId, str], mode: ForgetMode, doubles: Located, condition: Condition,
        partial: str | None,
    ) -> ForgetResult:  # fmt: skip
        now = floor_to_millisecond(self._clock())
        chosen = {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id not in doubles}
        forgotten = await self._forget_with_quotations(chosen, mode, now, condition=condition)
        if doubles:  # chosen by the memory they were merged into, whatever their text
            forgotten += await self._forget_with_quotations(doubles, mode, now)
        note = None if forgotten else "nothing matches the target; nothing was changed"
        hidden_at = now if mode is ForgetMode.SOFT else None
        return ForgetResult(
            tuple(forgotten), texts, None, _joined(note, partial), doubles.keys() & set(forgotten), hidden_at
        )

    async def one(self, memory_id: MemoryId, scope: str) -> None:
        """Soft-forget one memory of a scope; no effect if it is forgotten already.

        Raises:
            MemoryNotFoundError: the scope has no memory with that id, live or soft-forgotten.
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        self._access.check_scope(scope)
        await self._index.sidecar()
        [visible_scope] = await self._scopes.get_visible([scope], lenient=False)
        located = await self._access.locate(memory_id)
        if located.get(memory_id) != visible_scope.scope_id:
            raise MemoryNotFoundError(memory_id)
        await self._forget_with_quotations(located, ForgetMode.SOFT, floor_to_millisecond(self._clock()))

    async def one_as_read(self, memory: MemoryRecord) -> bool:
        """Soft-forget a live memory at the revision that was read; False without effect if it was changed or forgotten since."""
        self._access.check(memory)
        await self._index.sidecar()
        located, now = {memory.memory_id: memory.scope_id}, floor_to_millisecond(self._clock())
        read = {memory.memory_id: memory.revision}
        return bool(await self._forget_with_quotations(located, ForgetMode.SOFT, now, read))

    async def list_forgotten(self, where: ScopedFilter, limit: int, cursor: str | None = None) -> MemoryPage:
        """List soft-forgotten memories that can be restored, latest first. Only the scopes of *where* are used.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
            InvalidRequestError: *cursor* is not one of ours.
        """
        await self._index.sidecar()
        scopes, _ = await self._access.resolve(ScopedFilter(where.scopes, lenient=where.lenient))
        scope_ids = [scope.scope_id for scope in scopes]
        last = None if cursor is None else _parse_cursor(cursor)
        memories: list[MemoryRecord] = []
        while scope_ids and len(memories) <= limit:
            batch = await self._store.list_deleted(scope_ids, limit + 1, last)
            if not batch:
                break
            located = await self._access.keep_allowed({deletion.memory_id: deletion.scope_id for deletion in batch})
            visible = await self._access.fetch(located, deleted=True)
            memories += [visible[deletion.memory_id] for deletion in batch if deletion.memory_id in visible]
            last = batch[-1]
        page = tuple(memories[:limit])
        return MemoryPage(
            page,
            await self._count_forgotten(scope_ids),
            _format_cursor(page[-1]) if len(memories) > limit else None,
            scopes,
        )

    async def _count_forgotten(self, scope_ids: Sequence[ScopeId]) -> int:
        if self._access.sees_everything:
            return await self._store.count_deleted(scope_ids)
        return len(await self._access.keep_allowed(await self._store.deleted_ids(scope_ids, None)))

    async def purge(self, located: Located, hidden_before: dt.datetime) -> list[MemoryId]:
        """Permanently remove memories that were hidden before an instant; one that is restored in the meantime stays."""
        self._access.visibility.check_everything()
        async with self._index.removing(located) as spared:
            forgotten = await self._store.purge(located, hidden_before)
            spared.update(located.keys() - set(forgotten))
        self._index.save_soon()
        return forgotten

    async def _texts(self, located: Located, limit: int) -> tuple[dict[MemoryId, str], Located]:
        """Return the texts of the first *limit* memories, and *located* without those of them that are gone."""
        reported = dict(itertools.islice(located.items(), limit))
        memories = await self._store.fetch(reported, deleted=None)
        remaining = {
            memory_id: scope_id
            for memory_id, scope_id in located.items()
            if memory_id in memories or memory_id not in reported
        }
        return {memory_id: memory.text for memory_id, memory in memories.items()}, remaining

    async def _forget_with_quotations(
        self, located: Located, mode: ForgetMode, now: dt.datetime, revisions: Mapping[MemoryId, int] | None = None,
        condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        """Forget memories after removing the digests that quote them: once this returns, their text can be read nowhere."""
        with self._quotations.under_way():
            quoting = await self._quotations.remove(located, hard=mode is ForgetMode.HARD)
            forgotten = await self._forget_memories(located, mode, now, revisions, condition)
        self._quotations.report(quoting)
        return forgotten

    async def _forget_memories(
        self, located: Located, mode: ForgetMode, now: dt.datetime, revisions: Mapping[MemoryId, int] | None,
        condition: Condition,
    ) -> list[MemoryId]:  # fmt: skip
        if not located:
            return []
        async with self._index.removing(located) as spared:
            if mode is ForgetMode.SOFT:
                forgotten = await self._store.soft_delete(located, now, revisions=revisions, condition=condition)
            else:
                forgotten = await self._remove(located, condition)
            spared.update(located.keys() - set(forgotten) if revisions is not None or condition else ())
        if mode is ForgetMode.HARD:
            self._index.save_soon()
        return forgotten

    async def _remove(self, located: Located, condition: Condition) -> list[MemoryId]:
        """Permanently remove the memories that still meet a condition.

        They are hidden first, because hidden memories cannot be edited, and dated long ago, so that the next purge finishes an interrupted
        removal.
        """
        if condition:
            hidden = await self._store.soft_delete(located, _EPOCH, condition=condition)
            others = {memory_id: located[memory_id] for memory_id in located.keys() - set(hidden)}
            memories = await self._store.fetch(others, deleted=True)
            stay = {
                memory_id
                for memory_id in others
                if memory_id not in memories or not condition.holds(memories[memory_id])
            }
            located = {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id not in stay}
        return await self._store.remove(located)

    async def _remove_scope(self, scope: Scope, mode: ForgetMode) -> None:
        if mode is ForgetMode.HARD:
            await self._store.drop_scope(scope.scope_id)
            await self._index.scope_removed(scope.scope_id)
        else:
            await self._store.set_scope_archived(scope.scope_id, floor_to_millisecond(self._clock()))
        await self._scopes.refresh()
        self._index.scopes_changed()
        if mode is ForgetMode.HARD:
            self._index.save_soon()


_CURSOR = re.compile(r"(\d{1,15})-([0-9a-f]{24})")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def _joined(*notes: str | None) -> str | None:
    """Return the notes joined into one; None if there are none."""
    return "; ".join(note for note in notes if note) or None


def _format_cursor(memory: MemoryRecord) -> str:
    assert memory.deleted_at is not None
    return f"{(memory.deleted_at - _EPOCH) // _MILLISECOND}-{memory.memory_id}"


def _parse_cursor(text: str) -> Deletion:
    """Return the deletion after which a listing continues.

    Raises:
        InvalidRequestError: *text* is not a cursor of a listing of forgotten memories.
    """
    try:
        if match := _CURSOR.fullmatch(text):
            return Deletion(_EPOCH + int(match[1]) * _MILLISECOND, MemoryId(match[2]), ScopeId(""))
    except OverflowError:
        pass
    raise InvalidRequestError.invalid_value("cursor", text, "a cursor that an earlier page gave")
