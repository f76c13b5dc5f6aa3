"""HTTP errors: their status and their common body. The code is the error's own, in capitals."""

from __future__ import annotations

import math

from infinite_memory.contracts.errors import Column, get_number
from infinite_memory.contracts.fields import Json
from infinite_memory.errors import (
    AgentNotFoundError,
    AuthenticationError,
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    RateLimitError,
)

INTERNAL = 500
SLOW_BODY = 408


def get_status(exc: InfiniteMemoryError) -> int:
    """Return the HTTP status of an error; without a status of its own it is internal."""
    return get_number(exc, Column.HTTP)


def failure(exc: InfiniteMemoryError) -> tuple[int, Json, dict[str, str]]:
    """Return status, body and headers of the reply to an error."""
    status = get_status(exc)
    headers: dict[str, str] = {}
    details: Json = {}
    if isinstance(exc, LimitExceededError):
        details = {"size": exc.size, "limit": exc.limit}
    if isinstance(exc, AgentNotFoundError):
        details = {"agent_id": exc.agent_id}
    if isinstance(exc, AuthenticationError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(exc, ForbiddenError):
        headers["WWW-Authenticate"] = 'Bearer error="insufficient_scope"'
    if isinstance(exc, RateLimitError):
        seconds = max(1, math.ceil(exc.retry_after_s))
        details, headers["Retry-After"] = {"retry_after_s": seconds}, str(seconds)
    if status == INTERNAL:
        return status, internal_form(), headers
    field = exc.field or None if isinstance(exc, InvalidRequestError) else None
    return status, error_form(exc.code.upper(), str(exc), field, details), headers


def slow_body_form() -> Json:
    """Return the body of the reply to a request whose body does not arrive in time."""
    return error_form("REQUEST_TIMEOUT", "the body took too long to arrive")


def internal_form() -> Json:
    """Return the body of an internal error, which is logged and not described."""
    return error_form("INTERNAL_ERROR", "internal error; the log has the details")


def error_form(code: str, message: str, field: str | None = None, details: Json | None = None) -> Json:
    """Return the body of an error."""
    return {"success": False, "error": {"code": code, "message": message, "field": field, "details": details or {}}}
