"""Subscriptions of a session: found by what changed, taken apart once, and limited."""

from __future__ import annotations

import pytest

from infinite_memory.contracts.laravel.server import LaravelChange
from infinite_memory.contracts.mcp import RpcError
from infinite_memory.contracts.native.resources import MemoryChange, get_topic
from infinite_memory.engine.events import Event
from infinite_memory.models import MemoryId
from infinite_memory.transports.mcp import CAPABILITIES_KEY, MODERN_VERSIONS, VERSION_KEY
from infinite_memory.transports.subscriptions import MAX_SUBSCRIPTIONS, Subscriptions, check_number
from tests.unit.transports.test_mcp import begin, request, talk

MODERN = {"_meta": {VERSION_KEY: MODERN_VERSIONS[-1], CAPABILITIES_KEY: {}}}
A, B = MemoryId("a" * 24), MemoryId("b" * 24)
ALL = [
    f"memory://item/{A}",
    f"memory://item/{B}",
    "memory://scope/Stra%C3%9Fe?limit=5",
    "memory://scope/Other",
    "memory://tag/x",
    "memory://recent",
    "memory://recent?limit=3",
    "memory://stats",
    "memory://recent?limit=none",
    "nonsense",
]


def subscribe(*uris: str) -> Subscriptions:
    subscriptions = Subscriptions(get_topic)
    for uri in uris:
        subscriptions.add(uri)
    return subscriptions


def test_a_change_touches_its_memory_its_scope_and_every_list() -> None:
    lists = {"memory://tag/x", "memory://recent", "memory://recent?limit=3", "memory://stats"}
    subscriptions = subscribe(*ALL)
    changed = MemoryChange(Event(A, "STRASSE"))
    assert set(subscriptions.match(changed)) == lists | {f"memory://item/{A}", "memory://scope/Stra%C3%9Fe?limit=5"}
    assert set(subscriptions.match(MemoryChange(Event(scopes_changed=True)))) == lists


def test_an_address_is_notified_of_once_and_not_after_it_was_removed() -> None:
    subscriptions = subscribe("memory://recent", "memory://recent", "nonsense")
    changed = MemoryChange(Event(A))
    assert list(subscriptions.match(changed)) == ["memory://recent"]
    assert len(subscriptions) == 2
    for uri in ("memory://recent", "nonsense", "never there"):
        subscriptions.discard(uri)
    assert list(subscriptions.match(changed)) == []
    assert len(subscriptions) == 0


def test_an_address_is_taken_apart_when_it_is_taken_and_not_at_each_change() -> None:
    parsed: list[str] = []

    def parse(uri: str) -> str | None:
        parsed.append(uri)
        return get_topic(uri)

    subscriptions = Subscriptions(parse)
    for number in range(MAX_SUBSCRIPTIONS):
        subscriptions.add(f"memory://scope/{number}")
    for _ in range(10):
        assert list(subscriptions.match(MemoryChange(Event(A, "7")))) == ["memory://scope/7"]
    assert len(parsed) == MAX_SUBSCRIPTIONS


def test_a_change_of_the_laravel_contract_names_its_memory() -> None:
    assert A in LaravelChange(Event(A)).topics


def test_one_more_than_the_limit_is_refused() -> None:
    check_number(MAX_SUBSCRIPTIONS - 1, ["x"], "uri")
    with pytest.raises(RpcError, match="uri: 257 subscriptions are more than the limit of 256 of a session"):
        check_number(MAX_SUBSCRIPTIONS, ["x"], "uri")


def test_a_session_that_asks_for_too_many_is_told_by_which_field() -> None:
    wanted = {"resourceSubscriptions": [f"memory://scope/{number}" for number in range(20_000)]}
    replies = talk(
        begin(),
        request(1, "subscriptions/listen", notifications=wanted, **MODERN),
        *(request(f"n{number}", "resources/subscribe", uri=f"memory://scope/{number}") for number in range(257)),
        request(2, "resources/unsubscribe", uri="memory://scope/3"),
        request(3, "resources/subscribe", uri="memory://scope/256"),
        request(4, "resources/subscribe", uri="memory://scope/7"),
        request(5, "resources/subscribe", uri="memory://scope/257"),
        request(6, "subscriptions/listen", notifications={"resourceSubscriptions": ["memory://recent"]}, **MODERN),
    )
    assert replies[1]["error"]["code"] == replies["n256"]["error"]["code"] == -32602
    assert "notifications.resourceSubscriptions: 20,000 subscriptions" in replies[1]["error"]["message"]
    assert "uri: 257 subscriptions" in replies["n256"]["error"]["message"]
    assert replies["n255"]["result"] == replies[3]["result"] == replies[4]["result"] == {}
    assert replies[5]["error"]["code"] == -32602
    assert "notifications.resourceSubscriptions: 257" in replies[6]["error"]["message"]
