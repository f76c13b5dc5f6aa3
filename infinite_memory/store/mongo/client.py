"""A store's connection to its server: the client, operation timeouts, and what happens when the server goes away.

Why a restarted server gets a new client: a connection that the driver opens while a replica set member is starting reports for its lifetime
that sessions are unsupported, and the driver keeps it. Every transaction over it fails, and writes over it are not retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pymongo
from pymongo import ReadPreference
from pymongo.asynchronous.database import AsyncDatabase

from infinite_memory.errors import ConfigError, StoreError, StoreUnavailableError
from infinite_memory.store import descriptors
from infinite_memory.store.document_checks import CHECKED_CODEC
from infinite_memory.store.mongo.driver_errors import lacks_sessions, translated
from infinite_memory.store.mongo.drivers import DRIVERS, Client, close_client, make_client
from infinite_memory.store.mongo.stale_transactions import APP_NAME
from infinite_memory.store.set_aside import SetAside

Database = AsyncDatabase[dict[str, Any]]

UriSource = str | Callable[[], Awaitable[str]]
"""A server's URI, or a function that makes sure that the server runs and returns it (`LocalMongo.ensure`)."""

_POOL = 20  # connections: eight for a read over all scopes, the rest for concurrent requests
_HINT = "start it, or correct mongodb.uri; then send the request again"
_OWN_HINT = "it is started again by itself; send the request again in a moment, or see logs/mongod.log"
_LOOK_AGAIN_MS = 2_000
"""How often the driver checks whether an unresponsive server is back."""

_MEMBER_HEARTBEAT_MS, _MEMBER_TIMEOUT_MS = 1_000, 2_000
"""Heartbeat interval of a replica set member, and how long after a missed one it counts as unresponsive. Operations waiting for it are then
retried on the next primary, in the time remaining; with the driver's defaults only operations that start afterwards would be."""

_inside: contextvars.ContextVar[int] = contextvars.ContextVar("inside an operation", default=0)
"""Nesting depth of operations in this task and its children; a task already inside one is never blocked."""


class Connection:
    """Operations on one database, each with a timeout, and errors translated.

    After a failure the URI is resolved again before the next operation, so that a managed server that died is restarted.

    Args:
        process: Returns the process id of a managed server; a different one means that it was restarted.
    """

    def __init__(
        self,
        uri: UriSource,
        *,
        database: str,
        driver: str,
        timeout_s: float,
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        if driver not in DRIVERS:
            raise ConfigError(f"mongodb.driver: {driver!r} is none of {', '.join(DRIVERS)}")
        self._source = uri
        self._name = database
        self._driver = driver
        self.timeout_s = timeout_s
        self._is_ours = not isinstance(uri, str)
        self.hint = _HINT if isinstance(uri, str) else _OWN_HINT
        self._process = process
        self._client: Client | None = None
        self._retired: list[Client] = []
        self._uri, self._pid = "", process()
        self._doubtful, self._is_stale = True, False
        self._asking: asyncio.Task[str] | None = None
        self._under_way = 0
        self._quiet, self._free = asyncio.Event(), asyncio.Event()
        self._free.set()
        self.set_aside = SetAside()

    @property
    def client(self) -> Client:
        """The client used by the last operation."""
        if self._client is None:
            raise StoreUnavailableError(f"the store is not connected; {self.hint}")
        return self._client

    @contextlib.asynccontextmanager
    async def operation(self, *, factor: float = 1.0, asks_first: bool = True) -> AsyncIterator[Database]:
        """Yield the database for one operation that takes at most ``timeout_s * factor``, including waits and retries.

        An unresponsive server is detected after ``timeout_s`` even if the operation itself may take longer. While a task is in `exclusive`,
        the operation waits before its timeout starts.

        Args:
            factor: Multiplier of the timeout.
            asks_first: Whether a long operation first pings the server; not needed if the operation before it showed that the server
                answers.
        """
        async with self._passing():
            database = await self.database()
            try:
                if factor > 1 and asks_first:
                    with translated(self.hint), pymongo.timeout(self.timeout_s):
                        await database.command("ping")
                with translated(self.hint), pymongo.timeout(self.timeout_s * factor):
                    yield database
            except StoreUnavailableError as exc:
                self._doubtful = True
                self._is_stale |= lacks_sessions(exc.__cause__)
                raise

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Block every other operation of this process; starts once running ones have finished.

        For changes that must appear atomic to everybody: putting a restore into place.
        """
        while not self._free.is_set():
            await self._free.wait()
        self._free.clear()
        _inside.set(_inside.get() + 1)
        try:
            while self._under_way:
                self._quiet.clear()
                await self._quiet.wait()
            yield
        finally:
            _inside.set(_inside.get() - 1)
            self._free.set()

    @contextlib.asynccontextmanager
    async def _passing(self) -> AsyncIterator[None]:
        nested = _inside.get() > 0
        if not nested:
            await self._held_up()
            self._under_way += 1
        _inside.set(_inside.get() + 1)
        try:
            yield
        finally:
            _inside.set(_inside.get() - 1)
            if not nested:
                self._under_way -= 1
                if self._under_way == 0:
                    self._quiet.set()
                    while self._retired:
                        await close_client(self._retired.pop())

    async def _held_up(self) -> None:
        """Wait until no task is in `exclusive`; at most the operation timeout if that task waits for the server too.

        Raises:
            StoreUnavailableError: it does.
        """
        while not self._free.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timeout_s):
                    await self._free.wait()
            if self._doubtful and not self._free.is_set():
                raise StoreUnavailableError(f"a restore is under way and MongoDB is not there; {self.hint}")

    def check_room(self, scopes: int) -> None:
        """Reject more scopes than a managed server can keep open: it would terminate, and nothing could be read.

        Raises:
            StoreError: there are too many.
        """
        if self._is_ours and (problem := descriptors.too_few(scopes)) is not None:
            raise StoreError(f"no scope can be added: {problem}")

    async def database(self, *, is_patient: bool = False) -> Database:
        """Return the database, connecting first if needed.

        Args:
            is_patient: Whether to wait as long as a managed server takes to start.
        """
        if self._doubtful or self._client is None or self._process() != self._pid:
            uri = await self._ask_uri(is_patient=is_patient)
            if self._client is None or self._is_stale or (uri, self._process()) != (self._uri, self._pid):
                with translated(self.hint):
                    client = make_client(self._driver, uri, self._options(uri))
                if self._client is not None:
                    self._retired.append(self._client)  # running operations finish on it
                self._client, self._uri, self._pid, self._is_stale = client, uri, self._process(), False
            self._doubtful = False
        return self._client.get_database(
            self._name, codec_options=CHECKED_CODEC, read_preference=ReadPreference.PRIMARY
        )

    def doubt(self) -> None:
        """Record that the server may be gone."""
        self._doubtful = True

    async def close(self) -> None:
        """Close all connections; idempotent."""
        if self._client is not None:
            self._retired.append(self._client)
            self._client = None
        while self._retired:
            await close_client(self._retired.pop())
        self._doubtful = True

    async def _ask_uri(self, *, is_patient: bool) -> str:
        if isinstance(self._source, str):
            return self._source
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._source())
        try:
            async with asyncio.timeout(None if is_patient else self.timeout_s):
                return await asyncio.shield(self._asking)
        except TimeoutError as exc:
            raise StoreUnavailableError(f"MongoDB is still starting; {self.hint}") from exc

    def _options(self, uri: str) -> dict[str, Any]:
        """Client options that the store needs, whatever the URI says: durable writes, majority reads, bounded waits."""
        limit_ms = int(self.timeout_s * 1000)
        heartbeat_ms, connect_ms = _LOOK_AGAIN_MS, limit_ms
        if names_members(uri):
            heartbeat_ms, connect_ms = _MEMBER_HEARTBEAT_MS, min(_MEMBER_TIMEOUT_MS, limit_ms)
        return {
            "w": "majority",
            "journal": True,
            "readConcernLevel": "majority",
            "retryWrites": True,
            "retryReads": True,
            "appname": APP_NAME,
            "maxPoolSize": _POOL,
            "serverSelectionTimeoutMS": limit_ms,
            "connectTimeoutMS": connect_ms,
            "socketTimeoutMS": limit_ms + 10_000,
            "heartbeatFrequencyMS": heartbeat_ms,
        }


def names_members(uri: str) -> bool:
    """True if a URI names a replica set of several members, which can fail over."""
    scheme, _, rest = uri.partition("://")
    return scheme == "mongodb+srv" or "," in rest.partition("/")[0]
