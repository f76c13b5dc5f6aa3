"""Dispatch of one request to a route, whether it came by HTTP or the daemon's own socket.

Authorization, unknown fields, the result and the form of errors are handled here once, for both.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.contracts.fields import Json, ignored_fields, refuse_unknown
from infinite_memory.errors import (
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    ScopeNotFoundError,
    StoreUnavailableError,
)
from infinite_memory.loop_watchdog import running
from infinite_memory.transports.http.api.backend import ApiRequest, Backend
from infinite_memory.transports.http.api.errors import INTERNAL, failure, internal_form
from infinite_memory.transports.http.api.routes import USER, Audience, Route
from infinite_memory.transports.http.api.tokens import TokenPermissions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply: HTTP's status and headers, and the JSON body."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


async def answer(
    backend: Backend, route: Route, grant: TokenPermissions, read_body: Callable[[], Awaitable[Json]]
) -> Answer:
    """Answer one request; never raises. *read_body* returns its fields, and is called once the token is authorized for the route."""
    try:
        check_may(grant, route)
        fields, warnings = known_fields(route, await read_body())
        request = await backend.open(grant, fields)
        with running(route.name):
            status, body = await _run(route, request)
    except InfiniteMemoryError as exc:
        return failed(exc)
    except Exception:
        log.exception("a request failed", extra={"event": "request_failed", "route": route.name})
        return Answer(INTERNAL, internal_form())
    warnings = list(dict.fromkeys([*warnings, *request.checking.warnings]))
    return Answer(status, body | ({"warnings": warnings} if warnings else {}))


async def _run(route: Route, request: ApiRequest) -> tuple[int, Json]:
    """Run a route; callers with restricted visibility learn neither names of other scopes nor the address of an unavailable database."""
    try:
        return await route.run(request)
    except ScopeNotFoundError as exc:
        if request.is_narrow and exc.nearest:
            raise ScopeNotFoundError(exc.name) from exc
        raise
    except StoreUnavailableError as exc:
        if request.is_narrow:
            raise StoreUnavailableError("the database cannot be used at the moment; try again in a moment") from exc
        raise


def failed(exc: InfiniteMemoryError) -> Answer:
    """Write the reply to an error; an internal one is logged, as its reply has no details."""
    status, body, headers = failure(exc)
    if status == INTERNAL:
        log.error("a request failed: %s", exc, exc_info=exc, extra={"event": "request_failed"})
    return Answer(status, body, headers)


def check_may(grant: TokenPermissions, route: Route) -> None:
    """Reject a token that may not access a route.

    Raises:
        ForbiddenError: it may not.
    """
    if grant.read_only and route.writes:
        raise ForbiddenError("this token only reads")
    if route.audience is Audience.FULL and not grant.sees_all:
        raise ForbiddenError("this route is for tokens that are bound to no users or scopes")
    if route.audience is Audience.USERS and grant.scope_ids is not None:
        raise ForbiddenError("this route is about users; this token is bound to scopes")


def known_fields(route: Route, fields: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """Return the fields that the route knows, with a warning for each of the others.

    Raises:
        InvalidRequestError: the route forgets or replaces, or the field names a user or scope: ignoring it would make the request
            affect more than intended.
    """
    own = {declared.name for declared in route.fields}
    names, others = [declared.name for declared in route.fields], [name for name in fields if name not in own]
    if route.method in ("DELETE", "PATCH"):
        refuse_unknown(others, names)
    if USER.name in others and fields[USER.name] is not None:
        raise InvalidRequestError(USER.name, "is not known here: what this route is about belongs to no user")
    return {name: value for name, value in fields.items() if name in own}, ignored_fields(others, names)
