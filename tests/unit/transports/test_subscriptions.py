"""Subscriptions of a session: found by what changed, taken apart once, and limited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.contracts.laravel.server import LaravelChange
from infinite_memory.contracts.mcp import Listener, RpcError
from infinite_memory.contracts.native.resources import MemoryChange, get_topic
from infinite_memory.contracts.native.server import NativeServer
from infinite_memory.contracts.session import ContractContext
from infinite_memory.engine.events import Event, Events
from infinite_memory.models import MemoryId
from infinite_memory.transports.jsonrpc import serve_rpc
from infinite_memory.transports.mcp import CAPABILITIES_KEY, MODERN_VERSIONS, VERSION_KEY, McpSession
from infinite_memory.transports.subscriptions import (
    MAX_SUBSCRIPTIONS,
    PendingNotifications,
    Subscriptions,
    check_number,
)
from tests.unit.transports.test_mcp import begin, make_session, never, request, talk

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


async def test_what_waits_for_a_client_is_merged_and_nothing_but_repeats_is_left_out() -> None:
    async def deliver() -> list[tuple[str, Any]]:
        subscriptions = subscribe("memory://recent", f"memory://item/{A}", "memory://scope/Other")
        pending = PendingNotifications(subscriptions)
        sent: list[tuple[str, Any]] = []
        reads = asyncio.Event()

        async def notify(method: str, params: dict[str, Any]) -> None:
            await reads.wait()
            sent.append((method.rpartition("/")[2], params.get("uri")))

        sending = asyncio.create_task(pending.send_all(notify))
        pending.add(MemoryChange(Event(A, "Other")))
        await asyncio.sleep(0)  # the first is being sent, with what was true before the changes that follow
        for _ in range(1000):
            pending.add(MemoryChange(Event(A, "Other")))
            pending.add(MemoryChange(Event(scopes_changed=True)))
        assert len(pending) == 4
        subscriptions.discard("memory://scope/Other")
        pending.close()
        reads.set()
        await sending
        return sent

    lists = ("list_changed", None)
    item, recent = ("updated", f"memory://item/{A}"), ("updated", "memory://recent")
    assert await deliver() == [recent, lists, item, recent]


class Unread:
    """A client that sends what it is given, and reads nothing until *reads* is set."""

    def __init__(self, *requests: Any) -> None:
        self._lines = [json.dumps(one).encode() for one in requests]
        self.has_sent, self.reads, self.leaves = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.messages: list[Any] = []

    async def lines(self) -> Any:
        for line in self._lines:
            yield line
        self.has_sent.set()
        await self.leaves.wait()

    async def write(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" in message:
            await self.reads.wait()
        self.messages.append(message)

    def addresses(self) -> list[str]:
        return [one["params"]["uri"] for one in self.messages if one.get("method") == "notifications/resources/updated"]


class Watched(NativeServer):
    """The native server, with changes that a test makes up."""

    def __init__(self) -> None:
        super().__init__(ContractContext(never, make_session(), Events(never), Path("home")))
        self.change: Listener = lambda change: None

    def watch(self, listener: Listener) -> Callable[[], None]:
        self.change = listener
        return lambda: None


@pytest.mark.parametrize("kind", ["subscribe", "listen"])
async def test_a_client_that_subscribes_and_does_not_read_holds_one_task_and_each_address_once(kind: str) -> None:
    uris = [f"memory://recent?limit={number + 1}" for number in range(MAX_SUBSCRIPTIONS)]
    asked = [request(number, "resources/subscribe", uri=uri) for number, uri in enumerate(uris)]
    if kind == "listen":
        asked = [request(1, "subscriptions/listen", notifications={"resourceSubscriptions": uris}, **MODERN)]
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    client, server = Unread(begin(), initialized, *asked), Watched()
    lines = client.lines()
    serving = asyncio.create_task(serve_rpc(McpSession(server), lines, client, limit=10**6, stop=asyncio.Event()))
    await client.has_sent.wait()
    while kind == "subscribe" and len(client.messages) < len(asked) + 1:
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    before = len(asyncio.all_tasks())
    for number in range(100):
        server.change(MemoryChange(Event(MemoryId(f"{number:024x}"))))
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) <= before + 3
    client.reads.set()
    while set(client.addresses()) != set(uris):
        await asyncio.sleep(0.01)
    client.leaves.set()
    await serving
    assert len(client.addresses()) <= MAX_SUBSCRIPTIONS + 1
