"""Facts in MongoDB: one triple holds at a time, what held before is kept, and two who assert at once do not both win."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from infinite_memory.errors import ScopeNotFoundError
from infinite_memory.models import MILLISECOND, Fact, FactId, ScopeId
from infinite_memory.store.facts import Asserted, FactOutcome
from infinite_memory.store.mongo import facts as mongo_facts
from infinite_memory.store.mongo import restore_steps

from .conftest import NOW, Place, global_scope

LATER = NOW + dt.timedelta(hours=1)


def make_fact(scope_id: ScopeId, object_: str = "2.4.1", at: dt.datetime = NOW, **fields: object) -> Fact:
    given = {"subject": "auth-service", "predicate": "deployed_version", "valid_from": at} | fields
    return Fact(fact_id=FactId(""), scope_id=scope_id, object=object_, **given)  # type: ignore[arg-type]


async def test_another_object_closes_the_triple_before_it_and_keeps_it(place: Place) -> None:
    async with place.open() as store:
        scope_id = (await global_scope(store)).scope_id
        first = await store.facts.put(make_fact(scope_id, confidence=0.5, provenance="log"))
        assert first.outcome is FactOutcome.ASSERTED
        second = await store.facts.put(make_fact(scope_id, "2.5.0", LATER))
        assert second.outcome is FactOutcome.REPLACED
        assert second.closed is not None
        assert (second.closed.object, second.closed.valid_to) == ("2.4.1", LATER)
        assert await store.facts.of_subject(scope_id, "auth-service", None) == [second.fact]
        assert [one.object for one in await store.facts.of_subject(scope_id, "auth-service", NOW)] == ["2.4.1"]
        before = LATER - MILLISECOND
        assert [one.object for one in await store.facts.of_subject(scope_id, "auth-service", before)] == ["2.4.1"]
        assert [one.object for one in await store.facts.of_subject(scope_id, "auth-service", LATER)] == ["2.5.0"]
        assert await store.facts.of_subject(scope_id, "auth-service", NOW - MILLISECOND) == []
        history = await store.facts.history(scope_id, "auth-service", "deployed_version")
        assert [(one.object, one.valid_to) for one in history] == [("2.4.1", LATER), ("2.5.0", None)]
        assert history[0].provenance == "log"


async def test_the_same_object_changes_only_confidence_and_provenance(place: Place) -> None:
    async with place.open() as store:
        scope_id = (await global_scope(store)).scope_id
        first = await store.facts.put(make_fact(scope_id))
        again = await store.facts.put(make_fact(scope_id, at=LATER, confidence=0.4, provenance="heard"))
        assert again.outcome is FactOutcome.CONFIRMED
        [found] = await store.facts.of_subject(scope_id, "auth-service", None)
        assert (found.fact_id, found.valid_from) == (first.fact.fact_id, NOW)
        assert (found.confidence, found.provenance) == (0.4, "heard")
        kept = await store.facts.put(make_fact(scope_id, at=LATER, confidence=0.9, provenance=None))
        assert (kept.fact.confidence, kept.fact.provenance) == (0.9, "heard"), "not given means as it is"
        assert await store.facts.of_subject(scope_id, "auth-service", None) == [kept.fact]


async def test_subjects_and_predicates_are_the_same_whatever_their_case(place: Place) -> None:
    async with place.open() as store:
        scope_id = (await global_scope(store)).scope_id
        await store.facts.put(make_fact(scope_id, "Lund", subject="Ada", predicate="lives_in"))
        replaced = await store.facts.put(make_fact(scope_id, "Malmö", LATER, subject="ADA", predicate="Lives_In"))
        assert replaced.outcome is FactOutcome.REPLACED
        assert [one.object for one in await store.facts.of_subject(scope_id, "ada", None)] == ["Malmö"]


async def test_a_clock_that_was_set_back_makes_no_overlap(place: Place) -> None:
    async with place.open() as store:
        scope_id = (await global_scope(store)).scope_id
        await store.facts.put(make_fact(scope_id, "a", LATER))
        made = await store.facts.put(make_fact(scope_id, "b", NOW))
        assert made.fact.valid_from == LATER + MILLISECOND
        assert made.closed is not None
        assert made.closed.valid_to == LATER + MILLISECOND


async def test_of_many_who_assert_at_once_one_holds_and_all_are_kept(place: Place) -> None:
    async with place.open() as store:
        scope_id = (await global_scope(store)).scope_id
        await asyncio.gather(*(store.facts.put(make_fact(scope_id, f"v{number}")) for number in range(8)))
        history = await store.facts.history(scope_id, "auth-service", "deployed_version")
        assert {one.object for one in history} == {f"v{number}" for number in range(8)}
        assert [one.valid_to for one in history] == [*(one.valid_from for one in history[1:]), None]
        assert await store.facts.count() == 1


async def test_a_scope_takes_its_facts_with_it_and_no_others(place: Place) -> None:
    async with place.open() as store:
        home = await global_scope(store)
        other = await store.create_scope("kg", "", NOW)
        await store.facts.put(make_fact(home.scope_id))
        await store.facts.put(make_fact(other.scope_id))
        assert await store.facts.count([other.scope_id]) == 1
        await store.drop_scope(other.scope_id)
        assert await store.facts.count() == 1
        assert await store.facts.history(other.scope_id, "auth-service", "deployed_version") == []


async def test_of_two_scopes_that_say_something_else_the_newer_fact_holds_after_a_merge(place: Place) -> None:
    async with place.open() as store:
        home, other = await global_scope(store), await store.create_scope("kg", "", NOW)
        for scope_id, predicate, object_, at in (
            (home.scope_id, "version", "1", NOW),
            (other.scope_id, "version", "2", LATER),
            (home.scope_id, "owner", "Ada", LATER),
            (other.scope_id, "owner", "Bob", NOW),
            (home.scope_id, "Region", "eu", NOW),
            (other.scope_id, "region", "us", NOW),
            (other.scope_id, "alone", "yes", NOW),
        ):
            await store.facts.put(make_fact(scope_id, object_, at, predicate=predicate))
        await store.copies.merge_scopes(other.scope_id, home.scope_id)
        held = {one.predicate: one.object for one in await store.facts.of_subject(home.scope_id, "auth-service", None)}
        assert held == {"version": "2", "owner": "Ada", "Region": "eu", "alone": "yes"}
        for predicate, before, after in (("version", "1", "2"), ("owner", "Bob", "Ada")):
            history = await store.facts.history(home.scope_id, "auth-service", predicate)
            assert [(one.object, one.valid_to) for one in history] == [(before, LATER), (after, None)]
        assert await store.facts.count([other.scope_id]) == 0
        assert await store.facts.count() == 4


async def test_of_two_scopes_that_say_the_same_one_fact_stays_from_the_earlier_moment_on(place: Place) -> None:
    async with place.open() as store:
        home, other = await global_scope(store), await store.create_scope("kg", "", NOW)
        await store.facts.put(make_fact(home.scope_id, "1", LATER, confidence=0.4, provenance=None))
        await store.facts.put(make_fact(other.scope_id, "1", NOW, confidence=0.9, provenance="log"))
        await store.copies.merge_scopes(other.scope_id, home.scope_id)
        [fact] = await store.facts.history(home.scope_id, "auth-service", "deployed_version")
        assert (fact.valid_from, fact.valid_to, fact.confidence, fact.provenance) == (NOW, None, 0.4, "log")


async def test_a_merge_that_facts_of_both_scopes_held_up_is_finished_by_the_next_start(place: Place) -> None:
    """As earlier versions left it behind: written down, begun, and refused by the index over what holds."""

    async with place.open() as store:
        home, other = await global_scope(store), await store.create_scope("kg", "", NOW)
        await store.facts.put(make_fact(home.scope_id, "1"))
        await store.facts.put(make_fact(other.scope_id, "2", LATER))
        with pytest.MonkeyPatch.context() as patch, pytest.raises(ConnectionError):
            patch.setattr(restore_steps, "move_facts", _refuse)
            await store.copies.merge_scopes(other.scope_id, home.scope_id)
    async with place.open() as store:
        assert [one.object for one in await store.facts.of_subject(home.scope_id, "auth-service", None)] == ["2"]
        assert [scope.name for scope in await store.list_scopes()] == ["Global"]


async def _refuse(*_: object) -> None:
    raise ConnectionError


async def test_nothing_is_asserted_in_a_scope_that_was_merged_meanwhile(place: Place) -> None:
    async with place.open() as store:
        home, other = await global_scope(store), await store.create_scope("kg", "", NOW)

        async def merge() -> None:
            async with store.copies.exclusive():
                await store.copies.merge_scopes(other.scope_id, home.scope_id)
                await store.drop_scope(other.scope_id)

        merging, asserted = asyncio.create_task(merge()), 0
        for number in range(30):
            try:
                await store.facts.put(make_fact(other.scope_id, f"v{number}", predicate=f"p{number}"))
            except ScopeNotFoundError:
                continue
            asserted += 1
        await merging
        assert len(await store.facts.of_subject(home.scope_id, "auth-service", None)) == asserted


async def test_an_assertion_that_is_overtaken_by_a_merge_is_undone_and_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process merges the scope between the look at it and the assertion, which nothing would take along."""
    replace = mongo_facts._replace

    async with place.open() as store, place.open() as other:
        home, source = await global_scope(store), await store.create_scope("kg", "", NOW)
        await store.facts.put(make_fact(source.scope_id, "1"))

        async def merge_first(*given: Any) -> Asserted:
            monkeypatch.setattr(mongo_facts, "_replace", replace)
            await other.copies.merge_scopes(source.scope_id, home.scope_id)
            return await replace(*given)

        for object_ in ("2", "3"):
            monkeypatch.setattr(mongo_facts, "_replace", merge_first if object_ == "2" else replace)
            with pytest.raises(ScopeNotFoundError):
                await store.facts.put(make_fact(source.scope_id, object_, LATER))
        [fact] = await store.facts.of_subject(home.scope_id, "auth-service", None)
        assert (fact.object, await store.facts.count()) == ("1", 1)
