"""mcp-memory-service's SQLite file, read by the standard library and never written to.

An untrusted database file is a program: a view may never end, a column may be computed. Only plain columns of plain tables are
read, row by row by rowid, with a progress handler that interrupts slow statements. A row that cannot be read is refused by
itself. A SQLite connection belongs to one thread, so the caller has to use a single one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, BinaryIO

from infinite_memory.transfer.formats.caps import MAX_ROW_BYTES, Budget, CapReachedError
from infinite_memory.transfer.formats.memory_servers import DELETED, SUPERSEDED, service_memory
from infinite_memory.transfer.formats.reading import Reading
from infinite_memory.transfer.formats.sources import SourceFile
from infinite_memory.transfer.formats.types import Entry

COLUMNS = (
    "content", "content_hash", "tags", "memory_type", "metadata", "created_at", "created_at_iso", "updated_at", "updated_at_iso",
    "deleted_at", "superseded_by",
)  # fmt: skip
_STEPS = 10_000  # SQLite instructions between two checks of the clock: about 1 ms
_MAX_SCHEMA_BYTES = 1 << 20  # characters of one CREATE TABLE statement
_MAX_DAMAGED = 1000  # unreadable rows that are reported one by one; after that the rest is given up
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_ROW_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: _MAX_SCHEMA_BYTES,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
}
_TEXTS = frozenset(COLUMNS) - {"created_at", "updated_at", "deleted_at"}

Database = sqlite3.Connection


def is_service_database(file: SourceFile, budget: Budget) -> bool:
    """True if an SQLite file has the table of mcp-memory-service."""
    try:
        with closing(_open(file, budget)) as database:
            return {"content", "content_hash"} <= set(_columns(database))
    except (OSError, sqlite3.Error, CapReachedError):
        return False


def read_service_database(reading: Reading) -> Iterator[Entry]:
    """Read its memories; those that were deleted or superseded there are left out and counted."""
    with closing(_open(reading.file, reading.budget)) as database:
        yield from _Rows(reading, database).read()


class _Rows:
    """The rows of one database."""

    def __init__(self, reading: Reading, database: Database) -> None:
        self._reading, self._database = reading, database
        self._columns = _columns(database)
        self._left_out = {DELETED: 0, SUPERSEDED: 0}
        self._damaged = 0

    def read(self) -> Iterator[Entry]:
        """Read row after row."""
        if _has_log(self._reading.file):
            yield self._reading.refused(
                "the file beside it with -wal", "holds changes that are not in the database yet and are not read; close the "
                "program that has it open and import again",
            )  # fmt: skip
        names = ", ".join(f'"{name}"' for name in self._columns)
        last = 0
        try:
            for (rowid,) in self._database.execute("SELECT rowid FROM main.memories NOT INDEXED ORDER BY rowid"):
                if type(rowid) is not int:  # a column of that name hides the rowid, so that rows cannot be identified
                    yield self._reading.refused("the table", "has a column rowid of its own; its rows cannot be read")
                    return
                last = rowid
                yield from self._row(rowid, names)
        except sqlite3.Error as exc:
            self._reading.budget.check()
            if _is_too_slow(exc):
                raise CapReachedError("the database does not come to an end") from None
            yield self._reading.refused(f"the rows after row {last}", "cannot be read: the database is damaged")
        for reason, count in self._left_out.items():
            if count:
                yield self._reading.refused(f"{count} row{'s' * (count > 1)}", reason, count)

    def _row(self, rowid: int, names: str) -> Iterator[Entry]:
        position = f"row {rowid}"
        try:
            row = self._database.execute(
                f"SELECT {names} FROM main.memories NOT INDEXED WHERE rowid = ?", (rowid,)
            ).fetchone()
        except sqlite3.DatabaseError as exc:
            self._reading.budget.check()
            if _is_too_slow(exc):
                raise
            self._damaged += 1
            if self._damaged > _MAX_DAMAGED:
                raise
            too_long = isinstance(exc, sqlite3.DataError)
            yield self._reading.refused(
                position,
                f"has more than {MAX_ROW_BYTES >> 20} MiB" if too_long else "cannot be read: the database is damaged",
            )
            return
        if row is None:
            return
        self._reading.budget.spend(sum(len(cell) for cell in row if isinstance(cell, bytes)))
        try:
            record = _record(dict(zip(self._columns, row, strict=True)))
        except UnicodeDecodeError:
            yield self._reading.refused(position, "is no text in UTF-8")
            return
        for name, reason in (("deleted_at", DELETED), ("superseded_by", SUPERSEDED)):
            if record.get(name) not in (None, ""):
                self._left_out[reason] += 1
                return
        yield service_memory(self._reading, record, position)


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the cells of a row, all of which come as bytes or numbers."""
    return {
        name: value.decode()
        if isinstance(value, bytes)
        else str(value)
        if name in _TEXTS and value is not None
        else value
        for name, value in row.items()
    }


def _open(file: SourceFile, budget: Budget) -> Database:
    """Open a database read-only.

    Raises:
        OSError: it is not a regular file on disk, or was replaced in the meantime.
        sqlite3.Error: it is damaged.
    """
    if file.path is None:
        raise OSError("a database inside an archive is not read")
    with closing(file.open()) as opened:
        database = sqlite3.connect(f"{file.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            now, then = file.path.lstat(), _stat(opened)
            if (now.st_dev, now.st_ino) != then:
                raise OSError("was exchanged while it was opened")
            for limit, value in _LIMITS.items():
                database.setlimit(limit, value)
            database.set_progress_handler(lambda: int(budget.is_used_up), _STEPS)
            database.text_factory = bytes
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
                database.execute(f"PRAGMA {pragma}")
            database.set_authorizer(_authorize)
        except BaseException:
            database.close()
            raise
    return database


def _stat(held: BinaryIO) -> tuple[int, int]:
    status = os.fstat(held.fileno())
    return status.st_dev, status.st_ino


_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_PRAGMAS = {"table_xinfo"}


def _authorize(action: int, first: str | None, _second: str | None, _database: str | None, inner: str | None) -> int:
    """Authorise reading columns, and nothing that a view or trigger would do."""
    if inner is None and (action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS)):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _columns(database: Database) -> list[str]:
    """Return the columns to read; empty if there is no plain table of that name."""
    rows = database.execute("SELECT type, sql FROM main.sqlite_master WHERE name = 'memories'").fetchall()
    if len(rows) != 1 or rows[0][0] != b"table" or not isinstance(rows[0][1], bytes):
        return []
    if rows[0][1].split(None, 3)[1:2] != [b"TABLE"]:  # as SQLite itself writes it; virtual tables do not count
        return []
    columns = {}
    for _, name, _, _, _, _, hidden in database.execute("PRAGMA main.table_xinfo(memories)"):
        columns[bytes(name).decode("utf-8", "replace").lower()] = hidden
    return [name for name in COLUMNS if columns.get(name) == 0]


def _has_log(file: SourceFile) -> bool:
    """True if the database has a write-ahead log that was not merged into it."""
    try:
        return file.path is not None and file.path.with_name(f"{file.path.name}-wal").lstat().st_size > 0
    except OSError:
        return False


def _is_too_slow(exc: sqlite3.Error) -> bool:
    return exc.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
