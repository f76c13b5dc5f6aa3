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

_TEXTS = ("text", "scope", "source", "memory_id", *(field.name for field in DETAILS if field.type is FieldType.TEXT))


def is_lines(head: Head) -> bool:
    """True if a file is a list of objects with texts, or has one such object per line; an object over several lines does not count."""
    if head.top == "[":
        return any(_has_text(record) for record in head.objects())
    first, _, rest = (head.text or "").strip().partition("\n")
    return head.top == "{" and _has_text(head.members) and (not rest or first.rstrip().endswith("}"))


def _has_text(record: Json) -> bool:
    return any(field_of(name) == "text" and to_text(value) is not None for name, value in record.items())


def read_lines(reading: Reading) -> Iterator[Entry]:
    """Read one memory per line or list element; one that cannot be imported whole is refused."""
    first = next(reading.scan(), None)
    is_list = first is not None and first.is_element and first.key is None
    for number, record, fault in reading.records() if is_list else reading.json_lines():
        position = f"{'element' if is_list else 'line'} {number}"
        if fault is not None or not isinstance(record, dict):
            yield reading.refused(position, fault or "is no object")
        else:
            yield _memory(reading, record, position)


def _memory(reading: Reading, written: Json, location: str) -> Entry:
    record: dict[str, Any] = {}
    metadata: Json = {}
    for name, value in written.items():
        field = field_of(name)
        if field is None:
            metadata[name] = value
        elif field in record:
            return reading.refused(location, f"has two fields for its {field}")
        elif value is not None:
            record[field] = value
    for name, expected_type in (*((name, str) for name in _TEXTS), ("tags", str | list)):
        if not isinstance(record.get(name, ""), expected_type):
            expected = "text" if expected_type is str else "list or a text"
            return Refused(
                reading.where(location),
                f"its {name} {'are' if name == 'tags' else 'is'} not a {expected}",
                value=repr(record[name])[:80],
            )
    metadata = to_metadata(record.pop("metadata", None)) | metadata
    key = metadata.get("id")
    named = {"key": str(key)} if isinstance(key, str | int) and not isinstance(key, bool) and key != "" else {}
    return to_memory(reading, record | {"metadata": metadata} | named, location)
