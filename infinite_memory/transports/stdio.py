"""Byte sources and sinks: the two sides of a session, and the pipes of this process.

Threads and not `connect_read_pipe`: standard input may be a file or a terminal whose description is shared with the shell, which
must not find it non-blocking afterwards.
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import threading
from typing import Protocol

CHUNK = 65536


class ByteSource(Protocol):
    """Yields bytes as they arrive."""

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end; may be cancelled without losing any."""


class ByteSink(Protocol):
    """Accepts bytes in order."""

    async def write(self, data: bytes) -> None:
        """Send *data*; return when it was accepted.

        Raises:
            ConnectionError: the other side is gone.
        """


class PatientReader(asyncio.StreamReader):
    """A reader that yields what was received before its connection broke; the standard one drops it."""

    def set_exception(self, exc: Exception) -> None:
        """Treat a broken connection as the end of the stream."""
        if isinstance(exc, OSError):
            self.feed_eof()
        else:
            super().set_exception(exc)


class SocketSink:
    """Writes to a socket through its own descriptor.

    Why not asyncio's writer: a failed write closes the whole transport, and what the client sent before it died is lost.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection.dup()
        self._socket.setblocking(False)
        self._order = asyncio.Lock()
        self._sends: set[asyncio.Task[None]] = set()
        self._is_broken = False

    async def write(self, data: bytes) -> None:
        """Send *data*; wait while the client does not read. Cancelling the caller cuts no line: sending continues."""
        if not (remaining := self._send_at_once(data)):
            return
        task = asyncio.create_task(self._send(remaining))
        self._sends.add(task)
        task.add_done_callback(self._sent)
        await asyncio.shield(task)

    def _send_at_once(self, data: bytes) -> bytes:
        """Send what is accepted without waiting, unless something is already waiting; return the rest.

        Raises:
            ConnectionError: the other side is gone.
        """
        if self._sends or self._is_broken:
            return data
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError as exc:
            self._is_broken = True
            raise ConnectionResetError(str(exc)) from exc

    async def _send(self, data: bytes) -> None:
        async with self._order:
            if self._is_broken:
                raise ConnectionResetError("the client is gone")
            try:
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
            except OSError as exc:
                self._is_broken = True
                raise ConnectionResetError(str(exc)) from exc

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sends.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: the caller has it, or has given up

    async def close(self) -> None:
        """Close the descriptor and drop unsent data."""
        self._is_broken = True
        sends = set(self._sends)
        for task in sends:
            task.cancel()
        if sends:
            await asyncio.wait(sends)
        self._socket.close()


class DescriptorSource:
    """Reads a file descriptor in a daemon thread, at most one chunk ahead."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(1)
        threading.Thread(target=self._run, name="input", daemon=True).start()

    async def read(self) -> bytes:
        chunk = await self._chunks.get()
        if not chunk:
            self._chunks.put_nowait(b"")  # the end is permanent
        return chunk

    def _run(self) -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(self._descriptor, CHUNK)
            except OSError:  # a closed terminal
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()
            except RuntimeError:  # the loop is closed: no reader is left
                return


class DescriptorSink:
    """Writes to a file descriptor in a daemon thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="output", daemon=True).start()

    async def write(self, data: bytes) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((data, done))
        await done

    def _run(self) -> None:
        while True:
            data, done = self._queue.get()
            problem: OSError | None = None
            remaining = memoryview(data)
            try:
                while remaining:
                    remaining = remaining[os.write(self._descriptor, remaining) :]
            except OSError as failed:
                problem = failed
            try:
                self._loop.call_soon_threadsafe(_settle, done, problem)
            except RuntimeError:  # the loop is closed
                return


def _settle(future: asyncio.Future[None], exc: OSError | None) -> None:
    if future.done():
        return
    if exc is None:
        future.set_result(None)
    else:
        future.set_exception(exc if isinstance(exc, ConnectionError) else ConnectionResetError(str(exc)))
