"""What the HTTP API's views of the engine do with what belongs to others, on a real memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from infinite_memory.contracts.agentmem.access import make_source, make_superseded_source
from infinite_memory.contracts.agentmem.table import SCOPE
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import MAX_REPORTED_IDS, ForgetMode, ForgetTarget, MemoryUpdate, NewMemory
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.metrics import Metrics
from infinite_memory.transports.http.api.visibility import get_user_visibility
from tests.store.lifecycle.conftest import Memory, Open


async def stored(
    engine: Engine, user: str, texts: Iterable[str], *, agent: str = "cook", tags: Iterable[str] = ()
) -> list[MemoryId]:
    """Store memories of a user, as the AgentMem contract does; gives their ids."""
    owners = {"user_id": user, "agent_id": agent}
    drafts = [NewMemory(one, scope=SCOPE, owners=owners, source=make_source(user), tags=tuple(tags)) for one in texts]
    return [one.memory.memory_id for one in await engine.memories.store_all(drafts)]


def reads_of(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[MemoryId]:
    """Note every memory that the store is asked to read from now on, by this task and not by the upkeep in the background."""
    read: list[MemoryId] = []
    mine = asyncio.current_task()
    fetch = memory.services.store.fetch

    async def noting(located: Any, **options: Any) -> Any:
        if asyncio.current_task() is mine:
            read.extend(located)
        return await fetch(located, **options)

    monkeypatch.setattr(memory.services.store, "fetch", noting)
    return read


@pytest.mark.parametrize("mode", ForgetMode)
async def test_forgetting_all_of_a_user_reads_nothing_of_anybody(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, mode: ForgetMode
) -> None:
    async with open_memory() as memory:
        engine = memory.engine
        hers = await stored(engine, "ada", ("I like tea", "I like rye"))
        hidden = await stored(engine, "bob", ("I hid this",))
        await engine.restricted(get_user_visibility("bob", conceals=True)).forget.matching(
            ForgetTarget(scope=SCOPE), ForgetMode.SOFT
        )
        his = await stored(engine, "bob", ("I like ale", "I like figs"))
        await engine.memories.update(his[0], MemoryUpdate(source=make_superseded_source("bob"), status="superseded"))
        view = engine.restricted(get_user_visibility("bob", conceals=True))
        read = reads_of(memory, monkeypatch)
        assert (await view.stats.collect()).soft_deleted == 1
        assert set(read) <= set(his)
        read.clear()
        gone = await view.forget.matching(ForgetTarget(scope=SCOPE), mode)
        assert set(gone.memory_ids) == {*his, *(hidden if mode is ForgetMode.HARD else ())}
        assert read == []
        monkeypatch.undo()
        assert {one.memory_id for one in [await engine.memories.get(one) for one in hers]} == set(hers)


async def test_a_dry_run_reads_the_first_of_a_users_memories_alone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        engine = memory.engine
        await stored(engine, "ada", ("I like tea",), tags=["old"])
        his = await stored(engine, "bob", (f"note {number}" for number in range(MAX_REPORTED_IDS + 5)), tags=["old"])
        other = await stored(engine, "bob", ("of another agent",), agent="driver", tags=["old"])
        read = reads_of(memory, monkeypatch)
        would = await engine.restricted(get_user_visibility("bob", "cook", conceals=True)).forget.matching(
            ForgetTarget(scope=SCOPE, tag="old"), ForgetMode.SOFT, dry_run=True
        )
        assert set(would.memory_ids) == set(his)
        assert not set(other) & set(would.memory_ids)
        assert len(would.texts) == MAX_REPORTED_IDS
        assert set(read) <= set(his)
        assert len(read) == MAX_REPORTED_IDS


async def test_the_metrics_call_an_index_ready_while_another_is_built_beside_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("I like tea")
        await memory.services.index.sidecar()
        memory.services.index._follower.state = "rebuilding, 1 memories so far"
        told = (await Metrics(lambda: memory.engine).text()).decode()
        assert "infinite_memory_index_ready 1.0" in told
        assert "infinite_memory_memories 1.0" in told
