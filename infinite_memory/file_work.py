"""Long-running file jobs (backups, their checks, exports, imports, restores): a separate thread pool, with a limit per client.

Why a separate pool: one client's 300 checks of a backup took every thread of the event loop's pool, in which others' memories are
searched and stored. Why a limit per client: its further jobs wait, and never those of others. A job holds its slot from start to
end, because a snapshot of the store must not wait between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

PLACES = 2  # concurrent jobs of one client
THREADS = 2 * PLACES  # a single client leaves half of them free

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
_owner: contextvars.ContextVar[object] = contextvars.ContextVar("owner of file work", default="daemon")
_held: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("place for file work", default=None)


class _Lane:
    """The running and waiting jobs of one owner."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(PLACES)
        self.users = 0


_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, _Lane]] = WeakKeyDictionary()


class _Place:
    """The slot of one job; released when the job has ended and no thread works on it any more, as cancelling does not stop a thread."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release, self._loop = release, asyncio.get_running_loop()
        self._busy, self.is_left = 0, False

    async def run(self, func: Callable[[], T]) -> T:
        """Run one step and return its result."""
        self._busy += 1
        step: Future[T] = _threads.submit(contextvars.copy_context().run, func)
        step.add_done_callback(self._ended)
        return await asyncio.wrap_future(step)

    def leave(self) -> None:
        """End the job."""
        self.is_left = True
        self._free()

    def _ended(self, _: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self._busy -= 1
        self._free()

    def _free(self) -> None:
        if self.is_left and not self._busy:
            self._release()  # happens once: no step starts after the job has ended


def set_owner(owner: object) -> None:
    """Attribute the file jobs of this task, and of tasks that it starts, to *owner*: a client's session, or a token's id."""
    _owner.set(owner)


@contextlib.asynccontextmanager
async def file_work() -> AsyncIterator[None]:
    """Hold one of the owner's slots, waiting for one if necessary. A nested job uses the slot of the outer one."""
    held = _held.get()
    if held is not None and not held.is_left:  # a task may outlive the job that started it
        yield
        return
    place = await _take_place(_owner.get())
    token = _held.set(place)
    try:
        yield
    finally:
        _held.reset(token)
        place.leave()


async def in_file_thread(func: Callable[[], T]) -> T:
    """Run *func* in the file thread pool, as a step of the running file job or as its own job."""
    async with file_work():
        place = _held.get()
        assert place is not None
        return await place.run(func)


async def _take_place(owner: object) -> _Place:
    lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
    lane = lanes.setdefault(owner, _Lane())
    lane.users += 1

    def forget() -> None:
        lane.users -= 1
        if not lane.users:
            lanes.pop(owner, None)

    def release() -> None:
        lane.places.release()
        forget()

    try:
        await lane.places.acquire()
    except BaseException:
        forget()
        raise
    return _Place(release)
