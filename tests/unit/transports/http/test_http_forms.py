"""Requests that no honest client sends, to a real server: refused before a token is looked at, and nothing is told in passing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infinite_memory import __version__, proofs
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http import asgi, connections
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.server import HOST, HttpServer

HOST_LINE = b"Host: 127.0.0.1\r\n"
GET = b"GET /mcp HTTP/1.1\r\n"
END = b"\r\n"


@asynccontextmanager
async def served(home: Path) -> AsyncIterator[HttpServer]:
    """Serve no contract at a free port, until the block ends."""
    server = HttpServer(HttpSettings(port=0, connections=8), home, {}, body_bytes=1000)
    server.start()
    try:
        yield server
    finally:
        await server.close()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection to its end; an open one would be noticed in some later test."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def say(server: HttpServer, said: bytes) -> bytes:
    """Send bytes and give all that comes back until the server has answered or closed."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(said)
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        return head + await asyncio.wait_for(reader.read(65536), 30)
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    finally:
        await hang_up(writer)


def run(home: Path, scenario: Callable[[HttpServer], Coroutine[None, None, None]]) -> None:
    async def serve() -> None:
        async with served(home) as server:
            await scenario(server)

    asyncio.run(serve())


def test_every_odd_form_is_refused_and_tells_no_version_path_or_cookie(tmp_path: Path) -> None:
    forms = {
        "no host": (GET + END, 400),
        "two hosts": (GET + HOST_LINE + b"Host: evil.example\r\n" + END, 400),
        "another host": (GET + b"Host: evil.example\r\n" + END, 421),
        "an empty host": (GET + b"Host: \r\n" + END, 421),
        "a host that only begins well": (GET + b"Host: 127.0.0.1.evil.example\r\n" + END, 421),
        "a port that is none": (GET + b"Host: localhost:80.evil.example\r\n" + END, 421),
        "a user before the host": (GET + b"Host: localhost:80@evil.example\r\n" + END, 421),
        "a mapped address": (GET + b"Host: [::ffff:127.0.0.1]\r\n" + END, 421),
        "all addresses": (GET + b"Host: 0.0.0.0\r\n" + END, 421),
        "a dot at the end": (GET + b"Host: localhost.\r\n" + END, 421),
        "a foreign page": (GET + HOST_LINE + b"Origin: http://evil.example\r\n" + END, 403),
        "a page of no origin": (GET + HOST_LINE + b"Origin: null\r\n" + END, 403),
        "an origin that only begins well": (GET + HOST_LINE + b"Origin: http://localhost.evil.example\r\n" + END, 403),
        "an origin with a port that is none": (GET + HOST_LINE + b"Origin: http://localhost:1.evil.example\r\n" + END, 403),
        "two tokens": (GET + HOST_LINE + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n" + END, 400),
        "length and chunks": (
            b"POST /mcp HTTP/1.1\r\n" + HOST_LINE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + END + b"0\r\n\r\n",
            400,
        ),
        "two lengths": (b"POST /mcp HTTP/1.1\r\n" + HOST_LINE + b"Content-Length: 5\r\nContent-Length: 6\r\n" + END, 400),
        "an unknown coding": (b"POST /mcp HTTP/1.1\r\n" + HOST_LINE + b"Transfer-Encoding: xchunked\r\n" + END, 400),
        "a space before the colon": (GET + HOST_LINE + b"Content-Length : 5\r\n" + END, 400),
        "a folded header": (GET + HOST_LINE + b"X: a\r\n b\r\n" + END, 401),
        "bytes that are no HTTP": (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        "a head that is too large": (GET + HOST_LINE + b"X: " + b"x" * 100_000 + END + END, 400),
        "very many headers": (GET + HOST_LINE + b"X: y\r\n" * 20_000 + END, 400),
        "a web socket": (
            GET + HOST_LINE + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"
            b"Sec-WebSocket-Version: 13\r\n" + END, 401,
        ),
        "an unknown contract": (b"GET /mcp/none HTTP/1.1\r\n" + HOST_LINE + END, 401),
        "no token": (GET + HOST_LINE + END, 401),
        "IPv6": (GET + b"Host: [::1]:8765\r\n" + END, 401),
        "capitals": (GET + b"Host: LOCALHOST:8765\r\n" + END, 401),
    }  # fmt: skip

    async def scenario(server: HttpServer) -> None:
        for name, (said, status) in forms.items():
            reply = await say(server, said.replace(END + END, b"\r\nConnection: close\r\n\r\n", 1))
            assert reply.startswith(f"HTTP/1.1 {status} ".encode()), (name, reply)
            lower = reply.lower()
            for told in (
                __version__.encode(),
                b"uvicorn",
                b"python",
                b"set-cookie",
                os.fsencode(tmp_path),
                b"traceback",
            ):
                assert told not in lower, (name, reply)

    run(tmp_path, scenario)


def test_who_sends_many_requests_ahead_gets_few_answers_before_a_token_is_shown(tmp_path: Path) -> None:
    """Each costs far more to answer than to send; an open connection takes one after the other."""

    async def scenario(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write((GET + HOST_LINE + END) * 300)
        told = await asyncio.wait_for(reader.read(), 30)
        await hang_up(writer)
        assert told.count(b"HTTP/1.1 401 ") == connections.MAX_UNKNOWN
        token = (tmp_path / "http.token").read_text().strip().encode()
        reader, writer = await asyncio.open_connection(HOST, server.port)
        known = GET.replace(b"/mcp", b"/mcp/none") + HOST_LINE + b"Authorization: Bearer " + token + END + END
        for _ in range(3 * connections.MAX_UNKNOWN):
            writer.write(known)
            assert (await asyncio.wait_for(reader.readuntil(END + END), 30)).startswith(b"HTTP/1.1 404 ")
            await asyncio.wait_for(reader.readuntil(END + b"0" + END + END), 30)
        await hang_up(writer)

    run(tmp_path, scenario)


def test_very_many_chunks_are_not_read_one_by_one(tmp_path: Path) -> None:
    head = b"POST /mcp HTTP/1.1\r\n" + HOST_LINE + b"Transfer-Encoding: chunked\r\n" + END

    async def scenario(server: HttpServer) -> None:
        many = b"1\r\na\r\n" * 8000
        assert (await say(server, head + many)).startswith(b"HTTP/1.1 400 ")
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(head + b"1\r\na\r\n")
        assert (await reader.readuntil(END + END)).startswith(b"HTTP/1.1 401 ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(many)
                await writer.drain()
            raise AssertionError("the connection is closed")
        await hang_up(writer)
        lines = b"POST /mcp HTTP/1.1\r\n" + HOST_LINE + b"Content-Length: 8000\r\n" + END
        assert (await say(server, lines + b"1\r\n2\r\n" * 1334)).startswith(b"HTTP/1.1 401 "), (
            "a text of many lines is none"
        )

    run(tmp_path, scenario)


def test_a_proof_is_given_for_a_nonce_and_binds_the_address(tmp_path: Path) -> None:
    nonce = proofs.make_nonce()

    async def scenario(server: HttpServer) -> None:
        async def ask(query: str, method: str = "GET") -> bytes:
            said = f"{method} /api/v1/proof?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            return await say(server, said.encode())

        token = (tmp_path / "http.token").read_text().strip()
        right = proofs.sign(proofs.derive_key(token), proofs.BY_HTTP, f"127.0.0.1:{server.port}", nonce)
        reply = await ask(f"nonce={nonce}&token_id=owner")
        assert right.encode() in reply
        assert token.encode() not in reply
        assert b'"proof"' in await ask(f"nonce={nonce.upper()}"), "capitals are hexadecimal digits too"
        unknown = await ask(f"nonce={nonce}&token_id=0123456789ab")
        assert unknown.startswith(b"HTTP/1.1 200 ")
        assert len(unknown) == len(reply)
        for query in ("", "nonce=", "nonce=x", f"nonce={nonce[1:]}", f"nonce={nonce}&" + "a=1&" * 8):
            assert (await ask(query)).startswith(b"HTTP/1.1 400 "), query
        assert (await ask(f"nonce={nonce}", "POST")).startswith(b"HTTP/1.1 400 ")

    run(tmp_path, scenario)


def test_the_newest_connection_is_answered_however_many_are_half_open(tmp_path: Path) -> None:
    async def scenario(server: HttpServer) -> None:
        await say(server, GET + HOST_LINE + b"Connection: close\r\n\r\n")  # it is up
        half = [await asyncio.open_connection(HOST, server.port) for _ in range(40)]
        assert (await say(server, GET + HOST_LINE + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        for _, writer in half:
            await hang_up(writer)

    run(tmp_path, scenario)


def test_a_head_that_comes_too_slowly_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)

    async def scenario(server: HttpServer) -> None:
        assert await say(server, GET + HOST_LINE) == b""
        ready = GET + HOST_LINE + b"\r\n"
        assert (await say(server, ready + GET)).startswith(b"HTTP/1.1 401 "), "the second is waited for no longer"

    run(tmp_path, scenario)


async def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_GRACE_S", 0.2)

    async def no_place() -> None:
        raise AssertionError("a small body needs none")

    async def drop() -> dict[str, object]:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(asgi.SlowBodyError):
        await asgi.read_body(drop, 1000, no_place)


def test_a_rotated_token_of_the_owner_is_whole_private_and_read_at_once(tmp_path: Path) -> None:
    owner = OwnerToken(tmp_path / "http.token")
    first = owner.read()
    assert stat.S_IMODE(owner.file.stat().st_mode) == 0o600
    second = owner.rotate()
    assert second not in ("", first)
    assert (owner.read(), OwnerToken(owner.file).read()) == (second, second)
    assert stat.S_IMODE(owner.file.stat().st_mode) == 0o600
    owner.file.unlink()  # by hand
    assert owner.read() not in ("", first, second)
    assert list(tmp_path.iterdir()) == [owner.file]
