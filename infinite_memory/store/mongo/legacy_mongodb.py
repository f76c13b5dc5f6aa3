"""Reads the MongoDB database of another program, for imports; never writes to it.

It has its own client, which is synchronous and runs in a thread: such a database may be on any server, of any version.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

import pymongo
from bson import ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo.errors import ConfigurationError, InvalidName, InvalidURI, OperationFailure, PyMongoError

from infinite_memory.errors import InvalidRequestError
from infinite_memory.redaction import remember

NO_URI = "is no URI of MongoDB such as mongodb://127.0.0.1:27017"

_WAIT_MS = 5_000
_PAGE = 200
_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True,
    tzinfo=dt.UTC,
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
    unicode_decode_error_handler="replace",
)


@dataclass(frozen=True, slots=True)
class LegacyDocument:
    """A document of such a database. ``made_at`` is known for documents with an ObjectId, like ours."""

    key: str
    made_at: dt.datetime | None
    fields: Mapping[str, Any]


def check_hosts(uri: str, ours: str | None, allowed: str) -> None:
    """Reject a URI of any host but this machine, our own server, or one that the settings allow.

    The caller of an import may be a model under prompt injection; no name is resolved before this check.

    Args:
        ours: ``mongodb.uri``.
        allowed: ``mongodb.import_hosts``.

    Raises:
        InvalidRequestError: it is not a MongoDB URI, or names another host.
    """
    remember(uri)
    allowed_hosts = {"localhost", "127.0.0.1", "::1"} | {
        name.strip().casefold() for name in allowed.split(",") if name.strip()
    }
    allowed_hosts |= _hosts(ours) if ours else set()
    try:
        strange = sorted(host for host in _hosts(uri) if host not in allowed_hosts and not host.startswith("/"))
    except ValueError as exc:
        raise InvalidRequestError("mongodb_uri", NO_URI) from exc
    if strange:
        raise InvalidRequestError(
            "mongodb_uri", f"{strange[0]!r} is another machine: allow it by the setting mongodb.import_hosts"
        )


def _hosts(uri: str) -> set[str]:
    """Return the hosts of a URI without resolving them."""
    scheme, sign, rest = uri.partition("://")
    if not sign or scheme not in ("mongodb", "mongodb+srv"):
        raise ValueError("no URI of MongoDB")
    named = re.split(r"[/?]", rest, maxsplit=1)[0].rpartition("@")[2]
    hosts = [unquote(name.strip()) for name in named.split(",")]
    return {
        (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).casefold() for host in hosts
    }


class LegacyDatabase:
    """One database of another program, open for reading. Used from one thread at a time."""

    def __init__(self, uri: str, name: str | None) -> None:
        """Connect.

        Raises:
            InvalidRequestError: the URI is invalid, neither it nor *name* names a database, or the server cannot be reached.
        """
        try:
            self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
                uri,
                serverSelectionTimeoutMS=_WAIT_MS,
                connectTimeoutMS=_WAIT_MS,
                appname="infinite-memory-import",
                readPreference="primaryPreferred",
            )
        except (InvalidURI, ConfigurationError, ValueError) as exc:  # its message may contain the password
            raise InvalidRequestError("mongodb_uri", NO_URI) from exc
        try:
            self._database = self._client.get_database(name, codec_options=_CODEC)
            self.collections = sorted(self._database.list_collection_names())
        except (ConfigurationError, InvalidName) as exc:
            self.close()
            raise InvalidRequestError("database", "name the database, here or in the URI") from exc
        except PyMongoError as exc:
            self.close()
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(exc)}") from exc
        self.name = self._database.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._client.close()

    def count(self, collection: str) -> int:
        """Return the approximate number of documents.

        Raises:
            InvalidRequestError: the server went away.
        """
        try:
            return self._database[collection].estimated_document_count()
        except PyMongoError as exc:
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(exc)}") from exc

    def read(self, collection: str) -> Iterator[LegacyDocument]:
        """Yield every document of a collection, ordered by id, without ``embedding``.

        Raises:
            InvalidRequestError: the server went away.
        """
        try:
            cursor = self._database[collection].find({}, {"embedding": 0}, batch_size=_PAGE).sort("_id", 1)
            with cursor:
                for document in cursor:
                    key = document.pop("_id")
                    yield LegacyDocument(str(key), key.generation_time if isinstance(key, ObjectId) else None, document)
        except PyMongoError as exc:
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(exc)}") from exc


def _why(exc: PyMongoError) -> str:
    if isinstance(exc, OperationFailure):
        return str((exc.details or {}).get("errmsg") or "the server refused")
    return f"the server cannot be reached ({type(exc).__name__})"
