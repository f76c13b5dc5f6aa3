"""The table of errors: ours, and their codes in each contract and in HTTP.

A row applies to its error and all its subclasses without a row of their own; an error without any row is internal.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from infinite_memory.contracts.mcp import INTERNAL_ERROR, INVALID_PARAMS
from infinite_memory.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    AuthenticationError,
    BackupError,
    ConfigError,
    EmbeddingError,
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryNotFoundError,
    ModelError,
    NotFoundError,
    RateLimitError,
    ScopeArchivedError,
    SidecarError,
    SidecarUnsavedError,
    StoreError,
    StoreUnavailableError,
)

NOT_FOUND, UNAVAILABLE = -32004, -32001  # of the Laravel contract's document


class Codes(NamedTuple):
    """The codes of one of our errors, None if a base class's row applies.

    ``native`` is also for contracts without action loop codes of their own, ``rpc`` for those without MCP codes; ``http`` is a status.
    """

    native: str | None = None
    rpc: int | None = None
    agentmem: str | None = None
    laravel: int | None = None
    http: int | None = None


class Column(enum.IntEnum):
    """The columns of the table."""

    NATIVE, RPC, AGENTMEM, LARAVEL, HTTP = range(5)


_I, _N, _U = INVALID_PARAMS, NOT_FOUND, UNAVAILABLE
# fmt: off
ERRORS: Mapping[type[InfiniteMemoryError], Codes] = {
    #                            native               rpc   agentmem                 laravel  http
    InvalidRequestError:   Codes("INVALID_REQUEST",   _I,   "INVALID_PARAMETERS",    _I,      400),
    AuthenticationError:   Codes(None,                None, "AUTHENTICATION_FAILED", None,    401),
    ForbiddenError:        Codes(None,                None, None,                    None,    403),
    NotFoundError:         Codes("NOT_FOUND",         _I,   None,                    _I,      404),
    MemoryNotFoundError:   Codes(None,                None, "MEMORY_NOT_FOUND",      _N,      None),
    AgentNotFoundError:    Codes(None,                None, "AGENT_NOT_FOUND",       None,    None),
    AlreadyExistsError:    Codes("ALREADY_EXISTS",    None, None,                    None,    409),
    ScopeArchivedError:    Codes("INVALID_REQUEST",   None, "INVALID_PARAMETERS",    _I,      409),
    RateLimitError:        Codes(None,                None, "RATE_LIMIT_EXCEEDED",   None,    429),
    StoreError:            Codes("CONNECTION_ERROR",  None, "BACKEND_UNAVAILABLE",   None,    503),
    StoreUnavailableError: Codes(None,                None, None,                    _U,      None),
    SidecarError:          Codes("CONNECTION_ERROR",  None, "BACKEND_UNAVAILABLE",   _U,      503),
    SidecarUnsavedError:   Codes("STORAGE_ERROR",     None, None,                    None,    None),
    EmbeddingError:        Codes("EMBEDDING_ERROR",   None, "BACKEND_UNAVAILABLE",   _U,      503),
    ModelError:            Codes(None,                None, None,                    None,    503),
    BackupError:           Codes("BACKUP_ERROR",      None, None,                    None,    503),
    ConfigError:           Codes("INVALID_REQUEST",   None, None,                    None,    503),  # the message names the setting
    InfiniteMemoryError:   Codes("INTERNAL_ERROR",    INTERNAL_ERROR, "INTERNAL_ERROR", INTERNAL_ERROR, 500),
}
# fmt: on


def _find(exc: InfiniteMemoryError, column: Column) -> str | int | None:
    rows = (ERRORS[kind][column] for kind in type(exc).__mro__ if kind in ERRORS)
    return next(code for code in rows if code is not None)


def get_code(exc: InfiniteMemoryError, column: Column) -> str:
    """Return the name of *exc* in a column of names."""
    return str(_find(exc, column))


def get_number(exc: InfiniteMemoryError, column: Column) -> int:
    """Return the number of *exc* in a column of numbers."""
    number = _find(exc, column)
    assert isinstance(number, int), column
    return number


def failure(exc: InfiniteMemoryError, *, in_full: bool = False) -> dict[str, str]:
    """Return ``error`` and ``error_code`` of an action loop reply; *in_full* with whole paths, for the user of this machine."""
    return {"error": exc.in_full() if in_full else str(exc), "error_code": get_code(exc, Column.NATIVE)}
