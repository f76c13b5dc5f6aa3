"""Client sessions: a client's greeting (settings, contract, options) opens a session over its connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory import __version__
from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import Config, known_settings, load_config
from infinite_memory.contracts.registry import NATIVE, ROUTES
from infinite_memory.contracts.session import ClientSession, no_progress
from infinite_memory.daemon import ipc
from infinite_memory.engine.types import Progress
from infinite_memory.errors import ConfigError, truncated_repr
from infinite_memory.file_work import set_owner
from infinite_memory.llm.factory import configured_model
from infinite_memory.paths import Home
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.session_server import open_companion
from infinite_memory.transports.lines import LineContract
from infinite_memory.transports.mcp import McpSession
from infinite_memory.transports.protocol_detection import serve_session
from infinite_memory.transports.stdio import SocketSink
from infinite_memory.transports.strict_json import Speaks, format_line

if TYPE_CHECKING:
    from infinite_memory.transports.http.api.socket_api import LocalRoutes


MAX_NAME_CHARS = 80  # of a client's name


class Connection:
    """One client's connection: the source and the sink of a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._sink = SocketSink(writer.get_extra_info("socket"))

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        return await self._reader.read(65536)

    async def read_exactly(self, count: int) -> bytes:
        """Return the next *count* bytes.

        Raises:
            ConnectionError: the client disconnected early.
        """
        try:
            return await self._reader.readexactly(count)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the client left") from None

    async def write(self, data: bytes) -> None:
        """Write *data*; wait while the client does not read, so that nothing piles up."""
        await self._sink.write(data)

    async def tell(self, state: Mapping[str, Any]) -> None:
        """Send the client program itself a message that is not a reply, on its own line."""
        await self.write(ipc.CONTROL + format_line(dict(state)))

    async def close(self) -> None:
        """Close the connection and drop unsent data."""
        await self._sink.close()


class ClientSessions:
    """Opens sessions for the clients of one daemon. *owner_token* authorizes requests to a client's own HTTP address."""

    def __init__(self, app: Application, config: Config, home: Home, owner_token: OwnerToken) -> None:
        self._app, self._config, self._home, self._owner_token = app, config, home, owner_token
        self._routes: LocalRoutes | None = None
        self._conversations: dict[Connection, list[McpSession]] = {}

    def names(self) -> list[str]:
        """Return the names of the connected clients, each distinct name once with its count."""
        counts = Counter(_name_client(opened) for opened in self._conversations.values())
        return [name if count == 1 else f"{name} ({count} times)" for name, count in sorted(counts.items())]

    async def serve(
        self, greeting: dict[str, Any], link: Connection, stop: asyncio.Event, notes: Sequence[str] = ()
    ) -> None:
        """Answer a greeting, with *notes* for the client, then serve it until it disconnects or *stop* is set."""
        set_owner(link)
        async with contextlib.AsyncExitStack() as stack:
            try:
                session, settings_notes = self._session(greeting)
                open_lines, open_rpc = self._lines(greeting, session), self._contract(greeting, session)
                http_notes = await self._companion(greeting, open_rpc, stack)
            except ConfigError as exc:
                await link.write(format_line({"ok": False, "error": str(exc), "error_code": exc.code}))
                return
            answer = {
                "ok": True,
                "version": __version__,
                "pid": os.getpid(),
                "notes": [*notes, *settings_notes, *http_notes],
            }
            await link.write(format_line(answer | {"line_bytes": session.limits.line_bytes}))
            session.tell, session.progress = link.tell, self._progress(greeting, link)
            limit = session.limits.line_bytes
            speaks = _speaks(greeting)
            opened = self._conversations[link] = []
            stack.callback(self._conversations.pop, link)
            open_noted = partial(_open_noted, open_rpc, opened)
            await serve_session(open_lines, open_noted, link, link, limit=limit, stop=stop, speaks=speaks)

    @staticmethod
    def _progress(greeting: Mapping[str, Any], link: Connection) -> Progress:
        """Return the progress callback of a client; it does nothing unless the client asked for progress."""
        return ProgressLines(link.tell) if greeting.get("progress") is True else no_progress

    def _contract(self, greeting: Mapping[str, Any], session: ClientSession) -> Callable[[], McpSession]:
        """Return the factory of JSON-RPC sessions for the contract that a client asks for.

        Raises:
            ConfigError: there is no such contract, or one of the client's options is invalid.
        """
        environ, options = _texts(greeting.get("environ")), _texts(greeting.get("options"))

        def open_rpc() -> McpSession:
            contract = str(greeting.get("contract", NATIVE))
            return self._app.speak(NATIVE if contract == ROUTES else contract, session, environ, options)

        open_rpc()  # fail early
        return open_rpc

    def _lines(self, greeting: Mapping[str, Any], session: ClientSession) -> Callable[[], LineContract] | None:
        """Return the factory of sessions that do not use JSON-RPC; None if the contract has none.

        Raises:
            ConfigError: a language model is only half configured.
        """
        contract = str(greeting.get("contract", NATIVE))
        if contract == ROUTES:
            if self._routes is None:
                from infinite_memory.transports.http.api.socket_api import (
                    LocalRoutes,  # needed only by programs that use the SDK
                )

                model = self._config.model
                self._routes = LocalRoutes(
                    self._app.engine, partial(configured_model, model), model.timeout_s, self._app.administration
                )
            self._routes.open(session)  # fail early
            return partial(self._routes.open, session)
        return self._app.find_lines(contract, session, _texts(greeting.get("environ")), _texts(greeting.get("options")))

    async def _companion(
        self, greeting: Mapping[str, Any], open_rpc: Callable[[], McpSession], stack: contextlib.AsyncExitStack
    ) -> list[str]:
        """Also serve the contract at the HTTP address that the client asked for; return a note about it."""
        if (address := _texts(greeting.get("options")).get("http")) is None:
            return []
        contract = str(greeting.get("contract", NATIVE))
        opened = open_companion(
            address, contract, open_rpc, self._config.http, self._home.path,
            body_bytes=self._config.limits.line_bytes, owner=self._owner_token,
        )  # fmt: skip
        return [
            f"HTTP at {await stack.enter_async_context(opened)}, with the token of {self._home.path / 'http.token'}"
        ]

    def _session(self, greeting: Mapping[str, Any]) -> tuple[ClientSession, list[str]]:
        """Create a session from the client's environment, file and flags.

        Raises:
            ConfigError: a setting of the client is unknown or invalid.
        """
        environ, flags = _texts(greeting.get("environ")), _texts(greeting.get("flags"))
        config_file = greeting.get("config_file") or str(self._home.config_file)
        if not isinstance(config_file, str) or "\0" in config_file:
            raise ConfigError(f"config_file = {truncated_repr(config_file)} is not the path of a file")
        requested = load_config(Path(config_file), environ, flags)
        session = new_session(requested, environ)
        if scope := greeting.get("active_scope"):
            session.active_scope = str(scope)
        session.is_local = True
        session.reads_any_path = greeting.get("any_path") is True
        revision = greeting.get("expected_revision")
        session.expected_revision = revision if type(revision) is int else None
        session.only_archived = greeting.get("only_archived") is True
        ignored = self._ignored(requested)
        notes = [
            *session.ignored,
            *(f"{setting}; restart the daemon to change it (infinite-memory daemon stop)" for setting in ignored),
        ]
        session.ignored += ignored
        session.is_lock_ignored = _names_other_lock(requested, self._config)
        return session, notes

    def _ignored(self, requested: Config) -> list[str]:
        """Return the names of the client's settings that the daemon overrides."""
        running = dict(self._config.values())
        settings = known_settings()
        return [
            f"{name} = {settings[name].display(value)!r} is ignored, the daemon runs with {settings[name].display(running[name])!r}"
            for name, value in requested.values()
            if not settings[name].per_session and name in requested.origins and value != running[name]
        ]


def _open_noted(open_rpc: Callable[[], McpSession], opened: list[McpSession]) -> McpSession:
    """Open an MCP session and record it."""
    opened.append(open_rpc())
    return opened[-1]


def _name_client(opened: list[McpSession]) -> str:
    """Return the name that a client sent in MCP, on one line; clients of the action loop have no name."""
    info = opened[-1].client_info if opened else None
    if not isinstance(info, dict):
        return "a program without a name"
    client_name = " ".join(str(info[key]) for key in ("name", "version") if isinstance(info.get(key), str))
    return " ".join(client_name.split())[:MAX_NAME_CHARS] or "a program without a name"


def _names_other_lock(requested: Config, running: Config) -> bool:
    """True if a client's settings name a backup key that the daemon does not use."""
    named = {name: getattr(requested.backup, name) for name in ("key_file", "passphrase_file")}
    return any(value and value != getattr(running.backup, name) for name, value in named.items())


def _texts(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}


def _speaks(greeting: Mapping[str, Any]) -> Speaks | None:
    """Return the protocol if it is already decided, by the contract or in a session with a previous daemon; else None."""
    if greeting.get("contract") == ROUTES:
        return Speaks.ACTIONS
    name = greeting.get("speaks")
    return next((speaks for speaks in Speaks if speaks.value == name), None)


PROGRESS_EVERY_S = 0.2  # minimum time between two lines of progress


class ProgressLines:
    """Sends progress to a client, a few times a second at most, and only after the previous line has been sent."""

    def __init__(self, tell: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        self._tell = tell
        self._sent_at = 0.0
        self._sending: asyncio.Task[None] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Report *done* of *total*; a total of 0 is unknown. Call it on the event loop."""
        now = time.monotonic()
        if now - self._sent_at < PROGRESS_EVERY_S or (self._sending is not None and not self._sending.done()):
            return
        self._sent_at = now
        self._sending = asyncio.create_task(self._send({"progress": {"done": done, "total": total}}), name="progress")

    async def _send(self, state: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the client disconnected; its session ends by itself
            await self._tell(state)
