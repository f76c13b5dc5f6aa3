"""From our errors to HTTP: the status of each, and the one form that every error has. A code is the error's own, in capitals."""

from __future__ import annotations

import math

from infinite_memory.contracts.fields import Json
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
    LimitExceededError,
    ModelError,
    NotFoundError,
    RateLimitError,
    ScopeArchivedError,
    SidecarError,
    StoreError,
)

_STATUSES: tuple[tuple[type[InfiniteMemoryError], int], ...] = (
    (InvalidRequestError, 400),
    (AuthenticationError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (AlreadyExistsError, 409),
    (ScopeArchivedError, 409),
    (RateLimitError, 429),
    (StoreError, 503),
    (SidecarError, 503),
    (EmbeddingError, 503),
    (ModelError, 503),
    (ConfigError, 503),  # of the daemon's; the message names the setting
    (BackupError, 503),
)
INTERNAL = 500


def status_of(problem: InfiniteMemoryError) -> int:
    """Give the HTTP status of what failed; what has none of its own is a fault of ours."""
    return next((status for kind, status in _STATUSES if isinstance(problem, kind)), INTERNAL)


def failure(problem: InfiniteMemoryError) -> tuple[int, Json, dict[str, str]]:
    """Give status, body and headers of the reply to what failed."""
    status = status_of(problem)
    headers: dict[str, str] = {}
    details: Json = {}
    if isinstance(problem, LimitExceededError):
        details = {"size": problem.size, "limit": problem.limit}
    if isinstance(problem, AgentNotFoundError):
        details = {"agent_id": problem.agent_id}
    if isinstance(problem, AuthenticationError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(problem, ForbiddenError):
        headers["WWW-Authenticate"] = 'Bearer error="insufficient_scope"'
    if isinstance(problem, RateLimitError):
        seconds = max(1, math.ceil(problem.retry_after_s))
        details, headers["Retry-After"] = {"retry_after_s": seconds}, str(seconds)
    if status == INTERNAL:
        return status, internal_form(), headers
    field = problem.field or None if isinstance(problem, InvalidRequestError) else None
    return status, error_form(problem.code.upper(), str(problem), field, details), headers


def internal_form() -> Json:
    """Write the body of a fault of ours, which is logged and not told."""
    return error_form("INTERNAL_ERROR", "internal error; the log has the details")


def error_form(code: str, message: str, field: str | None = None, details: Json | None = None) -> Json:
    """Write the body of an error."""
    return {"success": False, "error": {"code": code, "message": message, "field": field, "details": details or {}}}
