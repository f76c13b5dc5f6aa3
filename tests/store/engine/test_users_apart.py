"""Users apart: neither ids nor times nor statistics of words tell whether somebody else has a memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import hashlib
import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from infinite_memory.contracts.agentmem.access import make_source
from infinite_memory.contracts.agentmem.table import SCOPE
from infinite_memory.contracts.mcp import RpcError
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import ForgetMode, ForgetTarget, MemoryUpdate, Mode, NewMemory, ScopedFilter
from infinite_memory.engine.upsert import UpsertOutcome, content_key
from infinite_memory.errors import MemoryNotFoundError
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.visibility import get_scopes_visibility, get_user_visibility
from tests.processes import LONG
from tests.store.lifecycle.conftest import Memory, Open

TEA = NewMemory("tea at four", "Global", "test://1", type="note", structured={"text": "tea at four"})
ROUNDS = 400  # twice what a quiet machine needs: a busy moment may fall on one side
LARGEST_RATIO = 1.3
TRIES = 3  # what tells the two apart does so each time, a busy machine now and then


async def store_for(engine: Engine, user: str, *texts: str) -> list[MemoryId]:
    """Store memories of a user, as the AgentMem contract does; gives their ids."""
    drafts = [NewMemory(one, scope=SCOPE, owners={"user_id": user}, source=make_source(user)) for one in texts]
    return [one.memory.memory_id for one in await engine.memories.store_all(drafts)]


async def save(memory: Memory) -> tuple[MemoryId, UpsertOutcome]:
    done = await memory.engine.memories.upsert(TEA)
    return done.result.memory.memory_id, done.outcome


# ids


async def test_the_same_content_has_another_id_in_another_database(open_memory: Open) -> None:
    async with open_memory("one") as one, open_memory("two") as two:
        scope = await one.engine.scopes.get("Global")
        first, again, other = await save(one), await save(one), await save(two)
        assert first[0] == again[0]
        assert again[1] is UpsertOutcome.DUPLICATE
        assert first[0] != other[0]
        key = content_key(TEA.type, TEA.source, TEA.structured)
        assert first[0] != hashlib.sha256(f"{scope.scope_id}/{key}/0".encode()).hexdigest()[:24]


async def test_what_is_saved_again_after_a_restart_or_a_restore_elsewhere_is_met(open_memory: Open) -> None:
    async with open_memory("one") as one:
        memory_id, _ = await save(one)
    async with open_memory("one") as one:
        assert await save(one) == (memory_id, UpsertOutcome.DUPLICATE)
        backup = await one.ok("backup_memory")
    async with open_memory("two") as two:
        await two.ok("restore_backup", file=backup["path"])
        assert await save(two) == (memory_id, UpsertOutcome.DUPLICATE)


async def test_what_a_merged_backup_brought_is_met_and_what_was_there_too(open_memory: Open) -> None:
    async with open_memory("one") as one:
        memory_id, _ = await save(one)
        backup = await one.ok("backup_memory")
    async with open_memory("two") as two:
        own = (
            await two.engine.memories.upsert(dataclasses.replace(TEA, structured={"text": "own"}, text="own"))
        ).result.memory
        await two.ok("restore_backup", file=backup["path"], mode="merge")
        # "Global" of the backup is this database's "Global": the memory stands there under its own id.
        scope = await two.engine.scopes.get("Global")
        assert (await two.engine.memories.get(memory_id)).scope_id == scope.scope_id
        again = await two.engine.memories.upsert(dataclasses.replace(TEA, structured={"text": "own"}, text="own"))
        assert again.result.memory.memory_id == own.memory_id
        keys = await two.services.index.id_keys.get()
        assert len(keys.secrets) == 2


async def test_a_memory_with_an_id_of_0_1_0_keeps_it_and_is_met(open_memory: Open) -> None:
    async with open_memory() as memory:
        scope = await memory.engine.scopes.get("Global")
        key = content_key(TEA.type, TEA.source, TEA.structured)
        old_id = MemoryId(hashlib.sha256(f"{scope.scope_id}/{key}/0".encode()).hexdigest()[:24])
        await memory.engine.memories.store(dataclasses.replace(TEA, memory_id=old_id))
        assert await save(memory) == (old_id, UpsertOutcome.DUPLICATE)
        assert (await memory.services.store.count_live())[scope.scope_id] == 1


# times


async def medians(*works: Callable[[], Awaitable[object]]) -> list[float]:
    """Give the median time of each of *works*, which take turns."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(ROUNDS):
        order = list(zip(works, times, strict=True))
        for work, taken in order if number % 2 else reversed(order):
            began = time.perf_counter()
            with contextlib.suppress(MemoryNotFoundError, RpcError):
                await work()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


ASKED = ("get", "update", "forget", "forget for good", "history", "links", "restore")


@pytest.mark.parametrize(
    ("kind", "what"),
    [*(("user", what) for what in ASKED), *(("scopes", what) for what in (ASKED if LONG else ("get", "forget")))],
)
async def test_the_id_of_somebody_elses_memory_takes_as_long_as_one_of_nobodys(
    open_memory: Open, kind: str, what: str
) -> None:
    def ask(view: Engine, memory_id: MemoryId) -> Awaitable[object]:
        if what == "get":
            return view.memories.get(memory_id)
        if what == "update":
            return view.memories.update(memory_id, MemoryUpdate(text="other"))
        if what == "history":
            return view.memories.history(memory_id)
        if what == "links":
            return view.graph.get_links(memory_id)
        if what == "restore":
            return view.memories.restore(memory_id)
        mode = ForgetMode.SOFT if what == "forget" else ForgetMode.HARD
        return view.forget.matching(ForgetTarget(memory_id=memory_id), mode)

    async with open_memory() as memory:
        for number in range(20):
            await memory.store("something", scope=f"scope {number}")
        [foreign] = await store_for(memory.engine, "ada", "a secret of Ada's " * 50)
        await store_for(memory.engine, "bob", "something of Bob's")
        view: Engine = memory.engine.restricted(get_user_visibility("bob", conceals=True))
        if kind == "scopes":
            scope_ids = [(await memory.engine.scopes.get(name)).scope_id for name in ("scope 1", "scope 2")]
            view = memory.engine.restricted(get_scopes_visibility(scope_ids))
        missing = memory.services.store.new_id()
        ratios: list[float] = []
        while len(ratios) < TRIES and (not ratios or ratios[-1] >= LARGEST_RATIO):
            theirs, nobodys = await medians(lambda: ask(view, foreign), lambda: ask(view, missing))
            ratios.append(max(theirs, nobodys) / min(theirs, nobodys))
        assert ratios[-1] < LARGEST_RATIO, ratios
        assert (await memory.engine.memories.get(foreign)).text.startswith("a secret")


# statistics of words


@pytest.mark.parametrize("mode", Mode)
async def test_what_others_say_changes_nothing_in_the_answers_to_a_user(open_memory: Open, mode: Mode) -> None:
    questions = ("tea in the garden", "chamomilla", "gardn", "who is Zorblax?", "ERR_CONN_RESET", "rare words")

    async def answers(memory: Memory) -> list[list[tuple[str, float]]]:
        while await memory.services.index.count_pending():  # a memory is surer while its vectors still lack
            await asyncio.sleep(0.05)
        view = memory.engine.restricted(get_user_visibility("bob", conceals=True))
        apart = ScopedFilter((SCOPE,), view.visibility.narrow(ScopedFilter(None).rest), lenient=True, is_apart=True)
        found = [await view.recall.search(one, ScopedFilter(None), 5, mode=mode) for one in questions]
        found += [await memory.engine.recall.search(one, apart, 5, mode=mode) for one in questions]
        return [[(match.memory.text, match.confidence) for match in one.matches] for one in found]

    async with open_memory() as memory:
        await store_for(memory.engine, "bob", "tea is ready", "the garden is green", "ERR_CONN_RESET on Monday")
        await memory.services.index.save()
        before = await answers(memory)
        await store_for(memory.engine, "ada", *(f"chamomile tea, gardens and rare words {n}" for n in range(30)))
        await memory.engine.memories.store(
            NewMemory("Zorblax was here", SCOPE, make_source("ada"), ("person:Zorblax",), owners={"user_id": "ada"})
        )
        await memory.services.index.save()
        for now, then in zip(await answers(memory), before, strict=True):
            assert [text for text, _ in now] == [text for text, _ in then]
            # The mean length of all texts, which the index rounds, shows in the fourth digit; no word does.
            assert [sure for _, sure in now] == pytest.approx([sure for _, sure in then], abs=0.005)


async def test_words_of_somebody_elses_conversation_of_the_same_name_find_nothing(open_memory: Open) -> None:
    """A turn is searched with what was said just before it: by the same user."""

    async with open_memory() as memory:
        at = memory.engine.now()

        def said(user: str, text: str, second: int) -> NewMemory:
            made = NewMemory(text, SCOPE, make_source(user), owners={"user_id": user}, conversation_id="default")
            return dataclasses.replace(made, occurred_at=at - dt.timedelta(seconds=10 - second))

        await memory.engine.memories.store(said("ada", "the password is xylophone", 1))
        await memory.engine.memories.store(said("bob", "what shall we have for supper", 2))
        await memory.engine.memories.store(said("ada", "and the number is 4711", 3))
        await memory.engine.memories.store(said("bob", "thanks a lot", 4))
        view = memory.engine.restricted(get_user_visibility("bob", conceals=True))

        async def find(words: str) -> set[str]:
            found = await view.recall.search(words, ScopedFilter(None), 5, mode=Mode.TEXT)
            return {match.memory.text for match in found.matches}

        assert await find("xylophone") == set()
        assert await find("4711") == set()
        assert await find("supper") == {"what shall we have for supper", "thanks a lot"}


async def test_a_users_own_words_still_mend_a_slip(open_memory: Open) -> None:
    async with open_memory() as memory:
        await store_for(memory.engine, "bob", "the gardener came")
        await store_for(memory.engine, "ada", "gardeners gardenes gardened")
        view = memory.engine.restricted(get_user_visibility("bob", conceals=True))
        found = await view.recall.search("gardenre", ScopedFilter(None), 5, mode=Mode.FUZZY)
        assert [match.memory.text for match in found.matches] == ["the gardener came"]
