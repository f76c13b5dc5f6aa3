"""The only place where the driver's errors are translated into ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bson.errors import BSONError
from pymongo import errors

from infinite_memory.errors import (
    AlreadyExistsError,
    ConfigError,
    InfiniteMemoryError,
    InvalidRequestError,
    StoreError,
    StoreUnavailableError,
)
from infinite_memory.redaction import redacted

_LOGIN_CODES = {11, 13, 18, 8000}
"""UserNotFound, Unauthorized, AuthenticationFailed, Atlas-specific."""

_DISK_FULL, _DUPLICATE_KEY = 14031, 11000  # MongoDB's error codes
_NOT_STORABLE = (BSONError, OverflowError, UnicodeEncodeError, errors.DocumentTooLarge)
_CLOCK_WAS_AHEAD = 205
_TOO_LARGE = {10334, 17280, 17419, 17420}
_GONE_AWAY_CODES = {50, 64, 89, 91, 189, 262, 11600, 11602}
"""Time limit exceeded, server shutting down or stepping down: the same request may succeed shortly."""


@contextlib.contextmanager
def translated(hint: str) -> Iterator[None]:
    """Raise the driver's errors as ours.

    Args:
        hint: What to do if the server cannot be reached; appended to the message.
    """
    try:
        yield
    except (errors.PyMongoError, *_NOT_STORABLE) as exc:
        raise translate(exc, hint) from exc


def translate(exc: Exception, hint: str) -> InfiniteMemoryError:
    """Return our error for one of the driver's."""
    if isinstance(exc, errors.ConfigurationError) and not lacks_sessions(exc):
        return ConfigError(f"mongodb.uri cannot be used: {_short(exc)}")
    if _is_unavailable(exc):
        return StoreUnavailableError(f"MongoDB does not answer ({_short(exc)}); {hint}")
    code = exc.code if isinstance(exc, errors.OperationFailure) else None
    if _is_duplicate(exc):
        return AlreadyExistsError("something of that id exists already")
    if code in _TOO_LARGE or isinstance(exc, _NOT_STORABLE):
        return InvalidRequestError("", f"MongoDB cannot hold this: {_short(exc)}")
    if code in _LOGIN_CODES:
        return StoreError(
            f"MongoDB refused the login or the right to do this ({_short(exc)}); check mongodb.uri; it needs readWrite on its database"
        )
    if code == _DISK_FULL:
        return StoreError(f"MongoDB's disk is full ({_short(exc)}); free some space")
    if code == _CLOCK_WAS_AHEAD:
        return StoreError(
            "MongoDB refuses everything, for the clock of its machine was a year or more ahead when something was written: start mongod "
            f"with --setParameter maxAcceptableLogicalClockDriftSecs=4294967295 ({_short(exc)})"
        )
    return StoreError(f"MongoDB failed: {_short(exc)}")


def _is_duplicate(exc: Exception) -> bool:
    if isinstance(exc, errors.BulkWriteError):
        return any(error.get("code") == _DUPLICATE_KEY for error in exc.details.get("writeErrors", ()))
    return isinstance(exc, errors.OperationFailure) and exc.code == _DUPLICATE_KEY


def lacks_sessions(exc: BaseException | None) -> bool:
    """True if a connection was opened while its server was starting, and permanently reports that sessions are unsupported."""
    return isinstance(exc, errors.ConfigurationError) and str(exc).startswith("Sessions are not supported")


def _is_unavailable(exc: Exception) -> bool:
    if isinstance(exc, errors.ConnectionFailure | errors.WTimeoutError) or lacks_sessions(exc):
        return True
    if isinstance(exc, errors.InvalidOperation) and str(exc).endswith("after close"):
        return True  # the server was restarted and this client discarded
    if isinstance(exc, errors.OperationFailure) and exc.code in _GONE_AWAY_CODES:
        return True
    return isinstance(exc, errors.PyMongoError) and exc.timeout


def _short(exc: Exception) -> str:
    """Return the first sentence of a driver's message, which may be followed by pages of topology description."""
    text = redacted(" ".join(str(exc).split()))  # before truncating: part of a secret would not be recognised
    for beyond in (", Timeout: ", " (configured timeouts", ", full error: ", " to execute command "):
        text = text.partition(beyond)[0]
    return text if len(text) <= 200 else text[:200] + "…"
