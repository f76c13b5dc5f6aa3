"""Notes of all indexes on a server, in one small collection beside their rows: each index's header, change token, tags and scopes.

Milvus cannot list the distinct values of a field, so tags and scopes are recorded once, on first use.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from infinite_memory.errors import IndexUnavailableError, SidecarError
from infinite_memory.index.milvus.collection import Collection, list_collections
from infinite_memory.index.milvus.connection import Connection, Row
from infinite_memory.index.milvus.schema import MAX_CHARS, MIN_DIM, decode, encode

if TYPE_CHECKING:
    from pymilvus import CollectionSchema, MilvusClient
    from pymilvus.milvus_client.index import IndexParams

T = TypeVar("T")

NAME = "infinite_memory_notes"
HEADER, TAG, SCOPE = "header", "tag", "scope"
REFRESH_S = 5.0  # how often the notes of other daemons are read
OVERLAP_MS = 60_000  # and how far back before the last note read: clocks differ


def make_schema(client: MilvusClient) -> tuple[CollectionSchema, IndexParams]:
    """Return the schema of the notes; a collection must have vectors, so each note has one."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=64)
    schema.add_field("owner", DataType.VARCHAR, max_length=255)
    schema.add_field("kind", DataType.VARCHAR, max_length=16)
    schema.add_field("text", DataType.VARCHAR, max_length=8 * MAX_CHARS)
    schema.add_field("at", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=MIN_DIM)
    params = client.prepare_index_params()
    params.add_index("vector", index_type="FLAT", metric_type="IP")
    return schema, params


class Notebook:
    """The notes of all indexes on a server. Methods may be called from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._opening = threading.Lock()
        self._rows: Collection | None = None

    def ask(self, operation: Callable[[Collection], T]) -> T:
        """Run *operation* on the collection and return its result; the collection is created if it is missing or was dropped."""
        try:
            return operation(self._opened())
        except IndexUnavailableError as exc:
            if not exc.is_gone:
                raise
        with self._opening:
            self._rows = None
        return operation(self._opened())

    def _opened(self) -> Collection:
        with self._opening:
            if self._rows is None:
                self._rows = self._open()
            return self._rows

    def _open(self) -> Collection:
        if NAME not in list_collections(self._connection):
            try:
                Collection.create(self._connection, NAME, make_schema)
            except SidecarError:
                if NAME not in list_collections(self._connection):  # or another daemon was faster
                    raise
        rows = Collection(self._connection, NAME)
        rows.load()
        return rows

    def headers(self) -> dict[str, dict[str, Any]]:
        """Return the header of each saved index, by collection name."""
        results = self.ask(lambda rows: rows.query(f'kind == "{HEADER}"', ["owner", "text"]))
        return {row["owner"]: json.loads(row["text"]) for row in results}

    def remove(self, owner: str) -> None:
        """Remove all notes of an index."""

        def remove_rows(rows: Collection) -> None:
            keys = [row["pk"] for page in rows.iterate(f'owner == "{owner}"', ["pk"]) for row in page]
            rows.delete(keys, _make_note("", "mark", "", "", 0))

        self.ask(remove_rows)


def _make_note(owner: str, kind: str, name: str, text: str, at_ms: int) -> Row:
    key = hashlib.sha256(f"{owner}:{kind}:{name}".encode()).hexdigest()
    return {"pk": key, "owner": owner, "kind": kind, "text": text, "at": at_ms, "vector": [0.0] * MIN_DIM}


class Notes:
    """The notes of one index. Methods may be called from several threads."""

    def __init__(self, notebook: Notebook, owner: str) -> None:
        """Take the notebook of all indexes, and the collection name of this one."""
        self._notebook, self._owner = notebook, owner
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, None]] = {TAG: {}, SCOPE: {}}  # encoded, in order of first use
        self._newest_ms = 0
        self._read_at = -REFRESH_S

    # header

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Record what the index contains, with its change token; this makes it loadable."""
        note = _make_note(self._owner, HEADER, "", json.dumps(header), _now_ms())
        self._notebook.ask(lambda rows: rows.upsert([note]))

    # tags and scopes

    def add(self, kind: str, texts: Iterable[str]) -> None:
        """Record those of *texts* that are new."""
        written = dict.fromkeys(map(encode, texts))
        with self._lock:
            unseen = [note for note in written if note not in self._seen[kind]]
        if unseen:
            notes = [
                _make_note(self._owner, kind, text, text, _now_ms() + number) for number, text in enumerate(unseen)
            ]
            self._notebook.ask(lambda rows: rows.upsert(notes))
            with self._lock:
                self._seen[kind] |= dict.fromkeys(unseen)

    def list(self, kind: str) -> Sequence[str]:
        """Return the recorded texts in order of first use here, without those too long to be decoded."""
        self._refresh()
        with self._lock:
            seen = list(self._seen[kind])
        return [text for note in seen if (text := decode(note)) is not None]

    def _refresh(self) -> None:
        """Read the notes of other daemons, unless they were read less than `REFRESH_S` ago."""
        now = time.monotonic()
        with self._lock:
            if now - self._read_at < REFRESH_S:
                return
            self._read_at = now
            since_ms = self._newest_ms - OVERLAP_MS
        expression = f'owner == "{self._owner}" and at >= {since_ms} and kind in ["{TAG}", "{SCOPE}"]'
        fields = ["kind", "text", "at"]
        results = self._notebook.ask(lambda rows: [row for page in rows.iterate(expression, fields) for row in page])
        with self._lock:
            for row in sorted(results, key=lambda row: (row["at"], row["text"])):
                self._seen[row["kind"]].setdefault(row["text"])
                self._newest_ms = max(self._newest_ms, row["at"])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
