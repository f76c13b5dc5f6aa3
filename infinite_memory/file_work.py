"""Long work on files (backups, their checks, exports, imports, restores): threads of its own, and only so much of one client at a time.

Why threads of its own: one client's 300 checks of a backup took every thread of the event loop's pool, in which others' memories are
searched and stored. Why places for each client: its next works wait, and never those of others. A work keeps its place from its begin
to its end, for a snapshot of the store may not be kept waiting between two of its steps.
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

PLACES = 2  # works of one client under way
THREADS = 2 * PLACES  # one client alone leaves half of them free

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
_owner: contextvars.ContextVar[object] = contextvars.ContextVar("owner of file work", default="daemon")
_held: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("place for file work", default=None)


class _Lane:
    """The works of one owner: those under way and those that wait."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(PLACES)
        self.users = 0


_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, _Lane]] = WeakKeyDictionary()


class _Place:
    """One work's place; free when the work was left and no thread is busy with it any more, for cancelling stops no thread."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release, self._loop = release, asyncio.get_running_loop()
        self._busy, self.is_left = 0, False

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of one step."""
        self._busy += 1
        step: Future[T] = _threads.submit(contextvars.copy_context().run, work)
        step.add_done_callback(self._ended)
        return await asyncio.wrap_future(step)

    def leave(self) -> None:
        """End the work."""
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
            self._release()  # once: nothing is begun at a place that was left


def set_owner(owner: object) -> None:
    """Count the file work of this task, and of those that it starts, as *owner*'s: a client's session, or a token's id."""
    _owner.set(owner)


@contextlib.asynccontextmanager
async def file_work() -> AsyncIterator[None]:
    """Hold one of the owner's places; waits for one. A work within a work needs no second one."""
    held = _held.get()
    if held is not None and not held.is_left:  # a task may outlive the work that started it
        yield
        return
    place = await _take_place(_owner.get())
    token = _held.set(place)
    try:
        yield
    finally:
        _held.reset(token)
        place.leave()


async def in_file_thread(work: Callable[[], T]) -> T:
    """Run *work*, one step of the file work under way or a work by itself, in a thread for files."""
    async with file_work():
        place = _held.get()
        assert place is not None
        return await place.run(work)


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
