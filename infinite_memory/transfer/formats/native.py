"""Our own exports: JSON Lines complete, Markdown as far as it goes; CSV is in `csv`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from infinite_memory.errors import format_count
from infinite_memory.models import DETAILS, FieldType, MemoryField
from infinite_memory.transfer.formats.caps import MAX_ROW_BYTES
from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import (
    BadValueError,
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    get_time,
    is_our_id,
    to_instant,
    to_list,
    to_metadata,
    to_object,
    to_tags,
    to_text,
)
from infinite_memory.transfer.serialization import CR_NOTE, EXPORT_FORMAT, EXPORT_VERSION, unescape_returns

_MAX_REVISIONS = 1 << 31
_MAX_KINDS = 20  # unknown kinds of lines that are counted one by one
_ENTRY = re.compile(r"^## (\S+Z)(?:: (.*))?$")
_FIRST_ENTRY = re.compile(r"^## \S+Z(?:: .*)?\r?\n\r?\n> ", re.MULTILINE)
_EMPTY_PAGE = re.compile(r"# [^\r\n]+\r?\n\r?\n(?:> ?[^\r\n]*\r?\n)*\s*")
_ID = re.compile(r"^- id: ([0-9a-f]{24})$", re.MULTILINE)
_ESCAPED = re.compile(rf"^- {re.escape(CR_NOTE)}$", re.MULTILINE)
_ABOUT = re.compile(r"^- (source|tags|speaker|conversation_id): (.*)$", re.MULTILINE)


def is_export(head: Head) -> bool:
    """True if the file is an export in JSON Lines."""
    return head.members.get("format") == EXPORT_FORMAT


def read_export(reading: Reading) -> Iterator[Entry]:
    """Read an export: scopes, memories, their earlier versions, facts and links."""
    unknown: Counter[str] = Counter()
    for number, record, fault in reading.json_lines():
        position = f"line {number}"
        kind = str(record["kind"]) if isinstance(record, dict) and "kind" in record else None
        if fault is not None or kind is None:
            yield reading.refused(position, fault or "is no line of an export")
        elif kind == "header":
            version = record.get("version", 0)
            if not isinstance(version, int) or version > EXPORT_VERSION:
                yield reading.refused(position, "the export has a version that is newer; update")
                return
        elif (read := _READERS.get(kind)) is not None:
            yield read(reading, record, position)
        elif kind[:40] in unknown or len(unknown) < _MAX_KINDS:
            unknown[kind[:40]] += 1
        else:
            unknown["others"] += 1
    for count in unknown.values():
        yield reading.refused(
            f"{format_count(count, 'line')} of one kind", "are of a kind that is not known to this version", count
        )


def _scope(reading: Reading, record: Json, location: str) -> Entry:
    name = to_text(record.get("name"))
    if name is None:
        return reading.refused(location, "is a scope without a name")
    about = record.get("description")
    return reading.take(
        location,
        lambda: IncomingScope(
            name,
            about if isinstance(about, str) else "",
            get_time(record, "created_at"),
            get_time(record, "archived_at"),
        ),
    )


def to_memory(reading: Reading, record: Json, location: str) -> Entry:
    """Read a memory from its object; ``key`` identifies it if it has no id."""
    text = to_text(record.get("text"))
    if text is None:
        return reading.refused(location, "has no text")
    return reading.take(location, lambda: _memory(record, text, reading.where(location)))


def _memory(record: Json, text: str, where: str) -> Incoming:
    occurrences = [
        get_time({"occurrences": occurrence}, "occurrences") for occurrence in to_list(record.get("occurrences"))
    ]
    memory_id, revision = record.get("memory_id"), record.get("revision")
    return Incoming(
        key=str(memory_id or record.get("key") or text),
        text=text,
        where=where,
        scope=to_text(record.get("scope")),
        memory_id=memory_id if isinstance(memory_id, str) else None,
        occurred_at=get_time(record, "timestamp"),
        created_at=get_time(record, "created_at"),
        updated_at=get_time(record, "updated_at"),
        deleted_at=get_time(record, "deleted_at"),
        source=to_text(record.get("source")) or "import",
        tags=to_tags(record.get("tags")),
        owners={str(key): str(value) for key, value in to_object(record.get("owners")).items()},
        metadata=to_metadata(record.get("metadata")),
        structured=record.get("structured"),
        occurrences=tuple(occurrence for occurrence in occurrences if occurrence is not None),
        is_pruned=record.get("pruned") is True,
        revision=revision if isinstance(revision, int) and 0 < revision < _MAX_REVISIONS else None,
        **{field.name: _detail(record, field) for field in DETAILS if field.is_exported},
    )


def _detail(record: Json, described: MemoryField) -> Any:
    name = described.name
    return to_text(record.get(name)) if described.type is FieldType.TEXT else _number(record, name)


def _number(record: Json, name: str) -> float | None:
    value = record.get(name)
    if value is None or (number := to_number(value)) is not None:
        return None if value is None else number
    raise BadValueError(name, value, "a number")


def _version(reading: Reading, record: Json, location: str) -> Entry:
    memory = to_memory(reading, record, location)
    if not isinstance(memory, Incoming):
        return memory
    if memory.memory_id is None or not is_our_id(memory.memory_id) or memory.revision is None:
        return reading.refused(location, "does not say which version of which memory it is")
    return IncomingVersion(memory, memory.revision)


def _fact(reading: Reading, record: Json, location: str) -> Entry:
    texts = [to_text(record.get(name)) for name in ("fact_id", "scope", "subject", "predicate", "object")]
    begins, ends = to_instant(record.get("valid_from")), to_instant(record.get("valid_to"))
    fact_id, scope, subject, predicate, object_ = texts
    if not (fact_id and is_our_id(fact_id) and scope and subject and predicate and object_ and begins):
        return reading.refused(location, "is no whole fact")
    confidence = to_number(record.get("confidence"))
    provenance = to_text(record.get("provenance"))
    return IncomingFact(
        fact_id, scope, subject, predicate, object_, begins, ends, 1.0 if confidence is None else confidence, provenance
    )


def _link(reading: Reading, record: Json, location: str) -> Entry:
    ends = [to_text(record.get(name)) for name in ("from_id", "to_id")]
    scope, relation, linked_at = (
        to_text(record.get("scope")),
        to_text(record.get("relation")),
        to_instant(record.get("created_at")),
    )
    from_id, to_id = ends
    if not (scope and relation and linked_at and from_id and to_id and is_our_id(from_id) and is_our_id(to_id)):
        return reading.refused(location, "is no whole link")
    return IncomingLink(scope, from_id, to_id, relation, linked_at)


_READERS: dict[str, Callable[[Reading, Json, str], Entry]] = {
    "scope": _scope, "memory": to_memory, "revision": _version, "fact": _fact, "link": _link,
}  # fmt: skip


def is_markdown(head: Head) -> bool:
    """True if the file is a page of our export in Markdown."""
    return head.text is not None and head.text.startswith("# ") and _FIRST_ENTRY.search(head.text) is not None


def is_empty_page(head: Head) -> bool:
    """True if the file is a page of our export in Markdown whose scope held no memory; a note of somebody else's may look the same."""
    return head.text is not None and _EMPTY_PAGE.fullmatch(head.text) is not None


def read_markdown(reading: Reading) -> Iterator[Entry]:
    """Read a page of scopes: each entry's time, text and metadata."""
    page = _Page(reading)
    for number, raw in reading.lines(MAX_ROW_BYTES):
        try:
            line = None if raw is None else raw.decode().removesuffix("\r")
        except UnicodeDecodeError:
            line = None
        if line is None:
            page.spoil(number)
        else:
            yield from page.take(number, line)
    yield from page.end()


class _Page:
    """Parser state: the current scope and entry."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._scope, self._has_scope = "Global", False
        self._heading: re.Match[str] | None = None
        self._body: list[str] = []
        self._begin, self._size, self._fault = 0, 0, ""

    def take(self, number: int, line: str) -> Iterator[Entry]:
        """Consume a line; yield the entry that ends before it."""
        heading = _ENTRY.match(line)
        if line.startswith("# ") and not self._has_scope:
            self._scope, self._has_scope = line[2:].strip(), True
        elif heading is not None:
            yield from self.end()
            self._heading, self._begin = heading, number
        elif line.startswith("# ") and self._body and self._body[-1] == "":
            yield from self.end()
            self._scope = line[2:].strip()
        else:
            self._size += len(line)
            if self._size > MAX_ROW_BYTES:
                self._fault = f"is larger than {MAX_ROW_BYTES >> 20} MiB"
                self._body = []
            else:
                self._body.append(line)

    def spoil(self, number: int) -> None:
        """Consume a line that is not text."""
        self._begin = self._begin or number
        self._fault = "is no text in UTF-8, or has too long a line"

    def end(self) -> Iterator[Entry]:
        """Yield the current entry, if there is one."""
        position = f"line {self._begin}"
        if self._fault:
            yield self._reading.refused(position, self._fault)
        elif self._heading is not None:
            yield _page_entry(self._reading, position, self._scope, self._heading, self._body)
        self._heading, self._body, self._begin, self._size, self._fault = None, [], 0, 0, ""


def _page_entry(reading: Reading, location: str, scope: str, heading: re.Match[str], body: list[str]) -> Entry:
    text = "\n".join(line[2:] for line in body if line.startswith("> ") or line == ">")
    rest = "\n".join(line for line in body if not (line.startswith("> ") or line == ">"))
    if not text.strip():
        return reading.refused(location, "has no text")
    if _ESCAPED.search(rest):
        text = unescape_returns(text)
    if (occurred_at := to_instant(heading[1])) is None:
        return reading.refused(location, "its time is not a time")
    id_match = _ID.search(rest)
    about = dict(_ABOUT.findall(rest))
    return Incoming(
        key=id_match[1] if id_match else f"{heading[1]} {text}",
        text=text,
        where=reading.where(location),
        scope=scope,
        memory_id=id_match[1] if id_match else None,
        occurred_at=occurred_at,
        title=to_text(heading[2]),
        source=about.get("source") or "import",
        tags=to_tags(about.get("tags", "")),
        speaker=about.get("speaker"),
        conversation_id=about.get("conversation_id"),
    )


def to_number(value: Any) -> float | None:
    """Return a finite number; None if it is not one."""
    try:
        number = None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None
