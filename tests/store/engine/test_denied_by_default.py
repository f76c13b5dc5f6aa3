"""An engine that allows nothing shows and changes nothing, by any method of any use case; a new method has to say so here."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from infinite_memory.engine.engine import Engine
from infinite_memory.engine.maintenance import Operation
from infinite_memory.engine.types import ForgetMode, ForgetTarget, MemoryUpdate, Mode, NewMemory, ScopedFilter
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import ForbiddenError, MemoryNotFoundError, ScopeNotFoundError
from infinite_memory.store.api_tokens import TokenRecord
from infinite_memory.store.owners import Agent
from tests.store.lifecycle.conftest import Memory, Open

DENIED = (ForbiddenError, MemoryNotFoundError, ScopeNotFoundError)
NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
EVERYWHERE = ScopedFilter(None)
TELLS_NOTHING = {"memories.make_ids", "stats.state", "stats.health", "stats.collect", "scopes.refresh", "scopes.find_by_id",
                 "scopes.find_by_ids", "recall.record_use"}  # fmt: skip
"""Methods about no memory, or that take records that the caller has read,
or the id of a scope, which nobody learns who does not see it; looked at below."""


def calls(memory_id: Any, record: Any, scope: Any) -> dict[str, Callable[[Any], Any]]:
    """Return a call of every method; it gets the use case."""
    new = NewMemory("other", "Global")
    token = TokenRecord("t", "t", "h", NOW)
    return {
        "memories.store": lambda one: one.store(new),
        "memories.store_all": lambda one: one.store_all([new]),
        "memories.store_each": lambda one: one.store_each([new]),
        "memories.upsert": lambda one: one.upsert(new),
        "memories.update": lambda one: one.update(memory_id, MemoryUpdate(text="other")),
        "memories.move": lambda one: one.move(memory_id, "Global"),
        "memories.write_batch": lambda one: one.write_batch([new], {}, lambda _: None),
        "memories.restore": lambda one: one.restore(memory_id),
        "memories.get": lambda one: one.get(memory_id),
        "memories.fetch": lambda one: one.fetch(scope, [memory_id], deleted=None),
        "memories.find_taken": lambda one: one.find_taken(scope, [memory_id]),
        "memories.find": lambda one: one.find([memory_id]),
        "memories.stream": lambda one: listed(one.stream(scope)),
        "memories.history": lambda one: one.history(memory_id),
        "memories.keep_digests": lambda one: one.keep_digests([record]),
        "memories.list_page": lambda one: one.list_page(EVERYWHERE, 10),
        "memories.list_ids": lambda one: one.list_ids(EVERYWHERE, 10),
        "memories.count": lambda one: one.count(EVERYWHERE),
        "memories.count_by_time": lambda one: one.count_by_time(EVERYWHERE, [NOW, NOW + dt.timedelta(days=9999)]),
        "memories.find_use": lambda one: one.find_use(memory_id),
        "memories.last_conversation_start": lambda one: one.last_conversation_start(NOW + dt.timedelta(days=9999)),
        "recall.search": lambda one: one.search("tea", EVERYWHERE, 5),
        "recall.find_closest": lambda one: one.find_closest("tea", EVERYWHERE, 5, min_confidence=0.0),
        "recall.find_standing": lambda one: one.find_standing(
            memory_id, "tea", EVERYWHERE, 5, min_confidence=0.0, mode=Mode.HYBRID
        ),
        "recall.find_nearest": lambda one: one.find_nearest("tea", EVERYWHERE, 5, lambda _: True),
        "recall.find_with_words": find_with_words,
        "layers.search": lambda one: one.search("tea", "Global", 5),
        "layers.most_important": lambda one: one.most_important("Global", 5),
        "forget.matching": lambda one: one.matching(ForgetTarget(scope="Global"), ForgetMode.HARD),
        "forget.one": lambda one: one.one(memory_id, "Global"),
        "forget.one_as_read": lambda one: one.one_as_read(record),
        "forget.list_forgotten": lambda one: one.list_forgotten(EVERYWHERE, 10),
        "forget.purge": lambda one: one.purge({memory_id: scope.scope_id}, NOW),
        "scopes.create": lambda one: one.create("new", ""),
        "scopes.open": lambda one: one.open("Global"),
        "scopes.find": lambda one: one.find("Work"),
        "scopes.list_all": lambda one: one.list_all(),
        "scopes.get": lambda one: one.get("Global"),
        "scopes.change": lambda one: one.change("Global", None, "x"),
        "scopes.merge": lambda one: one.merge("Work", "Global"),
        "scopes.count": lambda one: one.count("Global"),
        "scopes.restore": lambda one: one.restore("Global"),
        "scopes.restore_hidden_at": lambda one: one.restore_hidden_at(NOW),
        "graph.link": lambda one: one.link(record, record, "x"),
        "graph.get_links": lambda one: one.get_links(memory_id),
        "graph.assert_fact": lambda one: one.assert_fact("Global", "a", "b", "c"),
        "graph.get_facts": lambda one: one.get_facts("Global", "Ada"),
        "graph.count_facts": lambda one: one.count_facts(),
        "owners.find": lambda one: one.find(scope, memory_id),
        "owners.find_several": lambda one: one.find_several(scope, [memory_id]),
        "owners.count": lambda one: one.count(scope, "user_id"),
        "owners.list_ids": lambda one: one.list_ids(scope, {"user_id": "ada"}),
        "owners.list_agents": lambda one: one.list_agents(),
        "owners.add_agent": lambda one: one.add_agent(Agent("a", None, "A", "", NOW)),
        "owners.remove_agents": lambda one: one.remove_agents("ada"),
        "tokens.put": lambda one: one.put(token),
        "tokens.find": lambda one: one.find("t"),
        "tokens.all": lambda one: one.all(),
        "tokens.replace_secret": lambda one: one.replace_secret("t", "h"),
        "tokens.remove": lambda one: one.remove("t"),
        "maintenance.optimize": lambda one: one.optimize([Operation.COMPACT]),
        "maintenance.reindex": lambda one: one.reindex(),
        "maintenance.set_aside": lambda one: one.set_aside(),
        "maintenance.repair": lambda one: one.repair(),
    }  # fmt: skip


async def find_with_words(engine_part: Any) -> list[Any]:
    found: list[Any] = []

    async def take(page: Sequence[Any]) -> None:
        found.extend(page)

    await engine_part.find_with_words("tea", EVERYWHERE, take)
    return found


async def listed(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    return [one async for one in stream]


def methods(engine: Engine) -> set[str]:
    """Return the public methods of all use cases."""
    return {
        f"{use_case}.{name}"
        for use_case, one in vars(engine).items()
        if use_case != "visibility" and not use_case.startswith("_")
        for name, _ in inspect.getmembers(one, inspect.isroutine)
        if not name.startswith("_")
    }


def is_empty(result: Any) -> bool:
    """True if a result holds no memory: nothing, none, or a page or an answer of none."""
    for name in ("memories", "matches", "memory_ids"):
        if hasattr(result, name):
            return not getattr(result, name) and not getattr(result, "total", 0)
    if isinstance(result, list) and all(type(one) is int for one in result):
        return not any(result)
    return not result or (isinstance(result, dict) and not any(result.values()))


async def get_leaks(memory: Memory, engine: Engine) -> Sequence[str]:
    """Return the methods by which something is seen."""
    [memory_id] = [one.memory_id async for one in memory.services.store.stream()]
    record, scope = await memory.engine.memories.get(memory_id), await memory.engine.scopes.get("Global")
    every = calls(memory_id, record, scope)
    assert methods(engine) == {*every, *TELLS_NOTHING}
    leaks = []
    for name, call in every.items():
        try:
            result = await call(getattr(engine, name.split(".")[0]))
        except DENIED:
            continue
        if not is_empty(result):
            leaks.append(f"{name}: {result!r}")
    return leaks


async def test_who_sees_nothing_gets_nothing_from_any_method(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            tea = NewMemory("I like tea", "Global", tags=("person:Ada",), owners={"user_id": "ada"})
            await memory.engine.memories.store(tea)
            await memory.ok("create_memory_scope", scope_name="Work")
            await memory.engine.graph.assert_fact("Global", "Ada", "likes", "tea")
            before = await memory.engine.stats.collect()
            nobody = memory.engine.restricted(Visibility())
            assert await get_leaks(memory, nobody) == []
            stats = await nobody.stats.collect()
            assert (stats.total, stats.by_scope, stats.archived, stats.facts, stats.soft_deleted) == (0, {}, {}, 0, 0)
            assert (await nobody.stats.health()).set_aside == ()
            after = await memory.engine.stats.collect()
            assert (after.total, after.by_scope, after.facts) == (before.total, before.by_scope, before.facts)
            try:
                nobody.restricted(Visibility(sees_everything=True))
            except ForbiddenError:
                return
            raise AssertionError("a restricted engine was widened")

    await work()
