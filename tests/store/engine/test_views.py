"""What the HTTP API's views of the engine do with what belongs to others, on a real memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from infinite_memory.contracts.agentmem.people import source_of, superseded_source_of
from infinite_memory.contracts.agentmem.table import SCOPE
from infinite_memory.engine import Engine
from infinite_memory.engine.forget import IDS_TOLD, ForgetMode
from infinite_memory.engine.parts import Changes, Draft, Target
from infinite_memory.models import MemoryId
from infinite_memory.rest.metrics import Metrics
from infinite_memory.rest.view import UserView
from tests.mongo_server import run
from tests.store.lifecycle.conftest import Open


async def stored(
    engine: Engine, user: str, texts: Iterable[str], *, agent: str = "cook", tags: Iterable[str] = ()
) -> list[MemoryId]:
    """Store memories of a user, as the AgentMem contract does; gives their ids."""
    owners = {"user_id": user, "agent_id": agent}
    drafts = [Draft(one, scope=SCOPE, owners=owners, source=source_of(user), tags=tuple(tags)) for one in texts]
    return [one.memory.memory_id for one in await engine.remember_all(drafts)]


def reads_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[MemoryId]:
    """Note every memory that the store is asked to read from now on, by this task and not by the upkeep in the background."""
    read: list[MemoryId] = []
    mine = asyncio.current_task()
    fetch = engine.parts.store.fetch

    async def noting(located: Any, **options: Any) -> Any:
        if asyncio.current_task() is mine:
            read.extend(located)
        return await fetch(located, **options)

    monkeypatch.setattr(engine.parts.store, "fetch", noting)
    return read


@pytest.mark.parametrize("mode", ForgetMode)
def test_forgetting_all_of_a_user_reads_nothing_of_anybody(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, mode: ForgetMode
) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            engine = memory.engine
            hers = await stored(engine, "ada", ("I like tea", "I like rye"))
            hidden = await stored(engine, "bob", ("I hid this",))
            await UserView(engine, "bob", discreet=True).forget(Target(scope=SCOPE), ForgetMode.SOFT)
            his = await stored(engine, "bob", ("I like ale", "I like figs"))
            await engine.update(his[0], Changes(source=superseded_source_of("bob"), status="superseded"))
            view = UserView(engine, "bob", discreet=True)
            read = reads_of(engine, monkeypatch)
            assert (await view.figures()).soft_deleted == 1
            assert set(read) <= set(his)
            read.clear()
            gone = await view.forget(Target(scope=SCOPE), mode)
            assert set(gone.memory_ids) == {*his, *(hidden if mode is ForgetMode.HARD else ())}
            assert read == []
            monkeypatch.undo()
            assert {one.memory_id for one in [await engine.get(one) for one in hers]} == set(hers)

    run(work())


def test_a_dry_run_reads_the_first_of_a_users_memories_alone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            engine = memory.engine
            await stored(engine, "ada", ("I like tea",), tags=["old"])
            his = await stored(engine, "bob", (f"note {number}" for number in range(IDS_TOLD + 5)), tags=["old"])
            other = await stored(engine, "bob", ("of another agent",), agent="driver", tags=["old"])
            read = reads_of(engine, monkeypatch)
            would = await UserView(engine, "bob", "cook", discreet=True).forget(
                Target(scope=SCOPE, tag="old"), ForgetMode.SOFT, dry_run=True
            )
            assert set(would.memory_ids) == set(his)
            assert not set(other) & set(would.memory_ids)
            assert len(would.texts) == IDS_TOLD
            assert set(read) <= set(his)
            assert len(read) == IDS_TOLD

    run(work())


def test_the_metrics_call_an_index_ready_while_another_is_built_beside_it(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            await memory.store("I like tea")
            await memory.engine.parts.index.sidecar()
            memory.engine.parts.index.state = "rebuilding, 1 memories so far"
            told = Metrics(lambda: memory.engine).text().decode()
            assert "infinite_memory_index_ready 1.0" in told
            assert "infinite_memory_memories 1.0" in told

    run(work())
