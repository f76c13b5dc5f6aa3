"""Read and write the fields of protobuf messages: the form of ONNX and sentencepiece files.

By hand, because only a few fields are needed: the protobuf library wants the generated classes of each format, and copies every weight of
a model that it reads.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # kinds of fields
_VARINT_BITS = 70


class Field(NamedTuple):
    """One field: its number, and where it and its value are in the message."""

    number: int
    start: int
    value: int
    end: int


def iter_fields(message: bytes | mmap.mmap, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the fields of the message between two offsets.

    Raises:
        ValueError: it is not a message.
        IndexError: it ends too early.
    """
    index, end = start, len(message) if end is None else end
    while index < end:
        field_start = index
        key, index = _read_varint(message, index)
        kind, value = key & 7, index
        if kind == VARINT:
            _, index = _read_varint(message, index)
        elif kind == LENGTH:
            size, value = _read_varint(message, index)
            index = value + size
        elif kind in (FIXED_32, FIXED_64):
            index += 4 if kind == FIXED_32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")
        if index > end or key >> 3 == 0:
            raise ValueError("a field ends outside its message, or has no number")
        yield Field(key >> 3, field_start, value, index)


def iter_values(message: bytes | mmap.mmap, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield number and encoded value of each field; raises as `iter_fields`."""
    return ((field.number, message[field.value : field.end]) for field in iter_fields(message, start, end))


def encode_varint(value: int) -> bytes:
    """Return a number that is not negative as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_bytes(number: int, value: bytes) -> bytes:
    """Return a field of bytes: a text or a message."""
    return encode_varint(number << 3 | LENGTH) + encode_varint(len(value)) + value


def encode_number(number: int, value: int) -> bytes:
    """Return a field with a number that is not negative."""
    return encode_varint(number << 3 | VARINT) + encode_varint(value)


def _read_varint(message: bytes | mmap.mmap, index: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte = message[index]
        value |= (byte & 0x7F) << shift
        index += 1
        if not byte & 0x80:
            return value, index
    raise ValueError("a number is too long")
