"""How a request reaches a memory: over the local socket of a home's daemon, or by HTTP to a URL.

Both keep connections open between requests and hand each thread one of its own, so that a `Memory` may be shared by threads. A
connection that the other side has closed meanwhile is replaced before it is used. A request whose answer was lost is sent again
only if it changes nothing.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import selectors
import socket
import threading
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.greeting import greet, session_greeting
from infinite_memory.home import HOME_VARIABLE, find_home
from infinite_memory.local_socket import CONTROL
from infinite_memory.sdk.errors import InvalidError, UnavailableError
from infinite_memory.sdk.routes import ROUTES, Route

Json = dict[str, Any]
OpenT = TypeVar("OpenT", bound="_Open")

KEPT = 8  # connections that wait for the next request; more at once are made and closed again
LOST = "the connection was lost before the answer came; the request may or may not have been carried out"


class Link(Protocol):
    """A way to a memory. May be used by several threads at once."""

    def ask(self, name: str, fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Send one request; gives HTTP's status and the reply's body.

        Raises:
            UnavailableError: the memory cannot be reached or does not answer in time.
        """

    def close(self) -> None:
        """Close every connection; a later request opens a new one."""


class _Open(Protocol):
    """One open connection."""

    def ask(self, name: str, route: Route, fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Send a request; raises OSError or ValueError where no whole answer comes."""

    def is_stale(self) -> bool:
        """Tell whether the other side has closed it."""

    def close(self) -> None:
        """Close it."""


class _Pool(Generic[OpenT]):
    """Connections that wait for a request, and what goes wrong on them."""

    def __init__(self, connect: Callable[[], OpenT], timeout_s: float) -> None:
        self._connect, self._timeout_s = connect, timeout_s
        self._waiting: list[OpenT] = []
        weakref.finalize(self, _close_all, self._waiting)  # who does not close a memory is not told of open sockets
        self._lock = threading.Lock()
        self._process = os.getpid()

    def ask(self, name: str, fields: Mapping[str, Any]) -> tuple[int, Any]:
        route = ROUTES[name]
        tries = 2 if route.repeats else 1
        while True:
            tries -= 1
            link = self._take()
            try:
                answer = link.ask(name, route, fields)
            except TimeoutError:
                link.close()
                raise UnavailableError(f"no answer within {self._timeout_s:g} s", code="TIMEOUT") from None
            except (OSError, EOFError, http.client.HTTPException) as problem:
                link.close()
                if tries:
                    continue
                raise UnavailableError(f"{LOST} ({type(problem).__name__})", code="CONNECTION_ERROR") from problem
            except BaseException:  # a half-read answer is never taken for the next one's
                link.close()
                raise
            self._give_back(link)
            return answer

    def close(self) -> None:
        with self._lock:
            _close_all(self._waiting)

    def _take(self) -> OpenT:
        if self._process != os.getpid():  # a fork must not share its parent's connections
            _close_all(self._waiting)  # its copies of them; the parent's stay open
            self._process, self._lock = os.getpid(), threading.Lock()  # another thread may have held it
        while True:
            with self._lock:
                link = self._waiting.pop() if self._waiting else None
            if link is None:
                return self._connect()
            if not link.is_stale():
                return link
            link.close()

    def _give_back(self, link: OpenT) -> None:
        with self._lock:
            if len(self._waiting) < KEPT:
                self._waiting.append(link)
                return
        link.close()


def _close_all(waiting: list[OpenT]) -> None:
    while waiting:
        waiting.pop().close()


class _Session:
    """One connection to the daemon, a request a line."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._lines = link, link.makefile("rb")

    def ask(self, name: str, route: Route, fields: Mapping[str, Any]) -> tuple[int, Any]:
        self._link.sendall(json.dumps({"route": name, "fields": fields}).encode() + b"\n")
        while (line := self._lines.readline()).startswith(CONTROL):
            pass  # the session's state, which no request of ours changes
        if not line.endswith(b"\n"):
            raise EOFError
        try:
            reply = json.loads(line)
            return reply["status"], reply["body"]
        except (ValueError, KeyError, TypeError) as problem:
            raise EOFError("the answer is none of the memory's") from problem

    def is_stale(self) -> bool:
        return _has_more(self._link)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
            self._link.close()


def _has_more(link: socket.socket) -> bool:
    """Tell whether there is something to read where nothing was asked: the end, then."""
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        return bool(selector.select(0))


def to_daemon(home: str | Path | None, timeout_s: float) -> Link:
    """Reach the daemon of *home* (None: of the environment), which is started when there is none."""
    environ = os.environ if home is None else {**os.environ, HOME_VARIABLE: str(home)}
    folder = find_home(environ).path

    def connect() -> _Session:
        try:
            link, _ = greet(folder, session_greeting(os.environ, contract="routes"))
        except (DaemonError, ConfigError) as problem:
            raise UnavailableError(str(problem), code=problem.code.upper()) from problem
        link.settimeout(timeout_s)
        return _Session(link)

    return _Pool(connect, timeout_s)


class _Http:
    """One kept-alive HTTP connection."""

    def __init__(self, connection: http.client.HTTPConnection, base: str, token: str | None) -> None:
        self._connection, self._base = connection, base
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def ask(self, name: str, route: Route, fields: Mapping[str, Any]) -> tuple[int, Any]:
        rest = {key: value for key, value in fields.items() if value is not None}
        path = self._base + route.path
        if "{memory_id}" in path:
            path = path.replace("{memory_id}", urllib.parse.quote(str(rest.pop("memory_id")), safe=""))
        body, headers = None, self._headers
        if route.method in ("GET", "DELETE"):
            if rest:
                path += "?" + urllib.parse.urlencode({key: _as_text(value) for key, value in rest.items()})
        else:
            body, headers = json.dumps(rest).encode(), headers | {"Content-Type": "application/json"}
        self._connection.request(route.method, path, body, headers)
        response = self._connection.getresponse()
        said = response.read()
        try:
            return response.status, json.loads(said) if said else {}
        except ValueError:  # a proxy's page, say
            return response.status, {}

    def is_stale(self) -> bool:
        link = self._connection.sock
        return link is None or _has_more(link)

    def close(self) -> None:
        self._connection.close()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def to_url(url: str, token: str | None, timeout_s: float) -> Link:
    """Reach the HTTP API at *url* (``http://127.0.0.1:8765``).

    Raises:
        InvalidError: it is no HTTP URL, or *token* cannot be one.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise InvalidError(f"{url!r} is no URL: {problem}", code="INVALID_REQUEST", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"{url!r} is not a URL such as http://127.0.0.1:8765", code="INVALID_REQUEST", field="url")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidError("token: is none of ours: it has other characters", code="INVALID_REQUEST", field="token")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    host, base = parts.hostname, parts.path.rstrip("/")

    def connect() -> _Http:
        connection = kind(host, port, timeout=timeout_s)
        try:
            connection.connect()
        except OSError as problem:
            raise UnavailableError(
                f"{host}:{connection.port} cannot be reached: {problem}", code="CONNECTION_ERROR"
            ) from problem
        return _Http(connection, base, token)

    return _Pool(connect, timeout_s)
