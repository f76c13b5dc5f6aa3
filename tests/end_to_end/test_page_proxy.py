"""The page behind a reverse proxy with TLS: a person logs in and works there, and nobody else's word about the address counts."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser import get_login, launched, window
from tests.processes import LONG, Installation, need_parts
from tests.tls_proxy import TlsProxy

FORBIDDEN = "behind a proxy that needs http.origins and http.trusted_proxies"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsProxy]:
    started = TlsProxy(tmp_path_factory.mktemp("tls"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, proxy: TlsProxy) -> Iterator[Installation]:
    """A home whose page is seen through the proxy, which asks by the Unix socket."""
    need_parts()
    settings = {
        "INFINITE_MEMORY_HTTP__PORT": "0",
        "INFINITE_MEMORY_EMBEDDING__PREPARE": "false",
        "INFINITE_MEMORY_HTTP__ORIGINS": f"{proxy.url}, https://else.localhost",
        "INFINITE_MEMORY_HTTP__TRUSTED_PROXIES": "unix",
    }
    with Installation(tmp_path_factory.mktemp("page") / "home", settings, is_stopped=LONG) as installation:
        assert installation.command("daemon", "start").returncode == 0
        proxy.target = installation.status()["http"]["socket"]
        yield installation


def test_a_person_logs_in_and_edits_through_a_proxy_with_tls(home: Installation, proxy: TlsProxy) -> None:
    memory_id = home.call("store_memory", content="The boiler is serviced in Mai")["memory_id"]
    with launched() as browser, window(browser, f"{proxy.url}/", ignore_https_errors=True) as person:
        page = person.log_in(get_login(home)[1])
        [cookie] = person.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        person.open(f"/page/memories/{memory_id}/edit")
        page.get_by_label("Text", exact=True).fill("The boiler is serviced in May")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The boiler is serviced in May").first).to_be_visible()
    assert home.call("get_memory", memory_id=memory_id)["memory"]["text"] == "The boiler is serviced in May"


def test_what_a_forged_header_says_is_not_believed(home: Installation, proxy: TlsProxy) -> None:
    """From the port, where every program of this machine comes from; and from the proxy about an origin that nobody named."""
    url, code = get_login(home)
    told = {"Origin": proxy.url, "X-Forwarded-Proto": "https", "X-Forwarded-Host": proxy.host}
    with httpx2.Client(base_url=url, timeout=60) as web:
        refused = web.post("/page/login", data={"token": code}, headers=told)
        assert (refused.status_code, FORBIDDEN in refused.text) == (403, True)
        assert "set-cookie" not in refused.headers
        unnamed = {"Origin": "https://evil.example", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}
        assert (
            web.post("/page/login", data={"token": code}, headers=unnamed)
            .json()["error"]["message"]
            .endswith("that may")
        )
    transport = httpx2.HTTPTransport(uds=home.status()["http"]["socket"])
    with httpx2.Client(base_url=url, timeout=60, transport=transport) as web:
        for other in (
            {**told, "Origin": "https://else.localhost"},  # may call the API, and is not where this page is
            {**told, "X-Forwarded-Host": "evil.example"},
            {**told, "X-Forwarded-Proto": "http"},
            {**told, "X-Forwarded-Host": f"{proxy.host}, evil.example"},
            {**told, "Sec-Fetch-Site": "cross-site"},
            {"Origin": proxy.url},
        ):
            assert web.post("/page/login", data={"token": code}, headers=other).status_code == 403, other
        assert web.post("/page/login", data={"token": code}, headers={**told, "Host": proxy.host}).status_code == 421
        done = web.post(
            "/page/login", data={"token": code}, headers={**told, "X-Forwarded-Host": f"evil, {proxy.host}"}
        )
        assert done.status_code == 303
        assert "secure" in done.headers["set-cookie"].lower()


def test_without_a_proxy_the_page_is_as_it_was(home: Installation) -> None:
    url, code = get_login(home)
    with httpx2.Client(base_url=url, timeout=60) as web:
        done = web.post("/page/login", data={"token": code}, headers={"Origin": url.rstrip("/")})
        assert done.status_code == 303
        assert "secure" not in done.headers["set-cookie"].lower()
