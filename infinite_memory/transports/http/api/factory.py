"""Makes the gate and the API from what the daemon hands in. Imports FastAPI: only `transports.http.server` imports this, in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from infinite_memory.engine.engine import Engine
from infinite_memory.store.api_tokens import ApiTokens
from infinite_memory.transports.http.api.app import RestApp
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.services import RestParts


def open_gate(
    owner_token: Callable[[], str], parts: RestParts | None, rate: str | None, concurrent: int
) -> Authenticator:
    """Make what checks tokens; without *parts* it knows the owner's only."""
    return Authenticator(owner_token, None if parts is None else _tokens_of(parts.engine), rate, concurrent=concurrent)


def open_rest(gate: Authenticator, parts: RestParts, *, body_bytes: int) -> RestApp:
    """Make the API."""
    backend = Backend(
        parts.engine, parts.new_session, parts.model(), parts.model_timeout_s, administration=parts.administration
    )
    return RestApp(backend, gate, parts.built, body_bytes=body_bytes)


def _tokens_of(engine: Callable[[], Awaitable[Engine]]) -> Callable[[], Awaitable[ApiTokens]]:
    async def tokens() -> ApiTokens:
        return (await engine()).tokens

    return tokens
