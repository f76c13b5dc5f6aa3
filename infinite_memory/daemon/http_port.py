"""The daemon's HTTP port, opened if configured or when the page is requested; and the management of tokens."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import Config
from infinite_memory.contracts.fields import ValidationContext
from infinite_memory.contracts.registry import list_specs
from infinite_memory.contracts.spec import FrontEnd
from infinite_memory.errors import ConfigError, InfiniteMemoryError
from infinite_memory.llm.factory import configured_model
from infinite_memory.paths import PAGE_PORT_FILE, Home
from infinite_memory.platform_files import read_regular_text, replace_file
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.api.services import PageServices, RestParts
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.server import HttpServer
from infinite_memory.transports.mcp import McpSession

log = logging.getLogger(__name__)

MIN_PORT, MAX_PORT = 1024, 65535  # systems never assign lower ones


class HttpPort:
    """The HTTP server of one daemon; it may be closed, or have failed to open. *status* is the daemon status that the page shows."""

    def __init__(
        self, app: Application, config: Config, home: Home, status: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        self._app, self._config, self._home, self._status = app, config, home, status
        self.owner_token = OwnerToken(home.path / "http.token")
        self._server: HttpServer | None = None
        self._problem: str | None = None

    def open(self) -> None:
        """Start HTTP if a port is configured. HTTP clients cannot start a daemon, so this one then stays when idle."""
        if self._config.http.port is not None:
            self._start(self._config.http)

    async def close(self) -> None:
        """Close the port and its connections."""
        if self._server is not None:
            await self._server.close()

    @property
    def keeps_daemon(self) -> bool:
        """True if a port is configured and open: the daemon stays when idle."""
        return self._server is not None and self._server.problem is None and self._config.http.port is not None

    @property
    def page_used_at(self) -> float:
        """Return when the page was last used, on the monotonic clock."""
        return float("-inf") if self._server is None else self._server.page_sessions.used_at

    def about(self) -> dict[str, Any] | None:
        """Return the HTTP part of `daemon status`; None if HTTP is off."""
        if self._server is not None:
            return self._server.about()
        return None if self._problem is None else {"error": self._problem}

    def open_page(self) -> dict[str, Any]:
        """Answer `infinite-memory open`: the page's address, and a login code for the browser. Starts HTTP if it is off."""
        if self._server is None or self._server.problem is not None:
            self._open_for_page()
        if self._server is None or self._problem is not None:
            return {"status": "ERROR", "error": f"there is no HTTP: {self._problem}", "error_code": "CONFIG_ERROR"}
        return {"status": "OK", "url": f"{self._server.about()['url']}/", "code": self._server.make_login_code()}

    async def manage_tokens(self, greeting: Mapping[str, Any]) -> dict[str, Any]:
        """Create, list, replace or revoke tokens; only callers that may open our socket get here."""
        from infinite_memory.transports.http.api.tokens import OWNER, manage  # needed only with HTTP

        action, fields = str(greeting.get("what")), greeting.get("fields")
        if not isinstance(fields, dict):
            fields = {}
        session = new_session(self._config, os.environ)
        try:
            if action == "rotate" and fields.get("token_id") == OWNER:  # needs no database
                reply: dict[str, Any] = {"token_id": OWNER, "token": self.owner_token.rotate()}
            else:
                context = ValidationContext(session.limits, session.zone)
                reply = await manage(await self._app.engine(), action, fields, context)
        except InfiniteMemoryError as exc:
            return {"status": "ERROR", "error": str(exc), "error_code": exc.code}
        if action != "list":
            self.owner_token.announce()
            if self._server is not None:
                self._server.tokens_changed()
        return {"status": "OK"} | reply

    def _open_for_page(self) -> None:
        """Start HTTP; without a configured port, at the previous port, so that tabs and bookmarks still work."""
        settings, self._problem = self._config.http, None
        if settings.port is not None:
            self._start(settings)
            return
        file = self._home.path / PAGE_PORT_FILE
        last = _read_port(file)
        self._start(dataclasses.replace(settings, port=last))
        if self._problem is not None and last:  # it is in use by another program
            self._problem = None
            self._start(dataclasses.replace(settings, port=0))
        if self._server is not None and self._problem is None and self._server.port != last:
            _write_port(file, self._server.port)

    def _start(self, settings: HttpSettings) -> None:
        try:
            self._server = self._make(settings)
        except (ConfigError, OSError) as exc:  # a port in use must not make the memory unavailable
            self._problem = str(exc)
            log.error("HTTP server not started: %s", exc, extra={"event": "http_not_opened"})
            return
        self._server.start()

    def _make(self, settings: HttpSettings) -> HttpServer:
        specs = [spec for spec in list_specs() if FrontEnd.HTTP in spec.front_ends]
        rest = RestParts(
            self._app.engine,
            self._app.built_engine,
            partial(new_session, self._config, os.environ),
            partial(configured_model, self._config.model),
            self._config.model.timeout_s,
            self._app.administration,
        )
        return HttpServer(
            settings,
            self._home.path,
            {spec.name: partial(self._speak, spec.name) for spec in specs},
            body_bytes=self._config.limits.line_bytes,
            owner=self.owner_token,
            rest=rest,
            page=PageServices(self._status, self._app.events.subscribe, self._config, self._home.path),
        )

    def _speak(self, contract: str) -> McpSession:
        return self._app.speak(contract, new_session(self._config, os.environ), {}, {})


def _read_port(file: Path) -> int:
    """Return the port stored in *file*; 0 (any free one) if it is missing or invalid."""
    try:
        text = read_regular_text(file).strip()
    except FileNotFoundError:
        return 0
    except (OSError, UnicodeDecodeError) as exc:
        log.warning("the page gets a new port: %s", exc, extra={"event": "page_port_not_read"})
        return 0
    if text.isascii() and text.isdecimal() and len(text) <= 5 and MIN_PORT <= int(text) <= MAX_PORT:
        return int(text)
    log.warning("the page gets a new port: %s names none", file.name, extra={"event": "page_port_not_read"})
    return 0


def _write_port(file: Path, port: int) -> None:
    """Store the page's port for the next time; if that fails, the page gets another address then."""
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as stream:
            stream.write(f"{port}\n")
        replace_file(temporary, file)
    except OSError as exc:
        log.warning("the page's port is not written down: %s", exc, extra={"event": "page_port_not_written"})
        temporary.unlink(missing_ok=True)
