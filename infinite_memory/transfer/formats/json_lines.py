"""Generic JSON Lines: one object per line with a text and other fields; also a JSON list of such objects.

Field names are mapped like columns of a table (`csv.NAMES`); all others go into ``metadata`` unchanged, numbers as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from infinite_memory.models import DETAILS, FieldType
from infinite_memory.transfer.formats.csv import field_of
from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.native import to_memory
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Refused, to_metadata, to_text

_TEXTS = ("text", "scope", "source", "memory_id", *(one.name for one in DETAILS if one.type is FieldType.TEXT))


def is_lines(head: Head) -> bool:
    """True if a file is a list of objects with texts, or has one such object per line; an object over several lines does not count."""
    if head.top == "[":
        return any(_has_text(record) for record in head.objects())
    first, _, more = (head.text or "").strip().partition("\n")
    return head.top == "{" and _has_text(head.members) and (not more or first.rstrip().endswith("}"))


def _has_text(record: Json) -> bool:
    return any(field_of(name) == "text" and to_text(value) is not None for name, value in record.items())


def read_lines(reading: Reading) -> Iterator[Entry]:
    """Read one memory per line or list element; one that cannot be imported whole is refused."""
    first = next(reading.scan(), None)
    is_list = first is not None and first.is_element and first.key is None
    for number, record, fault in reading.records() if is_list else reading.json_lines():
        place = f"{'element' if is_list else 'line'} {number}"
        if fault is not None or not isinstance(record, dict):
            yield reading.refused(place, fault or "is no object")
        else:
            yield _memory(reading, record, place)


def _memory(reading: Reading, written: Json, place: str) -> Entry:
    record: dict[str, Any] = {}
    beside: Json = {}
    for name, value in written.items():
        known = field_of(name)
        if known is None:
            beside[name] = value
        elif known in record:
            return reading.refused(place, f"has two fields for its {known}")
        elif value is not None:
            record[known] = value
    for name, wanted in (*((name, str) for name in _TEXTS), ("tags", str | list)):
        if not isinstance(record.get(name, ""), wanted):
            expected = "text" if wanted is str else "list or a text"
            return Refused(
                reading.where(place),
                f"its {name} {'are' if name == 'tags' else 'is'} not a {expected}",
                value=repr(record[name])[:80],
            )
    beside = to_metadata(record.pop("metadata", None)) | beside
    key = beside.get("id")
    named = {"key": str(key)} if isinstance(key, str | int) and not isinstance(key, bool) and key != "" else {}
    return to_memory(reading, record | {"metadata": beside} | named, place)
