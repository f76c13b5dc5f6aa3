"""The journal of `infinite-memory undo`: a file with the ids changed by the last `forget`, `move` and `edit` commands."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from infinite_memory.cli import tables
from infinite_memory.paths import find_home
from infinite_memory.platform_files import read_regular_text

Json = dict[str, Any]

FILE = "forgotten.json"
MAX_ENTRIES = 20  # commands that can be undone, one after the other


class UndoJournal:
    """The entries, newest last.

    Each has ``memory_ids``, or ``scope``, or ``moved`` (ids, each with its previous scope), or ``edited`` (an id with its previous
    revision). An unreadable file counts as empty.
    """

    def __init__(self) -> None:
        self._file = find_home(os.environ).path / FILE

    def _read(self) -> list[Json]:
        with contextlib.suppress(OSError, ValueError):
            entries = json.loads(read_regular_text(self._file))
            if isinstance(entries, list):
                return [entry for entry in entries if isinstance(entry, dict) and _is_entry(entry)]
        return []

    def last(self) -> Json | None:
        """Return the newest entry, if there is one."""
        entries = self._read()
        return entries[-1] if entries else None

    def add(self, entry: Json) -> None:
        """Append an entry; a failure is only reported, as the command is already done."""
        try:
            self._write([*self._read(), entry][-MAX_ENTRIES:])
        except OSError as exc:
            ids = ", ".join(
                entry.get("memory_ids") or entry.get("moved") or entry.get("edited") or [str(entry.get("scope"))]
            )
            tables.note(f"undo will not know of it, {self._file} cannot be written ({exc.strerror}): {ids}")

    def remove(self, entry: Json) -> None:
        """Remove an entry after it was undone."""
        entries = self._read()
        if entry in entries:
            entries.remove(entry)
            self._write(entries)

    def _write(self, entries: list[Json]) -> None:
        temporary = self._file.with_name(f"{FILE}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(entries, file)
        Path(temporary).replace(self._file)


def _is_entry(entry: Json) -> bool:
    memory_ids, moved, edited = entry.get("memory_ids"), entry.get("moved"), entry.get("edited")
    if isinstance(edited, dict):
        return len(edited) == 1 and all(isinstance(revision, int) for revision in edited.values())
    if isinstance(moved, dict):
        return all(isinstance(text, str) for pair in moved.items() for text in pair)
    is_list = isinstance(memory_ids, list) and all(isinstance(memory_id, str) for memory_id in memory_ids)
    return isinstance(entry.get("scope"), str) or is_list
