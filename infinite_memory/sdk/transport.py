"""Transports of the SDK: the local socket of a home's daemon, or HTTP to a URL.

Both pool connections and never share one between concurrent requests, so that a `Memory` may be shared by threads. A connection
that the other side has closed is replaced before it is used. A request whose answer was lost is retried only if it is read-only.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import selectors
import socket
import threading
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from infinite_memory.daemon.handshake import greet, session_greeting
from infinite_memory.daemon.ipc import CONTROL, is_peer_own
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.paths import HOME_VARIABLE, check_socket, find_home, http_socket_name, place_of_socket
from infinite_memory.proofs import BY_HTTP, derive_key, format_address, is_signed, make_nonce
from infinite_memory.sdk.errors import ApiError, InvalidError, UnavailableError, UntrustedError
from infinite_memory.sdk.requests import to_json

Json = dict[str, Any]
OpenT = TypeVar("OpenT", bound="_Open")

CAPACITY = 8  # idle connections; further ones are closed after use
_LOOPBACK = ("127.0.0.1", "localhost")
_TOKEN = re.compile(r"im_([0-9a-f]{12})_[A-Za-z0-9_-]+")
_ADDRESS = re.compile(r"[0-9A-Za-z.:\[\]-]+:\d{1,5}")
_MAX_PROOF_BYTES = 4096
LOST = "the connection was lost before the answer came; the request may or may not have been carried out"


API = "/api/v1"


class Route(NamedTuple):
    """Method and path of a request. One that ``repeats`` is read-only, and retried if its answer was lost."""

    method: str
    path: str
    repeats: bool = False


ROUTES = {
    "store_memory": Route("POST", f"{API}/memories"),
    "list_memories": Route("GET", f"{API}/memories", repeats=True),
    "forget_memories": Route("DELETE", f"{API}/memories"),
    "read_memory": Route("GET", f"{API}/memories/{{memory_id}}", repeats=True),
    "change_memory": Route("PATCH", f"{API}/memories/{{memory_id}}"),
    "forget_memory": Route("DELETE", f"{API}/memories/{{memory_id}}"),
    "read_history": Route("GET", f"{API}/memories/{{memory_id}}/history", repeats=True),
    "restore_memory": Route("POST", f"{API}/memories/{{memory_id}}/restore"),
    "move_memory": Route("POST", f"{API}/memories/{{memory_id}}/move"),
    "search": Route("POST", f"{API}/search", repeats=True),
    "chat": Route("POST", f"{API}/chat"),
    "list_scopes": Route("GET", f"{API}/scopes", repeats=True),
}
"""The requests of the SDK, by the server's names for them, with their HTTP routes. A test compares both."""


class Link(Protocol):
    """A transport to a memory. Thread-safe."""

    def ask(self, name: str, fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Send one request; returns the HTTP status and the body of the reply.

        Raises:
            UnavailableError: the memory cannot be reached or does not answer in time.
        """

    def close(self) -> None:
        """Close every connection; a later request opens a new one."""


class _Open(Protocol):
    """One open connection."""

    def ask(self, name: str, route: Route, fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Send a request; raises OSError, EOFError or HTTPException if no complete answer arrives."""

    def is_stale(self) -> bool:
        """True if the other side has closed it."""

    def close(self) -> None:
        """Close it."""


class _Pool(Generic[OpenT]):
    """A pool of idle connections, with retries and error handling."""

    def __init__(self, connect: Callable[[], OpenT], timeout_s: float) -> None:
        self._connect, self._timeout_s = connect, timeout_s
        self._waiting: list[OpenT] = []
        weakref.finalize(self, _close_all, self._waiting)  # avoids ResourceWarnings if the memory is not closed
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
            except (OSError, EOFError, http.client.HTTPException) as exc:
                link.close()
                if tries:
                    continue
                raise UnavailableError(f"{LOST} ({type(exc).__name__})", code="CONNECTION_ERROR") from exc
            except BaseException:  # the rest of a half-read answer must not be read as the next one
                link.close()
                raise
            self._give_back(link)
            return answer

    def close(self) -> None:
        with self._lock:
            _close_all(self._waiting)

    def _take(self) -> OpenT:
        if self._process != os.getpid():  # a forked process must not share its parent's connections
            _close_all(self._waiting)  # only our copies; the parent's stay open
            self._process, self._lock = os.getpid(), threading.Lock()  # another thread may have held the lock
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
            if len(self._waiting) < CAPACITY:
                self._waiting.append(link)
                return
        link.close()


def _close_all(waiting: list[OpenT]) -> None:
    while waiting:
        waiting.pop().close()


class _Session:
    """One connection to the daemon, with one request per line."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._lines = link, link.makefile("rb")

    def ask(self, name: str, route: Route, fields: Mapping[str, Any]) -> tuple[int, Any]:
        self._link.sendall(f'{{"route": "{name}", "fields": {to_json(fields)}}}\n'.encode())
        while (line := self._lines.readline()).startswith(CONTROL):
            pass  # session state, which our requests do not change
        if not line.endswith(b"\n"):
            raise EOFError
        try:
            reply = json.loads(line)
            return reply["status"], reply["body"]
        except (ValueError, KeyError, TypeError) as exc:
            raise EOFError("the answer is none of the memory's") from exc

    def is_stale(self) -> bool:
        return _has_more(self._link)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
            self._link.close()


def _has_more(link: socket.socket) -> bool:
    """True if an idle connection is readable, which means that it was closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        return bool(selector.select(0))


def to_daemon(home: str | Path | None, timeout_s: float) -> Link:
    """Return a transport to the daemon of *home* (None: of the environment), which is started if it does not run."""
    environ = os.environ if home is None else {**os.environ, HOME_VARIABLE: str(home)}
    folder = find_home(environ).path

    def connect() -> _Session:
        try:
            link, _ = greet(folder, session_greeting(os.environ, contract="routes"))
        except (DaemonError, ConfigError) as exc:
            raise UnavailableError(str(exc), code=exc.code.upper()) from exc
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
                path += "?" + urllib.parse.urlencode({key: _as_text(key, value) for key, value in rest.items()})
        else:
            body, headers = to_json(rest).encode(), headers | {"Content-Type": "application/json"}
        self._connection.request(route.method, path, body, headers)
        response = self._connection.getresponse()
        payload = response.read()
        try:
            return response.status, json.loads(payload) if payload else {}
        except ValueError:  # a proxy's page, for example
            return response.status, {}

    def is_stale(self) -> bool:
        link = self._connection.sock
        return link is None or _has_more(link)

    def close(self) -> None:
        self._connection.close()


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return to_json({name: value})[len(json.dumps(name)) + 3 : -1]


class _LocalHttp(http.client.HTTPConnection):
    """HTTP over the Unix socket of this user's own daemon."""

    def __init__(self, path: Path, home: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path, self._home = path, home

    def connect(self) -> None:
        """Connect; raises OSError if the socket or the process that listens on it is not this user's."""
        check_socket(self._path, self._home)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(str(self._path))
            if not is_peer_own(self.sock):
                raise PermissionError(f"{self._path} is served by another user")
        except OSError:
            self.sock.close()
            raise


def _find_local(host: str, port: int, timeout_s: float) -> http.client.HTTPConnection | None:
    """Connect to the Unix socket of a local port, if this user's own daemon serves that port, or return None."""
    if host not in _LOOPBACK or not hasattr(socket, "AF_UNIX"):
        return None
    name = http_socket_name(port)
    try:
        home = find_home(os.environ).path
        connection = _LocalHttp(place_of_socket(home, name) / name, home, timeout_s)
        connection.connect()
    except (OSError, RuntimeError):  # there is no such socket
        return None
    return connection


def _check_server(connection: http.client.HTTPConnection, base: str, token: str, address: str) -> None:
    """Have the server prove that it knows *token* before the token is sent: any program may listen on a port.

    Raises:
        UntrustedError: it does not prove it.
        UnavailableError: it cannot be reached.
    """
    nonce = make_nonce()
    form = _TOKEN.fullmatch(token)
    query = urllib.parse.urlencode({"token_id": form[1] if form else "owner", "nonce": nonce})
    try:
        connection.request("GET", f"{base}/api/v1/proof?{query}", headers={"Accept": "application/json"})
        response = connection.getresponse()
        payload = response.read(_MAX_PROOF_BYTES)
        answer = json.loads(payload) if response.status in (200, 503) else {}
    except (OSError, http.client.HTTPException) as exc:
        raise UnavailableError(f"{address} does not answer: {exc}", code="CONNECTION_ERROR") from exc
    except (ValueError, RecursionError):
        answer = {}
    proof = answer.get("proof") if isinstance(answer, dict) else None
    if response.status == 503 and proof is None:
        raise UnavailableError(f"{address} cannot look up tokens at the moment", code="STORE_UNAVAILABLE", status=503)
    if not is_signed(proof, derive_key(token), BY_HTTP, address, nonce):
        raise UntrustedError(
            f"the server at {address} does not prove that it knows this token, so the token was not shown to it: it is another"
            " program, or the token is unknown, or a tunnel leads elsewhere (name its far end with tunnel_to)",
            code="UNTRUSTED_SERVER" if proof is None else "AUTHENTICATION_FAILED",
        )


def to_url(url: str, token: str | None, timeout_s: float, tunnel_to: str | None = None) -> Link:
    """Return a transport to the HTTP API at *url* (``http://127.0.0.1:8765``).

    A token is sent to this user's own daemon, over its Unix socket, or to a server that has proved that it knows it; with https the
    certificate authenticates the server.

    Args:
        tunnel_to: Where the server at the far end of a tunnel listens, such as ``127.0.0.1:8765``; None without a tunnel.

    Raises:
        InvalidError: *url* is not an HTTP URL, or *token* or *tunnel_to* is malformed.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise InvalidError(f"{url!r} is no URL: {exc}", code="INVALID_REQUEST", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"{url!r} is not a URL such as http://127.0.0.1:8765", code="INVALID_REQUEST", field="url")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidError("token: is none of ours: it has other characters", code="INVALID_REQUEST", field="token")
    if tunnel_to is not None and _ADDRESS.fullmatch(tunnel_to) is None:
        message = f"tunnel_to: {tunnel_to!r} is not an address such as 127.0.0.1:8765"
        raise InvalidError(message, code="INVALID_REQUEST", field="tunnel_to")
    is_secure = parts.scheme == "https"
    host, base = parts.hostname, parts.path.rstrip("/")

    def connect() -> _Http:
        if not is_secure and (local := _find_local(host, port or http.client.HTTP_PORT, timeout_s)) is not None:
            return _Http(local, base, token)
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = kind(host, port, timeout=timeout_s)
        try:
            connection.connect()
            if token is not None and not is_secure:
                peer = connection.sock.getpeername()
                _check_server(connection, base, token, tunnel_to or format_address(peer[0], peer[1]))
        except OSError as exc:
            connection.close()
            raise UnavailableError(
                f"{host}:{connection.port} cannot be reached: {exc}", code="CONNECTION_ERROR"
            ) from exc
        except ApiError:
            connection.close()
            raise
        return _Http(connection, base, token)

    return _Pool(connect, timeout_s)
