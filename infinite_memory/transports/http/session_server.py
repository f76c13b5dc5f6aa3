"""HTTP access to one session: the same contract at an address of the client's choice, for the lifetime of the session."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from infinite_memory.errors import ConfigError
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.server import HttpServer
from infinite_memory.transports.jsonrpc import RpcContract

_HOSTS = ("127.0.0.1", "localhost")


def parse_address(address: str) -> int:
    """Return the port of ``127.0.0.1:PORT``; 0 takes a free one.

    Raises:
        ConfigError: it is another host or not a port; only this machine is served.
    """
    host, _, port = address.strip().rpartition(":")
    if host not in _HOSTS or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--http {address}: an address of this machine was expected, as 127.0.0.1:3031")
    return int(port)


@contextlib.asynccontextmanager
async def open_companion(
    address: str,
    contract: str,
    open_rpc: Callable[[], RpcContract],
    settings: HttpSettings,
    home: Path,
    *,
    body_bytes: int,
    owner: OwnerToken | None = None,
) -> AsyncIterator[str]:
    """Serve *contract* at *address*, under /mcp and /mcp/<contract>; return its URL.

    Raises:
        ConfigError: the address is invalid or in use.
    """
    settings = dataclasses.replace(settings, port=parse_address(address))
    server = HttpServer(settings, home, {"native": open_rpc, contract: open_rpc}, body_bytes=body_bytes, owner=owner)
    server.start()
    try:
        yield f"{server.about()['url']}/mcp"
    finally:
        await server.close()
