"""Where many memories go at once, others have their turns: the indexes let go of them in pieces, and what the feed tells goes together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from infinite_memory.index import writer
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import Change, ChangeKind
from tests.store.lifecycle.conftest import Memory, Open
from tests.store.lifecycle.planting import plant


def record_removals(memory: Memory, monkeypatch: pytest.MonkeyPatch, index: Any) -> list[int]:
    """Note how many memories each removal from the vector index takes."""
    remove, taken = index.remove, list[int]()

    def remove_and_note(memory_ids: Iterable[MemoryId]) -> None:
        listed = list(memory_ids)
        taken.append(len(listed))
        remove(listed)

    monkeypatch.setattr(index, "remove", remove_and_note)
    return taken


async def test_many_memories_leave_the_indexes_in_pieces_between_which_others_have_their_turn(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        index = await memory.services.index.sidecar()
        ids = await plant(memory, "S", [f"text {number}" for number in range(40)])
        located = dict(index.locate(ids))
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        with monkeypatch.context() as patched:
            patched.setattr(writer, "REMOVED_AT_ONCE", 10)
            taken = record_removals(memory, patched, index)
            other = asyncio.create_task(take_turns())
            async with memory.services.index.removing(located):
                turns = 0
            other.cancel()
        assert taken == [10] * 4
        assert turns >= 4
        assert index.locate(ids) == {}


async def test_what_the_feed_tells_of_removals_goes_together_and_what_moved_stays(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        index: Any = await memory.services.index.sidecar()
        ids = await plant(memory, "S", [f"text {number}" for number in range(40)], conversation_id="c")
        [here] = set(index.locate(ids).values())
        elsewhere = ScopeId("0" * 24)
        changes = [
            Change(ChangeKind.REMOVED, b"", memory_id=one, scope_id=here if number % 2 else elsewhere)
            for number, one in enumerate(ids)
        ]
        with monkeypatch.context() as patched:
            taken = record_removals(memory, patched, index)
            await memory.services.index._writer.apply(index, changes)
        assert taken == [20]
        assert sorted(index.locate(ids)) == sorted(ids[::2])


async def test_what_moved_there_and_back_stays_where_the_feed_tells_all_of_it_at_once(open_memory: Open) -> None:
    """It was taken out for its first move, and what told of its last one was known already."""

    async with open_memory() as memory:
        index: Any = await memory.services.index.sidecar()
        [one] = await plant(memory, "S", ["there and back"])
        here, elsewhere = index.locate([one])[one], ScopeId("0" * 24)
        revision = index.get_revisions([one])[one]
        told = [
            (ChangeKind.REMOVED, here, 0), (ChangeKind.WRITTEN, elsewhere, revision - 1),
            (ChangeKind.REMOVED, elsewhere, 0), (ChangeKind.WRITTEN, here, revision),
        ]  # fmt: skip
        changes = [Change(kind, b"", memory_id=one, scope_id=at, revision=number) for kind, at, number in told]
        await memory.services.index._writer.apply(index, changes)
        assert index.locate([one]) == {one: here}
