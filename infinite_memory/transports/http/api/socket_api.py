"""The routes over the daemon's own socket, for the Python SDK: one request a line, ``{"route": "search", "fields": {...}}``, and the reply
``{"status": 200, "body": {...}}`` with status and body as by HTTP.

Why the SDK does not speak the action loop: given a URL it uses this API, so memories, replies and errors look the same both ways, and
users and scopes are served by one connection. Only the owner can open the socket, with full access; there is no authentication here.
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
        """Return the effect of a request, for a session that is cut short."""
        name = request.get("route")
        route = _ROUTES.get(name) if isinstance(name, str) else None
        return Effect.WRITES if route is not None and route.writes else Effect.READS

    def refuse(self, exc: InvalidRequestError) -> Json:
        """Answer a line that is not a request."""
        return _line(failed(exc))


def _line(reply: Answer) -> Json:
    return {"status": reply.status, "body": reply.body}


@dataclass(slots=True)
class LocalRoutes:
    """State shared by all connections: a chat may continue over any of them."""

    engine: Callable[[], Awaitable[Engine]]
    model: Callable[[], ChatModel | None]
    model_timeout_s: float
    administration: OpenAdministration | None = None
    conversations: Conversations = field(default_factory=Conversations)

    def open(self, session: ClientSession) -> RouteLines:
        """Begin one client's connection; each request starts from the session's settings.

        Raises:
            ConfigError: the language model is only half configured.
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
