"""The addresses that a client of MCP is notified of: few enough, each taken apart once, found by what changed, and waiting once each.

Why a limit: a change of anybody's is held against the subscriptions of all. One client that named 100,000 addresses held everybody up for
three seconds at every write. Why notifications are merged: of a client that subscribed and did not read, every write left 256 that waited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from infinite_memory.contracts.mcp import INVALID_PARAMS, Changed, Json, RpcError

MAX_SUBSCRIPTIONS = 256
"""Addresses of one session, those of its open requests to listen included; notifying of all of them takes a few milliseconds."""


class Subscriptions:
    """Addresses by their topic (see `McpServer.get_topic`), in the order in which they came."""

    def __init__(self, get_topic: Callable[[str], str | None]) -> None:
        self._get_topic = get_topic
        self._topics: dict[str, str | None] = {}
        self._addresses: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, uri: str) -> bool:
        return uri in self._topics

    def add(self, uri: str) -> None:
        """Add an address; one that names nothing of the server is never notified of."""
        if uri in self._topics:
            return
        topic = self._topics[uri] = self._get_topic(uri)
        if topic is not None:
            self._addresses.setdefault(topic, {})[uri] = None

    def discard(self, uri: str) -> None:
        """Remove an address, if it is there."""
        topic = self._topics.pop(uri, None)
        if topic is not None:
            addresses = self._addresses[topic]
            del addresses[uri]
            if not addresses:
                del self._addresses[topic]

    def match(self, change: Changed) -> Iterator[str]:
        """Return the addresses that a change touches."""
        for topic in change.topics:
            yield from tuple(self._addresses.get(topic, ()))


class PendingNotifications:
    """What a client is still to be notified of: each address once, however often what is behind it changed before it was sent.

    A client that does not read misses nothing but repeats, and no more waits for it than it subscribed to.
    """

    def __init__(self, subscriptions: Subscriptions, *, with_lists: bool = True) -> None:
        self._subscriptions, self._with_lists = subscriptions, with_lists
        self._list_changed = self._is_closed = False
        self._addresses: dict[str, None] = {}
        self._came = asyncio.Event()

    def __len__(self) -> int:
        return len(self._addresses) + self._list_changed

    def add(self, change: Changed) -> None:
        """Take a change, and merge it with what waits."""
        if change.is_list and self._with_lists:
            self._list_changed = True
        self._addresses.update(dict.fromkeys(self._subscriptions.match(change)))
        if len(self):
            self._came.set()

    def close(self) -> None:
        """Let `send_all` return when nothing waits any more."""
        self._is_closed = True
        self._came.set()

    async def send_all(self, notify: Callable[[str, Json], Awaitable[None]]) -> None:
        """Send one notification after another, method and parameters, until this is closed."""
        while True:
            if self._list_changed:
                self._list_changed = False
                await notify("notifications/resources/list_changed", {})
            elif self._addresses:
                uri = next(iter(self._addresses))
                del self._addresses[uri]
                if uri in self._subscriptions:
                    await notify("notifications/resources/updated", {"uri": uri})
            elif self._is_closed:
                return
            else:
                self._came.clear()
                await self._came.wait()


def check_number(existing: int, added: Sequence[str], field: str) -> None:
    """Refuse addresses that would be too many for a session.

    Raises:
        RpcError: they would.
    """
    if existing + len(added) > MAX_SUBSCRIPTIONS:
        raise RpcError(
            INVALID_PARAMS,
            f"{field}: {existing + len(added):,} subscriptions are more than the limit of {MAX_SUBSCRIPTIONS} of a session",
        )
