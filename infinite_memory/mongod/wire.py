"""Just enough of MongoDB's wire protocol to check whether a server is up, with the standard library only.

The managed server is started while the driver is still being imported, so its start sends two commands by hand: `hello`,
and once in its life `replSetInitiate`. This is not a driver: one message on a new connection, and only the few fields of the
reply that are needed.

Sources: MongoDB "Wire Protocol" (OP_MSG) and the BSON specification 1.1.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path

_OP_MSG = 2013
_MAX_REPLY_BYTES = 1 << 20
"""A reply to these commands is a few hundred bytes; anything huge is not from MongoDB."""

Value = str | int | bool | Mapping[str, "Value"] | list["Value"]


def encode(document: Mapping[str, Value]) -> bytes:
    """Return *document* as BSON."""
    body = b"".join(_element(key, value) for key, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(key: str, value: Value) -> bytes:
    name = key.encode() + b"\0"
    if isinstance(value, bool):
        return b"\x08" + name + bytes([value])
    if isinstance(value, int):
        return b"\x10" + name + struct.pack("<i", value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return b"\x02" + name + struct.pack("<i", len(text)) + text
    if isinstance(value, list):
        return b"\x04" + name + encode({str(index): item for index, item in enumerate(value)})
    return b"\x03" + name + encode(value)


class Reply:
    """A reply, which is searched, not parsed: field names occur once in the replies to these commands."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def is_true(self, key: str) -> bool:
        """True if a boolean field exists and is true."""
        return b"\x08" + key.encode() + b"\0\x01" in self._body

    def text(self, key: str) -> str:
        """Return a string field, or "" if it is missing."""
        mark = b"\x02" + key.encode() + b"\0"
        index = self._body.find(mark)
        if index < 0:
            return ""
        index += len(mark)
        (length,) = struct.unpack_from("<i", self._body, index)
        return self._body[index + 4 : index + 3 + length].decode(errors="replace")


async def ask(socket_file: Path, command: Mapping[str, Value]) -> Reply:
    """Send one command to the server behind a Unix socket and return its reply.

    Raises:
        OSError: nothing listens, or the connection ended before the reply was complete.
    """
    body = encode({**command, "$db": "admin"})
    message = struct.pack("<iiiiIB", 21 + len(body), 1, 0, _OP_MSG, 0, 0) + body
    reader, writer = await asyncio.open_unix_connection(str(socket_file))
    try:
        writer.write(message)
        await writer.drain()
        (length,) = struct.unpack("<i", await reader.readexactly(4))
        if not 21 <= length <= _MAX_REPLY_BYTES:
            raise OSError(f"what listens on {socket_file} is no MongoDB")
        return Reply((await reader.readexactly(length - 4))[17:])
    except asyncio.IncompleteReadError as exc:
        raise OSError(f"{socket_file} closed before it answered") from exc
    finally:
        writer.close()
