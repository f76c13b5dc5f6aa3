"""The addresses that a client of MCP is notified of: few enough, each taken apart once, and found by what changed.

Why a limit: a change of anybody's is held against the subscriptions of all. One client that named 100,000 addresses held everybody up for
three seconds at every write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from infinite_memory.contracts.mcp import INVALID_PARAMS, Changed, RpcError

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
