"""A reverse proxy with TLS, as nginx or Caddy stands before the daemon: it ends TLS, asks by a loopback Host, and tells its own."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME = "memory.localhost"  # browsers look up names below localhost nowhere


class TlsProxy:
    """Listens at ``url`` from the beginning; passes requests on once it was told of a port or the path of a Unix socket."""

    def __init__(self, folder: Path) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"{NAME}:{self._listener.getsockname()[1]}"
        self.url = f"https://{self.host}"
        self.target: int | str = 0
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(_make_certificate(folder))
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, with every connection."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listener, ssl=self._tls)
        await self._end.wait()
        server.close()
        for under_way in self._under_way:
            under_way.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way = asyncio.current_task()
        assert under_way is not None
        self._under_way.add(under_way)
        async with contextlib.AsyncExitStack() as closing:
            closing.callback(self._under_way.discard, under_way)
            closing.callback(writer.close)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._pass_on(reader, writer, closing)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, closing: contextlib.AsyncExitStack
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        dropped = (b"host:", b"connection:", b"x-forwarded-")
        kept = [line for line in head[:-2] if not line.lower().startswith(dropped)]
        own = (
            f"Host: 127.0.0.1\r\nConnection: close\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: {self.host}\r\n\r\n"
        )
        if isinstance(self.target, int):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        else:
            far_reader, far_writer = await asyncio.open_unix_connection(self.target)
        closing.callback(far_writer.close)
        far_writer.write(b"\r\n".join(kept) + b"\r\n" + own.encode())
        sending = asyncio.create_task(_copy(reader, far_writer))
        closing.callback(sending.cancel)
        await _copy(far_reader, writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _make_certificate(folder: Path) -> Path:
    """Write a key with a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / "proxy.pem"
    file.write_bytes(key.private_bytes(pem, form, nothing) + certificate.public_bytes(pem))
    return file
