"""Reads the MongoDB database of another program, for imports; never writes to it.

It has a client of its own, which blocks and is used in a thread: such a database may be on any server, of any age.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pymongo
from bson import ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo.errors import ConfigurationError, InvalidName, InvalidURI, OperationFailure, PyMongoError

from infinite_memory.errors import InvalidRequestError

_WAIT_MS = 5_000
_PAGE = 200
_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True,
    tzinfo=dt.UTC,
    datetime_conversion=DatetimeConversion.DATETIME_CLAMP,
    unicode_decode_error_handler="replace",
)


@dataclass(frozen=True, slots=True)
class OlderDocument:
    """A document of such a database. ``made_at`` is known of those that MongoDB named, whose ids have the form of ours."""

    key: str
    made_at: dt.datetime | None
    fields: Mapping[str, Any]


class OlderDatabase:
    """One database of another program, open for reading. Used from one thread at a time."""

    def __init__(self, uri: str, name: str | None) -> None:
        """Connect.

        Raises:
            InvalidRequestError: the URI is none, names no database where *name* does not either, or the server cannot be reached.
        """
        try:
            self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
                uri,
                serverSelectionTimeoutMS=_WAIT_MS,
                connectTimeoutMS=_WAIT_MS,
                appname="infinite-memory-import",
                readPreference="primaryPreferred",
            )
        except (InvalidURI, ConfigurationError, ValueError) as problem:  # its words may hold the password
            raise InvalidRequestError(
                "mongodb_uri", "is no URI of MongoDB such as mongodb://127.0.0.1:27017"
            ) from problem
        try:
            self._database = self._client.get_database(name, codec_options=_CODEC)
            self.collections = sorted(self._database.list_collection_names())
        except (ConfigurationError, InvalidName) as problem:
            self.close()
            raise InvalidRequestError("database", "name the database, here or in the URI") from problem
        except PyMongoError as problem:
            self.close()
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(problem)}") from problem
        self.name = self._database.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the server; idempotent."""
        self._client.close()

    def count(self, collection: str) -> int:
        """Count documents, roughly.

        Raises:
            InvalidRequestError: the server went away.
        """
        try:
            return self._database[collection].estimated_document_count()
        except PyMongoError as problem:
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(problem)}") from problem

    def read(self, collection: str) -> Iterator[OlderDocument]:
        """Give every document of a collection, by id; ``embedding`` is left out.

        Raises:
            InvalidRequestError: the server went away.
        """
        try:
            found = self._database[collection].find({}, {"embedding": 0}, batch_size=_PAGE).sort("_id", 1)
            with found:
                for one in found:
                    key = one.pop("_id")
                    yield OlderDocument(str(key), key.generation_time if isinstance(key, ObjectId) else None, one)
        except PyMongoError as problem:
            raise InvalidRequestError("mongodb_uri", f"that database cannot be read: {_why(problem)}") from problem


def _why(problem: PyMongoError) -> str:
    if isinstance(problem, OperationFailure):
        return str((problem.details or {}).get("errmsg") or "the server refused")
    return f"the server cannot be reached ({type(problem).__name__})"
