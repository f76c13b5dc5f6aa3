"""The layout of a backup file: magic numbers, frames, limits and valid head fields.

`docs/backup-format.md` specifies it for readers other than this program; a test keeps the two in sync.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT_VERSION = 1
MAGIC = b"\x89IMBKP\r\n"  # the line end reveals a transfer in text mode, as PNG's does
END_MAGIC = b"IMBKPEND"

PREAMBLE = struct.Struct(">8sH")  # magic, format version
FRAME = struct.Struct(">4sQ")  # kind, length of the payload
TRAILER = struct.Struct(">Q8s")  # offset of the tail, end magic
COUNT = struct.Struct(">HI")  # length of the collection's name, number of documents
DIGEST_BYTES = 32
MAX_NAME_BYTES = 120
_LENGTH = struct.Struct("<i")

MAX_PART_BYTES = 48 << 20
"""Maximum size of a part before compression: a page of documents, one of which may have MongoDB's 16 MiB."""

MAX_PAYLOAD_BYTES = MAX_PART_BYTES + (1 << 20)
MAX_HEAD_BYTES = 64 << 10
MAX_TAIL_BYTES = 32 << 20  # decompressed; it has a document count for each collection
MAX_PARTS = 1_000_000
MAX_SCHEMA_VERSION = 1 << 31

FREE_UNPACKED_BYTES = 256 << 20
MAX_UNPACK_RATIO = 1000
"""Limits for the decompressed size of all parts: the first always, beyond it this multiple of the bytes read so far.

Why the writer respects the ratio too (`pad`): a few hundred equal texts of a MiB are legitimate, and compress like a bomb.
"""

_PAD_RATIO = MAX_UNPACK_RATIO // 2
_PAD_FROM = 64 << 10  # bytes of a part; smaller ones do not reach such a ratio
_SKIPPABLE = struct.Struct("<II")  # magic and length of a skippable zstd frame
_SKIPPABLE_MAGIC = 0x184D2A50

HEAD, DATA, TAIL = b"HEAD", b"DATA", b"TAIL"


@dataclass(frozen=True, slots=True)
class Part:
    """Whole, concatenated BSON documents of one collection."""

    collection: str
    count: int
    documents: bytes


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a whole backup: its head, and the number of documents in each collection."""

    head: Mapping[str, Any]
    counts: Mapping[str, int]
    parts: int
    details: Mapping[str, Any]


def split_documents(documents: bytes) -> Iterator[bytes]:
    """Yield each of the concatenated BSON documents.

    Raises:
        ValueError: a document is truncated or damaged.
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
"""Validators of the head's fields: they are shown in lists and logs before anything authenticates them."""


def find_wrong_field(header: Mapping[str, Any]) -> str | None:
    """Return the name of the first invalid field of a head, or None. A field may be missing."""
    return next(
        (name for name, is_right in _HEAD_FIELDS.items() if name in header and not is_right(header[name])), None
    )


def pad(packed: bytes, size: int) -> bytes:
    """Append a skippable frame to data that compressed so well that a reader might take it for a bomb."""
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
