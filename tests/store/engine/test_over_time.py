"""What the page asks beside the commands: counts over time, and when a memory was last an answer; a view tells no more than it shows."""

from __future__ import annotations

import datetime as dt

import pytest

from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import NewMemory, ScopedFilter
from infinite_memory.errors import MemoryNotFoundError, ScopeNotFoundError
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.visibility import get_scopes_visibility
from tests.store.lifecycle.conftest import Open

EDGES = [dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (2023, 2024, 2025, 2026)]


async def keep(engine: Engine, scope: str, *years: int) -> list[MemoryId]:
    """Store a memory in the middle of each year."""
    drafts = [
        NewMemory(f"{scope} in {year}", scope=scope, occurred_at=dt.datetime(year, 6, 1, tzinfo=dt.UTC))
        for year in years
    ]
    return [one.memory.memory_id for one in await engine.memories.store_all(drafts)]


async def test_memories_are_counted_between_edges_as_far_as_they_are_seen(open_memory: Open) -> None:
    async with open_memory() as memory:
        engine = memory.engine
        await keep(engine, "Desk", 2023, 2025)
        await keep(engine, "Vault", 2022, 2023, 2024, 2024)
        assert await engine.memories.count_by_time(ScopedFilter(None), EDGES) == [2, 2, 1]
        assert await engine.memories.count_by_time(ScopedFilter(("Vault",)), EDGES) == [1, 2, 0]
        desk = engine.restricted(get_scopes_visibility([(await engine.scopes.get("Desk")).scope_id]))
        assert await desk.memories.count_by_time(ScopedFilter(None), EDGES) == [1, 0, 1]
        with pytest.raises(ScopeNotFoundError):
            await desk.memories.count_by_time(ScopedFilter(("Vault",)), EDGES)


async def test_the_last_use_of_a_memory_is_known_to_who_sees_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        engine = memory.engine
        [hidden, unused] = await keep(engine, "Vault", 2023, 2024)
        await keep(engine, "Desk", 2023)
        at = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
        scope_id = (await engine.scopes.get("Vault")).scope_id
        await memory.services.store.uses.add({hidden: (scope_id, 3)}, at)
        use = await engine.memories.find_use(hidden)
        assert use is not None
        assert (use.count, use.used_at) == (3, at)
        assert await engine.memories.find_use(unused) is None
        desk = engine.restricted(get_scopes_visibility([(await engine.scopes.get("Desk")).scope_id]))
        with pytest.raises(MemoryNotFoundError):
            await desk.memories.find_use(hidden)
