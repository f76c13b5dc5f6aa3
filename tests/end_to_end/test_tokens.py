"""Tokens over their life: replaced at once, and bound to scopes themselves, whatever these are called."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.transports.http.api.auth import REFRESH_S
from infinite_memory.transports.http.mcp import SESSIONS_OF_TOKEN
from infinite_memory.transports.http.server import RECHECK_S
from tests.http_client import Api, make_token, owner, refused, serving
from tests.processes import LONG, Installation, need_parts, stopped

BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home with HTTP on, where a token has two places for its requests."""
    need_parts()
    path = tmp_path_factory.mktemp("tokens") / "home"
    with Installation(
        path, {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_HTTP__CONCURRENT": "2"}, is_stopped=LONG
    ) as one:
        yield one


@pytest.fixture(scope="module")
def api(home: Installation) -> Iterator[Api]:
    with serving(home) as web:
        yield owner(home, web)


def listed(home: Installation) -> dict[str, dict[str, Any]]:
    """List the tokens by what they are for."""
    tokens = json.loads(home.command("tokens", "list", "--json").stdout)["tokens"]
    return {token["name"]: token for token in tokens}


def rotate(home: Installation, *names: str) -> str:
    """Replace a token; gives the new one."""
    done = home.command("tokens", "rotate", "--json", *names)
    assert done.returncode == 0, done.stderr
    token: str = json.loads(done.stdout)["token"]
    return token


@pytest.mark.parametrize("whose", ["made", "the owner's"])
def test_a_rotated_token_is_replaced_at_once_and_its_streams_end(home: Installation, api: Api, whose: str) -> None:
    old = make_token(home, api.web, "--name", "lamp") if whose == "made" else owner(home, api.web)
    answer = old.ask("POST", "/mcp", BEGIN, None, Accept="application/json, text/event-stream")
    headers = {
        "Authorization": f"Bearer {old.token}", "Accept": "text/event-stream",
        "Mcp-Session-Id": answer.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18",
    }  # fmt: skip
    with api.web.stream("GET", "/mcp", headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        fresh = rotate(home, *([listed(home)["lamp"]["token_id"]] if whose == "made" else []))
        began = time.monotonic()
        for _ in stream.iter_bytes():
            pass
        assert time.monotonic() - began < RECHECK_S
    assert fresh != old.token
    assert refused(old.ask("GET", "stats"))[0] == 401
    assert Api(api.web, fresh).get("stats")
    if whose == "made":
        assert listed(home)["lamp"]["token_id"] in fresh
    else:
        assert owner(home, api.web).token == fresh


def test_a_token_that_is_not_there_is_not_rotated(home: Installation, api: Api) -> None:
    done = home.command("tokens", "rotate", "0123456789ab")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no token" in done.stderr


def test_renaming_a_scope_takes_no_token_from_it_and_hands_it_to_none(home: Installation, api: Api) -> None:
    root = owner(home, api.web)
    desk, vault = (make_token(home, api.web, "--name", f"for {one}", "--scope", one) for one in ("Desk", "Vault"))
    desk.post("memories", content="the lamp is on the desk")
    vault.post("memories", content="the gold is in the vault")
    for old, new in (("Vault", "Old vault"), ("Desk", "Vault"), ("Old vault", "Desk")):  # the names change places
        assert home.command("scopes", "rename", old, new).returncode == 0
    assert [one["content"] for one in desk.get("memories")["memories"]] == ["the lamp is on the desk"]
    assert [one["content"] for one in vault.get("memories")["memories"]] == ["the gold is in the vault"]
    assert refused(desk.ask("GET", "memories", query={"scope": "Desk"}))[:2] == (404, "SCOPE_NOT_FOUND")
    assert [one["scope_name"] for one in desk.get("scopes")["scopes"]] == ["Vault"]
    assert desk.post("memories", content="a pen")["scope"] == "Vault"
    assert desk.get("memories", scope="vault")["total"] == 2
    assert (listed(home)["for Desk"]["scopes"], listed(home)["for Vault"]["scopes"]) == (["Vault"], ["Desk"])
    assert "scope Vault" in home.command("tokens", "list").stdout
    assert root.get("memories", scope="Vault")["total"] == 2


@pytest.mark.parametrize("ending", ["deleted", "merged"])
def test_a_token_whose_scope_is_gone_opens_nothing_whatever_takes_its_name(
    home: Installation, api: Api, ending: str
) -> None:
    root, name = owner(home, api.web), f"Shelf {ending}"
    shelf = make_token(home, api.web, "--name", name, "--scope", name)
    book = shelf.post("memories", content=f"the book is on the shelf, {ending}")
    if ending == "deleted":
        reply = home.call("delete_memory", target={"scope": name}, forget_mode="hard")
        assert reply["status"] == "OK", reply
    else:
        assert home.command("scopes", "create", "Target").returncode == 0
        done = home.command("scopes", "merge", name, "Target", "--yes")
        assert done.returncode == 0, done.stderr
    root.post("memories", content="nothing of theirs", scope=name)  # another scope of that name
    refusals = [
        shelf.ask("GET", "memories"), shelf.ask("GET", "scopes"), shelf.ask("GET", "stats"),
        shelf.ask("GET", f"memories/{book['memory_id']}"), shelf.ask("POST", "memories", {"content": "x"}),
        shelf.ask("POST", "search", {"query": "theirs", "scope": name}),
        shelf.ask("DELETE", "memories", query={"scope": name}),
    ]  # fmt: skip
    assert {refused(refusal)[:2] for refusal in refusals} == {(403, "FORBIDDEN")}
    assert root.get("memories", scope=name)["total"] == 1
    assert (listed(home)[name]["scopes"], listed(home)[name]["missing_scopes"]) == ([], 1)
    assert "everything" not in next(line for line in home.command("tokens", "list").stdout.splitlines() if name in line)


def test_one_token_with_many_requests_keeps_no_other_waiting(home: Installation, api: Api) -> None:
    busy, other = make_token(home, api.web), make_token(home, api.web)
    with ThreadPoolExecutor(12) as threads:
        asked = [
            threads.submit(busy.ask, "POST", "memories", {"content": f"{number} " + "long text " * 40, "scope": "Busy"})
            for number in range(12)
        ]
        assert other.get("stats")
        statuses = sorted(one.result().status_code for one in asked)
    assert set(statuses) <= {201, 429}
    assert statuses.count(201) >= 10, "two are worked on and eight may wait"


def test_what_needs_no_token_reads_no_body_and_tells_no_version(home: Installation, api: Api) -> None:
    version = home.status()["version"]
    nobody = Api(api.web, None)
    for path in ("/healthz", "/openapi.json", "/docs"):
        assert refused(nobody.ask("POST", path, {"x": "y" * 100_000}))[:2] == (405, "METHOD_NOT_ALLOWED")
        reply = nobody.ask("GET", path)
        assert reply.status_code == 200
        assert f'"{version}"' not in reply.text
        assert "set-cookie" not in reply.headers
        assert "server" not in reply.headers
    for path in (
        "/nothing",
        "/api/v1/nothing",
        "/api/v1/memories/0123456789abcdef01234567",
        "/metrics",
        "/mcp/nothing",
    ):
        assert refused(nobody.ask("GET", path))[:2] == (401, "AUTHENTICATION_FAILED"), path


def test_very_many_query_parameters_are_refused(api: Api, home: Installation) -> None:
    root = owner(home, api.web)
    assert refused(root.ask("GET", "memories?" + "&".join(f"a{number}=1" for number in range(3000))))[0] == 400


def test_the_daemons_own_file_is_read_again_when_a_user_removes_it(home: Installation, api: Api) -> None:
    old = owner(home, api.web)
    file = Path(home.status()["http"]["token_file"])
    file.unlink()
    assert refused(old.ask("GET", "stats"))[0] == 401
    assert owner(home, api.web).get("stats")


def test_a_token_that_opens_very_many_sessions_ends_its_own(home: Installation, api: Api) -> None:
    accept = {"Accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    def begin(token: Api) -> str:
        answer = token.ask("POST", "/mcp", BEGIN, None, **accept)
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    def is_open(token: Api, session: str) -> bool:
        about = accept | {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
        status: int = token.ask("POST", "/mcp", ping, None, **about).status_code
        assert status in (200, 404)
        return status == 200

    greedy, other = (make_token(home, api.web, "--name", name) for name in ("greedy", "other"))
    kept, first, second = begin(other), begin(greedy), begin(greedy)
    assert not is_open(other, first)  # the session of another token
    assert is_open(greedy, first)  # and so the second is the one that was not used for longest
    for _ in range(SESSIONS_OF_TOKEN - 1):
        begin(greedy)
    assert (is_open(greedy, first), is_open(greedy, second), is_open(other, kept)) == (True, False, True)


def test_who_is_not_known_learns_nothing_of_a_database_that_is_away(tmp_path: Path) -> None:
    need_parts()
    environ = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_MONGODB__TIMEOUT_S": "2"}
    with Installation(tmp_path / "home", environ) as home, serving(home) as web:
        bound = make_token(home, web, "--name", "narrow", "--scope", "Global")
        assert bound.ask("GET", "memories").status_code == 200
        stranger = Api(web, "im_000000000000_" + "a" * 43)
        asked = [
            lambda: stranger.ask("GET", "memories"),
            lambda: stranger.ask("POST", "/mcp", BEGIN, None, Accept="application/json, text/event-stream"),
            lambda: web.get("/api/v1/proof", params={"token_id": "0" * 12, "nonce": "0" * 64}),
            lambda: bound.ask("GET", "memories"),
        ]
        mongod = home.mongod_pid()
        assert mongod is not None
        with stopped(mongod), ThreadPoolExecutor(len(asked)) as pool:
            time.sleep(REFRESH_S)  # a table of tokens that was read just now is good for so long
            answers = list(pool.map(lambda ask: ask(), asked))
        for answer in answers:
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "STORE_UNAVAILABLE"
            assert str(home.home) not in answer.text
            assert "mongod" not in answer.text.casefold()
