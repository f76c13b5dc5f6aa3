"""Makes the page from what the server hands in. Imports Jinja2 and Starlette: only the first request for the page imports this."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.services import RestParts
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page.app import PageApp
from infinite_memory.transports.http.page.services import PageServices
from infinite_memory.transports.http.page.sessions import PageSessions


def open_page(
    gate: Authenticator, parts: RestParts, services: PageServices, sessions: PageSessions, owner: OwnerToken,
    tokens_changed: Callable[[], None], stopping: asyncio.Event, *, port: int, body_bytes: int,
) -> PageApp:  # fmt: skip
    """Make the page."""
    backend = Backend(parts.engine, parts.new_session, None, parts.model_timeout_s, administration=parts.administration)
    app = PageApp(gate, backend, sessions, services, owner, tokens_changed, stopping, port, body_bytes)
    len(app.assets.files)  # read now, in the thread that imports all of this
    return app
