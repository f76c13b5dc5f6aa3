"""The routes over the daemon's own socket, for the Python SDK: a request a line, ``{"route": "search", "fields": {...}}``, and the reply
``{"status": 200, "body": {...}}`` with status and body as by HTTP.

Why the SDK does not speak the action loop: by its URL it meets this API, so memories, replies and errors look the same both ways, and users
and scopes are served by one connection. Who may open the socket is the owner and sees everything; there is no gate here.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from infinite_memory.contracts.agentmem.table import Conversations
from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.session import ClientSession, OpenAdministration
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import InvalidRequestError
from infinite_memory.llm.base import ChatModel
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.dispatch import Answer, answer, failed
from infinite_memory.transports.http.api.routes import ROUTES
from infinite_memory.transports.http.api.tokens import OWNER, TokenPermissions

_ROUTES = {route.name: route for route in ROUTES}


@dataclass(frozen=True, slots=True)
class RouteLines:
    """One client's connection."""

    backend: Backend

    async def handle(self, request: Json) -> Json:
        """Answer one request; never raises."""
        name, fields = request.get("route"), request.get("fields")
        route = _ROUTES.get(name) if isinstance(name, str) else None
        if route is None:
            return self.refuse(InvalidRequestError.invalid_value("route", name, f"one of {', '.join(_ROUTES)}"))

        async def read() -> Json:
            if not isinstance(fields, dict):
                raise InvalidRequestError.invalid_value("fields", fields, "an object")
            return fields

        return _line(await answer(self.backend, route, TokenPermissions(OWNER), read))

    def effect(self, request: Json) -> Effect:
        """Return what a request does, for a session that is cut short."""
        name = request.get("route")
        route = _ROUTES.get(name) if isinstance(name, str) else None
        return Effect.WRITES if route is not None and route.writes else Effect.READS

    def refuse(self, exc: InvalidRequestError) -> Json:
        """Answer a line that is no request."""
        return _line(failed(exc))


def _line(reply: Answer) -> Json:
    return {"status": reply.status, "body": reply.body}


@dataclass(slots=True)
class LocalRoutes:
    """What all connections share: a chat may go on over any of them."""

    engine: Callable[[], Awaitable[Engine]]
    model: Callable[[], ChatModel | None]
    model_timeout_s: float
    administration: OpenAdministration | None = None
    conversations: Conversations = field(default_factory=Conversations)

    def open(self, session: ClientSession) -> RouteLines:
        """Begin one client's connection; each request gets the session's settings again.

        Raises:
            ConfigError: half of what the language model needs is missing.
        """
        return RouteLines(
            Backend(
                self.engine,
                lambda: copy.copy(session),
                self.model(),
                self.model_timeout_s,
                self.conversations,
                self.administration,
            )
        )
