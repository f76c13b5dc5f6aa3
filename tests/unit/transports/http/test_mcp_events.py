"""What an MCP session keeps for a client whose stream broke: the last events, and no more text than is allowed."""

from __future__ import annotations

import asyncio

from mcp.server.streamable_http import EventMessage
from mcp.types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from infinite_memory.transports.http.mcp import EVENT_CHARS, EVENTS, RecentEvents, count_chars


def reply(number: int, text: str) -> JSONRPCMessage:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"content": [{"type": "text", "text": text}]})


async def replayed(events: RecentEvents, after: str) -> list[object]:
    """List the ids of the replies after an event."""
    found: list[object] = []

    async def hear(event: EventMessage) -> None:
        assert isinstance(event.message, JSONRPCResponse)
        found.append(event.message.id)

    assert await events.replay_events_after(after, hear) == "stream"
    return found


async def test_small_events_are_kept_by_their_number() -> None:
    events = RecentEvents()
    names = [await events.store_event("stream", reply(number, "yes")) for number in range(EVENTS + 5)]
    assert await replayed(events, names[5]) == list(range(6, EVENTS + 5))
    assert await events.replay_events_after(names[4], lambda _: asyncio.sleep(0)) is None


async def test_large_events_are_kept_by_their_text_and_the_last_in_any_case() -> None:
    events = RecentEvents()
    half = "x" * (EVENT_CHARS // 2 - 100)
    names = [await events.store_event("stream", reply(number, half)) for number in range(5)]
    assert await replayed(events, names[3]) == [4]
    assert await events.replay_events_after(names[2], lambda _: asyncio.sleep(0)) is None
    large = await events.store_event("stream", reply(5, "x" * 2 * EVENT_CHARS))
    assert await events.replay_events_after(names[4], lambda _: asyncio.sleep(0)) is None
    await events.store_event("stream", reply(6, "yes"))
    assert await events.replay_events_after(large, lambda _: asyncio.sleep(0)) is None


def test_all_text_of_a_message_counts() -> None:
    notice = JSONRPCNotification(jsonrpc="2.0", method="m", params={"a": ["bc", {"de": "fgh"}, 5, None]})
    assert count_chars(notice) == 8
    assert count_chars(reply(1, "xyz")) == len("content") + len("typetext") + len("textxyz")
