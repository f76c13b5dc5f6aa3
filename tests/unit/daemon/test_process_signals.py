"""Signals reach a loop that has no handlers of its own."""

from __future__ import annotations

import asyncio
import os
import signal

from infinite_memory.daemon import process_signals


class WindowsLoop(asyncio.SelectorEventLoop):
    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_signal_reaches_a_loop_without_handlers() -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        process_signals.add_handler(asyncio.get_running_loop(), "SIGTERM", stop.set)
        process_signals.add_handler(asyncio.get_running_loop(), "SIGNONE", stop.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    before = signal.getsignal(signal.SIGTERM)
    try:
        with asyncio.Runner(loop_factory=WindowsLoop) as runner:
            runner.run(scenario())
    finally:
        signal.signal(signal.SIGTERM, before)
