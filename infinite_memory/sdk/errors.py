"""Exceptions of the SDK.

    ApiError                 code, field, details, status
    ├── InvalidError         something that was given is wrong; `field` names it
    ├── DeniedError          the token is missing, unknown, or may not do this
    │   └── UntrustedError   whoever listens at the URL does not prove that they know the token; an UnavailableError, too
    ├── MissingError         there is no such memory, scope or agent
    ├── ConflictError        there is one already, or the scope is archived
    ├── RateLimitError       too many requests; `retry_after_s` says when to come again
    └── UnavailableError     the memory cannot be reached, or not all of it works at the moment

``code`` is stable (docs/sdk.md and docs/http-routes.md list the codes), the message is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infinite_memory.errors import InfiniteMemoryError

INTERNAL = "INTERNAL_ERROR"


class ApiError(InfiniteMemoryError):
    """A request failed.

    Attributes:
        code (str): Stable error code (``INVALID_REQUEST``).
        field (str | None): Path of the invalid argument (``since``, ``filter.tags_mode``), or None.
        status (int): HTTP status, 0 if nothing was sent or no answer came.
        details (dict[str, Any]): Further information, such as ``size`` and ``limit``; often empty.
    """

    def __init__(
        self, message: str, *, code: str, field: str | None = None, status: int = 0,
        details: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.code, self.field, self.status, self.details = code, field, status, dict(details or {})


class InvalidError(ApiError):
    """Something that was given is wrong."""


class DeniedError(ApiError):
    """The token is missing, unknown, revoked or expired, or may not do this."""


class MissingError(ApiError):
    """There is no such memory, scope or agent, or the token may not see it."""


class ConflictError(ApiError):
    """There is one of that name already, or the scope is archived."""


class RateLimitError(ApiError):
    """Too many requests were made with this token."""

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the next request."""
        return float(self.details.get("retry_after_s", 1))


class UnavailableError(ApiError):
    """The memory cannot be reached, or a part of it does not work at the moment. A write may or may not have been carried out."""


class UntrustedError(DeniedError, UnavailableError):
    """Whoever listens at the URL does not prove that they know the token. Neither the token nor a request was sent.

    Either the memory does not know the token, or it is another program: so this is a `DeniedError` and an `UnavailableError`.
    """


_OF_STATUS = {
    401: DeniedError, 403: DeniedError, 404: MissingError, 409: ConflictError, 429: RateLimitError,
    503: UnavailableError,
}  # fmt: skip
_REFUSED = range(400, 500)


def to_error(status: int, body: Any, names: Mapping[str, str] | None = None) -> ApiError:
    """Return the exception for an error reply, which may come from a proxy.

    Args:
        names: Maps fields of the request to arguments, where the names differ.
    """
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    kind = _OF_STATUS.get(status, InvalidError if status in _REFUSED else ApiError)
    message, field = str(error.get("message") or f"HTTP {status}"), error.get("field")
    if isinstance(field, str) and (argument := _argument(field, names or {})) != field:
        message = f"{argument}{message.removeprefix(field)}" if message.startswith(field) else message
        field = argument
    return kind(
        message, code=str(error.get("code") or INTERNAL), field=field, status=status, details=error.get("details")
    )


def _argument(field: str, names: Mapping[str, str]) -> str:
    """Return the path of a field in terms of the argument that the field, or its parent, was made from."""
    for name in sorted(names, key=len, reverse=True):
        if field == name or field.startswith((f"{name}.", f"{name}[")):
            return names[name] + field.removeprefix(name)
    return field
