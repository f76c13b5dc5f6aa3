"""The routes over the daemon's own socket, for the Python SDK: a request a line, ``{"route": "search", "fields": {...}}``, and the reply
``{"status": 200, "body": {...}}`` with status and body as by HTTP.

Why the SDK does not speak the action loop: by its URL it meets this API, so memories, replies and errors look the same both ways, and users
and scopes are served by one connection. Who may open the socket is the owner and sees everything; there is no gate here.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from infinite_memory.contracts.agentmem.conversations import Conversations
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.table import Session
from infinite_memory.engine import Engine
from infinite_memory.errors import InvalidRequestError
from infinite_memory.model_port.base import ChatModel
from infinite_memory.rest.answering import Answer, answer, failed
from infinite_memory.rest.backend import Backend
from infinite_memory.rest.routes import ROUTES
from infinite_memory.rest.tokens import OWNER, Grant

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
            return self.refuse(InvalidRequestError.wrong("route", name, f"one of {', '.join(_ROUTES)}"))

        async def read() -> Json:
            if not isinstance(fields, dict):
                raise InvalidRequestError.wrong("fields", fields, "an object")
            return fields

        return _line(await answer(self.backend, route, Grant(OWNER), read))

    def refuse(self, problem: InvalidRequestError) -> Json:
        """Answer a line that is no request."""
        return _line(failed(problem))


def _line(reply: Answer) -> Json:
    return {"status": reply.status, "body": reply.body}


@dataclass(slots=True)
class LocalRoutes:
    """What all connections share: a chat may go on over any of them."""

    engine: Callable[[], Awaitable[Engine]]
    model: Callable[[], ChatModel | None]
    model_timeout_s: float
    conversations: Conversations = field(default_factory=Conversations)

    def open(self, session: Session) -> RouteLines:
        """Begin one client's connection; each request gets the session's settings anew.

        Raises:
            ConfigError: half of what the language model needs is missing.
        """
        return RouteLines(
            Backend(self.engine, lambda: copy.copy(session), self.model(), self.model_timeout_s, self.conversations)
        )
