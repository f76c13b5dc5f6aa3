"""A file as format readers see it: its beginning for detection, then its records one by one."""

from __future__ import annotations

import codecs
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.transfer.formats import json_stream
from infinite_memory.transfer.formats.archives import MAGICS
from infinite_memory.transfer.formats.caps import MAX_RECORD_BYTES, MAX_RECORD_PARTS, Budget, CapReachedError
from infinite_memory.transfer.formats.json_stream import BOM, Found, Json
from infinite_memory.transfer.formats.sources import SourceFile
from infinite_memory.transfer.formats.types import BadValueError, Entry, Refused

SQLITE_MAGIC = b"SQLite format 3\0"
HEAD_BYTES = 64 << 10  # enough for a table's header or a note's front matter
HEAD_PARTS = 100  # list elements that are inspected: the first may lack the fields that identify its format
UNREADABLE = "holds something that cannot be read; the log says where"
_HEAD_JSON_BYTES = 96 << 20  # the largest record, and what may stand before it
_HEAD_S = 10.0  # a record of the largest kind takes 3

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Head:
    """The beginning of a file, from which its format is detected.

    Attributes:
        text: Its first characters, None if it is not UTF-8 text.
        top: ``"["``, ``"{"`` or ``""`` if it is not JSON.
        elements: The first elements of a top-level list, or of each member that is a list.
        members: The other members of a top-level object.
        fault: Why it cannot be read, judging by its beginning.
    """

    raw: bytes
    text: str | None
    top: str = ""
    elements: dict[str | None, list[Any]] = field(default_factory=dict)
    members: Json = field(default_factory=dict)
    fault: str | None = None

    @property
    def is_archive(self) -> bool:
        """True for a zip."""
        return self.raw.startswith(MAGICS)

    @property
    def is_database(self) -> bool:
        """True for an SQLite file."""
        return self.raw.startswith(SQLITE_MAGIC)

    def objects(self, key: str | None = None) -> list[Json]:
        """Return the objects among the first elements of a list."""
        return [element for element in self.elements.get(key, ()) if isinstance(element, dict)]


def read_head(file: SourceFile) -> Head:
    """Read the beginning of a file.

    Raises:
        OSError: it cannot be read.
    """
    with closing(file.peek()) as stream:
        raw = stream.read(HEAD_BYTES) or b""
    head = Head(raw, _text(raw))
    if head.is_archive or head.is_database:
        head.text = None
    elif head.text is None:
        head.fault = "is no text in UTF-8"
    elif not raw.strip():
        head.fault = "is empty"
    elif (first := head.text.lstrip()[:1]) and first in "[{":
        _look(file, head, first)
    return head


def _text(raw: bytes) -> str | None:
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(raw.removeprefix(BOM))
    except UnicodeDecodeError:
        return None


def _look(file: SourceFile, head: Head, first: str) -> None:
    with closing(file.peek()) as stream:
        weight = Weight()
        try:
            for item in json_stream.scan(stream, Budget(_HEAD_JSON_BYTES, _HEAD_S)):
                weight.add(item)
                if item.is_end or weight.is_too_much:
                    head.top = first
                    return
                if item.fault is not None:
                    head.fault = head.fault or item.fault
                elif item.is_element:
                    head.top = first
                    elements = head.elements.setdefault(item.key, [])
                    elements.append(item.value)
                    if len(elements) >= HEAD_PARTS:
                        return
                else:
                    head.top = first
                    head.members[str(item.key)] = item.value
        except CapReachedError as exc:
            head.fault = head.fault or str(exc)


@dataclass(slots=True)
class Weight:
    """The memory cost of keeping parts of a JSON text."""

    size_bytes: int = 0
    parts: int = 0

    def add(self, found: Found) -> None:
        """Count one more part."""
        self.size_bytes += found.size_bytes
        self.parts += found.parts

    @property
    def is_too_much(self) -> bool:
        """True if it exceeds what one record may cost."""
        return self.size_bytes > MAX_RECORD_BYTES or self.parts > MAX_RECORD_PARTS

    @property
    def fault(self) -> str | None:
        """Why it is refused; None if it is not."""
        return (
            f"is larger than {MAX_RECORD_BYTES >> 20} MiB or {MAX_RECORD_PARTS:,} parts" if self.is_too_much else None
        )


_OF_THE_WHOLE = (CapReachedError, InfiniteMemoryError, OSError, MemoryError)
"""Errors that end a file or the whole import rather than a single record."""


def log_failure(exc: Exception) -> None:
    """Log a failure by its place in the code only; contents of the user's file never go into the log."""
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    log.error(
        "an entry of an import is left out: %s in %s, line %s of %s",
        type(exc).__name__,
        frame.name,
        frame.lineno,
        frame.filename,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """One file being read. ``prefix`` precedes every reported position in it."""

    file: SourceFile
    budget: Budget
    prefix: str = ""

    def where(self, location: str) -> str:
        """Return how a position in this file is reported."""
        return self.prefix + location

    def refused(self, location: str, reason: str, count: int = 1) -> Refused:
        """Record that something at a position is skipped."""
        return Refused(self.where(location), reason, count)

    def take(self, location: str, make: Callable[[], Entry]) -> Entry:
        """Return an entry, or a refusal if one of its fields cannot be read."""
        try:
            return make()
        except BadValueError as exc:
            return Refused(self.where(location), str(exc), value=exc.value)
        except _OF_THE_WHOLE:
            raise
        except Exception as exc:
            return self._failed(location, exc)

    def guarded(self, location: str, read_entries: Callable[[], Iterable[Entry]]) -> Iterator[Entry]:
        """Yield the entries of one record or file; an unexpected error ends this record only."""
        try:
            yield from read_entries()
        except _OF_THE_WHOLE:
            raise
        except Exception as exc:
            yield self._failed(location, exc)

    def _failed(self, location: str, exc: Exception) -> Refused:
        log_failure(exc)
        return self.refused(location, UNREADABLE)

    def lines(self, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield its lines, as `json_stream.lines` does."""
        with closing(self.file.open()) as stream:
            yield from json_stream.lines(stream, self.budget, max_bytes)

    def json_lines(self) -> Iterator[tuple[int, Any, str | None]]:
        """Yield the values of its lines, as `json_stream.json_lines` does."""
        with closing(self.file.open()) as stream:
            yield from json_stream.json_lines(stream, self.budget)

    def scan(self, keys: Collection[str] | None = None) -> Iterator[Found]:
        """Yield the parts of its JSON, as `json_stream.scan` does."""
        with closing(self.file.open()) as stream:
            yield from json_stream.scan(stream, self.budget, keys=keys)

    def text(self, max_bytes: int) -> str:
        """Return the whole text, with line feeds as the only line breaks.

        Raises:
            UnicodeDecodeError: it is not UTF-8 text.
            CapReachedError: it is longer than *max_bytes*.
        """
        with closing(self.file.open()) as stream:
            raw = stream.read(max_bytes + 1)
        self.budget.spend(len(raw))
        if len(raw) > max_bytes:
            raise CapReachedError(f"is larger than {max_bytes >> 20} MiB")
        return raw.removeprefix(BOM).decode().replace("\r\n", "\n").replace("\r", "\n")

    def records(self, lists: Collection[str] = ()) -> Iterator[tuple[int, Any, str | None]]:
        """Yield number, value and fault of each record: the elements of a list, or of the members *lists* of an object.

        An object that has none of these members is a record itself.
        """
        whole, weight = Json(), Weight()
        number, has_lists = 0, False
        for item in self.scan():
            if item.is_end:
                if whole and not has_lists:
                    number += 1
                    yield number, None if weight.is_too_much else whole, weight.fault
                whole, weight, has_lists = Json(), Weight(), False
                continue
            weight.add(item)
            if item.is_element and (item.key is None or item.key in lists):
                has_lists = has_lists or item.key is not None
                number += 1
                yield number, item.value, item.fault
            elif item.fault is not None:
                yield 0, None, item.fault
            elif item.is_element and not (has_lists or weight.is_too_much):
                whole.setdefault(str(item.key), []).append(item.value)
            elif item.key is not None and not (item.is_element or weight.is_too_much):
                # An empty list has no elements, and anything else in its place is nothing to read.
                if item.key in lists:
                    has_lists = True
                whole[item.key] = item.value
