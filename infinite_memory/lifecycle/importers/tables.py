"""Tables in CSV: our own exports, and whatever else has a column of texts.

The first line names the columns, in any order and case; between them stand commas, semicolons or tabs. Columns that we have under
one of the names in `NAMES` become those fields, all others go into ``metadata`` under their own names.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from infinite_memory.errors import shown
from infinite_memory.lifecycle.importers.incoming import Incoming, Refused, instant_of, object_of, text_of
from infinite_memory.lifecycle.importers.own import memory_of, number_of

NAMES: Mapping[str, str] = {
    **dict.fromkeys(("text", "content", "memory"), "text"),
    **dict.fromkeys(("timestamp", "date", "time"), "timestamp"),
    "tag": "tags",
    **{
        name: name
        for name in (
            "memory_id", "scope", "tags", "source", "type", "title", "importance", "confidence", "status", "speaker",
            "conversation_id", "created_at", "updated_at", "deleted_at", "metadata",
        )
    },
}  # fmt: skip
"""Our field for each name that a column may have."""

SUFFIXES = ".csv", ".tsv"

_DELIMITERS = ",;\t"
_KINDS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    **dict.fromkeys(
        ("timestamp", "created_at", "updated_at", "deleted_at"), (instant_of, "a time such as 2024-03-01T09:30:00Z")
    ),
    **dict.fromkeys(("importance", "confidence"), (number_of, "a number")),
}


def is_table(path: Path) -> bool:
    """Tell whether *path* is a table with a column of texts."""
    return path.suffix.lower() in SUFFIXES and path.is_file() and _head(path) is not None


def fault_of_table(path: Path) -> str:
    """Tell why a file that is named like a table is none that can be read."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        named = lines.readline(1 << 10).strip()
    return f"has no one column named text or content; its first line is {shown(named)}"


def read_table(path: Path) -> Iterator[Incoming | Refused]:
    """Read a table of memories; a line that cannot be taken whole is refused."""
    head = _head(path)
    assert head is not None, "who reads a table has asked whether it is one"
    delimiter, columns = head
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter=delimiter)
        next(rows)
        for row in rows:
            if any(cell.strip() for cell in row):
                yield _memory(columns, row, f"line {rows.line_num}")


def _head(path: Path) -> tuple[str, list[str]] | None:
    """Give the delimiter and the names of the columns; None when no column holds texts, or two hold the same."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            first = lines.readline(1 << 16)
    except (OSError, UnicodeDecodeError):
        return None
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        [columns] = csv.reader([first], delimiter=delimiter)
    except (ValueError, csv.Error):
        return None
    named = [_field_of(column) or column.strip() for column in columns]
    return (delimiter, named) if "text" in named and len(set(named)) == len(named) else None


def _field_of(column: str) -> str | None:
    return NAMES.get(column.strip().casefold().replace(" ", "_"))


def _memory(columns: list[str], row: list[str], where: str) -> Incoming | Refused:
    if len(row) > len(columns):
        return Refused(where, f"has {len(row)} columns, the first line names {len(columns)}")
    record: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    for column, cell in zip(columns, row, strict=False):
        if cell:
            (record if column in NAMES.values() else beside)[column] = cell
    for name, (read, wanted) in _KINDS.items():
        if name in record and read(record[name]) is None:
            return Refused(where, f"its {name} {record[name][:40]!r} is not {wanted}")
    if "metadata" in record:
        known = object_of(record.pop("metadata"))
        beside = known | beside if known else beside | {"metadata": row[columns.index("metadata")]}
    key = text_of(beside.get("id"))
    return memory_of(record | {"metadata": beside} | ({"key": key} if key else {}), where)
