"""An adapter that makes PyMongo's async client and Motor interchangeable.

Both are typed as PyMongo's, whose names and signatures Motor shares. Only this module knows where they differ (what must be awaited).

Why both: Motor, which runs PyMongo in threads, reached its end of life in May 2026; PyMongo Async is its successor.

Why PyMongo's `wait_for` is replaced before Python 3.12: there `asyncio.wait_for` runs its awaitable in a separate task, which is leaked if
the wait is cancelled just after its timeout. PyMongo 4.20 waits for a server this way while holding a lock: of 6,000 operations cancelled
while no server answered, five ended with "Lock is not acquired", and the lock was never released, so that every operation of the client
hung, whatever its timeout. Nothing is changed from 3.12 on.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pymongo.lock
from pymongo import AsyncMongoClient

from infinite_memory.errors import ConfigError

if TYPE_CHECKING:
    from pymongo.asynchronous.change_stream import AsyncDatabaseChangeStream
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

T = TypeVar("T")
Document = dict[str, Any]
Client = AsyncMongoClient[Document]

DRIVERS = ("pymongo", "motor")


async def _wait_for(waited: Awaitable[T], timeout: float | None) -> T:
    """Wait as `asyncio.wait_for` does from Python 3.12 on: in the waiting task, which thus reacquires the locks it held."""
    async with asyncio.timeout(timeout):
        return await waited


if sys.version_info < (3, 12):
    vars(pymongo.lock)["wait_for"] = _wait_for


def make_client(driver: str, uri: str, options: Mapping[str, Any]) -> Client:
    """Return a client of the named driver; it connects on first use.

    Raises:
        ConfigError: *driver* is neither "pymongo" nor "motor", or Motor is not installed.
    """
    if driver == "pymongo":
        return AsyncMongoClient(uri, **options)
    if driver == "motor":
        try:
            from motor.motor_asyncio import AsyncIOMotorClient
        except ImportError as exc:
            raise ConfigError(
                f"mongodb.driver is motor, which cannot be imported ({exc}); install the package motor"
            ) from exc
        return cast("Client", AsyncIOMotorClient(uri, **options))
    raise ConfigError(f"mongodb.driver: {driver!r} is none of {', '.join(DRIVERS)}")


async def close_client(client: Client) -> None:
    """Close all connections; only PyMongo's client awaits it."""
    await _settled(client.close())


async def aggregate(
    source: AsyncCollection[Document] | AsyncDatabase[Document], pipeline: Sequence[Mapping[str, Any]], **options: Any
) -> list[Document]:
    """Run an aggregation and return all results."""
    cursor = await _settled(source.aggregate(pipeline, **options))
    return cast("list[Document]", await cursor.to_list(None))


async def watch(
    database: AsyncDatabase[Document], pipeline: Sequence[Mapping[str, Any]], **options: Any
) -> AsyncDatabaseChangeStream[Document]:
    """Open a change stream on a database; Motor opens it only on the first read."""
    return cast("AsyncDatabaseChangeStream[Document]", await _settled(database.watch(pipeline, **options)))


async def in_transaction(client: Client, operation: Callable[[AsyncClientSession], Awaitable[None]]) -> None:
    """Run *operation* in a transaction, retried when the server says that this is safe."""
    session = await _settled(client.start_session())
    async with session:
        await session.with_transaction(operation)


@contextlib.asynccontextmanager
async def caught_up_session(database: AsyncDatabase[Document]) -> AsyncIterator[AsyncClientSession]:
    """Yield a session whose reads wait for all that the server has by now.

    A newly elected primary learns slightly later what is majority-committed.
    """
    session = await _settled(database.client.start_session(causal_consistency=True))
    async with session:
        await database.command("ping", session=session)  # advances the session to the server's cluster time
        yield session


async def _settled(value: Any) -> Any:
    """Await a result that one driver returns as a coroutine and the other directly. A Motor object is never awaitable itself."""
    return await value if inspect.iscoroutine(value) or inspect.isawaitable(value) else value
