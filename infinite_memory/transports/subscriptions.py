"""The resource URIs that an MCP client subscribes to: limited in number, parsed once, looked up by change, each pending at most once.

Why a limit: every change is matched against the subscriptions of all clients. A client with 100,000 URIs blocked everyone for
three seconds at every write. Why notifications are merged: a subscriber that did not read got 256 pending ones with every write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from infinite_memory.contracts.mcp import INVALID_PARAMS, Changed, Json, RpcError

MAX_SUBSCRIPTIONS = 256
"""URIs of one session, including those of its open requests to listen; notifying of all of them takes a few milliseconds."""


MAX_URI_CHARS = 100_000
"""Parsing a URI of 12 MB blocked all clients for seconds."""


class Subscriptions:
    """URIs by topic (see `McpServer.get_topic`), in insertion order."""

    def __init__(self, get_topic: Callable[[str], str | None]) -> None:
        self._get_topic = get_topic
        self._topics: dict[str, str | None] = {}
        self._addresses: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, uri: str) -> bool:
        return uri in self._topics

    def add(self, uri: str) -> None:
        """Add a URI; one that does not belong to the server never matches."""
        if uri in self._topics:
            return
        topic = self._topics[uri] = self._get_topic(uri)
        if topic is not None:
            self._addresses.setdefault(topic, {})[uri] = None

    def discard(self, uri: str) -> None:
        """Remove a URI, if it is there."""
        topic = self._topics.pop(uri, None)
        if topic is not None:
            addresses = self._addresses[topic]
            del addresses[uri]
            if not addresses:
                del self._addresses[topic]

    def match(self, change: Changed) -> Iterator[str]:
        """Return the URIs affected by a change."""
        for topic in change.topics:
            yield from tuple(self._addresses.get(topic, ()))


class PendingNotifications:
    """The pending notifications of a client: each URI once, however often it changed before the notification was sent.

    A client that does not read misses only repeats, and has no more pending than it subscribed to.
    """

    def __init__(self, subscriptions: Subscriptions, *, with_lists: bool = True) -> None:
        self._subscriptions, self._with_lists = subscriptions, with_lists
        self._list_changed = self._is_closed = False
        self._addresses: dict[str, None] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._addresses) + self._list_changed

    def add(self, change: Changed) -> None:
        """Add a change, and merge it with the pending ones."""
        if change.is_list and self._with_lists:
            self._list_changed = True
        self._addresses.update(dict.fromkeys(self._subscriptions.match(change)))
        if len(self):
            self._arrived.set()

    def close(self) -> None:
        """Let `send_all` return when nothing is pending."""
        self._is_closed = True
        self._arrived.set()

    async def send_all(self, notify: Callable[[str, Json], Awaitable[None]]) -> None:
        """Send one notification after another, as method and parameters, until this is closed."""
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
                self._arrived.clear()
                await self._arrived.wait()


def check_number(existing: int, added: Sequence[str], field: str) -> None:
    """Reject more URIs than a session may have.

    Raises:
        RpcError: there would be too many, or one is too long.
    """
    if existing + len(added) > MAX_SUBSCRIPTIONS:
        raise RpcError(
            INVALID_PARAMS,
            f"{field}: {existing + len(added):,} subscriptions are more than the limit of {MAX_SUBSCRIPTIONS} of a session",
        )
    for uri in added:
        check_length(uri, field)


def check_length(uri: str, field: str = "uri") -> None:
    """Reject a URI that is too long to be parsed.

    Raises:
        RpcError: it is.
    """
    if len(uri) > MAX_URI_CHARS:
        limit = f"the limit of {MAX_URI_CHARS:,} characters"
        raise RpcError(INVALID_PARAMS, f"{field}: a URI of {len(uri):,} characters is longer than {limit}")
