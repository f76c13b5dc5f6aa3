"""Our own exports, read back: JSON Lines whole, CSV and Markdown as far as they tell."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infinite_memory.lifecycle.importers.incoming import (
    Incoming,
    Refused,
    first_object,
    instant_of,
    object_of,
    tags_of,
    text_of,
)
from infinite_memory.lifecycle.records import EXPORT_FORMAT, EXPORT_VERSION

Json = dict[str, Any]
_ENTRY = re.compile(r"^## (\S+Z)(?:: (.*))?$")
_ID = re.compile(r"^- id: ([0-9a-f]{24})$", re.MULTILINE)
_ABOUT = re.compile(r"^- (source|tags|speaker|conversation_id): (.*)$", re.MULTILINE)


def is_export(path: Path) -> bool:
    """Tell whether *path* is an export in JSON Lines."""
    return path.is_file() and first_object(path).get("format") == EXPORT_FORMAT


def read_export(path: Path) -> Iterator[Incoming | Refused]:
    """Read every memory of an export. Revisions, facts and links are named as refused: a backup carries them."""
    scopes: dict[str, Json] = {}
    others: dict[str, int] = {}
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                kind = record["kind"]
            except (ValueError, TypeError, KeyError, RecursionError):
                yield Refused(f"line {number}", "is no line of an export")
                continue
            if kind == "header" and record.get("version", 0) > EXPORT_VERSION:
                yield Refused(f"line {number}", f"the export has version {record['version']}, which is newer; update")
                return
            if kind == "scope":
                scopes[record.get("name", "")] = record
            elif kind == "memory":
                yield _memory(record, number, scopes.get(record.get("scope", ""), {}))
            elif kind != "header":
                others[kind] = others.get(kind, 0) + 1
    for kind, count in others.items():
        yield Refused(f"{count} {kind}s", "are carried by backups, not by imports")


def _memory(record: Json, number: int, scope: Json) -> Incoming | Refused:
    text = text_of(record.get("text"))
    if text is None:
        return Refused(f"line {number}", "has no text")
    occurrences = [instant_of(one) for one in record.get("occurrences", [])]
    return Incoming(
        key=str(record.get("memory_id", number)),
        text=text,
        scope=record.get("scope"),
        memory_id=record.get("memory_id"),
        occurred_at=instant_of(record.get("timestamp")),
        created_at=instant_of(record.get("created_at")),
        updated_at=instant_of(record.get("updated_at")),
        deleted_at=instant_of(record.get("deleted_at")),
        source=record.get("source") or "import",
        tags=tags_of(record.get("tags")),
        owners={str(key): str(value) for key, value in object_of(record.get("owners")).items()},
        metadata=object_of(record.get("metadata")),
        structured=record.get("structured"),
        occurrences=tuple(one for one in occurrences if one is not None),
        archived_at=instant_of(scope.get("archived_at")),
        scope_description=scope.get("description") or "",
        **{name: text_of(record.get(name)) for name in ("type", "title", "status", "speaker", "conversation_id")},  # type: ignore[arg-type]
        **{name: _number(record.get(name)) for name in ("importance", "confidence")},  # type: ignore[arg-type]
    )


def is_csv(path: Path) -> bool:
    """Tell whether *path* is an export in CSV."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            return next(lines, "").startswith("memory_id,scope,timestamp,text,")
    except (OSError, UnicodeDecodeError):
        return False


def read_csv(path: Path) -> Iterator[Incoming | Refused]:
    """Read a table of memories."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with path.open(encoding="utf-8-sig", newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines), 2):
            yield _memory({key: value for key, value in row.items() if key and value}, number, {})


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


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
