"""`AsyncMemory`: `Memory` for asyncio. Its requests run in a thread pool, so that they never block the event loop.

Why threads: the two clients share all code, and a request over a local socket is too short for asynchronous streams to pay off.
Cancelling a call does not cancel its request, which completes in its thread.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from infinite_memory.sdk.memory import Memory
from infinite_memory.sdk.requests import check_page
from infinite_memory.sdk.results import MemoryItem
from infinite_memory.sdk.transport import CAPACITY

P = ParamSpec("P")
GivenT = TypeVar("GivenT")


def _in_thread(
    method: Callable[Concatenate[Memory, P], GivenT],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, GivenT]]:
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> GivenT:
        work = functools.partial(method, self.sync, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._workers(), work)

    functools.update_wrapper(call, method)
    return call


class AsyncMemory:
    """A memory for asyncio: the methods of `Memory`, to be awaited. ``sync`` is the `Memory` behind it."""

    def __init__(
        self,
        user_id: str | None = None,
        *,
        scope: str | None = None,
        home: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
        tunnel_to: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self.sync = Memory(
            user_id, scope=scope, home=home, url=url, token=token, tunnel_to=tunnel_to, timeout_s=timeout_s
        )
        self._threads, self._process = _new_threads(), os.getpid()

    add = _in_thread(Memory.add)
    search = _in_thread(Memory.search)
    recall = _in_thread(Memory.recall)
    list_memories = _in_thread(Memory.list_memories)
    get = _in_thread(Memory.get)
    update = _in_thread(Memory.update)
    delete = _in_thread(Memory.delete)
    delete_all = _in_thread(Memory.delete_all)
    restore = _in_thread(Memory.restore)
    move = _in_thread(Memory.move)
    history = _in_thread(Memory.history)
    chat = _in_thread(Memory.chat)
    scopes = _in_thread(Memory.scopes)

    async def iterate(
        self,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        tags: Sequence[str] | str | None = (),
        session_id: str | None = None,
        page: int = 500,
        filter: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[MemoryItem]:
        """Return what `Memory.iterate` does, for ``async for``."""
        check_page(page)
        cursor: str | None = None
        while True:
            listed = await self.list_memories(
                user_id=user_id, scope=scope, tags=tags, session_id=session_id, limit=page, cursor=cursor, filter=filter
            )
            for memory in listed:
                yield memory
            cursor = listed.next_cursor
            if cursor is None:
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. The memory can be used on; it opens new ones."""
        await asyncio.get_running_loop().run_in_executor(self._workers(), self.sync.close)

    def _workers(self) -> ThreadPoolExecutor:
        """Return the thread pool; a forked process gets a new one."""
        if self._process != os.getpid():
            self._threads, self._process = _new_threads(), os.getpid()
        return self._threads


def _new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CAPACITY, thread_name_prefix="infinite-memory")
