"""Row operations on one collection of a Milvus server, and the list of its collections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from infinite_memory.errors import SidecarNotReadyError
from infinite_memory.index.milvus.connection import LOAD_TIMEOUT_S, MAX_ROWS, Connection, Row

if TYPE_CHECKING:
    from pymilvus import CollectionSchema, MilvusClient
    from pymilvus.milvus_client.index import IndexParams

    Design = Callable[[MilvusClient], tuple[CollectionSchema, IndexParams]]
    """Returns the fields of a collection and how they are indexed."""

PAGE_ROWS = 4096  # rows read per call: converted to Python values in some milliseconds
ROWS_AT_ONCE = 512  # rows written per call: a megabyte of vectors
BYTES_AT_ONCE = 8_000_000  # but fewer if they have very many tags: servers refuse messages that are too long


def list_collections(connection: Connection) -> list[str]:
    """Return the names of all collections."""
    names = connection.ask(lambda client, timeout_s: client.list_collections(timeout=timeout_s))
    return [str(name) for name in names]


class Collection:
    """A loaded collection. Methods may be called from several threads; all raise what `Connection.ask` raises.

    Raises:
        SidecarNotReadyError: it was closed.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self.name = connection, name
        self._closed = threading.Event()

    @classmethod
    def create(cls, connection: Connection, name: str, design: Design) -> Collection:
        """Create a collection and load it."""

        def create(client: MilvusClient, timeout_s: float) -> None:
            schema, params = design(client)
            client.create_collection(
                name, schema=schema, index_params=params, consistency_level="Session", timeout=timeout_s
            )

        connection.ask(create, LOAD_TIMEOUT_S)
        return cls(connection, name)

    def load(self) -> None:
        """Load it on the server, and wait until all earlier writes are visible."""

        def load(client: MilvusClient, timeout_s: float) -> None:
            client.load_collection(self.name, timeout=timeout_s)
            client.query(
                self.name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=timeout_s
            )

        self._connection.ask(load, LOAD_TIMEOUT_S)

    def dim(self) -> int | None:
        """Return the dimension of its vectors; None if it has none."""
        fields = self._connection.ask(
            lambda client, timeout_s: client.describe_collection(self.name, timeout=timeout_s)["fields"]
        )
        return next((int(field["params"]["dim"]) for field in fields if "dim" in field["params"]), None)

    def drop(self) -> None:
        """Drop it with all its rows."""
        self._connection.ask(lambda client, timeout_s: client.drop_collection(self.name, timeout=timeout_s))

    def close(self) -> None:
        """Refuse further calls; the rows stay on the server."""
        self._closed.set()

    def check_open(self) -> None:
        """Raise if it was closed."""
        if self._closed.is_set():
            raise SidecarNotReadyError("the index is closed")

    # rows

    def query(
        self, expression: str, fields: Sequence[str], limit: int = MAX_ROWS, *, eventually: bool = False
    ) -> list[Row]:
        """Return the matching rows, unordered; see `Connection.query`."""
        self.check_open()
        return self._connection.query(self.name, expression, fields, limit, eventually=eventually)

    def count(self, expression: str) -> int:
        """Count the matching rows."""
        self.check_open()
        return self._connection.count(self.name, expression)

    def iterate(self, expression: str, fields: Sequence[str], batch: int = PAGE_ROWS) -> Iterator[list[Row]]:
        """Yield the matching rows by ascending primary key, in batches."""
        self.check_open()
        return self._connection.iterate(self.name, expression, fields, batch)

    def search(self, vector: Sequence[float], expression: str, fields: Sequence[str], limit: int) -> list[Row]:
        """Return the rows nearest to *vector*; see `Connection.search`."""
        self.check_open()
        return self._connection.search(self.name, vector, expression, fields, limit)

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, replacing those with the same primary keys."""
        self.check_open()
        for batch in _parted(rows):
            self._connection.upsert(self.name, batch)

    def delete(self, keys: Sequence[str], mark: Mapping[str, Any]) -> None:
        """Delete rows by their primary keys; see `Connection.delete`."""
        self.check_open()
        for first in range(0, len(keys), MAX_ROWS):
            self._connection.delete(self.name, keys[first : first + MAX_ROWS], mark)


def _parted(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield rows in the given order, in batches for one call each."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        row_bytes = sum(map(len, row.get("tags", ())))
        if batch and (len(batch) >= ROWS_AT_ONCE or size + row_bytes > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_bytes
    if batch:
        yield batch
