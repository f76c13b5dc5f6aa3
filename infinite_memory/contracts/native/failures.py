"""From our errors to the native contract's ``error_code``: the one place where they are mapped."""

from __future__ import annotations

from infinite_memory.contracts.fields import Json
from infinite_memory.errors import (
    AlreadyExistsError,
    BackupError,
    BackupNotFoundError,
    ConfigError,
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    NotFoundError,
    ScopeArchivedError,
    SidecarNotReadyError,
    StoreError,
)

_CODES: tuple[tuple[type[InfiniteMemoryError], str], ...] = (
    (InvalidRequestError, "INVALID_REQUEST"),
    (ScopeArchivedError, "INVALID_REQUEST"),
    (ConfigError, "INVALID_REQUEST"),  # the message names the setting
    (BackupNotFoundError, "NOT_FOUND"),
    (NotFoundError, "NOT_FOUND"),
    (AlreadyExistsError, "ALREADY_EXISTS"),
    (BackupError, "BACKUP_ERROR"),
    (EmbeddingError, "EMBEDDING_ERROR"),
    (StoreError, "CONNECTION_ERROR"),
    (SidecarNotReadyError, "CONNECTION_ERROR"),
)


def failure(problem: InfiniteMemoryError) -> Json:
    """Give ``error`` and ``error_code`` for *problem*; what has no code of its own is an internal error."""
    code = next((code for kind, code in _CODES if isinstance(problem, kind)), "INTERNAL_ERROR")
    return {"error": str(problem), "error_code": code}
