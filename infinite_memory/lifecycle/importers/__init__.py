"""Ways in: what people have elsewhere, read as memories. `FORMATS` lists them; `detect` finds the one that a file is in.

A reader gives one `Incoming` for each memory and one `Refused` for whatever it cannot take, so that a report can say what was left
out and why. It never ends at one bad entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infinite_memory.errors import InvalidRequestError, shown
from infinite_memory.lifecycle.importers import assistants, own, servers, sqlite_service, tables
from infinite_memory.lifecycle.importers.incoming import (
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    Refused,
    fault_of_json,
    forget_files,
    is_our_id,
)

Reader = Callable[[Path], Iterator[Entry]]

_TEXTS = frozenset({".json", ".jsonl", ".md", *tables.SUFFIXES})


@dataclass(frozen=True, slots=True)
class Format:
    """One form of file or folder: how to tell it, and how to read it."""

    name: str
    about: str
    matches: Callable[[Path], bool]
    read: Reader


FORMATS = (
    Format("infinite-memory", "our own export, JSON Lines", own.is_export, own.read_export),
    Format("csv", "a CSV or TSV table, ours or any with a column text or content", tables.is_table, tables.read_table),
    Format("markdown", "our own export, Markdown: a file or a folder", own.is_markdown, own.read_markdown),
    Format("server-memory", "`memory.jsonl` of the MCP reference server memory", servers.is_graph, servers.read_graph),
    Format("mcp-memory-service", "JSON export of mcp-memory-service", servers.is_service, servers.read_service),
    Format(
        "mcp-memory-service-sqlite", "SQLite file of mcp-memory-service", sqlite_service.is_service_database,
        sqlite_service.read_service_database,
    ),
    Format("mem0", "JSON of Mem0", servers.is_mem0, servers.read_mem0),
    Format("chatgpt", "`conversations.json` of ChatGPT", assistants.is_chatgpt, assistants.read_chatgpt),
    Format("claude", "`conversations.json` of Claude", assistants.is_claude, assistants.read_claude),
    Format("basic-memory", "Markdown folder of basic-memory", servers.is_notes, servers.read_notes),
)  # fmt: skip


def find_format(path: Path, name: str | None = None) -> Format:
    """Give the format of that name, or the first that *path* is in.

    Raises:
        InvalidRequestError: there is no such file, or it is in none of them, or not in the one that is named.
    """
    try:
        is_there = path.is_file() or path.is_dir()
    except OSError as problem:  # too long for a name, or in a folder that may not be looked into
        raise InvalidRequestError("path", f"{shown(path.name)} cannot be read: {problem.strerror}") from problem
    if not is_there:
        raise InvalidRequestError("path", f"there is no file or folder {shown(path.name)}")
    for one in FORMATS:
        if name in (None, one.name) and one.matches(path):
            return one
    if (fault := _fault(path)) is not None:
        raise InvalidRequestError("path", f"{path.name!r} {fault}")
    if name is not None:
        raise InvalidRequestError("path", f"{path.name!r} is not in the form {name}")
    known = ", ".join(one.name for one in FORMATS)
    raise InvalidRequestError("path", f"{path.name!r} is in no form that can be imported; known: {known}")


def _fault(path: Path) -> str | None:
    """Tell what is the matter with a file that should be in one of the forms, as far as it can be told."""
    if path.is_dir():
        return None
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PK\x03\x04":
                return "is a zip archive; unpack it, and name the file or folder in it"
        if path.suffix.lower() in _TEXTS:
            with path.open(encoding="utf-8-sig") as text:
                while text.read(1 << 20):
                    pass
    except UnicodeDecodeError:
        return "is no text in UTF-8"
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    if not path.stat().st_size:
        return "is empty"
    if path.suffix.lower() in tables.SUFFIXES:
        return tables.fault_of_table(path)
    return fault_of_json(path) if path.suffix == ".json" else None


__all__ = [
    "FORMATS",
    "Entry",
    "Format",
    "Incoming",
    "IncomingFact",
    "IncomingLink",
    "IncomingScope",
    "IncomingVersion",
    "Refused",
    "find_format",
    "forget_files",
    "is_our_id",
]
