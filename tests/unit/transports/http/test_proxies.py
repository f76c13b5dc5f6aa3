"""Whose word counts about the address at which a browser sees the page: none by default, then the addresses that are named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infinite_memory.config import load_config
from infinite_memory.errors import ConfigError
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.connections import OWN_SOCKET
from infinite_memory.transports.http.proxies import TrustedProxies

ORIGIN = "https://memory.example.org"


def request(client: str | None, proto: str = "https", host: str = "memory.example.org") -> dict[str, Any]:
    """Make a request's scope as the server does; *client* None is one by the Unix socket."""
    headers = [(b"x-forwarded-proto", proto.encode()), (b"x-forwarded-host", host.encode())]
    connection = SimpleNamespace(token_id=OWN_SOCKET if client is None else "owner")
    return {"headers": headers, "client": client and (client, 4711), "infinite_memory.connection": connection}


@pytest.mark.parametrize(
    ("trusted", "client", "is_believed"),
    [
        ("", "127.0.0.1", False),
        ("", None, False),
        ("unix", None, True),
        ("unix", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", None, False),
        ("127.0.0.9, unix", "127.0.0.1", False),
        ("127.0.0.9, unix", "127.0.0.9", True),
    ],
)
def test_only_who_is_named_is_believed(trusted: str, client: str | None, is_believed: bool) -> None:
    proxies = TrustedProxies(HttpSettings(origins=f"https://a.example, {ORIGIN}", trusted_proxies=trusted))
    assert proxies.find_origin(request(client)) == (ORIGIN if is_believed else None)


@pytest.mark.parametrize(
    ("proto", "host"),
    [("http", "memory.example.org"), ("https", "evil.example"), ("https", ""), ("", "memory.example.org"),
     ("https", "memory.example.org/x"), ("https://memory.example.org", ""), ("https", "memory.example.org, evil.example")],
)  # fmt: skip
def test_an_origin_that_nobody_named_is_not_the_pages(proto: str, host: str) -> None:
    proxies = TrustedProxies(HttpSettings(origins=ORIGIN, trusted_proxies="unix"))
    assert proxies.find_origin(request(None, proto, host)) is None
    assert proxies.find_origin(request(None, "http, https", "evil.example, Memory.example.org")) == ORIGIN


def test_an_address_that_can_be_no_peer_is_refused(tmp_path: Any) -> None:
    for wrong in ("10.0.0.1", "*", "127.0.0.0/8", "unix 127.0.0.1", "localhost", "unix,"):
        with pytest.raises(ConfigError, match=r"http\.trusted_proxies.*unix \(connections over the Unix socket\)"):
            load_config(tmp_path / "none.toml", {"INFINITE_MEMORY_HTTP__TRUSTED_PROXIES": wrong}, {})
