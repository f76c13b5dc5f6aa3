"""Authentication of peers on the daemon's own socket, from the connection to the greeting.

Over the Unix socket, this user (and root) may connect; over TCP, any peer that proves that it knows the token of the daemon's record. Until
then a connection is cheap and may be closed for a newer one: other users who open many silent connections lock nobody out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from typing import Any

from infinite_memory import proofs
from infinite_memory.daemon import ipc

log = logging.getLogger(__name__)

Json = dict[str, Any]

MAX_SILENT = {"unix": 512, "tcp": 64}
"""Unauthenticated connections; a newer one replaces the oldest."""

BUFFER_BYTES = 64 * 1024  # read ahead of one unauthenticated connection
REPORT_S = 60.0  # an error that others can cause at will is logged once in this time


class Admission:
    """Reads greetings. *record* is the daemon's own, with the token if it listens on a port."""

    def __init__(self, record: Json) -> None:
        self._token: str | None = record.get("token")
        self._address = proofs.format_address("127.0.0.1", record["port"]) if "port" in record else ""
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._capacity = MAX_SILENT["unix" if self._token is None else "tcp"]

    async def read_greeting(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Json | None:
        """Return a client's greeting; None for strangers, and for anything that our clients never send."""
        link = writer.get_extra_info("socket")
        if link.family != socket.AF_INET and not ipc.is_peer_own(link, or_root=True):
            log.warning(
                "a connection of another user to the daemon's socket was refused", extra={"event": "stranger_refused"}
            )
            return None
        if len(self._silent) >= self._capacity:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.transport.abort()
        self._silent[writer] = None
        try:
            if self._token is not None and not await self._is_known(reader, writer, self._token):
                return None
            greeting = json.loads(await _read_line(reader, ipc.GREETING_BYTES))
        except (ValueError, RecursionError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            return None
        finally:
            self._silent.pop(writer, None)
        return greeting if isinstance(greeting, dict) else None

    async def _is_known(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> bool:
        """Prove to a client that this is the daemon, and verify the client's own proof."""
        first = (await _read_line(reader, ipc.CHALLENGE_BYTES)).strip()
        if proofs.is_same(first, token):
            return True  # clients of 0.1.0 send the token itself
        request = json.loads(first)
        if not isinstance(request, dict) or not proofs.is_nonce(request.get("nonce")):
            return False
        nonces = (request["nonce"], proofs.make_nonce())
        proof = proofs.sign(token, proofs.BY_DAEMON, self._address, *nonces)
        writer.write(json.dumps({"nonce": nonces[1], "proof": proof}).encode() + b"\n")
        await writer.drain()
        answer = (await _read_line(reader, ipc.CHALLENGE_BYTES)).strip()
        return proofs.is_signed(answer.decode("ascii"), token, proofs.BY_CLIENT, self._address, *nonces)


async def _read_line(reader: asyncio.StreamReader, limit: int) -> bytes:
    """Read a line that may be longer than the connection's read-ahead buffer."""
    line = bytearray()
    while len(line) <= limit:
        try:
            line += await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as exc:
            line += await reader.readexactly(exc.consumed)
        else:
            if len(line) <= limit:
                return bytes(line)
    raise ValueError("the line is too long")


def quieten_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Limit *loop* to one log record a minute when no connection can be accepted; asyncio logs hundreds a second."""
    reported_at = float("-inf")

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal reported_at
        exc = context.get("exception")
        if not (isinstance(exc, OSError) and "accept" in str(context.get("message"))):
            loop.default_exception_handler(context)
        elif time.monotonic() - reported_at > REPORT_S:
            reported_at = time.monotonic()
            log.warning("no connection can be accepted: %s", exc.strerror, extra={"event": "accept_failed"})

    loop.set_exception_handler(report)
