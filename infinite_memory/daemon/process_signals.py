"""Signals that end or wake a process, on every system: asyncio's handlers if available, `signal.signal` on Windows."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def add_handler(loop: asyncio.AbstractEventLoop, name: str, callback: Callable[[], object]) -> None:
    """Call *callback* on *loop* when the signal *name* arrives; do nothing if the system has no such signal."""
    number = getattr(signal, name, None)
    if number is None:
        return
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(callback))
