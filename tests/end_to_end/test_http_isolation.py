"""Nobody learns, changes or counts what is not theirs: each field of each route is tried with what belongs to somebody else.

Nothing here knows the routes: they come from the table. A route or a field that is new is tried as well, and fails as long as
`TRIES` has no value for it. A value that names something of Alice's must be answered exactly as one that names nothing.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from infinite_memory.contracts.agentmem.prompts import format_name
from infinite_memory.contracts.fields import Field
from infinite_memory.transports.http.api.app import make_api
from infinite_memory.transports.http.api.routes import ROUTES, Route
from tests.http_client import Api, Json, make_token, owner, refused, serving
from tests.model_server import model_server, openai
from tests.processes import LONG, Installation, need_parts

WORDS = ("quetzal", "obsidian", "marzipan")
"""Words that only Alice's memories hold."""

BARE = frozenset({"/healthz", "/metrics", "/openapi.json", "/docs"})
"""Addresses beside the table; they are tried by hand below."""


@dataclass(frozen=True, slots=True)
class World:
    """Alice with her memories, the one who owns it all, and two who must not see hers: by user and by scope."""

    root: Api
    alice: Api
    attackers: dict[str, Api]
    both: Api
    metrics: Api
    tries: dict[str, list[tuple[Any, Any]]]
    secrets: tuple[str, ...]

    def snapshot(self) -> list[Any]:
        """Read all that is Alice's."""
        listed = self.alice.get("memories", limit=100)
        histories = [self.alice.get(f"memories/{one['memory_id']}/history") for one in listed["memories"]]
        told = self.root.get("memories", scope="Vault", limit=100)
        stats = self.alice.get("stats")["stats"]
        every = [*listed["memories"], *told["memories"]]
        return [[{k: v for k, v in one.items() if k != "when"} for one in every], histories, stats,
                self.alice.get("agents")]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One daemon for the whole file: attackers leave Alice's memories as they are, or a test fails."""
    need_parts()
    home = tmp_path_factory.mktemp("isolation") / "home"
    with Installation(home, {"INFINITE_MEMORY_HTTP__PORT": "0"}, is_stopped=LONG) as one, serving(one) as web:
        root = owner(one, web)
        alice = make_token(one, web, "--user", "alice")
        kept = alice.post(
            "memories", content="My safe word is quetzal", agent_id="butler", run_id="run-of-alice",
            session_id="session-of-alice", org_id="org-of-alice", tags=["tag-of-alice"], memory_type="Core",
        )  # fmt: skip
        changed = alice.post("memories", content="The obsidian key is under the mat")
        alice.ask("PATCH", f"memories/{changed['memory_id']}", {"content": "The obsidian key is in the drawer"})
        hidden = alice.post("memories", content="I ate the marzipan pig")
        alice.ask("DELETE", f"memories/{hidden['memory_id']}")
        alice.post("chat", message="what is my safe word?", agent_id="butler", session_id="session-of-alice")
        alice.post("agents", agent_id="gardener-of-alice", description="looks after the quetzal")
        alice.post("memories", content="third thing, so that there is a second page")
        cursor = alice.get("memories", limit=1)["next_cursor"]
        root.post("scopes", scope_name="Vault")
        vault = root.post("memories", content="In the vault lies a quetzal", scope="Vault", tags=["tag-of-alice"])
        mallory = make_token(one, web, "--user", "mallory")
        intern = make_token(one, web, "--scope", "Desk")
        metrics = make_token(one, web, "--metrics")
        mallory.post("memories", content="I am Mallory and I like cheese")
        root.post("memories", content="The desk is made of oak", scope="Desk")
        ids = [kept["memory_id"], changed["memory_id"], hidden["memory_id"], vault["memory_id"]]
        none = "65a1f0c2e4b0a1b2c3d4e5f6"
        tries: dict[str, list[tuple[Any, Any]]] = {
            "memory_id": [(one_id, none) for one_id in ids] + [(f"mem_{ids[0]}", f"mem_{none}")],
            "user_id": [("alice", "nobody")],
            "agent_id": [("butler", "nobody"), ("gardener-of-alice", "nobody-else")],
            "run_id": [("run-of-alice", "nobody")],
            "session_id": [("session-of-alice", "nobody")],
            "org_id": [("org-of-alice", "nobody")],
            "scope": [("Vault", "Nowhere"), ("ALL", "ALL")],
            "scope_name": [("Vault", "Nowhere")],
            "tag": [("tag-of-alice", "tag-of-nobody")],
            "tags": [("tag-of-alice", "tag-of-nobody")],
            "source": [("agentmem:alice", "agentmem:nobody"), ("agentmem, superseded:alice", "agentmem:nobody")],
            "query": [("My safe word is quetzal", "My safe word is flumadiddle"), ("obsidian key", "gabbroid key")],
            "message": [("what is my safe word? quetzal", "what is my safe word? flumadiddle")],
            "content": [("My safe word is quetzal", "My safe word is flumadiddle")],
            "cursor": [(cursor, cursor)],
            "conversation_id": [("session-of-alice", "nobody")],
            "speaker": [("alice", "nobody")],
            "filter": [
                ({"scope": "Vault"}, {"scope": "Nowhere"}),
                ({"scope": "ALL", "source": "agentmem:alice"}, {"scope": "ALL", "source": "agentmem:nobody"}),
                ({"tags": ["tag-of-alice"]}, {"tags": ["tag-of-nobody"]}),
                ({"conversation_id": "session-of-alice"}, {"conversation_id": "nobody"}),
            ],
            "metadata": [
                ({"source": "agentmem:alice"}, {"source": "agentmem:nobody"}),
                ({"user_id": "alice", "owners": {"user_id": "alice"}}, {"user_id": "no-one", "owners": {"user_id": "no-one"}}),
                ({"scope": "Vault"}, {"scope": "Nowhere"}),
            ],
            # What names nobody is tried as it is.
            "type": [("Core", "Core")], "memory_type": [("Core", "Core")], "scope_type": [("user", "user")],
            "tags_mode": [("any", "any")], "time_query": [("today", "today")], "from": [("2020-01-01", "2020-01-01")],
            "to": [("2099-01-01", "2099-01-01")], "range": [({"from": "2020-01-01"}, {"from": "2020-01-01"})],
            "time_range": [({"from": "2020-01-01"}, {"from": "2020-01-01"})], "limit": [(100, 100)], "now": [(None, None)],
            "timezone": [("UTC", "UTC")], "timestamp": [("2024-01-01", "2024-01-01")], "min_importance": [(0, 0)],
            "min_confidence": [(0, 0)], "min_score": [(0, 0)], "mode": [(m, m) for m in ("semantic", "text", "fuzzy")],
            "search_type": [(m, m) for m in ("vector", "bm25", "fulltext", "fuzzy")], "max_chars": [(1000, 1000)],
            "forget_mode": [("hard", "hard")], "dry_run": [(True, True)], "include_memories": [(True, True)],
            "use_memory": [(True, True)], "max_memories": [(100, 100)], "include_preferences": [(True, True)],
            "include_history": [(True, True)], "max_context": [(100, 100)], "name": [("Butler", "Butler")],
            "description": [("x", "x")], "scheduled": [(False, False)], "before_revision": [(2, 2)],
            "forgotten": [(True, True)],
        }  # fmt: skip
        secrets = (*WORDS, *ids, "run-of-alice", "session-of-alice", "org-of-alice", "tag-of-alice", "butler", "gardener",
                   "Vault", "alice")  # fmt: skip
        both = make_token(one, web, "--user", "alice", "--user", "bob")
        yield World(root, alice, {"user": mallory, "scope": intern}, both, metrics, tries, secrets)


def fields_of(route: Route) -> list[Field]:
    """List every field of a route, wherever it stands."""
    return [*route.in_path, *route.query, *(route.body or ())]


def requests(world: World, route: Route) -> Iterator[tuple[str, Json, Json]]:
    """Give requests that name something of Alice's, each with the one that names nothing in its place."""
    least = {one.name: world.tries[one.name][0][1] for one in fields_of(route) if one.required}
    if "content" in least:
        least["content"] = "I like cheese"
    if route.name in ("search", "forget_memories"):
        least["query"] = "cheese and oak"
    for field in fields_of(route):
        for hers, nobodys in world.tries[field.name]:
            yield field.name, least | {field.name: hers}, least | {field.name: nobodys}
            yield from beside(world, route, field.name, least, hers, nobodys)


def beside(
    world: World, route: Route, name: str, least: Json, hers: Any, nobodys: Any
) -> Iterator[tuple[str, Json, Json]]:
    """Give the same request with a tag beside the field: together, fields may do more than alone."""
    tags = {one.name for one in fields_of(route)} & {"tag", "tags"} - {name}
    if tags and name != "memory_id":
        more = dict.fromkeys(tags, "plain tag")
        yield name, least | more | {name: hers}, least | more | {name: nobodys}


def send(api: Api, route: Route, values: Json) -> tuple[int, str]:
    """Send a request; give status and text."""
    if route.name == "store_memory" and values["content"] == "I like cheese":
        values = values | {"content": f"I like cheese {next(NUMBERS)}"}  # said twice, it would be met and not stored
    path = route.path.replace("{memory_id}", str(values.get("memory_id", "")))
    body = {name: value for name, value in values.items() if name in {one.name for one in route.body or ()}}
    query = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in values.items()
        if value is not None and name in {one.name for one in route.query}
    }
    reply = api.ask(route.method, path, body if route.body is not None else None, query)
    return reply.status_code, reply.text


def leaked(world: World, text: str, sent: Json) -> list[str]:
    """List what *text* tells of Alice's that was not in the request itself."""
    known = json.dumps(sent, ensure_ascii=False)
    return [secret for secret in world.secrets if secret in text and secret not in known]


def told(text: str, values: Json, name: str) -> Any:
    """Bring a reply to what it says whatever value was sent: measures, new ids and the value itself left out."""
    value = values[name]
    for one in [value] if isinstance(value, str) else [*json.dumps(value).replace('"', " ").split()]:
        if len(one) > 3:
            text = text.replace(one, "…")
            text = text.replace(one.removeprefix("mem_"), "…")
            text = text.replace(format_name(one), "…")
    text = re.sub(r"I like cheese \d+", "I like cheese", text)
    return bare(json.loads(text))


VARIES = frozenset({"memory_id", "memory_ids", "name", "timestamp", "created_at", "updated_at", "response_time_ms", "when",
                    "confidence", "relevance", "score", "context_length", "importance", "importance_score"})  # fmt: skip


NUMBERS = itertools.count(1)


def bare(value: Any) -> Any:
    """Leave out what differs from one request to the next."""
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items() if name not in VARIES}
    return [bare(one) for one in value] if isinstance(value, list) else value


ORDER = sorted(ROUTES, key=lambda route: (route.writes, route.name == "create_agent", route.name == "store_memory"))
"""Reading first, storing last: what an attacker stores differs from try to try, and would be listed."""


@pytest.mark.parametrize("who", ["user", "scope"])
@pytest.mark.parametrize("route", ORDER, ids=lambda route: route.name)
def test_a_route_tells_and_changes_nothing_of_somebody_else(world: World, route: Route, who: str) -> None:
    attacker = world.attackers[who]
    before = world.snapshot()
    for name, hers, nobodys in requests(world, route):
        status, text = send(attacker, route, hers)
        assert status < 500, (hers, text)
        assert leaked(world, text, hers) == [], (name, hers, text)
        if hers == nobodys:
            continue  # tried alone, for there is nothing to compare it with
        status_of_none, text_of_none = send(attacker, route, nobodys)
        assert (status, told(text, hers, name)) == (status_of_none, told(text_of_none, nobodys, name)), (name, hers)
    assert world.snapshot() == before


def test_every_route_that_is_served_is_tried() -> None:
    served = make_api(cast("Any", None), cast("Any", None)).routes
    found = {(method, one.path) for one in served for method in one.methods}  # type: ignore[attr-defined]
    assert found == {(one.method, one.path) for one in ROUTES} | {("GET", path) for path in BARE}


@pytest.mark.parametrize("who", ["user", "scope", "nobody"])
@pytest.mark.parametrize("path", sorted(BARE))
def test_what_stands_beside_the_table_tells_nothing_of_anybody(world: World, path: str, who: str) -> None:
    api = world.attackers.get(who) or Api(world.root.web, None)
    reply = api.ask("GET", path)
    assert reply.status_code == {"/metrics": 401 if who == "nobody" else 403}.get(path, 200)
    assert leaked(world, reply.text, {}) == []


def test_a_token_for_the_metrics_opens_no_other_address(world: World) -> None:
    scrape = world.metrics
    figures = scrape.ask("GET", "/metrics")
    assert figures.status_code == 200
    assert "infinite_memory_memories" in figures.text
    assert leaked(world, figures.text, {}) == []
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", "0123456789abcdef01234567", route.path)
        for body in (None, {}) if route.method != "GET" else (None,):
            assert refused(scrape.ask(route.method, path, body))[:2] == (403, "FORBIDDEN"), route.name
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    for path in ("/mcp", "/mcp/palace", "/metrics/", "/metrics/x", "/api/v1/metrics", "/nothing"):
        assert refused(scrape.ask("POST", path, begin))[:2] == (403, "FORBIDDEN"), path
    assert refused(scrape.ask("POST", "/metrics", {}))[0] == 405
    own = {"Origin": str(world.root.web.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    login = world.root.web.post("/page/login", data={"token": cast("str", scrape.token)}, headers=own)
    assert login.status_code == 403
    assert "set-cookie" not in login.headers


@pytest.mark.parametrize("who", ["user", "scope"])
@pytest.mark.parametrize(
    "path", ["/mcp", "/mcp/agentmem", "/mcp/laravel", "/mcp/palace", "/mcp/memory-server", "/mcp/"]
)
def test_a_token_that_is_bound_opens_no_contract_over_mcp(world: World, path: str, who: str) -> None:
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    reply = world.attackers[who].ask("POST", path, begin, Accept="application/json, text/event-stream")
    assert refused(reply) == (403, "FORBIDDEN", None)


@pytest.mark.parametrize(
    "other", ["alice", "Mallory", "mallory ", "MALLORY", "", " ", ["mallory"], {"$ne": ""}, None, 5]
)
def test_a_user_is_named_letter_for_letter(world: World, other: Any) -> None:
    reply = world.attackers["user"].ask("POST", "search", {"query": "cheese", "user_id": other})
    if other in (None, "mallory "):  # not given; and blanks around a name never count
        assert {one["user_id"] for one in reply.json()["results"]} <= {"mallory"}
    else:
        assert reply.status_code in (400, 403), reply.text


def test_the_owner_who_asks_for_a_user_sees_that_user_only(world: World) -> None:
    for kind in ({"query": "quetzal"}, {"query": "quetzal", "search_type": "bm25"}, {"time_query": "today"}):
        told_of = world.root.post("search", user_id="mallory", **kind)["results"]
        assert {one["user_id"] for one in told_of} <= {"mallory"}
    listed = world.root.get("memories", user_id="alice")["memories"]
    assert {one["user_id"] for one in listed} == {"alice"}
    assert world.root.get("memories", user_id="somebody new")["memories"] == []


def test_a_token_for_two_users_asks_for_one_of_them(world: World) -> None:
    both = world.both
    assert refused(both.ask("GET", "memories")) == (400, "INVALID_REQUEST", "user_id")
    assert {one["user_id"] for one in both.get("memories", user_id="alice")["memories"]} == {"alice"}
    assert refused(both.ask("GET", "memories", query={"user_id": "carol"})) == (403, "FORBIDDEN", None)


def test_what_only_looks_like_a_users_memory_is_not_shown_to_them(world: World) -> None:
    mallory = world.attackers["user"]
    planted = world.root.post(
        "memories", content="planted cheese", scope="AgentMem", metadata={"source": "agentmem:mallory"}
    )
    for found in (
        mallory.get("memories", limit=1000)["memories"],
        mallory.post("search", query="planted cheese", limit=100)["results"],
        mallory.post("search", time_query="today", limit=1000)["results"],
        mallory.post("search", query="planted cheese", search_type="bm25", limit=100)["results"],
    ):
        assert found
        assert planted["memory_id"] not in {one["memory_id"] for one in found}
    assert refused(mallory.ask("GET", f"memories/{planted['memory_id']}"))[0] == 404


def test_a_model_is_shown_nothing_of_somebody_else(tmp_path: Path) -> None:
    need_parts()
    with model_server() as model:
        settings = {"API": "openai", "URL": model.url, "NAME": "scripted", "TIMEOUT_S": "5"}
        environ = {f"INFINITE_MEMORY_MODEL__{name}": value for name, value in settings.items()}
        with (
            Installation(tmp_path / "home", environ | {"INFINITE_MEMORY_HTTP__PORT": "0"}) as one,
            serving(one) as web,
        ):
            alice, mallory = (make_token(one, web, "--user", name) for name in ("alice", "mallory"))
            model.answers.extend([openai('{"facts": []}')] * 2 + [openai("You said quetzal.")])
            alice.post("memories", content="My safe word is quetzal", session_id="s")
            alice.post("memories", content="The obsidian key is under the mat", agent_id="butler")
            assert alice.post("chat", message="What is my safe word?", session_id="s")["generated"] is True
            model.asked.clear()
            model.answers.extend([openai('{"facts": []}')] * 2 + [openai("I do not know.")] * 2)
            mallory.post("memories", content="My safe word is not what you think")
            mallory.post("memories", content="Which key is under the mat?", agent_id="butler")
            for more in ({"session_id": "s"}, {"agent_id": "butler"}):
                assert mallory.post("chat", message="What is my safe word?", **more)["generated"] is True
            assert len(model.asked) == 4
            assert [word for word in WORDS if word in json.dumps([asked[2] for asked in model.asked])] == []
