"""Our own exports, read back: JSON Lines whole, Markdown as far as it tells; CSV is in `tables`."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from infinite_memory.lifecycle.importers.incoming import (
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    Refused,
    first_object,
    instant_of,
    is_our_id,
    object_of,
    tags_of,
    text_of,
)
from infinite_memory.lifecycle.records import EXPORT_FORMAT, EXPORT_VERSION

Json = dict[str, Any]
_MOST_REVISIONS = 1 << 31
_ENTRY = re.compile(r"^## (\S+Z)(?:: (.*))?$")
_ID = re.compile(r"^- id: ([0-9a-f]{24})$", re.MULTILINE)
_ABOUT = re.compile(r"^- (source|tags|speaker|conversation_id): (.*)$", re.MULTILINE)


def is_export(path: Path) -> bool:
    """Tell whether *path* is an export in JSON Lines."""
    return path.is_file() and first_object(path).get("format") == EXPORT_FORMAT


def read_export(path: Path) -> Iterator[Entry]:
    """Read an export: scopes, memories, their earlier versions, facts and links."""
    unknown: Counter[str] = Counter()
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                kind = str(record["kind"])
            except (ValueError, TypeError, KeyError, RecursionError):
                yield Refused(f"line {number}", "is no line of an export")
                continue
            if kind == "header":
                version = record.get("version", 0)
                if not isinstance(version, int) or version > EXPORT_VERSION:
                    yield Refused(f"line {number}", f"the export has version {version}, which is newer; update")
                    return
            elif (read := _READERS.get(kind)) is not None:
                yield read(record, f"line {number}")
            else:
                unknown[kind[:40]] += 1
    for kind, count in unknown.items():
        yield Refused(f"{count} lines of kind {kind}", "are not known to this version")


def _scope(record: Json, where: str) -> IncomingScope | Refused:
    name = text_of(record.get("name"))
    if name is None:
        return Refused(where, "is a scope without a name")
    about, times = record.get("description"), (record.get("created_at"), record.get("archived_at"))
    return IncomingScope(name, about if isinstance(about, str) else "", *map(instant_of, times))


def memory_of(record: Json, where: str) -> Incoming | Refused:
    """Read a memory from its object; ``key`` names it where it bears no id."""
    text = text_of(record.get("text"))
    if text is None:
        return Refused(where, "has no text")
    times = record.get("occurrences")
    occurrences = [instant_of(one) for one in (times if isinstance(times, list) else [])]
    memory_id, revision = record.get("memory_id"), record.get("revision")
    return Incoming(
        key=str(memory_id or record.get("key") or text),
        text=text,
        scope=text_of(record.get("scope")),
        memory_id=memory_id if isinstance(memory_id, str) else None,
        occurred_at=instant_of(record.get("timestamp")),
        created_at=instant_of(record.get("created_at")),
        updated_at=instant_of(record.get("updated_at")),
        deleted_at=instant_of(record.get("deleted_at")),
        source=text_of(record.get("source")) or "import",
        tags=tags_of(record.get("tags")),
        owners={str(key): str(value) for key, value in object_of(record.get("owners")).items()},
        metadata=object_of(record.get("metadata")),
        structured=record.get("structured"),
        occurrences=tuple(one for one in occurrences if one is not None),
        is_pruned=record.get("pruned") is True,
        revision=revision if isinstance(revision, int) and 0 < revision < _MOST_REVISIONS else None,
        **{name: text_of(record.get(name)) for name in ("type", "title", "status", "speaker", "conversation_id")},  # type: ignore[arg-type]
        **{name: number_of(record.get(name)) for name in ("importance", "confidence")},  # type: ignore[arg-type]
    )


def _version(record: Json, where: str) -> IncomingVersion | Refused:
    memory = memory_of(record, where)
    if isinstance(memory, Refused):
        return memory
    if memory.memory_id is None or not is_our_id(memory.memory_id) or memory.revision is None:
        return Refused(where, "does not say which version of which memory it is")
    return IncomingVersion(memory, memory.revision)


def _fact(record: Json, where: str) -> IncomingFact | Refused:
    said = [text_of(record.get(name)) for name in ("fact_id", "scope", "subject", "predicate", "object")]
    begins, ends = instant_of(record.get("valid_from")), instant_of(record.get("valid_to"))
    fact_id, scope, subject, predicate, object_ = said
    if not (fact_id and is_our_id(fact_id) and scope and subject and predicate and object_ and begins):
        return Refused(where, "is no whole fact")
    known = number_of(record.get("confidence"))
    provenance = text_of(record.get("provenance"))
    return IncomingFact(
        fact_id, scope, subject, predicate, object_, begins, ends, 1.0 if known is None else known, provenance
    )


def _link(record: Json, where: str) -> IncomingLink | Refused:
    ends = [text_of(record.get(name)) for name in ("from_id", "to_id")]
    scope, relation, at = (
        text_of(record.get("scope")),
        text_of(record.get("relation")),
        instant_of(record.get("created_at")),
    )
    from_id, to_id = ends
    if not (scope and relation and at and from_id and to_id and is_our_id(from_id) and is_our_id(to_id)):
        return Refused(where, "is no whole link")
    return IncomingLink(scope, from_id, to_id, relation, at)


_READERS: dict[str, Callable[[Json, str], Entry]] = {
    "scope": _scope, "memory": memory_of, "revision": _version, "fact": _fact, "link": _link,
}  # fmt: skip


def is_markdown(path: Path) -> bool:
    """Tell whether *path* is an export in Markdown, or a folder of such files."""
    return any(_is_page(file) for file in _pages(path))


def read_markdown(path: Path) -> Iterator[Incoming | Refused]:
    """Read pages of scopes: each entry's time, text and what is said about it."""
    for file in _pages(path):
        scope, heading = "Global", None
        body: list[str] = []
        for line in [*file.read_text("utf-8-sig").split("\n"), "## 0Z"]:
            found = _ENTRY.match(line)
            if line.startswith("# ") and heading is None:
                scope = line[2:].strip()
            elif found is not None:
                if heading is not None:
                    yield _page_entry(file, scope, heading, body)
                heading, body = found, []
            elif line.startswith("# ") and body and body[-1] == "":
                if heading is not None:
                    yield _page_entry(file, scope, heading, body)
                scope, heading, body = line[2:].strip(), None, []
            else:
                body.append(line)


def _page_entry(file: Path, scope: str, heading: re.Match[str], body: list[str]) -> Incoming | Refused:
    text = "\n".join(line[2:] for line in body if line.startswith("> "))
    rest = "\n".join(line for line in body if not line.startswith("> "))
    if not text.strip():
        return Refused(f"{file.name}, {heading[1]}", "has no text")
    known = _ID.search(rest)
    about = dict(_ABOUT.findall(rest))
    return Incoming(
        key=known[1] if known else f"{heading[1]} {text}",
        text=text,
        scope=scope,
        memory_id=known[1] if known else None,
        occurred_at=instant_of(heading[1]),
        title=text_of(heading[2]),
        source=about.get("source") or "import",
        tags=tags_of(about.get("tags", "")),
        speaker=about.get("speaker"),
        conversation_id=about.get("conversation_id"),
    )


def _pages(path: Path) -> list[Path]:
    return sorted(path.glob("*.md")) if path.is_dir() else [path] if path.suffix == ".md" else []


def _is_page(file: Path) -> bool:
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    return text.startswith("# ") and _ID.search(text) is not None


def number_of(value: Any) -> float | None:
    """Read a finite number; None when it is none."""
    try:
        number = None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None
