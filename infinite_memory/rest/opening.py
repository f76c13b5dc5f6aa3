"""Makes the gate and the API from what the daemon hands in. Imports FastAPI: only `web.server` imports this, in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from infinite_memory.engine import Engine
from infinite_memory.rest.app import RestApp
from infinite_memory.rest.backend import Backend
from infinite_memory.rest.gate import Gate
from infinite_memory.rest.parts import RestParts
from infinite_memory.store.tokens import Tokens


def open_gate(owner_token: str, parts: RestParts | None, rate: str | None) -> Gate:
    """Make what checks tokens; without *parts* it knows the owner's only."""
    return Gate(owner_token, None if parts is None else _tokens_of(parts.engine), rate)


def open_rest(gate: Gate, parts: RestParts, *, body_bytes: int) -> RestApp:
    """Make the API."""
    backend = Backend(parts.engine, parts.new_session, parts.model(), parts.model_timeout_s)
    return RestApp(backend, gate, parts.built, body_bytes=body_bytes)


def _tokens_of(engine: Callable[[], Awaitable[Engine]]) -> Callable[[], Awaitable[Tokens]]:
    async def tokens() -> Tokens:
        return await (await engine()).tokens()

    return tokens
