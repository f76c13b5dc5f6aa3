"""From our errors to the AgentMem contract's error codes: the one place where they are mapped."""

from __future__ import annotations

from infinite_memory.contracts.fields import Json
from infinite_memory.errors import (
    AgentNotFoundError,
    AuthenticationError,
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    MemoryNotFoundError,
    RateLimitError,
    ScopeArchivedError,
    SidecarError,
    StoreError,
)

CODES: tuple[tuple[type[InfiniteMemoryError], str], ...] = (
    (InvalidRequestError, "INVALID_PARAMETERS"),
    (ScopeArchivedError, "INVALID_PARAMETERS"),
    (AgentNotFoundError, "AGENT_NOT_FOUND"),
    (MemoryNotFoundError, "MEMORY_NOT_FOUND"),
    (RateLimitError, "RATE_LIMIT_EXCEEDED"),
    (AuthenticationError, "AUTHENTICATION_FAILED"),
    (StoreError, "BACKEND_UNAVAILABLE"),
    (SidecarError, "BACKEND_UNAVAILABLE"),
    (EmbeddingError, "BACKEND_UNAVAILABLE"),
)
INTERNAL = "INTERNAL_ERROR"


def failure(problem: InfiniteMemoryError) -> Json:
    """Write the reply to what failed."""
    code = next((code for kind, code in CODES if isinstance(problem, kind)), INTERNAL)
    return {"success": False, "error": {"code": code, "message": str(problem), "details": _details(problem)}}


def _details(problem: InfiniteMemoryError) -> Json:
    details: Json = {}
    if isinstance(problem, InvalidRequestError) and problem.field:
        details["field"] = problem.field
    if isinstance(problem, LimitExceededError):
        details |= {"size": problem.size, "limit": problem.limit}
    if isinstance(problem, AgentNotFoundError):
        details["agent_id"] = problem.agent_id
    if isinstance(problem, RateLimitError):
        details["retry_after_s"] = problem.retry_after_s
    return details
