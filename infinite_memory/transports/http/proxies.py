"""At which address a browser sees the page when a reverse proxy stands before it, told by whom that may be believed.

Forms are taken from the page's own origin alone. Behind a proxy with TLS that is another one than the daemon's, which only
``X-Forwarded-Proto`` and ``X-Forwarded-Host`` tell, and anybody can write those. So they count where two settings agree: the connection
comes from an address of ``http.trusted_proxies`` (none by default), and ``http.origins`` names the origin that they tell. Of several values
the last counts, which the nearest proxy wrote.

Why ``unix`` is the address to prefer: every program of every user of this machine connects from 127.0.0.1, while the Unix socket is
opened by this user and root alone.
"""

from __future__ import annotations

from infinite_memory.settings import HttpSettings, split_list
from infinite_memory.transports.http.asgi import Scope, get_headers
from infinite_memory.transports.http.connections import is_own_socket

UNIX = "unix"  # in the setting: connections over the Unix socket
PROTO, HOST = "x-forwarded-proto", "x-forwarded-host"


class TrustedProxies:
    """The proxies that are believed by the settings."""

    def __init__(self, settings: HttpSettings) -> None:
        self._addresses = frozenset(split_list(settings.trusted_proxies))
        self._origins = frozenset(origin.lower() for origin in settings.named_origins)

    def find_origin(self, scope: Scope) -> str | None:
        """Return the origin at which the browser of a request sees the page; None where no proxy that is believed tells one."""
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
