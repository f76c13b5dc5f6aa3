"""CSV tables: our own exports, and any table with a text column.

The header row names the columns, in any order and case; the delimiter is a comma, semicolon or tab. Columns listed in `NAMES`
become those fields; all others go into ``metadata`` under their own names.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infinite_memory.models import DETAILS, FieldType
from infinite_memory.transfer.formats.caps import MAX_ROW_BYTES
from infinite_memory.transfer.formats.native import to_memory, to_number
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Refused, to_instant, to_metadata, to_text
from infinite_memory.transfer.serialization import unescape_cell

NAMES: Mapping[str, str] = {
    **dict.fromkeys(("text", "content", "memory"), "text"),
    **dict.fromkeys(("timestamp", "date", "time"), "timestamp"),
    "tag": "tags",
    **{
        name: name
        for name in (
            "memory_id", "scope", "tags", "source", *(field.name for field in DETAILS if field.is_exported),
            "created_at", "updated_at", "deleted_at", "metadata",
        )
    },
}  # fmt: skip
"""Our field for each known column name."""

SUFFIXES = ".csv", ".tsv"

_DELIMITERS = ",;\t"
_KINDS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    **dict.fromkeys(
        ("timestamp", "created_at", "updated_at", "deleted_at"), (to_instant, "a time such as 2024-03-01T09:30:00Z")
    ),
    **{field.name: (to_number, "a number") for field in DETAILS if field.type is FieldType.NUMBER},
}


def is_table(suffix: str, head: Head) -> bool:
    """True if a file is a table with a text column: by its name and header, or by an unmistakable header."""
    if head.text is None or head.top:
        return False
    header = _head(head.text)
    return header is not None and (suffix in SUFFIXES or (suffix != ".md" and _is_plain(header[1])))


def _is_plain(columns: list[str]) -> bool:
    """True if a header names at least two known columns; a single word may begin any text."""
    return len(columns) > 1 and sum(column in NAMES.values() for column in columns) > 1


def read_table(reading: Reading) -> Iterator[Entry]:
    """Read a table of memories; a row that cannot be imported whole is refused, and the next one is read."""
    csv.field_size_limit(MAX_ROW_BYTES)
    rows = _Rows(reading)
    first = rows.first_line()
    head = _head(first)
    if head is None:
        yield reading.refused("line 1", "names no one column text, content or memory")
        return
    delimiter, columns = head
    for number, row, fault in rows.read(delimiter):
        if fault is not None:
            yield reading.refused(f"line {number}", fault)
        elif any(cell.strip() for cell in row):
            yield _memory(reading, columns, row, f"line {number}")


class _Rows:
    """The rows of a table; a row with an unclosed quote is given up, and reading resumes at the line after its first."""

    def __init__(self, reading: Reading) -> None:
        self._lines = reading.lines(MAX_ROW_BYTES)
        self._again: deque[tuple[int, str]] = deque()  # lines that were read as part of a row and are rows themselves
        self._row: list[tuple[int, str]] = []  # lines of the row that is being read
        self._size = 0
        self._fault: str | None = None

    def first_line(self) -> str:
        """Return the header row."""
        _, line = next(self._lines, (1, b""))
        return "" if line is None else line.decode("utf-8", "surrogateescape")

    def read(self, delimiter: str) -> Iterator[tuple[int, list[str], str | None]]:
        """Yield the number of a row's last line, its cells, and why it is refused, if it is."""
        while True:
            self._row, self._size, self._fault = [], 0, None
            try:
                row = next(csv.reader(self._feed(), delimiter=delimiter), None)
            except csv.Error:
                self._fault = self._fault or f"has a cell of more than {MAX_ROW_BYTES >> 20} MiB"
                row = []
            if self._fault is not None:
                number = self._row[0][0] if self._row else 0
                self._again.extendleft(reversed(self._row[1:]))
                yield number, [], self._fault
            elif row is None:
                return
            else:
                yield self._row[-1][0], row, None

    def _feed(self) -> Iterator[str]:
        while True:
            if self._again:
                number, line = self._again.popleft()
            else:
                number, raw = next(self._lines, (0, b""))
                if not number:
                    if self._row:
                        self._fault = "opens a quote that is never closed"
                    return
                if raw is None:
                    self._row = [*self._row[:1], (number, "")] if self._row else [(number, "")]
                    self._fault = f"is longer than {MAX_ROW_BYTES >> 20} MiB"
                    return
                # If it is not UTF-8, the row is refused when it is validated.
                line = raw.decode("utf-8", "surrogateescape")
            self._row.append((number, line))
            self._size += len(line)
            if self._size > MAX_ROW_BYTES:
                self._fault = f"opens a quote that is not closed within {MAX_ROW_BYTES >> 20} MiB"
                return
            yield f"{line}\n"


def _head(text: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the column names; None if no column holds texts, or two have the same name."""
    first = text.split("\n", 1)[0].rstrip("\r")
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        [columns] = csv.reader([first], delimiter=delimiter)
    except (ValueError, csv.Error):
        return None
    named = [field_of(column) or column.strip() for column in columns]
    return (delimiter, named) if "text" in named and len(set(named)) == len(named) else None


def field_of(column: str) -> str | None:
    """Return our field for a column name; None if it is not a known one."""
    return NAMES.get(column.strip().casefold().replace(" ", "_"))


def _memory(reading: Reading, columns: list[str], row: list[str], location: str) -> Entry:
    if len(row) > len(columns):
        return reading.refused(location, f"has {len(row)} columns, the first line names {len(columns)}")
    record: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    is_own = columns[0] == "memory_id"  # only in our own exports; elsewhere an apostrophe is just that
    for column, written in zip(columns, row, strict=False):
        if cell := unescape_cell(written) if is_own else written:
            (record if column in NAMES.values() else metadata)[column] = cell
    for name, (read, expected) in _KINDS.items():
        if name in record and read(record[name]) is None:
            return Refused(reading.where(location), f"its {name} is not {expected}", value=repr(record[name][:40]))
    metadata = to_metadata(record.pop("metadata", None)) | metadata
    key = to_text(metadata.get("id"))
    return to_memory(reading, record | {"metadata": metadata} | ({"key": key} if key else {}), location)
