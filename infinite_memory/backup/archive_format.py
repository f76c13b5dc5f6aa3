"""The layout of a backup file: its magic numbers, frames and limits, and what its head may say.

`docs/backup-format.md` is the description for those who read a backup without this program; the two are held together by a
test.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

if sys.version_info >= (3, 14):
    pass
else:
    pass

FORMAT_VERSION = 1
MAGIC = b"\x89IMBKP\r\n"  # the line end shows a transfer as text, as PNG's does
END_MAGIC = b"IMBKPEND"

PREAMBLE = struct.Struct(">8sH")  # magic, format version
FRAME = struct.Struct(">4sQ")  # kind, length of the payload
TRAILER = struct.Struct(">Q8s")  # where the tail begins, end magic
COUNT = struct.Struct(">HI")  # length of the collection's name, number of documents
DIGEST_BYTES = 32
MAX_NAME_BYTES = 120
_LENGTH = struct.Struct("<i")

MAX_PART_BYTES = 48 << 20
"""Largest part before compression: a page of documents, one of which may have MongoDB's 16 MiB."""

MAX_PAYLOAD_BYTES = MAX_PART_BYTES + (1 << 20)
MAX_HEAD_BYTES = 64 << 10
MAX_TAIL_BYTES = 32 << 20  # unpacked; it counts the documents of each collection
MAX_PARTS = 1_000_000
MAX_SCHEMA_VERSION = 1 << 31

FREE_UNPACKED_BYTES = 256 << 20
MAX_UNPACK_RATIO = 1000
"""What parts may unpack into, all together: the first always, beyond it so many times what was read of the file.

Why the writer keeps the ratio too (`pad`): a few hundred equal texts of a MiB are an honest memory, and shrink as bombs do.
"""

_PAD_RATIO = MAX_UNPACK_RATIO // 2
_PAD_FROM = 64 << 10  # bytes of a part; the frame of a smaller one is not that much smaller
_SKIPPABLE = struct.Struct("<II")  # magic and length of a frame of zstd that is skipped
_SKIPPABLE_MAGIC = 0x184D2A50

HEAD, DATA, TAIL = b"HEAD", b"DATA", b"TAIL"


@dataclass(frozen=True, slots=True)
class Part:
    """Whole documents of one collection: BSON, one after another."""

    collection: str
    count: int
    documents: bytes


@dataclass(frozen=True, slots=True)
class Summary:
    """What a whole backup holds: its head, and how many documents of each collection."""

    head: Mapping[str, Any]
    counts: Mapping[str, int]
    parts: int
    details: Mapping[str, Any]


def split_documents(documents: bytes) -> Iterator[bytes]:
    """Cut BSON documents that follow each other apart.

    Raises:
        ValueError: the bytes are no whole documents.
    """
    position, end = 0, len(documents)
    while position < end:
        length = _LENGTH.unpack_from(documents, position)[0] if position + 5 <= end else 0
        if length < 5 or position + length > end or documents[position + length - 1] != 0:
            raise ValueError("a document is cut off or damaged")
        yield documents[position : position + length]
        position += length


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,80}")

_HEAD_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "created_at": lambda value: isinstance(value, str) and _INSTANT.fullmatch(value) is not None,
    "product": lambda value: isinstance(value, str) and _WORD.fullmatch(value) is not None,
    "product_version": lambda value: isinstance(value, str) and _WORD.fullmatch(value) is not None,
    "reason": lambda value: isinstance(value, str) and _WORD.fullmatch(value) is not None,
    "database": lambda value: isinstance(value, str) and len(value) <= 200 and value.isprintable(),
    "schema_version": lambda value: type(value) is int and 0 <= value < MAX_SCHEMA_VERSION,
    "consistent": lambda value: isinstance(value, bool),
    "lock": lambda value: isinstance(value, dict),
}
"""What a head may say: it is shown in lists and logs before anything vouches for it."""


def find_wrong_field(head: Mapping[str, Any]) -> str | None:
    """Name the first field of a head that is not what we write; None without one. A field may be missing."""
    return next((name for name, is_right in _HEAD_FIELDS.items() if name in head and not is_right(head[name])), None)


def pad(packed: bytes, size: int) -> bytes:
    """Add a frame that is skipped to what shrank so much that a reader might take it for a bomb."""
    missing = size // _PAD_RATIO - len(packed)
    if size <= _PAD_FROM or missing <= 0:
        return packed
    return packed + _SKIPPABLE.pack(_SKIPPABLE_MAGIC, missing) + bytes(missing)


def chain(before: bytes, header: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(before)
    digest.update(header)
    digest.update(payload)
    return digest.digest()


def to_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
