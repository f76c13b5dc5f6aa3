"""The one home of `pymilvus`: a connection whose calls end in time, and whose errors are ours.

Why own reads ask for `Session` consistency: the next call must find what was written, and `Strong`, which would also find it, waits for
the server's clock at every call. A server of 2.3 counts a deletion as no write of a session, so `delete` writes one row afterwards
(`Connection.delete`), and what is read then waits for that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from infinite_memory.errors import IndexUnavailableError, SidecarError
from infinite_memory.redaction import hide

if TYPE_CHECKING:
    from pymilvus import MilvusClient

log = logging.getLogger(__name__)

MAX_ROWS = 16_384
"""The most rows that a server returns of one query or search."""

REST_S = 1.0  # after a call that got no answer others fail at once for so long: nobody waits twice for the same silence
NOT_LOADED = 101  # Milvus' code for a collection that cannot be asked; a server that was killed may load none by itself
RECONNECT_S = 5.0  # the longest between attempts to connect; by itself the library waits ever longer, up to two minutes
MAX_CAUSES = 20  # of an error are read
LOAD_TIMEOUT_S = 180.0  # a server that was killed takes half a minute and more to load what it holds

Row = dict[str, Any]


def _with_causes(exc: BaseException) -> str:
    """Return what an error and those behind it say: where connecting fails, only the innermost one says why."""
    said: list[str] = []
    inner: BaseException | None = exc
    while inner is not None and len(said) < MAX_CAUSES:
        said.append(str(inner).lower())
        inner = inner.__cause__ or inner.__context__
    return "\n".join(said)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Take a write that is refused for one that comes too early: its disk may be full, a quota used up. What it answers else holds."""
    try:
        yield
    except IndexUnavailableError:
        raise
    except SidecarError as exc:
        raise IndexUnavailableError(f"Milvus takes no writes at the moment ({exc})") from exc


class Connection:
    """One server. Methods may be called from several threads; each ends after ``timeout_s`` at the latest."""

    def __init__(self, uri: str, token: str | None, timeout_s: float) -> None:
        self._uri, self._token, self._timeout_s = uri, token, timeout_s
        self._client: MilvusClient | None = None
        self._connecting, self._admitting = threading.Lock(), threading.Lock()
        self._silent_until = 0.0
        self._silence = ""
        self.is_closed = False

    def close(self) -> None:
        """Let go of the connection; may be called twice."""
        self.is_closed = True
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @contextlib.contextmanager
    def call(self, timeout_s: float | None = None) -> Iterator[tuple[MilvusClient, float]]:
        """Yield the client and the time that a call may take; what the call raises becomes ours.

        Raises:
            IndexUnavailableError: the server cannot be reached, does not answer in time, refuses the token, or has the
                collection no more.
            SidecarError: the server refuses the call.
        """
        self._admit()
        try:
            yield self._connected(), timeout_s or self._timeout_s
            self._silence = ""
        except (SidecarError, AssertionError):
            raise
        except Exception as exc:  # pymilvus raises its own errors, grpc's, and plain ones
            raise self._translated(exc) from exc

    def _admit(self) -> None:
        """Let one call at a time find out whether a silent server answers again; others fail at once."""
        with self._admitting:
            now = time.monotonic()
            if self._silence and now < self._silent_until:
                raise IndexUnavailableError(self._silence)
            if self._silence:
                self._silent_until = now + self._timeout_s

    def _connected(self) -> MilvusClient:
        with self._connecting:
            if self._client is None:
                from pymilvus import MilvusClient

                logging.getLogger("pymilvus").setLevel(
                    logging.CRITICAL
                )  # it logs whole expressions; its errors are raised
                options: dict[str, Any] = {"token": self._token} if self._token else {}
                channel = {"grpc.max_reconnect_backoff_ms": round(RECONNECT_S * 1000)}
                self._client = MilvusClient(uri=self._uri, timeout=self._timeout_s, grpc_options=channel, **options)
            return self._client

    def _translated(self, exc: Exception) -> SidecarError:
        from pymilvus.exceptions import ErrorCode, MilvusException

        said = exc.message if isinstance(exc, MilvusException) else str(exc)
        lowered = str(said).lower()
        self._silence = ""  # it answers, but for what is found to be silence below
        if getattr(exc, "code", None) == ErrorCode.COLLECTION_NOT_FOUND or "collection not found" in lowered:
            return IndexUnavailableError(
                "the index was replaced on the Milvus server, and is opened again", is_gone=True
            )
        if getattr(exc, "code", None) == NOT_LOADED:
            return IndexUnavailableError("Milvus was started anew, and the index is loaded again", is_gone=True)
        if any(word in _with_causes(exc) for word in ("unauthenticated", "auth check failure", "permission deny")):
            return IndexUnavailableError("Milvus refuses the token: check index.token")
        if any(word in lowered for word in ("deadline", "timeout", "timed out", "unavailable", "connect", "not ready")):
            self._silence = f"Milvus does not answer at {self.address}: start it, or check index.uri"
            self._silent_until = time.monotonic() + REST_S
            return IndexUnavailableError(self._silence)
        return SidecarError(f"Milvus refused a call: {str(said)[:300]}")

    @property
    def address(self) -> str:
        """Where the server is, without what is secret."""
        return hide(self._uri)

    # rows

    def query(
        self,
        collection: str,
        expression: str,
        fields: Sequence[str],
        limit: int = MAX_ROWS,
        *,
        eventually: bool = False,
    ) -> list[Row]:
        """Return the rows that pass, in no order; with *eventually* as the server has them now, be it a moment behind."""
        level = {"consistency_level": "Eventually"} if eventually else {}
        with self.call() as (client, timeout_s):
            rows = client.query(
                collection, filter=expression, output_fields=list(fields), limit=limit, timeout=timeout_s, **level
            )
            return [dict(row) for row in rows]

    def count(self, collection: str, expression: str) -> int:
        """Count the rows that pass."""
        with self.call() as (client, timeout_s):
            rows = client.query(collection, filter=expression, output_fields=["count(*)"], timeout=timeout_s)
            return int(rows[0]["count(*)"])

    def iterate(self, collection: str, expression: str, fields: Sequence[str], batch: int) -> Iterator[list[Row]]:
        """Yield the rows that pass by rising primary key, some at a time."""
        with self.call() as (client, timeout_s):
            rows = client.query_iterator(
                collection, batch_size=batch, filter=expression, output_fields=list(fields), timeout=timeout_s
            )
        try:
            while True:
                with self.call():
                    page = [dict(row) for row in rows.next()]
                if not page:
                    return
                yield page
        finally:
            rows.close()

    def search(
        self, collection: str, vector: Sequence[float], expression: str, fields: Sequence[str], limit: int
    ) -> list[Row]:
        """Return the rows nearest to *vector* by falling ``distance``, the inner product, each with *fields*."""
        with self.call() as (client, timeout_s):
            [hits] = client.search(
                collection, data=[vector], filter=expression, limit=limit, output_fields=list(fields), timeout=timeout_s
            )
            return [{"distance": float(hit["distance"]), **hit["entity"]} for hit in hits]

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows over those of the same primary keys."""
        with _writing(), self.call() as (client, timeout_s):
            client.upsert(collection, [dict(row) for row in rows], timeout=timeout_s)

    def delete(self, collection: str, keys: Sequence[str], mark: Mapping[str, Any]) -> None:
        """Delete rows by their primary keys; *mark* is a row that is written afterwards, for reads to wait for."""
        with _writing(), self.call() as (client, timeout_s):
            client.delete(collection, ids=list(keys), timeout=timeout_s)
            client.upsert(collection, [dict(mark)], timeout=timeout_s)
