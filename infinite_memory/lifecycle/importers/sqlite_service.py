"""mcp-memory-service's SQLite file, read by the standard library and never written to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from infinite_memory.lifecycle.importers.incoming import Incoming, Refused
from infinite_memory.lifecycle.importers.servers import service_memory

_MAGIC = b"SQLite format 3\0"


def is_service_database(path: Path) -> bool:
    """Tell whether *path* is an SQLite file with its table of memories."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        with closing(_open(path)) as database:
            return {"content", "content_hash"} <= _columns(database)
    except (OSError, sqlite3.Error):
        return False


def read_service_database(path: Path) -> Iterator[Incoming | Refused]:
    """Read its memories; those that were deleted there are left out."""
    with closing(_open(path)) as database:
        database.row_factory = sqlite3.Row
        where = " WHERE deleted_at IS NULL" if "deleted_at" in _columns(database) else ""
        rows = database.execute(f"SELECT * FROM memories{where}")
        for number, row in enumerate(rows, 1):
            yield service_memory(dict(row), f"row {number}")


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _columns(database: sqlite3.Connection) -> set[str]:
    return {row[1] for row in database.execute("PRAGMA table_info(memories)")}
