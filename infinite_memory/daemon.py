"""The daemon: one for each home. It listens, lets each client have a session of its own, and goes when nobody needs it.

The socket is open before anything heavy is imported, so that clients wait for nothing. A client greets with one line
(`local_socket`); what it wants is a session, the daemon's status, or that the daemon goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory import __version__, local_socket
from infinite_memory.app import App, check_model, new_session
from infinite_memory.config import Config, known_settings, load_config
from infinite_memory.contracts.fields import Checking
from infinite_memory.contracts.native import Session
from infinite_memory.contracts.native.table import untold
from infinite_memory.contracts.siblings import NATIVE, ROUTES, SIBLINGS
from infinite_memory.engine.parts import Progress
from infinite_memory.errors import ConfigError, DaemonError, InfiniteMemoryError, shown
from infinite_memory.home import Home
from infinite_memory.logs import bound_printed, open_log, show_crashes
from infinite_memory.model_port.choose import configured_model
from infinite_memory.protocols.json_text import format_line
from infinite_memory.protocols.lines import LineContract
from infinite_memory.protocols.mcp import McpSession
from infinite_memory.protocols.progress import ProgressLines
from infinite_memory.protocols.session import serve_session
from infinite_memory.rest.parts import RestParts
from infinite_memory.web.companion import open_companion
from infinite_memory.web.server import HttpServer

if TYPE_CHECKING:
    from infinite_memory.rest.lines import LocalRoutes

log = logging.getLogger(__name__)

GREETING_S = 10.0  # a connection that says nothing is closed after this long
STOP_S = 20.0  # how long requests under way may take once the daemon is asked to go
LOCK_WAIT_S = 30.0  # how long a new daemon waits for the one before it to finish
IDLE_CHECK_S = 1.0  # how often it looks whether anybody is here, or can still come
SWITCH_S = 0.001  # how long a thread keeps others from running; each step of a request beside a save may wait this long


@dataclass(slots=True)
class Connection:
    """One client's connection, as the two sides that a session knows."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        """Give the next bytes, b"" at the end."""
        try:
            return await self.reader.read(65536)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Hand *data* on; waits while the client does not read, so that nothing piles up."""
        self.writer.write(data)
        await self.writer.drain()

    async def tell(self, state: Mapping[str, Any]) -> None:
        """Send what is no reply but meant for the client program itself, in a line of its own."""
        await self.write(local_socket.CONTROL + format_line(dict(state)))


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    app: App
    config: Config
    home: Home
    record: dict[str, Any]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    sessions: set[asyncio.Task[None]] = field(default_factory=set)
    started_at: float = field(default_factory=time.monotonic)
    last_seen_at: float = field(default_factory=time.monotonic)
    routes: LocalRoutes | None = None
    http: HttpServer | None = None
    http_problem: str | None = None

    async def serve(self, listening: socket.socket) -> None:
        """Answer clients until asked to go, or idle for long enough."""
        if listening.family == socket.AF_INET:
            server = await asyncio.start_server(
                self._connected, sock=listening, limit=local_socket.GREETING_BYTES, backlog=local_socket.BACKLOG
            )
        else:
            server = await asyncio.start_unix_server(
                self._connected, sock=listening, limit=local_socket.GREETING_BYTES, backlog=local_socket.BACKLOG
            )
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop.set)
        local_socket.write_record(self.home.path, self.record)
        log.info("the daemon listens", extra={"event": "daemon_listens"})
        self._open_http()
        await self._wait_for_end()
        local_socket.remove_record(self.home.path, self.record)  # from now on clients meet the next daemon
        server.close()
        if self.http is not None:
            await self.http.close()
        if self.sessions:
            await asyncio.wait(self.sessions, timeout=STOP_S)
        for task in self.sessions:
            task.cancel()
        await asyncio.gather(*self.sessions, return_exceptions=True)
        log.info("the daemon goes", extra={"event": "daemon_goes"})

    async def _wait_for_end(self) -> None:
        idle_exit_s = self.config.daemon.idle_exit_s
        while not self.stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), IDLE_CHECK_S)
            bound_printed(self.home)
            if not local_socket.is_reachable(self.home.path, self.record):
                log.warning(
                    "the home was removed or taken over: nobody can reach this daemon", extra={"event": "daemon_lost"}
                )
                self.stop.set()
            elif self.sessions:
                self.last_seen_at = time.monotonic()
            elif idle_exit_s and not self._has_http and time.monotonic() - self.last_seen_at > idle_exit_s:
                log.info("nobody has been here for %g s", idle_exit_s, extra={"event": "daemon_idle"})
                self.stop.set()

    @property
    def _has_http(self) -> bool:
        return self.http is not None and self.http.problem is None

    def _open_http(self) -> None:
        """Turn HTTP on, if a port is set. Who comes by HTTP cannot start a daemon, so with it this one stays when idle."""
        if self.config.http.port is None:
            return
        try:
            self.http = HttpServer(
                self.config.http,
                self.home.path,
                {name: partial(self._over_http, name) for name in (NATIVE, *SIBLINGS)},
                body_bytes=self.config.limits.line_bytes,
                rest=RestParts(
                    self.app.engine,
                    self.app.built_engine,
                    partial(new_session, self.config, os.environ),
                    partial(configured_model, self.config.model),
                    self.config.model.timeout_s,
                ),
            )
        except (ConfigError, OSError) as problem:  # a port that is taken must not keep the memory from everybody else
            self.http_problem = str(problem)
            log.error("there is no HTTP: %s", problem, extra={"event": "http_not_opened"})
            return
        self.http.start()

    def _over_http(self, contract: str) -> McpSession:
        return self.app.speak(contract, new_session(self.config, os.environ), {}, {})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            greeting = await asyncio.wait_for(self._greeting(reader), GREETING_S)
            if greeting is not None:
                await self._welcome(greeting, Connection(reader, writer), task)
        except (TimeoutError, ConnectionError):
            pass  # it said nothing, or left
        except Exception:
            log.exception("a session failed", extra={"event": "session_failed"})
        finally:
            if task in self.sessions:
                self.sessions.discard(task)
                self.last_seen_at = time.monotonic()
            writer.close()

    async def _greeting(self, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        """Read what a client says first; None for what no client of ours says."""
        try:
            if "token" in self.record:
                token = (await reader.readuntil(b"\n")).decode("utf-8", "replace").strip()
                if not _same(token, self.record["token"]):
                    return None
            greeting = json.loads(await reader.readuntil(b"\n"))
        except (ValueError, RecursionError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            return None
        return greeting if isinstance(greeting, dict) else None

    async def _welcome(self, greeting: dict[str, Any], link: Connection, task: asyncio.Task[None]) -> None:
        kind = greeting.get("kind")
        if kind == "status":
            await link.write(format_line({"ok": True, "status": await self.status()}))
            return
        if kind == "stop":
            self.stop.set()
            await link.write(format_line({"ok": True, "pid": os.getpid()}))
            return
        if kind == "tokens":
            self.sessions.add(task)  # who stops the daemon waits for it
            await link.write(format_line({"ok": True}))  # what follows may wait for the database
            await link.write(format_line(await self._tokens(greeting)))
            return
        if kind != "session" or not isinstance(greeting.get("version"), str):
            return  # no client of ours, of whatever version
        foreign = greeting.get("version") != __version__ or greeting.get("protocol") != local_socket.PROTOCOL
        if foreign and not greeting.get("reconnect"):
            log.info(
                "a client of version %s asks for its own daemon", greeting.get("version"), extra={"event": "replaced"}
            )
            self.stop.set()
        if self.stop.is_set():
            await link.write(format_line({"ok": False}))  # the client asks again and meets the next daemon
            return
        self.sessions.add(task)
        async with contextlib.AsyncExitStack() as stack:
            try:
                session, notes = self._session(greeting)
                open_lines, open_rpc = self._lines(greeting, session), self._contract(greeting, session)
                notes += await self._companion(greeting, open_rpc, stack)
            except ConfigError as problem:
                await link.write(format_line({"ok": False, "error": str(problem), "error_code": problem.code}))
                return
            answer = {"ok": True, "version": __version__, "pid": os.getpid(), "notes": notes}
            await link.write(format_line(answer | {"line_bytes": session.limits.line_bytes}))
            session.tell, session.progress = link.tell, self._progress(greeting, link)
            limit = session.limits.line_bytes
            await serve_session(open_lines, open_rpc, link, link, limit=limit, stop=self.stop)

    @staticmethod
    def _progress(greeting: Mapping[str, Any], link: Connection) -> Progress:
        """Give what tells a client of progress, if it wants that."""
        return ProgressLines(link.tell) if greeting.get("progress") is True else untold

    def _contract(self, greeting: Mapping[str, Any], session: Session) -> Callable[[], McpSession]:
        """Give what begins a conversation in the contract that a client asks for.

        Raises:
            ConfigError: there is none of that name, or an option of the client's is wrong.
        """
        environ, options = _texts(greeting.get("environ")), _texts(greeting.get("options"))

        def open_rpc() -> McpSession:
            contract = str(greeting.get("contract", NATIVE))
            return self.app.speak(NATIVE if contract == ROUTES else contract, session, environ, options)

        open_rpc()  # what is wrong is said now
        return open_rpc

    def _lines(self, greeting: Mapping[str, Any], session: Session) -> Callable[[], LineContract] | None:
        """Give what begins a conversation that is not JSON-RPC; None where the contract has no such.

        Raises:
            ConfigError: half of a language model is set.
        """
        contract = greeting.get("contract", NATIVE)
        if contract == ROUTES:
            if self.routes is None:
                from infinite_memory.rest.lines import LocalRoutes  # only programs that use the SDK need it

                model = self.config.model
                self.routes = LocalRoutes(self.app.engine, partial(configured_model, model), model.timeout_s)
            self.routes.open(session)  # what is wrong is said now
            return partial(self.routes.open, session)
        return partial(self.app.contract, session) if contract == NATIVE else None

    async def _companion(
        self, greeting: Mapping[str, Any], open_rpc: Callable[[], McpSession], stack: contextlib.AsyncExitStack
    ) -> list[str]:
        """Open the address that a client wants its contract at as well; gives a note about it."""
        if (address := _texts(greeting.get("options")).get("http")) is None:
            return []
        contract = str(greeting.get("contract", NATIVE))
        opened = open_companion(
            address, contract, open_rpc, self.config.http, self.home.path, body_bytes=self.config.limits.line_bytes
        )
        return [f"HTTP at {await stack.enter_async_context(opened)}, with the token of {self.home.path / 'http.token'}"]

    async def _tokens(self, greeting: Mapping[str, Any]) -> dict[str, Any]:
        """Make, list or revoke tokens; only who may open our socket comes here."""
        from infinite_memory.rest.tokens import manage  # only who turned HTTP on needs it

        given = greeting.get("fields")
        session = new_session(self.config, os.environ)
        try:
            reply = await manage(
                await self.app.engine(),
                str(greeting.get("what")),
                given if isinstance(given, dict) else {},
                Checking(session.limits, session.zone),
            )
        except InfiniteMemoryError as problem:
            return {"status": "ERROR", "error": str(problem), "error_code": problem.code}
        return {"status": "OK"} | reply

    def _session(self, greeting: Mapping[str, Any]) -> tuple[Session, list[str]]:
        """Make a session from what the client's own environment, file and flags say.

        Raises:
            ConfigError: a setting of the client's is unknown or wrong.
        """
        environ, flags = _texts(greeting.get("environ")), _texts(greeting.get("flags"))
        named = greeting.get("config_file") or str(self.home.config_file)
        if not isinstance(named, str) or "\0" in named:
            raise ConfigError(f"config_file = {shown(named)} is not the path of a file")
        file = Path(named)
        wanted = load_config(file, environ, flags)
        session = new_session(wanted, environ)
        if scope := greeting.get("active_scope"):
            session.active_scope = str(scope)
        session.ignored = self._ignored(wanted)
        notes = [f"{one}; restart the daemon to change it (infinite-memory daemon stop)" for one in session.ignored]
        return session, notes

    def _ignored(self, wanted: Config) -> list[str]:
        """Name the daemon's settings that this client would have otherwise."""
        running = dict(self.config.values())
        known = known_settings()
        return [
            f"{name} = {value!r} is ignored, the daemon runs with {running[name]!r}"
            for name, value in wanted.values()
            if not known[name].per_session and name in wanted.origins and value != running[name]
        ]

    async def status(self) -> dict[str, Any]:
        """Tell what `daemon status` shows."""
        engine = self.app.built_engine()
        index = engine.parts.index if engine is not None else None
        status = {
            "pid": os.getpid(),
            "mongod_pid": self.app.mongod.pid if self.app.mongod is not None else None,
            "version": __version__,
            "uptime_s": round(time.monotonic() - self.started_at, 1),
            "home": str(self.home.path),
            "sessions": len(self.sessions),
            "model": {
                "name": self.config.embedding.model,
                "state": engine.parts.embeddings.state if engine is not None else "loading",
            },
            "sidecar": {"state": index.state if index else "loading", "count": index.count() if index else None},
            "text_index": {"state": index.words_state if index else "loading"},
            "jobs": self.app.jobs.status() if self.app.jobs is not None else [],
            "rss_bytes": _rss_bytes(),
        }
        if self.http is not None:
            status["http"] = self.http.about()
        elif self.http_problem is not None:
            status["http"] = {"error": self.http_problem}
        return status


def run(config: Config, home: Home, *, wait: bool = True) -> int:
    """Run the daemon of *home* until it is asked to go; gives the exit code.

    Args:
        wait: Whether to wait for another daemon of this home that is just finishing.

    Raises:
        DaemonError: another daemon of this home runs and does not go, or the home cannot be used.
    """
    os.environ["INFINITE_MEMORY_HOME"] = str(home.path)
    try:
        home.make()
        open_log(home, config.log)
        show_crashes()
        return _run_alone(config, home, wait=wait)
    except OSError as problem:
        log.debug("the daemon ends", exc_info=True, extra={"event": "daemon_failed"})
        raise DaemonError(f"the home {home.path} cannot be used: {problem.strerror or problem}") from problem


def _run_alone(config: Config, home: Home, *, wait: bool) -> int:
    end = time.monotonic() + (LOCK_WAIT_S if wait else 0)
    while True:
        with local_socket.locked(local_socket.lock_path(home.path), wait=False) as held:
            if held:
                check_model(config)
                listening, address = local_socket.listen(home.path, config.daemon.transport)
                record = {"pid": os.getpid(), "version": __version__} | address
                sys.setswitchinterval(SWITCH_S)
                return asyncio.run(_run(config, home, listening, record))
        if time.monotonic() > end:
            raise DaemonError(f"another daemon runs for {home.path} (process {_pid(home)})")
        time.sleep(0.05)


async def _run(config: Config, home: Home, listening: socket.socket, record: dict[str, Any]) -> int:
    async with App(config, home) as app:
        await Daemon(app, config, home, record).serve(listening)
    return 0


def _texts(value: object) -> dict[str, str]:
    return {str(name): str(one) for name, one in value.items()} if isinstance(value, dict) else {}


def _pid(home: Home) -> object:
    return (local_socket.read_record(home.path) or {}).get("pid", "unknown")


def _same(one: str, other: str) -> bool:
    import hmac

    return hmac.compare_digest(one.encode(), other.encode())


def _rss_bytes() -> int:
    """Resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)
