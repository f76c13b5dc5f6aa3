"""Creates, opens and replaces indexes on a server; implements `VectorIndexFiles`.

An index is a collection and its notes. It can be loaded once its notes have a header; older indexes of the same database and
vector space are then dropped. Its name starts with `NAME`, the format and the time of its creation.
"""

from __future__ import annotations

import base64
import logging
import secrets
import time
from typing import ClassVar

from infinite_memory.errors import SidecarDamagedError, SidecarError
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.milvus import schema
from infinite_memory.index.milvus.collection import Collection, list_collections
from infinite_memory.index.milvus.connection import Connection
from infinite_memory.index.milvus.milvus_index import MilvusIndex
from infinite_memory.index.milvus.notes import Notebook, Notes

log = logging.getLogger(__name__)

NAME = "infinite_memory"
ABANDONED_S = 7 * 86_400  # an index not finished within this time is abandoned


class MilvusIndexFiles:
    """The indexes on one server whose names share a prefix."""

    is_shared: ClassVar[bool] = True

    def __init__(self, uri: str, token: str | None, *, timeout_s: float, name: str = NAME) -> None:
        self._connection = Connection(uri, token, timeout_s)
        self._notebook = Notebook(self._connection)
        self._saved: set[str] = set()
        self._prefix = f"{name}_{schema.FORMAT}_"

    def create(self, space: str, dim: int) -> MilvusIndex:
        """Return an empty index for vectors of one space; the saved one is kept until the next `save`."""
        name = f"{self._prefix}{int(time.time() * 1000):013d}_{secrets.token_hex(4)}"
        rows = Collection.create(self._connection, name, lambda client: schema.make_schema(client, dim))
        return MilvusIndex(rows, Notes(self._notebook, name), space, dim)

    def load(self, database: str, space: str, dim: int) -> tuple[MilvusIndex, bytes]:
        """Return the newest saved index and the change token up to which it is current.

        Raises:
            SidecarDamagedError: there is none of this database, vector space and dimension.
            IndexUnavailableError: the server cannot be reached.
        """
        headers = self._notebook.headers()
        for name in reversed(self._names()):
            header = headers.get(name, {})
            if (header.get("database"), header.get("space"), header.get("dim")) == (database, space, dim):
                rows = Collection(self._connection, name)
                if (has := rows.dim()) != max(dim, schema.MIN_DIM):
                    log.warning(
                        "the collection %s has vectors of %s dimensions, and is left out",
                        name,
                        has,
                        extra={"event": "index_foreign"},
                    )
                    continue
                rows.load()
                return MilvusIndex(rows, Notes(self._notebook, name), space, dim), base64.b64decode(header["token"])
        raise SidecarDamagedError(
            f"Milvus holds no index of the database {database!r} and the vector space {space!r} with {dim} dimensions"
        )

    def save(self, sidecar: VectorIndex, database: str, token: bytes) -> None:
        """Record the change token up to which *sidecar* is in sync; the first save drops older indexes of the same database and space.

        Raises:
            SidecarError: it could not be recorded.
        """
        if not isinstance(sidecar, MilvusIndex):
            raise TypeError(f"{type(sidecar).__name__} is not a MilvusIndex")
        header = {"database": database, "space": sidecar.space, "dim": sidecar.dim}
        sidecar.notes.write_header(header | {"token": base64.b64encode(token).decode("ascii")})
        if sidecar.name not in self._saved:
            self._saved.add(sidecar.name)
            self._remove_older(sidecar.name, database, sidecar.space)

    def _names(self) -> list[str]:
        """Return the collections that are our indexes, oldest first."""
        return sorted(name for name in list_collections(self._connection) if name.startswith(self._prefix))

    def _remove_older(self, newest: str, database: str, space: str) -> None:
        headers = self._notebook.headers()
        for name in self._names():
            header = headers.get(name)
            is_same = header is not None and (header["database"], header["space"]) == (database, space)
            if name < newest and (is_same or (header is None and self._is_abandoned(name))):
                try:
                    Collection(self._connection, name).drop()
                    self._notebook.remove(name)
                except SidecarError as exc:  # another daemon may be removing it
                    log.info("an older index stays: %s", exc, extra={"event": "index_not_removed"})

    def _is_abandoned(self, name: str) -> bool:
        made_ms = int(name.removeprefix(self._prefix).partition("_")[0])
        return time.time() - made_ms / 1000 > ABANDONED_S
