"""A window: one MCP client with the server that it started, ours or the peer's, driven by the official client package."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALL_S = 120.0


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """What a window starts, and the names that its tools have."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    store_tool: str
    search_tool: str
    limit: str
    """The name of the field that says how many results are wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """An open window. ``handshake_s``: from the start of the process to the reply to ``initialize``."""

    server: Server
    session: ClientSession
    process: psutil.Process
    handshake_s: float

    async def store(self, text: str, tags: Sequence[str]) -> None:
        """Store a memory."""
        await self._call(self.server.store_tool, content=text, metadata={"tags": list(tags)})

    async def search(self, question: str, count: int) -> str:
        """Ask a question; gives the reply's text."""
        return await self._call(self.server.search_tool, query=question, **{self.server.limit: count})

    async def _call(self, tool: str, **arguments: Any) -> str:
        result = await self.session.call_tool(tool, arguments, read_timeout_seconds=CALL_S)
        said = "\n".join(getattr(one, "text", "") for one in result.content)
        if result.is_error or "Duplicate content" in said:
            raise SystemExit(f"{self.server.name} refused {tool}: {said[:500]}")
        return said


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Window]:
    """Start a server and shake hands with it."""
    before = set(psutil.Process().children())
    parameters = StdioServerParameters(
        command=server.command[0], args=list(server.command[1:]), env=dict(server.environ)
    )
    with server.log.open("a", encoding="utf-8") as log:
        began = time.perf_counter()
        async with (
            stdio_client(parameters, errlog=log) as (read, write),
            ClientSession(read, write, read_timeout_seconds=CALL_S) as session,
        ):
            await session.initialize()
            handshake_s = time.perf_counter() - began
            [process] = set(psutil.Process().children()) - before
            yield Window(server, session, process, handshake_s)


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Give a process with all that descends from it."""
    return [process, *process.children(recursive=True)]


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds that processes have used, children that have ended included."""
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


def memory_bytes(processes: Iterable[psutil.Process]) -> tuple[int, int]:
    """Resident bytes, and the proportional share (a page that several use is divided among them)."""
    told = [one.memory_full_info() for one in processes]
    return sum(one.rss for one in told), sum(one.pss for one in told)


def quiet(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """Run a command; gives what it printed."""
    return subprocess.run(words, env=dict(environ), capture_output=True, check=True, text=True).stdout
