"""The seam at which PyMongo's own async client and Motor are interchangeable.

Both are typed as PyMongo's, whose names and signatures Motor shares. Where they differ (what must be awaited), this module
knows it and nothing else does.

Why both: Motor, which runs PyMongo in threads, reached its end of life in May 2026; PyMongo Async is its successor.

Why PyMongo's waiting is replaced before Python 3.12: there `asyncio.wait_for` runs what it waits for in a task of its own, which is left
behind where the waiting is cancelled just after its time was over. PyMongo 4.20 waits so for a server, holding a lock: of 6,000
operations that were cancelled while no server answered, five ended with "Lock is not acquired", and the lock was held for ever, so
that no operation of the client ended any more, whatever its time limit. From 3.12 on nothing is changed.
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
    """Wait as `asyncio.wait_for` does from Python 3.12 on: in the task that waits, which so holds again what it held before."""
    async with asyncio.timeout(timeout):
        return await waited


if sys.version_info < (3, 12):
    vars(pymongo.lock)["wait_for"] = _wait_for


def make_client(driver: str, uri: str, options: Mapping[str, Any]) -> Client:
    """Make a client of the named driver; it connects by itself when it is first used.

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
    """Close all connections; only PyMongo's client waits for it."""
    await _settled(client.close())


async def aggregate(
    source: AsyncCollection[Document] | AsyncDatabase[Document], pipeline: Sequence[Mapping[str, Any]], **options: Any
) -> list[Document]:
    """Run an aggregation and read all it gives."""
    cursor = await _settled(source.aggregate(pipeline, **options))
    return cast("list[Document]", await cursor.to_list(None))


async def watch(
    database: AsyncDatabase[Document], pipeline: Sequence[Mapping[str, Any]], **options: Any
) -> AsyncDatabaseChangeStream[Document]:
    """Open a change stream on a database; Motor opens it only when it is first read."""
    return cast("AsyncDatabaseChangeStream[Document]", await _settled(database.watch(pipeline, **options)))


async def in_transaction(client: Client, work: Callable[[AsyncClientSession], Awaitable[None]]) -> None:
    """Run *work* in a transaction, again when the server says that doing so is safe."""
    session = await _settled(client.start_session())
    async with session:
        await session.with_transaction(work)


@contextlib.asynccontextmanager
async def caught_up_session(database: AsyncDatabase[Document]) -> AsyncIterator[AsyncClientSession]:
    """Yield a session whose reads wait for all that the server has by now: a primary that was just elected tells what a majority has
    only once it learned that it does, a moment later."""
    session = await _settled(database.client.start_session(causal_consistency=True))
    async with session:
        await database.command("ping", session=session)  # tells the session the server's time
        yield session


async def _settled(value: Any) -> Any:
    """Await what one driver gives as a coroutine and the other at once. A Motor object is never awaitable itself."""
    return await value if inspect.iscoroutine(value) or inspect.isawaitable(value) else value
