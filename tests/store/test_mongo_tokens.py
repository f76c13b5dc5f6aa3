"""Tokens and agents on a real MongoDB, and what backups take of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from pymongo import AsyncMongoClient

from infinite_memory.store.api_tokens import TokenRecord
from infinite_memory.store.mongo.api_tokens import BOUND
from infinite_memory.store.owners import Agent
from infinite_memory.transports.http.api.tokens import make_token as new_token

from .conftest import NOW, Place, global_scope, make_memory


def make_token(token_id: str = "a1", **fields: Any) -> TokenRecord:
    """Build a token that shows only what a test is about."""
    return dataclasses.replace(TokenRecord(token_id, "lamp", "ab" * 32, NOW), **fields)


async def test_a_token_is_read_as_it_was_kept_until_it_is_removed(place: Place) -> None:
    async with place.open() as store:
        plain = make_token()
        bound = make_token(
            "b2", users=("ada", "bob"), read_only=True, created_at=NOW + dt.timedelta(seconds=1), expires_at=NOW
        )
        later = NOW + dt.timedelta(seconds=2)
        scrape = make_token("c3", scope_ids=(), read_only=True, metrics_only=True, created_at=later)
        for one in (bound, plain, scrape):
            await store.tokens.put(one)
        assert await store.tokens.find("b2") == bound
        assert await store.tokens.all() == [plain, bound, scrape]
        assert await store.tokens.remove("a1")
        assert not await store.tokens.remove("a1")
        assert await store.tokens.find("a1") is None


async def test_tokens_of_0_1_0_are_bound_to_the_ids_that_their_scopes_have_and_to_nothing_else(place: Place) -> None:
    async with place.open() as store:
        desk = await store.create_scope("Desk", "", NOW)
        old = {"secret_hash": "ab" * 32, "created_at": NOW, "users": [], "read_only": False, "expires_at": None}
        named = {"one": ["desk"], "none": ["Gone"], "some": ["Gone", "DESK"], "all": []}
        async with AsyncMongoClient[dict[str, Any]](place.uri) as client:
            tokens = client[place.database]["tokens"]
            await tokens.insert_many([{"_id": one, "name": one, "scopes": to} | old for one, to in named.items()])
        before = {one.token_id: one.scope_ids for one in await store.tokens.all()}
        assert before == {"one": (), "none": (), "some": (), "all": None}, "nothing is seen before the upgrade"
    for _ in range(2):
        async with place.open() as store:
            bound = {one.token_id: one.scope_ids for one in await store.tokens.all()}
            assert bound == {"one": (desk.scope_id,), "none": (), "some": (desk.scope_id,), "all": None}
            await store.change_scope(desk.scope_id, name="Renamed")
            await store.create_scope(f"Desk{_ or ''}", "", NOW)


async def test_a_token_that_is_bound_is_never_taken_for_one_without_bounds_by_0_1_0(place: Place) -> None:
    async with place.open() as store:
        await store.tokens.put(make_token(scope_ids=()))
        await store.tokens.put(make_token("b2"))
    async with AsyncMongoClient[dict[str, Any]](place.uri) as client:
        documents = {one["_id"]: one async for one in client[place.database]["tokens"].find({})}
    assert documents["a1"]["scopes"]
    assert documents["b2"]["scopes"] == []


async def test_a_token_for_the_metrics_is_taken_for_one_that_sees_nothing_by_programs_that_do_not_know_it(
    place: Place,
) -> None:
    async with place.open() as store:
        await store.tokens.put(new_token("prometheus", NOW, metrics_only=True)[1])
    async with AsyncMongoClient[dict[str, Any]](place.uri) as client:
        [document] = [one async for one in client[place.database]["tokens"].find({})]
    assert (document["scope_ids"], document["scopes"], document["read_only"]) == ([], [BOUND], True)
    assert document["metrics_only"] is True


async def test_an_agent_is_made_once_for_each_user(place: Place) -> None:
    async with place.open() as store:
        ada, bob, all_ = (Agent("cook", user, "Cook", f"of {user}", NOW) for user in ("ada", "bob", None))
        for one in (ada, bob, all_):
            assert await store.owners.add_agent(one)
        assert not await store.owners.add_agent(dataclasses.replace(ada, name="Other"))
        assert await store.owners.agents("ada") == [ada]
        assert sorted(map(repr, await store.owners.agents())) == sorted(map(repr, [ada, bob, all_]))


async def test_figures_by_owner_can_be_narrowed_to_another_owner(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        owned = ({"user_id": "ada", "agent_id": "cook"}, {"user_id": "bob", "agent_id": "cook"}, {"user_id": "ada"})
        await store.insert([make_memory(scope, owners=one) for one in owned])

        async def counted(**among: str) -> list[tuple[str, int]]:
            told = await store.owners.tally(scope.scope_id, "agent_id", owners=among)
            return [(one.owner, one.count) for one in told]

        assert await counted() == [("cook", 2)]
        assert await counted(user_id="ada") == [("cook", 1)]
        assert await counted(user_id="eve") == []


async def test_an_agents_memories_are_named_without_reading_one(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        cook, other = {"user_id": "ada", "agent_id": "cook"}, {"user_id": "bob", "agent_id": "cook"}
        mine = [make_memory(scope, owners=cook, text=f"recipe {number}") for number in range(3)]
        old = make_memory(scope, owners=cook, status="superseded")
        strange = [make_memory(scope, owners=one) for one in (other, {"user_id": "ada"}, {})]
        await store.insert([*mine, old, *strange])
        ids = await store.owners.live_ids_of(
            scope.scope_id, {"agent_id": "cook", "user_id": "ada"}, leave_out_status=["superseded"]
        )
        assert ids == {one.memory_id for one in mine}
        assert len(await store.owners.live_ids_of(scope.scope_id, {"agent_id": "cook", "user_id": "ada"})) == 4
        assert await store.owners.live_ids_of(scope.scope_id, {"agent_id": "Cook", "user_id": "ada"}) == frozenset()
    async with AsyncMongoClient[dict[str, Any]](place.uri) as client:
        asked = {
            "owners.agent_id": "cook", "owners.user_id": "ada", "live": True, "status": {"$nin": ["superseded"]},
        }  # fmt: skip
        plan = await client[place.database][f"mem_{scope.scope_id}"].find(asked, {"_id": 1}).explain()
        assert plan["executionStats"]["totalDocsExamined"] == 0


async def test_backups_take_agents_along_and_leave_tokens(place: Place) -> None:
    async with place.open() as store:
        await store.tokens.put(make_token())
        await store.owners.add_agent(Agent("cook", "ada", "Cook", "", NOW))
        async with store.copies.snapshot() as snapshot:
            taken = {chunk.collection async for chunk in snapshot.chunks()}
        assert "agents" in taken
        assert "tokens" not in taken
