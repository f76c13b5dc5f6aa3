"""The listening sockets of HTTP: a loopback port, and a Unix socket that only this user can open."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from pathlib import Path

from infinite_memory.errors import ConfigError
from infinite_memory.paths import http_socket_name, make_socket_folder, place_of_socket, remove_socket_folder

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
BACKLOG = 128
MIN_CONNECTIONS = 8


def listen_at_port(port: int) -> socket.socket:
    """Listen on a loopback port; 0 takes a free one.

    Raises:
        ConfigError: it is in use.
    """
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; else each answer is delayed by 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(BACKLOG)
    except OSError as exc:
        listening.close()
        raise ConfigError(f"http.port = {port}: {exc.strerror or exc}") from exc
    listening.setblocking(False)
    return listening


def listen_at_socket(home: Path, port: int) -> tuple[socket.socket | None, Path | None]:
    """Listen on the Unix socket that belongs to a port; return None twice if there can be none, as the port works without it."""
    if not hasattr(socket, "AF_UNIX"):
        return None, None
    try:
        folder = place_of_socket(home, http_socket_name(port))
        if folder != home:
            make_socket_folder(folder)
        path = folder / http_socket_name(port)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # the process that listens on the port is this one: an existing file was left by a crash
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))  # in a directory that no other user may enter
        path.chmod(0o600)
        listening.listen(BACKLOG)
    except OSError as exc:
        log.warning("HTTP has no Unix socket: %s", exc, extra={"event": "http_socket_failed"})
        return None, None
    listening.setblocking(False)
    return listening, path


def remove_socket(path: Path | None) -> None:
    """Remove a Unix socket, and its directory if that was created for sockets only."""
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.unlink()
    remove_socket_folder(path.parent)


def max_connections(configured: int) -> int:
    """Return the maximum number of connections: the configured one, capped at a quarter of the limit on open files."""
    try:
        import resource
    except ImportError:  # Windows
        return configured
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return configured if limit == resource.RLIM_INFINITY else max(MIN_CONNECTIONS, min(configured, limit // 4))
