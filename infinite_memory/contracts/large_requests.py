"""Validates large requests in separate threads, so that a client that sends one delays only itself.

Two threads and not the loop's own pool: a few clients that send only large requests must not take the threads of
searches.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

LARGE_CHARS = 20_000  # in a request's texts, other values counting as four: validating less takes a millisecond
_MIN_VALUE_CHARS = 4  # minimum size of a value with its separator

_threads = ThreadPoolExecutor(2, thread_name_prefix="requests")


def is_larger(value: Any, chars: int) -> bool:
    """True if the texts in a JSON value have *chars* characters or more in total; stops counting there."""
    remaining = chars
    waiting = [value]
    while waiting and remaining > 0:
        item = waiting.pop()
        if isinstance(item, str):
            remaining -= len(item)
        elif isinstance(item, dict):
            if len(item) * _MIN_VALUE_CHARS >= remaining:
                return True
            remaining -= sum(map(len, item))
            waiting += item.values()
        elif isinstance(item, list | tuple):
            if len(item) * _MIN_VALUE_CHARS >= remaining:
                return True
            waiting += item
        remaining -= _MIN_VALUE_CHARS
    return remaining <= 0


async def in_thread(func: Callable[[], T]) -> T:
    """Run *func* in a thread for requests, in the caller's context."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_threads, lambda: context.run(func))


async def check_fields(request: Any, check: Callable[[], T]) -> T:
    """Return the result of *check*; run it in a thread if *request* is large."""
    return await in_thread(check) if is_larger(request, LARGE_CHARS) else check()
