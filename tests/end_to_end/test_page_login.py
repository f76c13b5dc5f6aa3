"""Who comes in to the page: one-time codes, tokens and what they are bound to, and what other web pages cannot do."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from infinite_memory.transports.http.page.app import MAX_STREAMS
from infinite_memory.transports.http.page.live import RECHECK_S
from tests.browser import Window, get_login, window
from tests.http_client import make_token
from tests.page_fixtures import browser, home, login, memory, person, store
from tests.processes import Client, Installation, need_parts, until

__all__ = ["browser", "home", "login", "memory", "person", "store"]


@pytest.fixture
def web(home: Installation) -> Iterator[httpx2.Client]:
    """A client that is no browser."""
    with httpx2.Client(base_url=get_login(home)[0], timeout=60) as client:
        yield client


def log_in(home: Installation, web: httpx2.Client) -> str:
    """Log in without a browser; returns the session's CSRF token."""
    origin = str(web.base_url).rstrip("/")
    code = get_login(home)[1]
    done = web.post("/page/login", data={"token": code}, headers={"Origin": origin})
    assert done.status_code == 303, done.text
    return web.get("/page/csrf").text


def test_a_cookie_that_nobody_set_is_read_at_once(home: Installation, web: httpx2.Client) -> None:
    """The standard library's reader of quoted cookies takes seconds for this one; `Installation` fails where the loop was held."""
    name = f"im_session_{web.base_url.port}"
    quoted = '"' + "\\\\" * 25_000 + '"'
    assert web.get("/", headers={"Cookie": f"{name}={quoted}"}).status_code == 303
    assert web.get("/", headers={"Cookie": f"other=1; {name}"}).status_code == 303


def test_large_forms_hold_nobody_up(home: Installation, web: httpx2.Client) -> None:
    csrf = log_in(home, web)
    origin = str(web.base_url).rstrip("/")
    headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
    for body in (
        b"a=" + b"%41" * 1_300_000,
        b"a=" + b"%0d%0a" * 600_000,
        b"a=" + b"x" * 3_000_000 + b"&a=1" * 1900,
    ):
        assert web.post("/page/undo", content=body, headers=headers).status_code == 403  # it lacks the CSRF token
    assert web.post("/page/undo", content=b"a=" + b"x" * 5_000_000, headers=headers).status_code == 400
    assert csrf


def test_one_token_cannot_take_all_connections_for_live_streams(home: Installation, web: httpx2.Client) -> None:
    log_in(home, web)
    with contextlib.ExitStack() as open_streams:
        for _ in range(MAX_STREAMS):
            stream = open_streams.enter_context(web.stream("GET", "/page/live"))
            assert stream.status_code == 200
        with web.stream("GET", "/page/live") as refused:
            assert refused.status_code == 429
        assert web.get("/page/csrf").status_code == 200
    until(lambda: _may_stream(web), "the streams that were closed count no more")


def test_a_bound_token_does_not_hear_when_others_are_written(home: Installation, memory: Client) -> None:
    """Neither as an event nor by the beat of the stream: every foreign write would move it."""
    first = memory.ask("store_memory", content="a note that is seen", scope="Seen")["memory_id"]
    memory.ask("store_memory", content="a note that is not", scope="Unseen")
    origin = get_login(home)[0].rstrip("/")
    with httpx2.Client(base_url=origin, timeout=60) as web:
        token = make_token(home, web, "--name", "bound", "--scope", "Seen", "--read-only").token
        assert web.post("/page/login", data={"token": token}, headers={"Origin": origin}).status_code == 303
        with web.stream("GET", "/page/live") as stream:
            lines = stream.iter_lines()
            while next(lines) != "data: {}":
                pass
            begun, beats = time.monotonic(), 0
            for number in range(12):
                memory.ask("store_memory", content=f"secret {number}", scope="Unseen")
                time.sleep(0.3)
            seen = memory.ask("store_memory", content="the last one is seen", scope="Seen")["memory_id"]
            for line in lines:
                beats += line == ": alive"
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    if event == {"memory_ids": [first], "scopes": False}:
                        continue  # told late, on a busy machine after the stream was opened
                    assert event == {"memory_ids": [seen], "scopes": False}
                    break
            assert beats <= (time.monotonic() - begun) / RECHECK_S


def _may_stream(web: httpx2.Client) -> bool:
    with web.stream("GET", "/page/live") as stream:
        return stream.status_code == 200


def test_open_starts_a_browser_logged_in_and_shows_nobody_its_code(tmp_path: Path, browser: Browser) -> None:
    need_parts()
    seen = tmp_path / "seen"
    starter = tmp_path / "browser"
    starter.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    starter.chmod(0o755)
    with Installation(tmp_path / "home", {"BROWSER": f"{starter} %s"}) as home:  # HTTP is off
        home.home.mkdir(mode=0o700, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as neighbour:  # has the port of last time now
            (home.home / "page.port").write_text(f"{neighbour.getsockname()[1]}\n")
            done = home.command("open")
        assert done.returncode == 0, done.stderr
        url = done.stdout.split()[0]
        assert url == f"http://127.0.0.1:{(home.home / 'page.port').read_text().strip()}/"
        until(seen.exists, "the browser was started")
        address = seen.read_text().strip()
        assert address == (tmp_path / "home" / "open.html").as_uri()
        assert (tmp_path / "home" / "open.html").stat().st_mode & 0o777 == 0o600
        with window(browser, url) as opened:
            opened.page.goto(address)
            expect(opened.page.get_by_role("heading", level=1, name="Search")).to_be_visible()
            assert opened.page.url == url
            [cookie] = opened.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        with window(browser, url) as other:  # the code is spent
            other.page.goto(address)
            expect(other.page.get_by_text("the code was used or is too old")).to_be_visible()
        assert home.status()["http"]["url"] + "/" == url

        assert home.command("daemon", "stop").returncode == 0
        assert get_login(home)[0] == url, "a tab that was open goes on"


def test_a_code_opens_once_and_a_wrong_one_never(home: Installation, browser: Browser) -> None:
    url, code = get_login(home)
    with window(browser, url) as opened:
        opened.log_in(code)
        opened.page.get_by_role("button", name="Log out").click()
        expect(opened.page.get_by_role("button", name="Log in")).to_be_visible()
        opened.page.get_by_label("Token, or a code").fill(code)
        opened.page.get_by_role("button", name="Log in").click()
        expect(opened.page.get_by_role("alert")).to_contain_text("no token and no code")
        opened.check_accessible()
        opened.open("/")
        expect(opened.page.get_by_role("button", name="Log in")).to_be_visible()


def test_without_a_login_nothing_is_shown(home: Installation, web: httpx2.Client) -> None:
    for path in ("/", "/page/scopes", "/page/health", "/page/memories/0123456789abcdef01234567", "/page/tokens"):
        reply = web.get(path)
        assert (reply.status_code, reply.headers["location"].split("?")[0]) == (303, "/page/login"), path
    for path in ("/page/live", "/page/csrf"):
        assert web.get(path, headers={"HX-Request": "true"}).status_code == 401


def test_after_a_login_one_comes_to_the_view_that_was_asked_for_and_to_no_other_host(
    home: Installation, browser: Browser
) -> None:
    url, code = get_login(home)
    with window(browser, url) as opened:
        opened.open("/page/scopes")
        opened.page.get_by_label("Token, or a code").fill(code)
        opened.page.get_by_role("button", name="Log in").click()
        expect(opened.page).to_have_url(re.compile("/page/scopes$"))
    for hostile in ("https://evil.example/", "//evil.example/", "/\\evil.example", "/page/../..//evil"):
        with httpx2.Client(base_url=url) as web:
            reply = web.post("/page/login", data={"token": get_login(home)[1], "next": hostile},
                             headers={"Origin": url.rstrip("/")})  # fmt: skip
            assert reply.headers["location"] in ("/", "/page/../..//evil"), hostile


def test_every_answer_has_a_strict_policy(home: Installation, web: httpx2.Client) -> None:
    log_in(home, web)
    for path in ("/", "/page/login", "/page/nothing", "/page/static/page.css", "/page/search?q=tea"):
        headers = web.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    text = web.get("/").text
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", text)


def test_no_other_page_changes_anything(home: Installation, web: httpx2.Client, store: Callable[..., str]) -> None:
    memory_id = store("The treasure is buried here")
    csrf, own = log_in(home, web), str(web.base_url).rstrip("/")
    path, form = f"/page/memories/{memory_id}/forget", {"mode": "soft", "csrf": csrf}
    port = int(own.rpartition(":")[2])
    for headers in (
        {}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": f"http://127.0.0.1:{port + 1}"},
        {"Origin": own, "Sec-Fetch-Site": "cross-site"}, {"Origin": own, "Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert web.post(path, data=form, headers=headers).status_code == 403, headers
    assert web.post(path, data={"mode": "soft"}, headers={"Origin": own}).status_code == 403
    assert web.post(path, data=form | {"csrf": "x" * len(csrf)}, headers={"Origin": own}).status_code == 403
    rebound = {"Origin": "http://evil.example", "Host": "evil.example"}
    assert web.post(path, data=form, headers=rebound).status_code == 421
    read = web.get("/page/search?q=treasure", headers={"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"})
    assert read.status_code == 403
    assert "treasure" not in read.text
    assert home.call("get_memory", memory_id=memory_id)["status"] == "OK"
    assert web.post(path, data=form, headers={"Origin": own}).status_code == 303


def test_a_page_of_another_port_reads_and_changes_nothing_in_a_real_browser(
    home: Installation, person: Window, store: Callable[..., str]
) -> None:
    memory_id = store("The secret of the other port")
    other = person.context.new_page()
    other.route(
        "http://127.0.0.1:1/**", lambda route: route.fulfill(body="<!doctype html><p>evil", content_type="text/html")
    )
    other.goto("http://127.0.0.1:1/")
    said = other.evaluate(
        """async ([url, id]) => {
          const tried = [];
          const read = async (path, options) => {
            try { tried.push(await (await fetch(url + path, { credentials: "include", ...options })).text()); }
            catch (error) { tried.push("refused"); }
          };
          await read("page/search?q=secret");
          await read("page/csrf");
          await read(`page/memories/${id}/forget`, { method: "POST", body: "mode=soft" });
          return tried.join(" ");
        }""",
        [person.url, memory_id],
    )  # fmt: skip
    assert "secret of" not in said
    assert home.call("get_memory", memory_id=memory_id)["status"] == "OK"
    other.close()


def test_a_token_that_is_revoked_ends_its_session_and_nothing_typed_is_lost(
    home: Installation, web: httpx2.Client, browser: Browser, store: Callable[..., str]
) -> None:
    memory_id = store("A text that is being changed")
    token = make_token(home, web, "--name", "short-lived").token
    assert token is not None
    with window(browser, str(web.base_url)) as opened:
        opened.log_in(token)
        opened.open(f"/page/memories/{memory_id}/edit")
        opened.page.get_by_label("Text").fill("A long text, typed with care")
        assert home.command("tokens", "revoke", token).returncode == 0
        opened.page.get_by_role("button", name="Save").click()
        expect(opened.page.locator("#connection")).to_contain_text("Your login has ended")
        expect(opened.page.get_by_label("Text")).to_have_value("A long text, typed with care")
        second = opened.context.new_page()
        second.goto(opened.url + "page/login")
        second.get_by_label("Token, or a code").fill(get_login(home)[1])
        second.get_by_role("button", name="Log in").click()
        expect(second.get_by_role("heading", name="Search")).to_be_visible()
        second.close()
        opened.page.bring_to_front()
        opened.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(opened.page.locator("#connection")).to_be_hidden()
        opened.page.get_by_role("button", name="Save").click()
        expect(opened.page.get_by_text("Saved.")).to_be_visible()
        expect(opened.page.locator(".text.whole")).to_have_text("A long text, typed with care")


def test_a_bound_token_sees_its_scope_alone_in_every_view(
    home: Installation, web: httpx2.Client, browser: Browser, store: Callable[..., str]
) -> None:
    hidden = store("The quetzal sleeps in the vault", scope="Vault", tags=["quetzal"])
    own = store("The desk lamp is green", scope="Desk")
    token = make_token(home, web, "--scope", "Desk").token
    assert token is not None
    with window(browser, str(web.base_url)) as opened:
        page = opened.log_in(token)
        page.get_by_role("searchbox").fill("where does the quetzal sleep")
        expect(page.locator("#results")).to_contain_text("desk lamp")
        for path in ("/", "/page/search?q=quetzal", "/?scope=Vault&q=quetzal", "/?tags=quetzal", "/page/scopes", "/page/timeline",
                     f"/page/memories/{hidden}", f"/page/memories/{hidden}/edit", f"/page/memories/{hidden}/forget",
                     f"/page/memories/{hidden}/move", f"/page/why?q=quetzal&id={hidden}", "/page/forget?tag=quetzal",
                     "/page/backups", "/page/tokens", "/page/health", "/page/duplicates", "/page/import"):  # fmt: skip
            opened.open(path)
            said = page.locator("body").inner_text()
            assert "sleeps in the vault" not in said, path
            assert "Vault" not in said or "scope=Vault" in path, path
        opened.open(f"/page/memories/{own}")
        expect(page.get_by_role("link", name="Edit")).to_be_visible()
        views = ["Search", "Timeline", "Scopes", "Forgotten"]
        assert page.get_by_role("navigation").get_by_role("link").all_inner_texts() == views


def test_a_bound_or_reading_token_reaches_no_form_that_it_may_not_send(home: Installation, web: httpx2.Client) -> None:
    from infinite_memory.transports.http.api.routes import Audience
    from infinite_memory.transports.http.page.app import PageApp
    from infinite_memory.transports.http.page.routing import ROUTES

    assert PageApp
    own = str(web.base_url).rstrip("/")
    reader = make_token(home, web, "--read-only").token
    bound = make_token(home, web, "--scope", "Desk").token
    for token, refuses in (
        (reader, lambda route: route.writes),
        (bound, lambda route: route.audience is Audience.FULL),
    ):
        with httpx2.Client(base_url=own, timeout=60) as client:
            assert client.post("/page/login", data={"token": token}, headers={"Origin": own}).status_code == 303
            csrf = client.get("/page/csrf").text
            tried = 0
            for route in filter(refuses, ROUTES):
                path = re.sub(r"\{\w+\}", "0123456789abcdef01234567", route.path)
                sent = {"data": {"csrf": csrf}} if route.method == "POST" else {}
                reply = client.request(route.method, path, headers={"Origin": own}, **sent)
                assert reply.status_code == 403, (route.method, path)
                tried += 1
            assert tried > 5


def test_a_token_of_users_shows_their_memories_alone(home: Installation, web: httpx2.Client, browser: Browser) -> None:
    alice, bob = make_token(home, web, "--user", "alice"), make_token(home, web, "--user", "bob")
    both = make_token(home, web, "--user", "alice", "--user", "bob").token
    alice.post("memories", content="Alice grows orchids")
    bob.post("memories", content="Bob repairs clocks")
    assert alice.token is not None
    assert both is not None
    with window(browser, str(web.base_url)) as opened:
        page = opened.log_in(alice.token)
        expect(page.locator("#results")).to_contain_text("orchids")
        expect(page.locator("#results")).not_to_contain_text("clocks")
    with window(browser, str(web.base_url)) as opened:
        page = opened.log_in(both)
        expect(page.locator("#results")).to_contain_text("orchids")
        page.get_by_label("Memories of").select_option("bob")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#results")).to_contain_text("clocks")
        expect(page.locator("#results")).not_to_contain_text("orchids")


def test_the_parts_of_others_are_those_that_the_manifest_names() -> None:
    import hashlib

    from infinite_memory.transports.http.page.rendering import Assets

    folder = Assets().folder / "static" / "vendor"
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    named = {"manifest.json"}
    for part in manifest["parts"]:
        named |= {*part["files"], part["licence_file"]}
        for file, digest in part["files"].items():
            assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file
    assert named == {file.name for file in folder.iterdir()}
