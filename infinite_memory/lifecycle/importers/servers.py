"""What other memory servers keep or export, read from their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infinite_memory.lifecycle.importers.incoming import (
    Incoming,
    Refused,
    first_object,
    instant_of,
    load_json,
    object_of,
    tags_of,
    text_of,
)

Json = dict[str, Any]
_FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)


def is_graph(path: Path) -> bool:
    """Tell whether *path* holds entities and relations, one a line."""
    return path.is_file() and first_object(path).get("type") in ("entity", "relation")


def read_graph(path: Path) -> Iterator[Incoming | Refused]:
    """Read each observation of an entity, and each relation as a sentence."""
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            record = object_of(line)
            if record.get("type") == "entity" and text_of(record.get("name")):
                name, kind = record["name"], text_of(record.get("entityType"))
                said = record.get("observations")
                for observation in (said if isinstance(said, list) else []) or [f"{name} is a {kind or 'thing'}"]:
                    if text := text_of(observation):
                        yield Incoming(
                            key=f"server-memory {name}\0{text}", text=f"{name}: {text}" if name not in text else text,
                            title=name, type=kind, source="server-memory", tags=(name,),
                        )  # fmt: skip
            elif record.get("type") == "relation" and all(text_of(record.get(end)) for end in ("from", "to")):
                said = f"{record['from']} {record.get('relationType') or 'is related to'} {record['to']}"
                yield Incoming(
                    key=f"server-memory {said}", text=said, type="relation", source="server-memory",
                    tags=(record["from"], record["to"]),
                )  # fmt: skip
            else:
                yield Refused(f"line {number}", "is neither an entity nor a relation")


def is_service(path: Path) -> bool:
    """Tell whether *path* is an export of mcp-memory-service."""
    found = load_json(path) if path.suffix == ".json" else None
    return isinstance(found, dict) and isinstance(found.get("memories"), list)


def read_service(path: Path) -> Iterator[Incoming | Refused]:
    """Read its memories; their own hash names them."""
    for number, record in enumerate(load_json(path)["memories"], 1):
        yield service_memory(record if isinstance(record, dict) else {}, f"memory {number}")


def service_memory(record: Json, where: str) -> Incoming | Refused:
    """Read one memory of mcp-memory-service, from its export or its table."""
    text = text_of(record.get("content"))
    if text is None:
        return Refused(where, "has no text")
    return Incoming(
        key=f"mcp-memory-service {record.get('content_hash') or text}",
        text=text,
        occurred_at=instant_of(record.get("created_at")) or instant_of(record.get("created_at_iso")),
        updated_at=instant_of(record.get("updated_at")) or instant_of(record.get("updated_at_iso")),
        type=text_of(record.get("memory_type")),
        source="mcp-memory-service",
        tags=tags_of(record.get("tags")),
        metadata=object_of(record.get("metadata")),
    )


def is_mem0(path: Path) -> bool:
    """Tell whether *path* lists memories as Mem0 gives them."""
    found = _mem0(path) if path.suffix == ".json" else []
    return bool(found) and isinstance(found[0], dict) and "memory" in found[0]


def read_mem0(path: Path) -> Iterator[Incoming | Refused]:
    """Read its memories; users, agents and runs become owners."""
    for number, record in enumerate(_mem0(path), 1):
        text = text_of(record.get("memory")) if isinstance(record, dict) else None
        if text is None:
            yield Refused(f"memory {number}", "has no text")
            continue
        yield Incoming(
            key=f"mem0 {record.get('id') or text}",
            text=text,
            occurred_at=instant_of(record.get("created_at")),
            updated_at=instant_of(record.get("updated_at")),
            source="mem0",
            tags=tags_of(record.get("categories")),
            owners={name: str(record[name]) for name in ("user_id", "agent_id", "run_id") if record.get(name)},
            metadata=object_of(record.get("metadata")),
        )


def _mem0(path: Path) -> list[Any]:
    found = load_json(path)
    if isinstance(found, dict):
        found = found.get("results") or found.get("memories")
    return found if isinstance(found, list) else []


def is_notes(path: Path) -> bool:
    """Tell whether *path* is a folder of Markdown notes, or one note."""
    return any(True for _ in _notes(path))


def read_notes(path: Path) -> Iterator[Incoming | Refused]:
    """Read each note whole, with what its front matter says; its place in the folder names it."""
    for file in _notes(path):
        where = file.relative_to(path).as_posix() if path.is_dir() else file.name
        try:
            text = file.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            yield Refused(where, "cannot be read as text")
            continue
        found = _FRONT.match(text)
        front = _front_matter(found[1]) if found else {}
        body = text[found.end() :].strip("\n") if found else text
        if not body.strip():
            yield Refused(where, "has no text")
            continue
        yield Incoming(
            key=f"basic-memory {front.get('permalink') or where}",
            text=body,
            title=text_of(front.get("title")) or file.stem,
            type=text_of(front.get("type")),
            source="basic-memory",
            tags=tags_of(front.get("tags")),
            occurred_at=instant_of(front.get("created") or front.get("date")) or instant_of(file.stat().st_mtime),
            metadata={"path": where} | ({"permalink": front["permalink"]} if "permalink" in front else {}),
        )


def _notes(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (one for one in sorted(path.rglob("*.md")) if one.is_file() and not one.is_symlink())
    elif path.suffix == ".md":
        yield path


def _front_matter(text: str) -> Json:
    """Read the plain part of YAML that notes use: ``key: value``, and lists in brackets or with dashes."""
    found: Json = {}
    key = ""
    for line in text.split("\n"):
        if line.startswith(("- ", "  - ", "    - ")) and key:
            held = found.get(key)
            found[key] = [*(held if isinstance(held, list) else []), _unquoted(line.strip()[2:])]
        elif ":" in line and not line.startswith((" ", "#")):
            key, _, value = (one.strip() for one in line.partition(":"))
            inner = value.startswith("[") and value.endswith("]")
            found[key] = [_unquoted(one) for one in value[1:-1].split(",")] if inner else _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] == "'" else value
