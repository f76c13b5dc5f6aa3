"""The origin at which a browser sees the page behind a reverse proxy, and which proxies are trusted to name it.

Forms are accepted from the page's own origin only. Behind a TLS proxy that differs from the daemon's, and only
``X-Forwarded-Proto`` and ``X-Forwarded-Host`` name it, which anybody can send. So they count only if two settings agree: the connection
comes from an address in ``http.trusted_proxies`` (none by default), and ``http.origins`` contains the origin. Of several values
the last counts, which the nearest proxy wrote.

Why ``unix`` is the preferred address: every program of every user of this machine connects from 127.0.0.1, while the Unix socket can
only be opened by this user and root.
"""

from __future__ import annotations

from infinite_memory.settings import HttpSettings, split_list
from infinite_memory.transports.http.asgi import Scope, get_headers
from infinite_memory.transports.http.connections import is_own_socket

UNIX = "unix"  # in the setting: connections over the Unix socket
PROTO, HOST = "x-forwarded-proto", "x-forwarded-host"


class TrustedProxies:
    """The trusted proxies of the settings."""

    def __init__(self, settings: HttpSettings) -> None:
        self._addresses = frozenset(split_list(settings.trusted_proxies))
        self._origins = frozenset(origin.lower() for origin in settings.named_origins)

    def find_origin(self, scope: Scope) -> str | None:
        """Return the origin at which the browser of a request sees the page; None if no trusted proxy names it."""
        if not self._is_trusted(scope):
            return None
        headers = get_headers(scope)
        scheme, host = (headers.get(name, "").rpartition(",")[2].strip() for name in (PROTO, HOST))
        origin = f"{scheme}://{host}".lower()
        return origin if origin in self._origins else None

    def _is_trusted(self, scope: Scope) -> bool:
        if not self._addresses:
            return False
        if is_own_socket(scope):
            return UNIX in self._addresses
        client = scope.get("client")
        return client is not None and client[0] in self._addresses
