"""The daemon: one for each home. It listens, gives each client its own session, and exits when it is no longer needed.

The socket is open before anything heavy is imported, so that clients need not wait. A client sends a greeting of one line
(`ipc`): it asks for a session, for the daemon's status, or to stop the daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.bootstrap import Application, check_settings, prepare_process
from infinite_memory.config import Config
from infinite_memory.daemon import handover, ipc
from infinite_memory.daemon.client_sessions import ClientSessions, Connection, ProgressLines
from infinite_memory.daemon.handshake import greet
from infinite_memory.daemon.http_port import HttpPort
from infinite_memory.daemon.peer_auth import BUFFER_BYTES, Admission, quieten_accept_errors
from infinite_memory.daemon.process_signals import add_handler
from infinite_memory.daemon.sd_notify import Supervisor
from infinite_memory.errors import DaemonError, InfiniteMemoryError, truncated_repr
from infinite_memory.hooks.events import handle_event, sizes_of
from infinite_memory.hooks.service import HookService
from infinite_memory.logging_setup import bound_printed, open_log, reopen_log, show_crashes
from infinite_memory.loop_watchdog import LoopWatchdog, find_watchdog, run_watched
from infinite_memory.paths import Home, unusable
from infinite_memory.settings import IndexSettings
from infinite_memory.store import descriptors
from infinite_memory.transports.lines import IN_FLIGHT_S
from infinite_memory.transports.stdio import PatientReader
from infinite_memory.transports.strict_json import format_line
from infinite_memory.zones import find_zone

log = logging.getLogger(__name__)

GREETING_S = 10.0  # a silent connection is closed after this long
STOP_S = 20.0  # how long running requests may take once the daemon is asked to stop
WRITES_S = 60.0  # and the writes among them, which are not cancelled: MongoDB may be recovering
LOCK_WAIT_S = 30.0  # how long a new daemon waits for the previous one to finish
START_S = 60.0  # until then the event loop is blocked by the start itself: imports, the model, the index
FAILED_S = 10.0  # a daemon without an engine leaves after this: its program was being replaced, perhaps
IDLE_CHECK_S = 1.0  # how often it checks whether it is still used, or can be
SWITCH_S = 0.001  # thread switch interval; each step of a request may wait this long for a concurrent save


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    app: Application
    config: Config
    home: Home
    record: dict[str, Any]
    supervisor: Supervisor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    sessions: set[asyncio.Task[None]] = field(default_factory=set)
    started_at: float = field(default_factory=time.monotonic)
    last_seen_at: float = field(default_factory=time.monotonic)
    exit_code: int = 0
    comes_back: bool = False
    admission: Admission = field(init=False)
    http: HttpPort = field(init=False)
    clients: ClientSessions = field(init=False)
    hooks: HookService = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(self.record)
        self.http = HttpPort(self.app, self.config, self.home, self.status)
        self.clients = ClientSessions(self.app, self.config, self.home, self.http.owner_token)
        self.hooks = HookService(self.app.engine, self.home.path, self.home.config_file)

    async def serve(self, listening: socket.socket) -> None:
        """Serve clients until asked to stop, or idle for long enough."""
        loop = asyncio.get_running_loop()
        quieten_accept_errors(loop)
        start = loop.create_server if listening.family == socket.AF_INET else loop.create_unix_server
        server = await start(self._protocol, sock=listening, backlog=ipc.BACKLOG)
        for name in ("SIGTERM", "SIGINT"):
            add_handler(loop, name, self._end_by_signal)
        add_handler(loop, "SIGHUP", self._reopen_logs)
        ipc.write_record(self.home.path, self.record)
        log.info("the daemon listens", extra={"event": "daemon_listens"})
        self.http.open()
        self.hooks.start()
        self.supervisor.report_ready()
        await self._wait_for_end()
        self.supervisor.report_stopping()
        # Idle sessions have ended after this: their clients' next requests go to the next daemon.
        await asyncio.sleep(2 * IN_FLIGHT_S)
        ipc.remove_record(self.home.path, self.record)  # from now on clients connect to the next daemon
        server.close()
        await self.hooks.close()
        await asyncio.gather(self._end_sessions(), self.http.close())
        log.info("the daemon goes", extra={"event": "daemon_goes"})

    def _end_by_signal(self) -> None:
        """Stop. A service may be restarted: its clients wait a while instead of starting a daemon that would keep it out."""
        if self.supervisor.restarts:
            self._announce_return()
        self.stop.set()

    def _announce_return(self) -> None:
        self.comes_back = True
        handover.announce_restart(self.home.path)

    def _reopen_logs(self) -> None:
        """Handle SIGHUP as daemons do: keep running and reopen the log files; a closed terminal ends nothing."""
        reopen_log()
        log.info("the log files are opened again", extra={"event": "log_reopened"})

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(PatientReader(BUFFER_BYTES), self._connected)

    async def _end_sessions(self) -> None:
        """Let received requests finish and be answered; cancel those that take too long, except writes."""
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
                continue
            ipc.mend_record(self.home.path, self.record)
            if (exc := self.app.find_failure()) and time.monotonic() - self.started_at > FAILED_S:
                log.error("this daemon cannot answer", exc_info=exc, extra={"event": "daemon_failed"})
                self._end_by_signal()
                self.exit_code = handover.RESTART_CODE
            elif self.sessions:
                self.last_seen_at = time.monotonic()
            elif self.http.page_used_at > self.last_seen_at:
                self.last_seen_at = self.http.page_used_at
            elif idle_exit_s and not self.http.keeps_daemon and time.monotonic() - self.last_seen_at > idle_exit_s:
                log.info("nobody has been here for %g s", idle_exit_s, extra={"event": "daemon_idle"})
                self.stop.set()

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
            pass  # it said nothing, or disconnected
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
            self.exit_code, self.comes_back = 0, False  # the user's request wins, even if a restart was pending
            handover.withdraw_restart(self.home.path)
            self.stop.set()
            await link.write(format_line({"ok": True, "pid": os.getpid()}))
            return
        if kind == "tokens":
            self.sessions.add(task)  # the client that stops the daemon waits for it
            await link.write(format_line({"ok": True}))  # the rest may wait for the database
            await link.write(format_line(await self.http.manage_tokens(greeting)))
            return
        if kind == "page":
            await link.write(format_line({"ok": True} | self.http.open_page()))
            return
        if kind == "hook":
            await self._answer_hook(greeting, link, task)
            return
        if kind == "cluster":
            self.sessions.add(task)
            await link.write(format_line({"ok": True, "cluster": await self._describe_cluster()}))
            return
        if kind == "cluster_prepare":
            self.sessions.add(task)
            await link.write(format_line({"ok": True}))
            await link.write(format_line(await self._shard_collections(greeting)))
            return
        if kind == "index_build":
            self.sessions.add(task)
            await link.write(format_line({"ok": True}))
            await link.write(format_line(await self._build_index(greeting, link)))
            return
        if kind == "tail":
            from infinite_memory.daemon.tail import Tail  # needed only by clients that follow the memory

            self.sessions.add(task)
            await Tail(self.app, link).run(self.stop)
            return
        if kind != "session" or not isinstance(greeting.get("version"), str):
            return  # not a client of ours, of any version
        notes = [] if greeting.get("reconnect") else self._meet_version(greeting)
        if self.stop.is_set():
            await link.write(format_line({"ok": False}))  # the client asks again and meets the next daemon
            return
        if greeting.get("protocol") != ipc.PROTOCOL and not greeting.get("reconnect"):
            await link.write(format_line({"ok": False, "error": notes[0], "error_code": DaemonError.code}))
            return
        self.sessions.add(task)
        await self.clients.serve(greeting, link, self.stop, notes)

    def _meet_version(self, greeting: dict[str, Any]) -> list[str]:
        """Exit if a client of another version needs another daemon; else return a note for it.

        A service exits only if it restarts as another version (`handover`); otherwise it would only stop.
        """
        if greeting.get("version") == __version__ and greeting.get("protocol") == ipc.PROTOCOL:
            return []
        if self.supervisor.restarts:
            if handover.find_installed_version() == __version__:
                version = truncated_repr(greeting.get("version"))
                return [
                    f"the daemon is a service of version {__version__} and this program is version {version}; "
                    "upgrade the program that the service runs, then they are the same"
                ]
            self._announce_return()
            self.exit_code = handover.RESTART_CODE
        log.info("a client of version %s asks for its own daemon", greeting.get("version"), extra={"event": "replaced"})
        self.stop.set()
        return []

    async def _answer_hook(self, greeting: dict[str, Any], link: Connection, task: asyncio.Task[None]) -> None:
        """Answer an assistant's hook; one of another version gets its own daemon, which finds the waiting work in the spool."""
        self._meet_version(greeting)
        if self.stop.is_set() or greeting.get("protocol") != ipc.PROTOCOL:
            await link.write(format_line({"ok": False}))
            return
        self.sessions.add(task)
        if "sizes" not in greeting:
            await link.write(format_line(await self.hooks.answer(greeting)))
        elif (sizes := sizes_of(greeting)) is not None:
            environ, data = [await asyncio.wait_for(link.read_exactly(size), GREETING_S) for size in sizes]
            output = await handle_event(self.hooks, self.home.path, greeting, environ, data)
            await link.write(format_line({"ok": True}) + output)

    async def _describe_cluster(self) -> dict[str, Any]:
        """Answer `cluster status`; with an error if the database is unreachable."""
        try:
            await self.app.engine()
            assert self.app.presence is not None
            return {"status": "OK"} | (await self.app.presence.state()).serialize()
        except InfiniteMemoryError as exc:
            return {"status": "ERROR", "error": str(exc), "error_code": exc.code}

    async def _shard_collections(self, greeting: dict[str, Any]) -> dict[str, Any]:
        """Answer `cluster prepare`; with an error if the database has no shards, or refuses."""
        try:
            await self.app.engine()
            assert self.app.presence is not None
            planned = await self.app.presence.shard(greeting["min_count"], dry_run=greeting["dry_run"])
        except InfiniteMemoryError as exc:
            return {"status": "ERROR", "error": str(exc), "error_code": exc.code}
        return {"status": "OK"} | asdict(planned)

    async def _build_index(self, greeting: dict[str, Any], link: Connection) -> dict[str, Any]:
        """Answer `index build`: fill an index of another engine, and report progress to *link*."""
        try:
            settings = IndexSettings(**greeting["index"])
            report = await (await self.app.open_engine_build(settings)).run(ProgressLines(link.tell))
        except InfiniteMemoryError as exc:
            return {"status": "ERROR", "error": str(exc), "error_code": exc.code}
        return {"status": "OK", "is_good": report.is_good} | asdict(report)

    async def status(self) -> dict[str, Any]:
        """Return the reply of `daemon status`."""
        engine = self.app.built_engine()
        state = await engine.stats.state() if engine is not None else None
        status: dict[str, Any] = {
            "pid": os.getpid(),
            "mongod_pid": self.app.mongod.pid if self.app.mongod is not None else None,
            "version": __version__,
            "uptime_s": round(time.monotonic() - self.started_at, 1),
            "home": str(self.home.path),
            "sessions": len(self.sessions),
            "clients": self.clients.names(),
            "model": {
                "name": self.config.embedding.model,
                "state": state.model if state is not None else "loading",
            },
            "sidecar": {"state": state.index if state else "loading", "count": state.indexed if state else None},
            "text_index": {"state": state.text_index if state else "loading"},
            "jobs": self.app.jobs.status() if self.app.jobs is not None else [],
            "rss_bytes": _rss_bytes(),
            "service": self.supervisor.restarts,
            "timezone": find_zone(self.config.time.zone, os.environ).key,
            "open_files": {"limit": descriptors.limit(), "max_scopes": descriptors.max_scopes()},
        }
        if state is not None and state.model == "preparing":
            status["model"]["percent"] = state.prepared_percent
        if (watchdog := find_watchdog()) is not None:
            status["loop"] = {"held": watchdog.count, "longest_ms": round(watchdog.longest_s * 1000)}
        if (http := self.http.about()) is not None:
            status["http"] = http
        return status


def run(config: Config, home: Home, *, wait: bool = True) -> int:
    """Run the daemon of *home* until it is asked to stop; return the exit code.

    Args:
        wait: Whether to wait for another daemon of this home that is stopping.

    Raises:
        DaemonError: another daemon of this home runs and does not stop, or the home cannot be used.
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
    supervisor, was_asked = Supervisor(os.environ), False
    while True:
        with ipc.locked(ipc.lock_path(home.path), wait=False) as is_locked:
            if is_locked:
                ipc.remove_stale_record(home.path)
                handover.withdraw_restart(home.path)
                check_settings(config)
                listening, address = ipc.listen(home.path, config.daemon.transport)
                record = {"pid": os.getpid(), "version": __version__} | address
                sys.setswitchinterval(SWITCH_S)
                return run_watched(_run(config, home, listening, record, supervisor), LoopWatchdog(START_S))
        was_asked = was_asked or (supervisor.restarts and _ask_to_make_room(home.path))
        if time.monotonic() > end:
            raise DaemonError(f"another daemon runs for {home.path} (process {_pid(home)})")
        time.sleep(0.05)


def _ask_to_make_room(home: Path) -> bool:
    """Make a daemon started by a client exit for this service; True if it was asked to. Wait for another service."""
    with contextlib.suppress(DaemonError):
        link, answer = greet(home, {"kind": "status"}, start=False)
        link.close()
        if not answer["status"].get("service"):
            greet(home, {"kind": "stop"}, start=False)[0].close()
            handover.announce_restart(home)  # so that none of its clients starts another
        return True
    return False


async def _run(
    config: Config, home: Home, listening: socket.socket, record: dict[str, Any], supervisor: Supervisor
) -> int:
    async with supervisor, Application(config, home) as app:
        daemon = Daemon(app, config, home, record, supervisor)
        await daemon.serve(listening)
    if daemon.comes_back:
        handover.announce_restart(home.path)  # its time starts now
    return daemon.exit_code


def _pid(home: Home) -> object:
    return (ipc.read_record(home.path) or {}).get("pid", "unknown")


def _rss_bytes() -> int:
    """Return the resident set size of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)
