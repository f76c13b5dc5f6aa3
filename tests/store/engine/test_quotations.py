"""A digest that quotes a memory goes in the request that forgets or edits that memory, whoever asks; pruning leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from infinite_memory.engine.types import ForgetMode, ForgetTarget
from infinite_memory.engine.visibility import ANYBODYS, Visibility
from infinite_memory.models import MemoryId, MemoryRecord
from tests.mongo_server import run
from tests.store.lifecycle.conftest import Memory, Open

SECRET = "The garden shed is opened with the number 4711."


async def quoted(memory: Memory, scope: str = "Work", session: str = "s1") -> tuple[str, str]:
    """Store a turn and a digest that quotes it; returns their ids."""
    turn = await memory.store(SECRET, scope, conversation_id=session, tags=["shed"])
    entry = {"content": f"About: {SECRET}", "metadata": {
        "scope": scope, "type": "digest", "tags": ["digest"], "conversation_id": session, "sources": [turn]}}  # fmt: skip
    return turn, str((await memory.ok("store_memory", **entry))["memory_id"])


async def is_there(memory: Memory, memory_id: str) -> bool:
    return (await memory.ask("get_memory", memory_id=memory_id))["status"] == "OK"


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("part", ["memory_id", "tag", "query"])
def test_a_digest_goes_with_what_it_quotes(open_memory: Open, mode: str, part: str) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            turn, digest = await quoted(memory)
            other, unconcerned = await quoted(memory, session="s2")
            told: list[MemoryRecord] = []

            def listen(removed: Sequence[MemoryRecord]) -> None:
                told.extend(removed)

            memory.engine.on_digests_removed(listen)
            targets = {"memory_id": turn, "tag": "shed", "query": SECRET}
            target: dict[str, Any] = {part: targets[part]} | ({"tag": "shed"} if part == "query" else {})
            would = await memory.ok("delete_memory", target=target, forget_mode=mode, dry_run=True)
            assert await is_there(memory, digest)
            gone = await memory.ok("delete_memory", target=target, forget_mode=mode)
            assert sorted(gone["memory_ids"]) == sorted(would["memory_ids"])
            left = {turn: digest, other: unconcerned}
            for one in gone["memory_ids"]:
                assert not await is_there(memory, left.pop(one))
            assert [await is_there(memory, one) for one in left.values()] == [True] * len(left)
            assert {one.memory_id for one in told} == {digest, unconcerned} - set(left.values())

    run(work())


def test_who_does_not_see_the_digest_takes_it_along_all_the_same(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            turn, digest = await quoted(memory)
            await memory.ok("store_memory", content="a", metadata={"scope": "Other"})
            scope = await memory.engine.scopes.find("Work")
            assert scope is not None
            bearer = memory.engine.restricted(Visibility(scope_ids=(scope.scope_id,), owners=ANYBODYS))
            await bearer.forget.matching(ForgetTarget(memory_id=turn), ForgetMode.SOFT)
            assert not await is_there(memory, digest)

    run(work())


def test_an_edit_takes_the_digest_and_a_new_tag_does_not(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            turn, digest = await quoted(memory)
            await memory.ok("update_memory", memory_id=turn, tags=["garden"])
            assert await is_there(memory, digest)
            await memory.ok("update_memory", memory_id=turn, content="The shed has no lock.")
            assert not await is_there(memory, digest)

    run(work())


def test_a_digest_of_an_archived_scope_goes_as_well(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            turn, _ = await quoted(memory)
            entry = {"scope": "Old", "type": "digest", "tags": ["digest"], "conversation_id": "s1", "sources": [turn]}
            digest = (await memory.ok("store_memory", content=SECRET, metadata=entry))["memory_id"]
            await memory.ok("delete_memory", target={"scope": "Old"})
            await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode="hard")
            await memory.ok("restore_memory", scope="Old")
            assert not await is_there(memory, digest)

    run(work())


def test_a_digest_of_many_conversations_is_found_among_all(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinite_memory.engine.quotations.MAX_CONVERSATIONS", 1)
    monkeypatch.setattr("infinite_memory.engine.quotations.BATCH", 2)

    async def work() -> None:
        async with open_memory() as memory:
            digests = [(await quoted(memory, session=f"s{number}"))[1] for number in range(5)]
            await memory.ok("delete_memory", target={"tag": "shed"}, forget_mode="hard")
            assert [await is_there(memory, one) for one in digests] == [False] * 5

    run(work())


def test_what_is_pruned_and_purged_stays_in_the_digest(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory(flags={"retention.max_memories": "1", "retention.purge_pruned_days": "1"}) as memory:
            turn, digest = await quoted(memory)
            await memory.store("Something newer.", "Work")
            await memory.ok("optimize_memory", operations=["prune"])
            assert not await is_there(memory, turn)
            assert await is_there(memory, digest)
            hidden = await memory.services.store.locate([MemoryId(turn)])
            await memory.engine.forget.purge(hidden)
            assert await is_there(memory, digest)

    run(work())
