"""Checks large requests in threads of their own, so that a client that sends one holds up nobody but itself.

Two threads and not the loop's own pool: a few clients that send nothing but large requests must not take the threads in which the
memories are searched.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

LARGE_CHARS = 20_000  # of a request's texts, a value counting as four: checking less takes a millisecond
_MIN_VALUE_CHARS = 4  # that a value takes at least, with what separates it from the next

_threads = ThreadPoolExecutor(2, thread_name_prefix="requests")


def is_larger(value: Any, chars: int) -> bool:
    """True if the texts in a JSON value come to *chars* characters or more; looks no further than that."""
    remaining = chars
    waiting = [value]
    while waiting and remaining > 0:
        part = waiting.pop()
        if isinstance(part, str):
            remaining -= len(part)
        elif isinstance(part, dict):
            if len(part) * _MIN_VALUE_CHARS >= remaining:
                return True
            remaining -= sum(map(len, part))
            waiting += part.values()
        elif isinstance(part, list | tuple):
            if len(part) * _MIN_VALUE_CHARS >= remaining:
                return True
            waiting += part
        remaining -= _MIN_VALUE_CHARS
    return remaining <= 0


async def in_thread(work: Callable[[], T]) -> T:
    """Run *work* in a thread for requests, in the context of the caller."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_threads, lambda: context.run(work))


async def check_fields(request: Any, check: Callable[[], T]) -> T:
    """Return what *check* makes of *request*; in a thread where the request is large."""
    return await in_thread(check) if is_larger(request, LARGE_CHARS) else check()
