"""JSON of any size, parsed one record at a time: elements of a list, members of an object, lines of a file.

The standard library's parser needs the whole file in memory, and thirty times its size if it is all brackets. Here each
record is first cut out of the bytes, by brackets and quotes alone. One that is too large, too deep or not JSON is refused, and the
next is read. Objects with a duplicate key are refused too, because either value may be the intended one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from infinite_memory.transfer.formats.caps import MAX_RECORD_BYTES, MAX_RECORD_LEVELS, MAX_RECORD_PARTS, Budget

Json = dict[str, Any]

BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1 << 20
_QUOTE, _COMMA = b'",'
_SPACE = re.compile(rb"[ \t\r\n]*+")
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_MARK = re.compile(rb'["\[\]{},]')
_PLAIN = re.compile(rb'[^\s,\]}\[{":]*+')


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a JSON text: an element of a list (the member ``key``, or the top level), or a member that is not a list.

    ``fault`` is the reason why it has no value. ``is_end`` marks the end of a top-level object or list. ``parts`` and ``size_bytes``
    measure the memory that the value takes.
    """

    key: str | None
    number: int
    value: Any = None
    fault: str | None = None
    is_element: bool = False
    is_end: bool = False
    size_bytes: int = 0
    parts: int = 1


class _BrokenError(Exception):
    """The text is not JSON from here on, or ends too early."""


class _Duplicate(ValueError):
    pass


def parse(text: str) -> Any:
    """Parse one JSON value.

    Raises:
        ValueError: it is not valid; the message gives the reason and quotes nothing of the text.
    """
    return _parsed(lambda: _DECODER.decode(text))


def parse_glued(text: str) -> list[Any]:
    """Parse all JSON values in a text, with nothing but white space between them.

    Raises:
        ValueError: there is something else between them.
    """
    offset, values = 0, []
    while offset < len(text) and (offset := _skip(text, offset)) < len(text):
        value, offset = _parsed(lambda start=offset: _DECODER.raw_decode(text, start))  # type: ignore[misc]
        values.append(value)
    return values


def _parsed(parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except _Duplicate:
        raise ValueError("names a key twice in one object") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    except json.JSONDecodeError as exc:
        raise ValueError(f"is no JSON: {exc.msg}, at character {exc.pos + 1}") from None
    except ValueError:  # a number of more digits than are read
        raise ValueError("holds a number that is too long") from None


def _object(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Duplicate
    return members


# Shared, because creating one costs more than using it.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=lambda _: None)


def _skip(text: str, index: int) -> int:
    while index < len(text) and text[index] in " \t\r\n":
        index += 1
    return index


def check_shape(raw: bytes) -> str | None:
    """Return why a record must not be parsed (too deep, too many parts); None if it may be."""
    if raw.count(b"[") + raw.count(b"{") + raw.count(b",") <= MAX_RECORD_LEVELS:
        return None
    depth = parts = offset = 0
    while (mark := _MARK.search(raw, offset)) is not None:
        char, offset = raw[mark.start()], mark.end()
        if char == _QUOTE:
            offset = _IN_STRING.match(raw, offset).end() + 1  # type: ignore[union-attr]
            continue
        depth += (char in b"[{") - (char in b"]}")
        parts += char not in b"]}"
        if depth > MAX_RECORD_LEVELS:
            return f"is nested deeper than {MAX_RECORD_LEVELS} levels"
        if parts > MAX_RECORD_PARTS:
            return f"has more than {MAX_RECORD_PARTS:,} parts"
    return None


def lines(file: BinaryIO, budget: Budget, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number, without its line feed; None instead of one longer than *max_bytes*."""
    number = 0
    while line := file.readline(max_bytes + 2):
        number += 1
        budget.spend(len(line))
        is_whole = line.endswith(b"\n") or len(line) < max_bytes + 2
        rest = line
        while not is_whole and not rest.endswith(b"\n") and (rest := file.readline(_CHUNK_BYTES)):
            budget.spend(len(rest))
        yield number, line.removeprefix(BOM if number == 1 else b"").removesuffix(b"\n") if is_whole else None


def json_lines(file: BinaryIO, budget: Budget) -> Iterator[tuple[int, Any, str | None]]:
    """Yield the values of a JSON Lines file: line number, value, and why there is no value. A line may hold several."""
    for number, line in lines(file, budget):
        if line is None:
            yield number, None, f"is longer than {MAX_RECORD_BYTES >> 20} MiB"
            continue
        if not line.strip():
            continue
        if (fault := check_shape(line)) is not None:
            yield number, None, fault
            continue
        try:
            values = parse_glued(line.decode())
        except UnicodeDecodeError:
            yield number, None, "is no text in UTF-8"
        except ValueError as exc:
            yield number, None, str(exc)
        else:
            yield from ((number, value, None) for value in values)


def scan(file: BinaryIO, budget: Budget, *, keys: Collection[str] | None = None) -> Iterator[Found]:
    """Yield the elements and members of the JSON values in a file, in order.

    Args:
        keys: Members of objects to read; the others are skipped, which is much faster. None reads all.
    """
    scanner = _Scanner(file, budget)
    try:
        while (first := scanner.peek()) is not None:
            if first == b"[":
                yield from scanner.elements(None)
            elif first == b"{":
                yield from scanner.members(keys)
            else:
                raise _BrokenError
            yield Found(None, 0, is_end=True)
    except _BrokenError:
        yield Found(None, 0, fault=f"is no JSON from line {scanner.line}, column {scanner.column} on")


class _Scanner:
    """Cuts values out of a byte stream; keeps one value and one chunk in memory."""

    def __init__(self, file: BinaryIO, budget: Budget) -> None:
        self._file, self._budget = file, budget
        self._buffer, self._position = bytearray(), 0
        self._dropped_lines, self._dropped_columns = 0, 0  # in the bytes dropped so far
        self._has_ended = False
        self._size, self._parts = 0, 1  # of the value read last
        self._fill()
        if self._buffer.startswith(BOM):
            self._position = len(BOM)

    @property
    def line(self) -> int:
        """The current line number."""
        return 1 + self._dropped_lines + self._buffer.count(b"\n", 0, self._position)

    @property
    def column(self) -> int:
        """The position in that line, in bytes."""
        end = self._buffer.rfind(b"\n", 0, self._position)
        return self._position - end if end >= 0 else self._dropped_columns + self._position + 1

    def peek(self) -> bytes | None:
        """Return the next byte that is not white space, None at the end."""
        while True:
            self._position = _SPACE.match(self._buffer, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._buffer):
                return bytes(self._buffer[self._position : self._position + 1])
            self._drop_consumed()
            if not self._fill():
                return None

    def elements(self, key: str | None) -> Iterator[Found]:
        """Yield the elements of the list that begins here."""
        self._position += 1
        number = 0
        if self.peek() == b"]":
            self._position += 1
            return
        while True:
            number += 1
            value, fault = self._value()
            yield Found(key, number, value, fault, is_element=True, size_bytes=self._size, parts=self._parts)
            if self._take(b",]") == b"]":
                return

    def members(self, keys: Collection[str] | None) -> Iterator[Found]:
        """Yield the members of the object that begins here, those that are lists element by element."""
        self._position += 1
        if self.peek() == b"}":
            self._position += 1
            return
        names: set[str] = set()
        while True:
            if self.peek() != b'"':
                raise _BrokenError
            key, fault = self._value()
            if fault is not None or not isinstance(key, str):
                raise _BrokenError
            is_read = (keys is None or key in keys) and key not in names
            if key in names:
                yield Found(key, 0, fault="stands twice in one object; the first is taken")
            names.add(key)
            self._take(b":")
            if is_read and self.peek() == b"[":
                yield from self.elements(key)
            else:
                value, fault = self._value(is_read=is_read)
                if is_read:
                    yield Found(key, 0, value, fault, size_bytes=self._size, parts=self._parts)
            if self._take(b",}") == b"}":
                return

    def _take(self, expected: bytes) -> bytes:
        next_byte = self.peek()
        if next_byte is None or next_byte not in expected:
            raise _BrokenError
        self._position += 1
        return next_byte

    def _value(self, *, is_read: bool = True) -> tuple[Any, str | None]:
        """Read the value that begins here, or why it cannot be read."""
        raw, fault = self._cut(is_read=is_read)
        if not is_read or fault is not None:
            return None, fault
        try:
            return parse(raw.decode()), None
        except UnicodeDecodeError:
            return None, "is no text in UTF-8"
        except ValueError as exc:
            return None, str(exc)

    def _cut(self, *, is_read: bool) -> tuple[bytes, str | None]:
        """Cut out the value that begins here; without *is_read* its bytes are not kept."""
        first = self.peek()
        if first is None or first in b",:]}":
            raise _BrokenError
        value = _Taken(self._position, is_read=is_read)
        if first not in b'[{"':
            while True:
                self._position = _PLAIN.match(self._buffer, self._position).end()  # type: ignore[union-attr]
                if self._position < len(self._buffer) or not self._more(value):
                    return self._cut_off(value)
        depth = 0
        while True:
            mark = _MARK.search(self._buffer, self._position)
            if mark is None:
                self._position = len(self._buffer)
                if not self._more(value):
                    raise _BrokenError
                continue
            self._position = mark.end()
            char = self._buffer[self._position - 1]
            if char == _QUOTE:
                self._string(value)
            elif char == _COMMA:
                value.parts += 1
            elif char in b"[{":
                depth += 1
                value.parts += 1
                if depth > MAX_RECORD_LEVELS or value.parts > MAX_RECORD_PARTS:
                    value.refuse(depth)
            else:
                depth -= 1
            if depth <= 0:
                return self._cut_off(value)

    def _cut_off(self, result: _Taken) -> tuple[bytes, str | None]:
        result.take(self._buffer, self._position)
        if result.parts > MAX_RECORD_PARTS:
            result.refuse(0)
        self._size, self._parts = len(result.data), result.parts
        return bytes(result.data), result.fault

    def _string(self, result: _Taken) -> None:
        """Advance past the end of the string whose opening quote was passed."""
        while True:
            self._position = _IN_STRING.match(self._buffer, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._buffer) and self._buffer[self._position] == _QUOTE:
                self._position += 1
                return
            if not self._more(result):  # the end, perhaps after a lone backslash
                raise _BrokenError

    def _more(self, result: _Taken) -> bool:
        """Read the next chunk, after adding the consumed bytes to *result*."""
        result.take(self._buffer, self._position)
        self._drop_consumed()
        result.start = 0
        return self._fill()

    def _drop_consumed(self) -> None:
        """Drop the consumed bytes."""
        if not self._position:
            return
        count = self._buffer.count(b"\n", 0, self._position)
        self._dropped_lines += count
        end = self._buffer.rfind(b"\n", 0, self._position)
        self._dropped_columns = self._position - end - 1 if count else self._dropped_columns + self._position
        del self._buffer[: self._position]
        self._position = 0

    def _fill(self) -> bool:
        if self._has_ended:
            return False
        chunk = self._file.read(_CHUNK_BYTES)
        self._budget.spend(len(chunk))
        self._has_ended = not chunk
        self._buffer += chunk
        return bool(chunk)


class _Taken:
    """The bytes of one value, dropped once it is refused. ``start`` is where its next bytes begin in the scanner's buffer."""

    def __init__(self, start: int, *, is_read: bool) -> None:
        self.start, self.parts = start, 1
        self.data, self.fault = bytearray(), None if is_read else ""

    def take(self, buffer: bytearray, end: int) -> None:
        """Add the bytes of *buffer* up to *end*."""
        if self.fault is None:
            self.data += buffer[self.start : end]
            if len(self.data) > MAX_RECORD_BYTES:
                self._refuse(f"is larger than {MAX_RECORD_BYTES >> 20} MiB")

    def refuse(self, depth: int) -> None:
        """Drop the value: it is too deep or has too many parts."""
        if self.fault is None:
            deep = f"is nested deeper than {MAX_RECORD_LEVELS} levels"
            self._refuse(deep if depth > MAX_RECORD_LEVELS else f"has more than {MAX_RECORD_PARTS:,} parts")

    def _refuse(self, reason: str) -> None:
        self.fault = reason
        self.data.clear()
