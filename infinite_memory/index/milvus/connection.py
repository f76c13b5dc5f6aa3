"""The only module that uses `pymilvus`: a connection that raises our errors, and whose calls end when the server stops responding.

Why reads use `Session` consistency: a write must be visible to the next call; `Strong` also guarantees that, but waits for the server's
clock at every call. Milvus 2.3 does not count a deletion as a write of the session, so `Connection.delete` writes one row afterwards,
which later reads wait for.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from infinite_memory.errors import IndexUnavailableError, SidecarError
from infinite_memory.index.milvus.pymilvus_loader import load_pymilvus
from infinite_memory.index.milvus.silence import ANSWER_S, SilenceWatch, SilentError
from infinite_memory.redaction import hide

if TYPE_CHECKING:
    from pymilvus import MilvusClient

T = TypeVar("T")

MAX_ROWS = 16_384
"""The maximum number of rows that a server returns for one query or search."""

NOT_LOADED = 101
"""Milvus' code for a collection that is not loaded; a server that was killed may not reload any by itself."""

RECONNECT_S = 2.0  # maximum delay between attempts to connect; the library's own backoff grows to two minutes
CONNECT_S = 5.0  # maximum for one attempt: lost packets get no answer
MAX_CAUSES = 20  # of an error's chain that are read
LOAD_TIMEOUT_S = 180.0  # a server that was killed takes half a minute or more to load its collections

Row = dict[str, Any]


def _with_causes(exc: BaseException) -> str:
    """Return the messages of an error and its causes: if connecting fails, only the innermost one says why."""
    messages: list[str] = []
    inner: BaseException | None = exc
    while inner is not None and len(messages) < MAX_CAUSES:
        messages.append(str(inner).lower())
        inner = inner.__cause__ or inner.__context__
    return "\n".join(messages)


def _said(exc: Exception) -> str:
    """Return an error's message, without the libraries' decoration."""
    from pymilvus.exceptions import MilvusException

    return str(exc.message) if isinstance(exc, MilvusException) else str(exc)


def _refuses_token(exc: Exception) -> bool:
    return any(word in _with_causes(exc) for word in ("unauthenticated", "auth check failure", "permission deny"))


def _is_silence(exc: Exception) -> bool:
    """True if an error means that the server did not answer."""
    words = ("deadline", "timeout", "timed out", "unavailable", "connect", "not ready")
    return not _refuses_token(exc) and any(word in _said(exc).lower() for word in words)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Treat a refused write as temporary: the server's disk may be full or a quota exceeded. Other errors are unchanged."""
    try:
        yield
    except IndexUnavailableError:
        raise
    except SidecarError as exc:
        raise IndexUnavailableError(f"Milvus takes no writes at the moment ({exc})") from exc


class Connection:
    """A connection to one server. Methods may be called from several threads, and fail fast while the server is silent (`SilenceWatch`)."""

    def __init__(self, uri: str, token: str | None, timeout_s: float) -> None:
        self._uri, self._token, self._timeout_s = uri, token, timeout_s
        self._client: MilvusClient | None = None
        self._connecting = threading.Lock()
        self._watch = SilenceWatch(self._answers)
        self.is_closed = False

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.is_closed = True
        self._watch.close()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def ask(self, operation: Callable[[MilvusClient, float], T], timeout_s: float | None = None) -> T:
        """Run *operation* with the client within the timeout and return its result; library errors are translated to ours.

        Raises:
            IndexUnavailableError: the server cannot be reached, does not answer in time, refuses the token, or no longer has the
                collection.
            SidecarError: the server refuses the call.
        """
        try:
            client = self._client or self._connected()  # not timed: loading the library the first time may take seconds
            result = self._watch.wait_for(lambda: operation(client, timeout_s or self._timeout_s))
        except SilentError as exc:
            raise IndexUnavailableError(self._silence) from exc
        except (SidecarError, AssertionError):
            raise
        except Exception as exc:  # pymilvus raises its own errors, grpc's, and plain exceptions
            raise self._translated(exc) from exc
        self._watch.heard()
        return result

    def _connected(self) -> MilvusClient:
        with self._connecting:
            self._watch.check()  # otherwise all threads that waited for the lock would wait for the server in turn
            return self._client or self._connect()

    def _connect(self) -> MilvusClient:
        client = load_pymilvus().MilvusClient
        # It logs whole expressions; its errors are raised anyway.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        options: dict[str, Any] = {"token": self._token} if self._token else {}
        channel = {
            "grpc.max_reconnect_backoff_ms": round(RECONNECT_S * 1000),
            "grpc.min_reconnect_backoff_ms": round(CONNECT_S * 1000),
        }
        self._client = client(uri=self._uri, timeout=self._timeout_s, grpc_options=channel, **options)
        return self._client

    def _answers(self) -> bool:
        """Send a cheap request; True for any answer."""
        try:
            with self._connecting:
                client = self._client or self._connect()
            client.get_server_version(timeout=ANSWER_S)
        except Exception as exc:  # as in `ask`
            return not _is_silence(exc)
        return True

    def _translated(self, exc: Exception) -> SidecarError:
        from pymilvus.exceptions import ErrorCode

        message, code = _said(exc), getattr(exc, "code", None)
        if code == ErrorCode.COLLECTION_NOT_FOUND or "collection not found" in message.lower():
            return IndexUnavailableError(
                "the index was replaced on the Milvus server, and is opened again", is_gone=True
            )
        if code == NOT_LOADED:
            return IndexUnavailableError("Milvus was started anew, and the index is loaded again", is_gone=True)
        if _refuses_token(exc):
            return IndexUnavailableError("Milvus refuses the token: check index.token")
        if _is_silence(exc):
            self._watch.begin()
            return IndexUnavailableError(self._silence)
        return SidecarError(f"Milvus refused a call: {message[:300]}")

    @property
    def _silence(self) -> str:
        return f"Milvus does not answer at {self.address}: start it, or check index.uri"

    @property
    def address(self) -> str:
        """The server's address without secrets."""
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
        """Return the matching rows, unordered; *eventually* reads without waiting, possibly slightly stale rows."""
        level = {"consistency_level": "Eventually"} if eventually else {}
        rows = self.ask(
            lambda client, timeout_s: client.query(
                collection, filter=expression, output_fields=list(fields), limit=limit, timeout=timeout_s, **level
            )
        )
        return [dict(row) for row in rows]

    def count(self, collection: str, expression: str) -> int:
        """Count the matching rows."""
        rows = self.ask(
            lambda client, timeout_s: client.query(
                collection, filter=expression, output_fields=["count(*)"], timeout=timeout_s
            )
        )
        return int(rows[0]["count(*)"])

    def iterate(self, collection: str, expression: str, fields: Sequence[str], batch: int) -> Iterator[list[Row]]:
        """Yield the matching rows by ascending primary key, in batches."""
        rows = self.ask(
            lambda client, timeout_s: client.query_iterator(
                collection, batch_size=batch, filter=expression, output_fields=list(fields), timeout=timeout_s
            )
        )
        try:
            while page := self.ask(lambda _, __: [dict(row) for row in rows.next()]):
                yield page
        finally:
            rows.close()

    def search(
        self, collection: str, vector: Sequence[float], expression: str, fields: Sequence[str], limit: int
    ) -> list[Row]:
        """Return the rows nearest to *vector* by descending ``distance``, the inner product, each with *fields*."""
        [hits] = self.ask(
            lambda client, timeout_s: client.search(
                collection, data=[vector], filter=expression, limit=limit, output_fields=list(fields), timeout=timeout_s
            )
        )
        return [{"distance": float(hit["distance"]), **hit["entity"]} for hit in hits]

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, replacing those with the same primary keys."""
        written = [dict(row) for row in rows]
        with _writing():
            self.ask(lambda client, timeout_s: client.upsert(collection, written, timeout=timeout_s))

    def delete(self, collection: str, keys: Sequence[str], mark: Mapping[str, Any]) -> None:
        """Delete rows by primary key; *mark* is a row that is written afterwards, for reads to wait for."""
        with _writing():
            self.ask(lambda client, timeout_s: client.delete(collection, ids=list(keys), timeout=timeout_s))
            self.ask(lambda client, timeout_s: client.upsert(collection, [dict(mark)], timeout=timeout_s))
