"""The daemon: one for each home. It listens, lets each client have a session of its own, and goes when nobody needs it.

The socket is open before anything heavy is imported, so that clients wait for nothing. A client greets with one line
(`local_socket`); what it wants is a session, the daemon's status, or that the daemon goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory import __version__
from infinite_memory.bootstrap import Application, check_model, new_session, prepare_process
from infinite_memory.config import Config, HttpSettings, known_settings, load_config
from infinite_memory.contracts.fields import ValidationContext
from infinite_memory.contracts.registry import NATIVE, ROUTES, list_specs
from infinite_memory.contracts.session import ClientSession, no_progress
from infinite_memory.contracts.spec import FrontEnd
from infinite_memory.daemon import ipc
from infinite_memory.daemon.admission import BUFFER_BYTES, Admission, quieten_accept_errors
from infinite_memory.daemon.process_signals import add_handler
from infinite_memory.engine.types import Progress
from infinite_memory.errors import ConfigError, DaemonError, InfiniteMemoryError, truncated_repr
from infinite_memory.hooks.service import HookService
from infinite_memory.llm.factory import configured_model
from infinite_memory.logging_setup import bound_printed, open_log, reopen_log, show_crashes
from infinite_memory.loop_watchdog import find_watchdog, run_watched
from infinite_memory.paths import Home, unusable
from infinite_memory.store import descriptors
from infinite_memory.transports.http.api.services import RestParts
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page.services import PageServices
from infinite_memory.transports.http.server import HttpServer
from infinite_memory.transports.http.session_server import open_companion
from infinite_memory.transports.lines import IN_FLIGHT_S, LineContract
from infinite_memory.transports.mcp import McpSession
from infinite_memory.transports.progress import ProgressLines
from infinite_memory.transports.protocol_detection import serve_session
from infinite_memory.transports.stdio import PatientReader, SocketSink
from infinite_memory.transports.strict_json import Speaks, format_line
from infinite_memory.zones import find_zone

if TYPE_CHECKING:
    from infinite_memory.transports.http.api.socket_api import LocalRoutes

log = logging.getLogger(__name__)

GREETING_S = 10.0  # a connection that says nothing is closed after this long
STOP_S = 20.0  # how long requests under way may take once the daemon is asked to go
WRITES_S = 60.0  # and the writes among them, which are not cut short: MongoDB may be recovering
LOCK_WAIT_S = 30.0  # how long a new daemon waits for the one before it to finish
IDLE_CHECK_S = 1.0  # how often it looks whether anybody is here, or can still come
SWITCH_S = 0.001  # how long a thread keeps others from running; each step of a request beside a save may wait this long


class Connection:
    """One client's connection, as the two sides that a session knows."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._sink = SocketSink(writer.get_extra_info("socket"))

    async def read(self) -> bytes:
        """Give the next bytes, b"" at the end."""
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        """Hand *data* on; waits while the client does not read, so that nothing piles up."""
        await self._sink.write(data)

    async def tell(self, state: Mapping[str, Any]) -> None:
        """Send what is no reply but meant for the client program itself, in a line of its own."""
        await self.write(ipc.CONTROL + format_line(dict(state)))

    async def close(self) -> None:
        """Give up what still waits to be sent."""
        await self._sink.close()


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    app: Application
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
    admission: Admission = field(init=False)
    owner_token: OwnerToken = field(init=False)
    hooks: HookService = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(self.record)
        self.owner_token = OwnerToken(self.home.path / "http.token")
        self.hooks = HookService(self.app.engine, self.home.path, self.home.config_file)

    async def serve(self, listening: socket.socket) -> None:
        """Answer clients until asked to go, or idle for long enough."""
        loop = asyncio.get_running_loop()
        quieten_accept_errors(loop)
        start = loop.create_server if listening.family == socket.AF_INET else loop.create_unix_server
        server = await start(self._protocol, sock=listening, backlog=ipc.BACKLOG)
        for name in ("SIGTERM", "SIGINT"):
            add_handler(loop, name, self.stop.set)
        add_handler(loop, "SIGHUP", self._reopen_logs)
        ipc.write_record(self.home.path, self.record)
        log.info("the daemon listens", extra={"event": "daemon_listens"})
        self._open_http()
        self.hooks.start()
        await self._wait_for_end()
        await asyncio.sleep(
            2 * IN_FLIGHT_S
        )  # idle sessions have ended then: what their clients ask next is for the next daemon
        ipc.remove_record(self.home.path, self.record)  # from now on clients meet the next daemon
        server.close()
        await self.hooks.close()
        await asyncio.gather(self._end_sessions(), *([self.http.close()] if self.http is not None else []))
        log.info("the daemon goes", extra={"event": "daemon_goes"})

    def _reopen_logs(self) -> None:
        """Do what daemons do on SIGHUP: go on, with the log files opened again; a terminal that was closed ends nothing."""
        reopen_log()
        log.info("the log files are opened again", extra={"event": "log_reopened"})

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(PatientReader(BUFFER_BYTES), self._connected)

    async def _end_sessions(self) -> None:
        """Let what was received be carried out and answered; what takes too long is stopped, but for writes."""
        for timeout_s in (STOP_S, WRITES_S):
            if self.sessions:
                await asyncio.wait(set(self.sessions), timeout=timeout_s)
            for task in self.sessions:
                task.cancel()
        if self.sessions:
            log.error("%d sessions did not end", len(self.sessions), extra={"event": "sessions_left"})

    async def _wait_for_end(self) -> None:
        idle_exit_s = self.config.daemon.idle_exit_s
        while not self.stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), IDLE_CHECK_S)
            bound_printed(self.home)
            if not ipc.is_reachable(self.home.path, self.record):
                log.warning(
                    "the home was removed or taken over: nobody can reach this daemon", extra={"event": "daemon_lost"}
                )
                self.stop.set()
            elif self.sessions:
                self.last_seen_at = time.monotonic()
            elif self.http is not None and self.http.page_sessions.used_at > self.last_seen_at:
                self.last_seen_at = self.http.page_sessions.used_at
            elif idle_exit_s and not self._has_http and time.monotonic() - self.last_seen_at > idle_exit_s:
                log.info("nobody has been here for %g s", idle_exit_s, extra={"event": "daemon_idle"})
                self.stop.set()

    @property
    def _has_http(self) -> bool:
        return self.http is not None and self.http.problem is None and self.config.http.port is not None

    def _open_page(self) -> dict[str, Any]:
        """Answer `infinite-memory open`: where the page is, and a code that lets its browser in. Turns HTTP on where it is off."""
        if self.http is None or self.http.problem is not None:
            self.http_problem = None
            port = self.config.http.port or 0
            self._start_http(dataclasses.replace(self.config.http, port=port))
        if self.http is None or self.http_problem is not None:
            return {"status": "ERROR", "error": f"there is no HTTP: {self.http_problem}", "error_code": "CONFIG_ERROR"}
        return {"status": "OK", "url": f"{self.http.about()['url']}/", "code": self.http.make_login_code()}

    def _open_http(self) -> None:
        """Turn HTTP on, if a port is set. Who comes by HTTP cannot start a daemon, so with it this one stays when idle."""
        if self.config.http.port is not None:
            self._start_http(self.config.http)

    def _start_http(self, settings: HttpSettings) -> None:
        try:
            self.http = HttpServer(
                settings,
                self.home.path,
                {
                    spec.name: partial(self._over_http, spec.name)
                    for spec in list_specs()
                    if FrontEnd.HTTP in spec.front_ends
                },
                body_bytes=self.config.limits.line_bytes,
                owner=self.owner_token,
                rest=RestParts(
                    self.app.engine,
                    self.app.built_engine,
                    partial(new_session, self.config, os.environ),
                    partial(configured_model, self.config.model),
                    self.config.model.timeout_s,
                    self.app.administration,
                ),
                page=PageServices(self.status, self.app.watch.subscribe, self.config, self.home.path),
            )
        except (ConfigError, OSError) as exc:  # a port that is taken must not keep the memory from everybody else
            self.http_problem = str(exc)
            log.error("there is no HTTP: %s", exc, extra={"event": "http_not_opened"})
            return
        self.http.start()

    def _over_http(self, contract: str) -> McpSession:
        return self.app.speak(contract, new_session(self.config, os.environ), {}, {})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            greeting = await asyncio.wait_for(self.admission.read_greeting(reader, writer), GREETING_S)
            if greeting is not None:
                link = Connection(reader, writer)
                try:
                    await self._welcome(greeting, link, task)
                finally:
                    await link.close()
        except (TimeoutError, ConnectionError):
            pass  # it said nothing, or left
        except Exception:
            log.exception("a session failed", extra={"event": "session_failed"})
        finally:
            if task in self.sessions:
                self.sessions.discard(task)
                self.last_seen_at = time.monotonic()
            writer.close()

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
        if kind == "page":
            await link.write(format_line({"ok": True} | self._open_page()))
            return
        if kind == "hook":
            await self._answer_hook(greeting, link, task)
            return
        if kind == "tail":
            from infinite_memory.daemon.tail import Tail  # only who follows the memory needs it

            self.sessions.add(task)
            await Tail(self.app, link).run(self.stop)
            return
        if kind != "session" or not isinstance(greeting.get("version"), str):
            return  # no client of ours, of whatever version
        foreign = greeting.get("version") != __version__ or greeting.get("protocol") != ipc.PROTOCOL
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
            except ConfigError as exc:
                await link.write(format_line({"ok": False, "error": str(exc), "error_code": exc.code}))
                return
            answer = {"ok": True, "version": __version__, "pid": os.getpid(), "notes": notes}
            await link.write(format_line(answer | {"line_bytes": session.limits.line_bytes}))
            session.tell, session.progress = link.tell, self._progress(greeting, link)
            limit = session.limits.line_bytes
            speaks = _speaks(greeting)
            await serve_session(open_lines, open_rpc, link, link, limit=limit, stop=self.stop, speaks=speaks)

    async def _answer_hook(self, greeting: dict[str, Any], link: Connection, task: asyncio.Task[None]) -> None:
        """Answer an assistant's hook; one of another version gets its own daemon, which finds what waits in the spool."""
        if greeting.get("version") != __version__ or greeting.get("protocol") != ipc.PROTOCOL:
            self.stop.set()
        if self.stop.is_set():
            await link.write(format_line({"ok": False}))
            return
        self.sessions.add(task)
        await link.write(format_line(await self.hooks.answer(greeting)))

    @staticmethod
    def _progress(greeting: Mapping[str, Any], link: Connection) -> Progress:
        """Give what tells a client of progress, if it wants that."""
        return ProgressLines(link.tell) if greeting.get("progress") is True else no_progress

    def _contract(self, greeting: Mapping[str, Any], session: ClientSession) -> Callable[[], McpSession]:
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

    def _lines(self, greeting: Mapping[str, Any], session: ClientSession) -> Callable[[], LineContract] | None:
        """Give what begins a conversation that is not JSON-RPC; None where the contract has no such.

        Raises:
            ConfigError: half of a language model is set.
        """
        contract = str(greeting.get("contract", NATIVE))
        if contract == ROUTES:
            if self.routes is None:
                from infinite_memory.transports.http.api.socket_api import (
                    LocalRoutes,  # only programs that use the SDK need it
                )

                model = self.config.model
                self.routes = LocalRoutes(
                    self.app.engine, partial(configured_model, model), model.timeout_s, self.app.administration
                )
            self.routes.open(session)  # what is wrong is said now
            return partial(self.routes.open, session)
        return self.app.find_lines(contract, session, _texts(greeting.get("environ")), _texts(greeting.get("options")))

    async def _companion(
        self, greeting: Mapping[str, Any], open_rpc: Callable[[], McpSession], stack: contextlib.AsyncExitStack
    ) -> list[str]:
        """Open the address that a client wants its contract at as well; gives a note about it."""
        if (address := _texts(greeting.get("options")).get("http")) is None:
            return []
        contract = str(greeting.get("contract", NATIVE))
        opened = open_companion(
            address, contract, open_rpc, self.config.http, self.home.path,
            body_bytes=self.config.limits.line_bytes, owner=self.owner_token,
        )  # fmt: skip
        return [f"HTTP at {await stack.enter_async_context(opened)}, with the token of {self.home.path / 'http.token'}"]

    async def _tokens(self, greeting: Mapping[str, Any]) -> dict[str, Any]:
        """Make, list, replace or revoke tokens; only who may open our socket comes here."""
        from infinite_memory.transports.http.api.tokens import OWNER, manage  # only who turned HTTP on needs it

        what, given = str(greeting.get("what")), greeting.get("fields")
        fields = given if isinstance(given, dict) else {}
        session = new_session(self.config, os.environ)
        try:
            if what == "rotate" and fields.get("token_id") == OWNER:  # needs no database
                reply: dict[str, Any] = {"token_id": OWNER, "token": self.owner_token.rotate()}
            else:
                reply = await manage(
                    await self.app.engine(), what, fields, ValidationContext(session.limits, session.zone)
                )
        except InfiniteMemoryError as exc:
            return {"status": "ERROR", "error": str(exc), "error_code": exc.code}
        if what != "list":
            self.owner_token.announce()
            if self.http is not None:
                self.http.tokens_changed()
        return {"status": "OK"} | reply

    def _session(self, greeting: Mapping[str, Any]) -> tuple[ClientSession, list[str]]:
        """Make a session from what the client's own environment, file and flags say.

        Raises:
            ConfigError: a setting of the client's is unknown or wrong.
        """
        environ, flags = _texts(greeting.get("environ")), _texts(greeting.get("flags"))
        named = greeting.get("config_file") or str(self.home.config_file)
        if not isinstance(named, str) or "\0" in named:
            raise ConfigError(f"config_file = {truncated_repr(named)} is not the path of a file")
        file = Path(named)
        wanted = load_config(file, environ, flags)
        session = new_session(wanted, environ)
        if scope := greeting.get("active_scope"):
            session.active_scope = str(scope)
        session.reads_any_path = greeting.get("any_path") is True
        ignored = self._ignored(wanted)
        notes = [
            *session.ignored,
            *(f"{one}; restart the daemon to change it (infinite-memory daemon stop)" for one in ignored),
        ]
        session.ignored += ignored
        return session, notes

    def _ignored(self, wanted: Config) -> list[str]:
        """Name the daemon's settings that this client would have otherwise."""
        running = dict(self.config.values())
        known = known_settings()
        return [
            f"{name} = {known[name].display(value)!r} is ignored, the daemon runs with {known[name].display(running[name])!r}"
            for name, value in wanted.values()
            if not known[name].per_session and name in wanted.origins and value != running[name]
        ]

    async def status(self) -> dict[str, Any]:
        """Tell what `daemon status` shows."""
        engine = self.app.built_engine()
        state = await engine.stats.state() if engine is not None else None
        status: dict[str, Any] = {
            "pid": os.getpid(),
            "mongod_pid": self.app.mongod.pid if self.app.mongod is not None else None,
            "version": __version__,
            "uptime_s": round(time.monotonic() - self.started_at, 1),
            "home": str(self.home.path),
            "sessions": len(self.sessions),
            "model": {
                "name": self.config.embedding.model,
                "state": state.model if state is not None else "loading",
            },
            "sidecar": {"state": state.index if state else "loading", "count": state.indexed if state else None},
            "text_index": {"state": state.text_index if state else "loading"},
            "jobs": self.app.jobs.status() if self.app.jobs is not None else [],
            "rss_bytes": _rss_bytes(),
            "timezone": find_zone(self.config.time.zone, os.environ).key,
            "open_files": {"limit": descriptors.limit(), "max_scopes": descriptors.max_scopes()},
        }
        if state is not None and state.model == "preparing":
            status["model"]["percent"] = state.prepared_percent
        if (watchdog := find_watchdog()) is not None:
            status["loop"] = {"held": watchdog.count, "longest_ms": round(watchdog.longest_s * 1000)}
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
    prepare_process()
    try:
        home.make()
        open_log(home, config.log)
        show_crashes()
        return _run_alone(config, home, wait=wait)
    except OSError as exc:
        log.debug("the daemon ends", exc_info=True, extra={"event": "daemon_failed"})
        raise DaemonError(unusable(home.path, exc)) from exc


def _run_alone(config: Config, home: Home, *, wait: bool) -> int:
    end = time.monotonic() + (LOCK_WAIT_S if wait else 0)
    while True:
        with ipc.locked(ipc.lock_path(home.path), wait=False) as held:
            if held:
                ipc.remove_stale_record(home.path)
                check_model(config)
                listening, address = ipc.listen(home.path, config.daemon.transport)
                record = {"pid": os.getpid(), "version": __version__} | address
                sys.setswitchinterval(SWITCH_S)
                return run_watched(_run(config, home, listening, record))
        if time.monotonic() > end:
            raise DaemonError(f"another daemon runs for {home.path} (process {_pid(home)})")
        time.sleep(0.05)


async def _run(config: Config, home: Home, listening: socket.socket, record: dict[str, Any]) -> int:
    async with Application(config, home) as app:
        await Daemon(app, config, home, record).serve(listening)
    return 0


def _texts(value: object) -> dict[str, str]:
    return {str(name): str(one) for name, one in value.items()} if isinstance(value, dict) else {}


def _speaks(greeting: Mapping[str, Any]) -> Speaks | None:
    """Return the protocol that is decided already: by the contract, or before a daemon that this one takes the place of."""
    if greeting.get("contract") == ROUTES:
        return Speaks.ACTIONS
    said = greeting.get("speaks")
    return next((one for one in Speaks if one.value == said), None)


def _pid(home: Home) -> object:
    return (ipc.read_record(home.path) or {}).get("pid", "unknown")


def _rss_bytes() -> int:
    """Resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)
