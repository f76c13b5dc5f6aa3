"""The HTTP API as its users meet it: what each route gives, and how each refusal looks."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory import ApiError, Memory
from infinite_memory.daemon import ipc
from infinite_memory.transports.http.api.app import LONG_BODY_S
from infinite_memory.transports.http.api.openapi import PAGE
from infinite_memory.transports.http.api.routes import ROUTES
from tests.http_client import Api, good, make_token, owner, refused, serving
from tests.processes import LONG, ROOT, Installation, need_parts, until

DOCUMENT = (ROOT / "docs" / "http.md").read_text("utf-8")
ROUTES_DOCUMENT = (ROOT / "docs" / "http-routes.md").read_text("utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home with HTTP on."""
    need_parts()
    path = tmp_path_factory.mktemp("http") / "home"
    with Installation(
        path, {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_LIMITS__LINE_BYTES": "200000"}, is_stopped=LONG
    ) as one:
        yield one


@pytest.fixture(scope="module")
def api(home: Installation) -> Iterator[Api]:
    """The owner's way in; each test has users and scopes of its own."""
    with serving(home) as web:
        yield owner(home, web)


# memories


def test_a_memory_of_a_user_is_stored_read_changed_and_forgotten(api: Api) -> None:
    reply = api.ask("POST", "memories", {"content": "I like tea", "user_id": "ann", "tags": "drinks, hot",
                                         "metadata": {"shop": 3}, "timestamp": "2024-05-01", "memory_type": "Factual"})  # fmt: skip
    made = reply.json()
    assert reply.status_code == 201
    assert made["outcome"] == "stored"
    assert (made["user_id"], made["tags"], made["metadata"]) == ("ann", ["drinks", "hot"], {"shop": 3})
    assert made["timestamp"] == "2024-05-01T00:00:00.000Z"
    assert made["memory_type"] == "Factual"
    again = api.ask("POST", "memories", {"content": "I like tea.", "user_id": "ann"})
    assert (again.status_code, again.json()["outcome"], again.json()["memory_id"]) == (
        200,
        "duplicate",
        made["memory_id"],
    )
    one = f"memories/{made['memory_id']}"
    assert api.get(one)["content"] == "I like tea"
    assert api.get(f"memories/mem_{made['memory_id']}")["memory_id"] == made["memory_id"]
    changed = api.ask("PATCH", one, {"content": "I like coffee", "metadata": {"shop": None, "cup": "big"}}).json()
    assert (changed["content"], changed["metadata"], changed["revision"]) == ("I like coffee", {"cup": "big"}, 2)
    told = api.get(f"{one}/history")
    assert told["memory"]["content"] == "I like coffee"
    assert [(old["content"], old["revision"]) for old in told["revisions"]] == [("I like tea", 1)]
    assert api.ask("DELETE", one).json() == {
        "deleted_count": 1, "memory_ids": [made["memory_id"]], "forget_mode": "soft"}  # fmt: skip
    assert refused(api.ask("GET", one))[:2] == (404, "MEMORY_NOT_FOUND")
    assert refused(api.ask("DELETE", one))[:2] == (404, "MEMORY_NOT_FOUND")
    assert api.post(f"{one}/restore")["outcome"] == "restored"
    assert api.ask("DELETE", one, query={"forget_mode": "hard"}).json()["deleted_count"] == 1
    assert refused(api.ask("POST", f"{one}/restore", {}))[:2] == (404, "MEMORY_NOT_FOUND")


def test_the_request_of_the_agentmem_document_is_answered(api: Api) -> None:
    body = b'{\n    "content": "User prefers dark mode",\n    "user_id": "user_123"\n  }'
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api.token}"}
    reply = api.web.post("/api/v1/memories", content=body, headers=headers).json()
    assert (reply["content"], reply["user_id"], reply["memory_type"]) == (
        "User prefers dark mode",
        "user_123",
        "Episodic",
    )
    assert 0 <= reply["importance_score"] <= 1


def test_what_was_changed_and_is_said_again_is_another_memory(api: Api) -> None:
    first = api.post("memories", content="I live in Rome", user_id="bea")
    api.ask("PATCH", f"memories/{first['memory_id']}", {"content": "I live in Oslo"})
    second = api.post("memories", content="I live in Rome", user_id="bea")
    assert second["outcome"] == "stored"
    assert second["memory_id"] != first["memory_id"]
    third = api.post("memories", content="i live in rome", user_id="bea")
    assert (third["outcome"], third["memory_id"]) == ("duplicate", second["memory_id"])
    assert {one["content"] for one in api.get("memories", user_id="bea")["memories"]} == {
        "I live in Oslo",
        "I live in Rome",
    }


def test_a_memory_of_a_scope_keeps_what_the_native_contract_keeps(api: Api) -> None:
    about = {"title": "Colours", "speaker": "Cy", "importance": 7, "type": "note", "free": [1, {"a": None}]}
    made = api.post("memories", content="Blue it is", scope="Paint", tags=["colour"], metadata=about)
    assert (made["scope"], made["title"], made["speaker"], made["importance"]) == ("Paint", "Colours", "Cy", 7)
    assert made["metadata"]["free"] == [1, {"a": None}]
    assert made["user_id"] is None
    listed = api.get("memories", scope="Paint", tags="colour", speaker="cy", min_importance=5)
    assert [one["memory_id"] for one in listed["memories"]] == [made["memory_id"]]
    assert api.get("memories", scope="Paint", tags="other")["total"] == 0


def test_pages_follow_each_other(api: Api) -> None:
    for number in range(5):
        api.post("memories", content=f"page {number}", scope="Pages")
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = api.get("memories", scope="Pages", limit=2, **cursor)
        seen += [one["content"] for one in page["memories"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [f"page {number}" for number in (4, 3, 2, 1, 0)]


def test_fields_of_another_search_are_named_as_this_route_names_them(api: Api) -> None:
    """`cursor` beside a query was said to be unknown, and the fields to take instead were those of another protocol."""
    api.post("memories", content="A page of notes", scope="Cursors")
    page = api.post("search", query="notes", scope="Cursors", cursor="x", limit=3)
    assert len(page["results"]) == 1
    [said] = page["warnings"]
    assert said.startswith("cursor was ignored: it does not go with query")
    named = said.split("what does: ")[1].split(", ")
    assert {"query", "filter", "limit", "time_query", "range"} <= set(named)
    assert not {"top_k", "explain", "cursor"} & set(named)
    page = api.post("search", time_query="today", scope="Cursors", mode="text", limit=3)
    assert len(page["results"]) == 1
    [said] = page["warnings"]
    assert said.startswith("mode was ignored: it does not go with time_query or range alone")
    assert "cursor" in said.split("what does: ")[1].split(", ")


def test_many_are_forgotten_by_their_tag_and_all_of_a_user_by_the_user(api: Api) -> None:
    for number in range(3):
        api.post("memories", content=f"thing {number}", user_id="dot", tags=["old"] if number else [])
    would = api.ask("DELETE", "memories", query={"user_id": "dot", "tag": "old", "dry_run": "true"}).json()
    assert (would["deleted_count"], would["would_delete"]) == (0, 2)
    assert {one["content"] for one in would["memories"]} == {"thing 1", "thing 2"}
    assert api.ask("DELETE", "memories", query={"user_id": "dot", "tag": "old"}).json()["deleted_count"] == 2
    assert api.ask("DELETE", "memories", query={"user_id": "dot", "forget_mode": "hard"}).json()["deleted_count"] == 3
    assert api.get("stats", user_id="dot")["stats"]["total_memories"] == 0
    assert refused(api.ask("DELETE", "memories", query={"scope": "Pages"})) == (400, "INVALID_REQUEST", "scope")


@pytest.mark.parametrize("bound", ["--user", "--scope", ""])
def test_nobody_loses_everything_by_a_selector_that_is_misspelt_or_left_out(
    home: Installation, api: Api, bound: str
) -> None:
    whose = make_token(home, api.web, *([bound, "pat"] if bound else []))
    named = {"--user": {}, "--scope": {"scope": "pat"}, "": {"user_id": "pat"}}[bound]
    kept = whose.post("memories", content="keep this", **named)["memory_id"]
    for field in ("tags", "tga", "memory_id", "forget", "filter"):
        reply = whose.ask("DELETE", "memories", query={**named, field: "work"})
        assert refused(reply) == (400, "INVALID_REQUEST", field)
        assert refused(whose.ask("DELETE", f"memories/{kept}", query={"dry_run": "true"}))[2] == "dry_run"
    for method, path in (("DELETE", "memories"), ("DELETE", f"memories/{kept}"), ("GET", "memories")):
        assert refused(whose.ask(method, path, {"tag": "work"}, named)) == (400, "INVALID_REQUEST", None)
    assert refused(whose.ask("DELETE", "memories"))[:2] == (400, "INVALID_REQUEST")
    assert refused(whose.ask("DELETE", "memories", query={**named, "tag": ""})) == (400, "INVALID_REQUEST", "tag")
    assert whose.get("memories", **named)["total"] == 1


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "memories"), ("POST", "search"), ("PATCH", "memories/x"), ("POST", "backups")]
)
def test_fields_that_stand_in_the_wrong_place_are_refused(api: Api, method: str, path: str) -> None:
    reply = api.ask(method, path, {"content": "x", "query": "x"}, {"user_id": "alice"})
    assert refused(reply) == (400, "INVALID_REQUEST", "user_id")


def test_an_agents_memories_are_listed_and_forgotten_alone(api: Api) -> None:
    for agent in ("cook", "driver"):
        for text in ("keep calm", "be quick"):
            api.post("memories", content=f"{text}, {agent}", user_id="ida", agent_id=agent, tags=[text])
    api.post("memories", content="nobody's in particular", user_id="ida")
    listed = api.get("memories", user_id="ida", agent_id="cook")
    assert {one["content"] for one in listed["memories"]} == {"keep calm, cook", "be quick, cook"}
    assert listed["total"] == 2
    assert api.get("memories", user_id="ida", agent_id="cook", tags="be quick")["total"] == 1
    assert refused(api.ask("GET", "memories", query={"user_id": "ida", "agent_id": "x"}))[:2] == (
        404,
        "AGENT_NOT_FOUND",
    )
    assert refused(api.ask("GET", "memories", query={"agent_id": "cook"})) == (400, "INVALID_REQUEST", "user_id")
    gone = api.ask("DELETE", "memories", query={"user_id": "ida", "agent_id": "cook"}).json()
    assert gone["deleted_count"] == 2
    assert api.get("memories", user_id="ida")["total"] == 3


# asking


def test_search_goes_by_meaning_words_and_time(api: Api) -> None:
    api.post(
        "memories", content="The budget meeting is on Friday", user_id="eve", agent_id="clerk", timestamp="2024-03-04"
    )
    api.post("memories", content="My cat is called Mimi", user_id="eve", tags=["pets"], timestamp="2024-04-05")
    best = api.post("search", query="what is the name of my pet?", user_id="eve", limit=1)
    assert [one["content"] for one in best["results"]] == ["My cat is called Mimi"]
    assert 0 <= best["results"][0]["confidence"] <= 1
    tagged = api.post("search", query="anything", user_id="eve", filter={"tags": ["pets"]})
    assert [one["tags"] for one in tagged["results"]] == [["pets"]]
    then = api.post("search", query="meeting", user_id="eve", time_query="in March 2024")
    assert [one["content"] for one in then["results"]] == ["The budget meeting is on Friday"]
    listed = api.post("search", range={"from": "2024-04-01", "to": "2024-04-30"}, user_id="eve")
    assert [one["content"] for one in listed["results"]] == ["My cat is called Mimi"]
    assert listed["time_frame"]["from"].startswith("2024-04-01")
    clerk = api.post("search", query="meeting", user_id="eve", agent_id="clerk", search_type="bm25")
    assert [(one["agent_id"], one["tags"]) for one in clerk["results"]] == [("clerk", [])]
    assert (
        refused(api.ask("POST", "search", {"query": "x", "user_id": "eve", "agent_id": "none"}))[1] == "AGENT_NOT_FOUND"
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"agent_id": "clerk"}, "user_id"),
        ({"search_type": "bm25"}, "user_id"),
        ({"agent_id": "clerk", "user_id": "eve", "filter": {"tags": ["pets"]}}, "filter"),
        ({"memory_type": "Core", "user_id": "eve", "time_query": "today"}, "time_query"),
        ({"min_score": 0.1, "user_id": "eve", "range": {"from": "2024-04-01"}}, "range"),
        ({"search_type": "vector", "user_id": "eve", "mode": "text"}, "mode"),
    ],
)
def test_a_search_that_would_leave_a_field_out_is_refused(api: Api, fields: dict[str, Any], field: str) -> None:
    assert refused(api.ask("POST", "search", {"query": "x"} | fields)) == (400, "INVALID_REQUEST", field)


def test_who_is_forgotten_whole_and_for_good_has_no_agents_either(api: Api) -> None:
    for user in ("gail", "hugo"):
        api.post("agents", agent_id="diary", user_id=user, name=f"Diary of {user}")
        api.post("memories", content=f"{user} likes quinces", user_id=user, agent_id="diary")
    for narrower in ({"forget_mode": "soft"}, {"forget_mode": "hard", "dry_run": True}):
        good(api.ask("DELETE", "memories", query={"user_id": "gail", **narrower}))
        assert api.get("agents", user_id="gail")["total"] == 1
    gone = good(api.ask("DELETE", "memories", query={"user_id": "gail", "forget_mode": "hard"}))
    assert gone["deleted_count"] == 1
    assert api.get("agents", user_id="gail")["total"] == 0
    assert api.get("agents", user_id="hugo")["agents"][0]["name"] == "Diary of hugo"


def test_chat_prompt_and_agents_know_the_user(api: Api) -> None:
    api.post("memories", content="I prefer dark mode", user_id="fay", agent_id="painter", memory_type="Factual")
    said = api.post("chat", message="which mode do I prefer?", user_id="fay", agent_id="painter")
    assert said["generated"] is False
    assert [one["content"] for one in said["memories_used"]] == ["I prefer dark mode"]
    assert "dark mode" in api.post("prompt", user_id="fay")["system_prompt"]
    made = api.post("agents", agent_id="planner", user_id="fay", description="plans")
    assert (made["memory_count"], made["name"]) == (0, "Planner")
    listed = {one["agent_id"]: one for one in api.get("agents", user_id="fay")["agents"]}
    assert listed.keys() == {"painter", "planner"}
    assert (listed["painter"]["memory_count"], listed["planner"]["description"]) == (1, "plans")
    assert api.post("search", query="mode", user_id="fay", agent_id="planner")["results"] == []
    assert refused(api.ask("POST", "agents", {"agent_id": "planner", "user_id": "fay"}))[:2] == (409, "ALREADY_EXISTS")
    assert refused(api.ask("POST", "chat", {"message": "hello"})) == (400, "INVALID_REQUEST", "user_id")


def test_an_agent_that_has_memories_is_made_with_their_true_number(api: Api) -> None:
    api.post("memories", content="I prefer oil", user_id="flo", agent_id="painter")
    made = api.post("agents", agent_id="painter", user_id="flo", name="Pablo", description="paints")
    assert (made["memory_count"], made["name"]) == (1, "Pablo")
    assert api.get("agents", user_id="flo")["agents"] == [made]


def test_an_agent_is_told_the_same_when_it_is_made_and_when_it_is_listed(api: Api) -> None:
    made = api.post("agents", agent_id="baker", user_id="ivo")
    assert api.get("agents", user_id="ivo")["agents"] == [made]


def test_an_empty_search_of_a_user_tells_where_it_looked(api: Api) -> None:
    api.post("memories", content="I prefer oil", user_id="lea")
    for search in ({}, {"search_type": "bm25"}, {"memory_type": "Core"}):
        assert api.post("search", query="zzqq", user_id="lea", **search)["scopes_searched"] == ["AgentMem"]


def test_an_id_beside_that_of_the_address_is_refused(api: Api) -> None:
    one, other = (api.post("memories", content=content)["memory_id"] for content in ("one", "other"))
    for method, path, sent in (
        ("DELETE", f"memories/{one}", {"query": {"memory_id": other}}),
        ("GET", f"memories/{one}", {"query": {"memory_id": one}}),
        ("PATCH", f"memories/{one}", {"body": {"memory_id": other, "content": "changed"}}),
        ("POST", f"memories/{one}/restore", {"body": {"memory_id": other}}),
    ):
        assert refused(api.ask(method, path, **sent)) == (400, "INVALID_REQUEST", "memory_id")
    assert api.get(f"memories/{one}")["content"] == "one"


def test_one_users_agent_lends_its_name_to_nobody_elses(api: Api) -> None:
    api.post("agents", agent_id="shared-id", user_id="gus", name="Of Gus", description="knows a secret")
    api.post("memories", content="I like figs", user_id="hal", agent_id="shared-id")
    for whose in ({}, {"user_id": "hal"}):
        [one] = [one for one in api.get("agents", **whose)["agents"] if one["agent_id"] == "shared-id"]
        assert one["memory_count"] == 1
        assert "Gus" not in one["name"]
        assert "secret" not in one["description"]
    api.post("agents", agent_id="shared-id", name="Of all")
    [one] = [one for one in api.get("agents")["agents"] if one["agent_id"] == "shared-id"]
    assert one["name"] == "Of all"


def test_scopes_figures_and_backups_are_told(api: Api) -> None:
    assert api.post("scopes", scope_name="Garden", description="plants")["outcome"] == "created"
    assert "Garden" in {one["scope_name"] for one in api.get("scopes")["scopes"]}
    assert refused(api.ask("POST", "scopes", {"scope_name": "garden"}))[:2] == (409, "SCOPE_EXISTS")
    assert "Garden" in api.get("stats")["stats"]["scopes"]
    made = api.post("backups")
    assert made["backup_file"] in {one["backup_file"] for one in api.get("backups")["backups"]}
    assert "tokens" not in made["counts"]


def test_metrics_count_requests_and_name_nothing_of_anybody(api: Api) -> None:
    api.post("memories", content="secretword", user_id="gil-the-user")
    reply = api.ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    assert 'infinite_memory_http_requests_total{method="POST",route="/api/v1/memories",status="201"}' in reply.text
    assert re.search(r"^infinite_memory_memories \d", reply.text, re.MULTILINE)
    assert "gil-the-user" not in reply.text


def test_the_page_needs_no_network(api: Api) -> None:
    page = Api(api.web, None).ask("GET", "/docs")
    assert page.text == PAGE
    assert re.findall(r"https?://|@import|<style|<script>", PAGE) == []
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for address in re.findall(r'(?:src|href)="([^"]+)"', PAGE):
        assert api.ask("GET", address).status_code == 200, address


# refusals


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "field"),
    [
        ("POST", "memories", {}, {}, "content"),
        ("POST", "memories", {"content": " "}, {}, "content"),
        ("POST", "memories", {"content": "x", "tags": [1]}, {}, "tags[0]"),
        ("POST", "memories", {"content": "x", "metadata": {"importance": 11}}, {}, "metadata.importance"),
        ("POST", "memories", {"content": "x", "user_id": "u", "memory_type": "Odd"}, {}, "memory_type"),
        ("POST", "memories", {"content": "x", "user_id": "u", "scope_type": "run"}, {}, "run_id"),
        ("POST", "search", {}, {}, "query"),
        ("POST", "search", {"query": "x", "limit": 0}, {}, "limit"),
        ("POST", "search", {"query": "x", "time_query": "no time here"}, {}, "time_query"),
        ("POST", "search", {"query": "x", "filter": {"min_importance": "much"}}, {}, "filter.min_importance"),
        ("POST", "search", {"query": {"$ne": ""}}, {}, "query"),
        ("GET", "memories", None, {"limit": "many"}, "limit"),
        ("GET", "memories", None, {"tags_mode": "some"}, "tags_mode"),
        ("GET", "memories", None, {"from": "2024-02-31"}, "from"),
        ("GET", "memories", None, {"from": "2024-02-02", "to": "2024-02-01"}, "from"),
        ("GET", "memories", None, {"cursor": "nonsense"}, "cursor"),
        ("DELETE", "memories", None, {"tag": "x", "dry_run": "maybe"}, "dry_run"),
        ("POST", "chat", {"user_id": "u"}, {}, "message"),
        ("POST", "agents", {"name": "x"}, {}, "agent_id"),
        ("POST", "scopes", {}, {}, "scope_name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(api: Api, method: str, path: str, body: Any, query: dict[str, str], field: str) -> None:
    assert refused(api.ask(method, path, body, query)) == (400, "INVALID_REQUEST", field)


@pytest.mark.parametrize("body", ["{", "[]", "null", '"text"', '{"content": 1e999}', '{"content": "a", "content": "b"}',
                                  '{"content": "\\ud800"}', "\xff"])  # fmt: skip
def test_a_body_that_is_no_strict_json_object_is_refused(api: Api, body: str) -> None:
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    reply = api.web.post("/api/v1/memories", content=body.encode("latin-1"), headers=headers)
    assert refused(reply)[:2] == (400, "INVALID_REQUEST")


def test_bodies_keep_to_their_type_and_their_size(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "text/plain"}
    assert refused(api.web.post("/api/v1/memories", content=b"{}", headers=headers))[:2] == (
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    )
    assert refused(api.ask("POST", "memories", {"content": "x" * 300_000}))[:2] == (413, "BODY_TOO_LARGE")
    reply = api.ask("POST", "memories", {"content": "x", "tags": ["t" * 300]})
    assert refused(reply) == (400, "LIMIT_EXCEEDED", "tags[0]")
    assert reply.json()["error"]["details"] == {"size": 300, "limit": 200}


def test_addresses_methods_hosts_and_origins_that_are_none_are_refused(api: Api) -> None:
    assert refused(api.ask("GET", "nothing"))[:2] == (404, "NOT_FOUND")
    assert refused(api.ask("GET", "/api/v1"))[:2] == (404, "NOT_FOUND")
    wrong = api.ask("PUT", "memories", {})
    assert refused(wrong)[:2] == (405, "METHOD_NOT_ALLOWED")
    assert refused(api.ask("POST", "/mcp/nothing", {}))[:2] == (404, "NOT_FOUND")
    assert wrong.headers["allow"] == "DELETE, GET, POST"
    assert refused(api.ask("GET", "stats", Host="rebind.attacker.example"))[:2] == (421, "MISDIRECTED")
    assert refused(api.ask("GET", "stats", Origin="https://attacker.example"))[:2] == (403, "FORBIDDEN")
    assert api.ask("GET", "stats", Origin="http://localhost:3000").status_code == 200
    assert refused(api.ask("GET", "/healthz", Host="rebind.attacker.example"))[0] == 421


def test_a_misspelt_field_is_warned_of(api: Api) -> None:
    told = api.post("memories", content="x", scope="Warned", tag=["a"])["warnings"]
    assert len(told) == 1
    assert "did you mean tags" in told[0]


def test_a_field_of_the_other_kind_of_memory_is_said_to_be_one(api: Api) -> None:
    told = api.post("memories", content="x", scope="Warned", agent_id="cook", timestamp="2025-01-01", run_id=None)
    assert told["warnings"] == [f"{name} was ignored: it goes only with user_id" for name in ("agent_id", "timestamp")]
    told = api.post("memories", content="x", user_id="wendy", scope="Warned")
    assert told["warnings"] == ["scope was ignored: it goes only without user_id"]


def test_a_byte_order_mark_before_a_body_is_no_part_of_it(api: Api) -> None:
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    body = json.dumps({"content": "marked", "scope": "Marked"}).encode("utf-8-sig")
    reply = api.web.post("/api/v1/memories", content=body, headers=headers)
    assert (reply.status_code, reply.json()["content"]) == (201, "marked")


# tokens


def test_who_has_no_token_learns_how_to_show_one(api: Api) -> None:
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"},
                   {"Authorization": f"Bearer im_{'0' * 12}_{'a' * 43}"}, {"Authorization": f"Token {api.token}"}):  # fmt: skip
        reply = Api(api.web, None).ask("GET", "stats", None, None, **header)
        assert refused(reply)[:2] == (401, "AUTHENTICATION_FAILED")
        assert reply.headers["www-authenticate"] == "Bearer"


def test_a_token_is_shown_once_and_opens_nothing_once_it_is_revoked(home: Installation, api: Api) -> None:
    made = make_token(home, api.web, "--name", "lamp")
    assert made.token is not None
    assert made.get("stats")
    listed = home.command("tokens", "list")
    assert "lamp" in listed.stdout
    assert made.token not in listed.stdout
    done = home.command("tokens", "revoke", made.token)
    assert done.returncode == 0
    assert refused(made.ask("GET", "stats"))[:2] == (401, "AUTHENTICATION_FAILED")
    assert home.command("tokens", "revoke", made.token).returncode == 1


def test_a_token_opens_until_it_expires(home: Installation, api: Api) -> None:
    assert make_token(home, api.web, "--expires", "1h").get("stats")
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3)).isoformat()
    made = make_token(home, api.web, "--expires", soon)
    until(lambda: made.ask("GET", "stats").status_code == 401, "the token has expired")
    assert "expired" in home.command("tokens", "list").stdout
    assert home.command("tokens", "create", "--expires", "yesterday").returncode == 1


def ask_for_tokens(home: Path, what: str) -> socket.socket:
    """Ask the daemon by its own socket, as `infinite-memory tokens` does, up to its first word."""
    link = ipc.connect(home, 10)
    assert link is not None
    link.sendall(json.dumps({"kind": "tokens", "what": what, "fields": {}}).encode() + b"\n")
    assert json.loads(ipc.read_line(link)) == {"ok": True}
    return link


def test_a_daemon_that_is_asked_to_go_still_makes_the_token(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "home") as one:
        assert one.command("daemon", "start").returncode == 0
        with ask_for_tokens(one.home, "create") as link:
            assert one.command("daemon", "stop").returncode == 0
            assert json.loads(ipc.read_line(link))["status"] == "OK"


def test_only_what_is_known_is_done_with_tokens(home: Installation, api: Api) -> None:
    assert api.get("stats")
    with ask_for_tokens(home.home, "crate") as link:
        reply = json.loads(ipc.read_line(link))
    assert reply["error_code"] == "invalid_request"
    assert "create, list, revoke" in reply["error"]


def test_a_token_without_bounds_opens_mcp_and_counts_there(home: Installation, api: Api) -> None:
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    made = make_token(home, api.web)
    reply = made.ask("POST", "/mcp", begin, None, Accept="application/json, text/event-stream")
    assert reply.status_code == 200
    assert "serverInfo" in reply.text


def test_an_open_stream_ends_when_its_token_is_revoked(home: Installation, api: Api) -> None:
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}  # fmt: skip
    made = make_token(home, api.web)
    session = made.ask("POST", "/mcp", begin, None, Accept="application/json, text/event-stream").headers
    headers = {
        "Authorization": f"Bearer {made.token}", "Accept": "text/event-stream",
        "Mcp-Session-Id": session["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18",
    }  # fmt: skip
    with api.web.stream("GET", "/mcp", headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        assert home.command("tokens", "revoke", str(made.token)).returncode == 0
        for _ in stream.iter_bytes():
            pass


def test_a_token_that_is_revoked_during_an_upload_stores_nothing(home: Installation, api: Api) -> None:
    made = make_token(home, api.web)
    body = json.dumps({"content": "slowly said", "scope": "Slow"}).encode()
    head = (
        f"POST /api/v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {made.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    at = api.web.base_url
    with socket.create_connection((at.host, at.port), timeout=60) as link:
        link.sendall(head.encode() + body[:5])
        time.sleep(LONG_BODY_S)
        assert home.command("tokens", "revoke", str(made.token)).returncode == 0
        link.sendall(body[5:])
        assert link.makefile("rb").readline().split()[1] == b"401"
    assert "Slow" not in json.dumps(api.get("scopes"))


def test_half_a_model_in_the_settings_is_told_by_the_status_and_to_the_sdk(tmp_path: Path) -> None:
    need_parts()
    environ = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_MODEL__API": "openai"}
    with Installation(tmp_path / "home", environ) as one:
        assert one.command("daemon", "start").returncode == 0
        assert "model.name" in one.status()["http"]["error"]
        with pytest.raises(ApiError, match=r"model\.name"), Memory(home=one.home) as memory:
            memory.search("tea")


def test_a_token_that_only_reads_changes_nothing(home: Installation, api: Api) -> None:
    reader = make_token(home, api.web, "--read-only")
    kept = api.post("memories", content="stays as it is", scope="Museum")
    for method, path, body in (
        ("POST", "memories", {"content": "x"}), ("PATCH", f"memories/{kept['memory_id']}", {"content": "x"}),
        ("DELETE", f"memories/{kept['memory_id']}", None), ("DELETE", "memories", None), ("POST", "backups", {}),
        ("POST", "scopes", {"scope_name": "x"}), ("POST", "agents", {"agent_id": "x"}),
        ("POST", f"memories/{kept['memory_id']}/restore", {}), ("POST", "chat", {"message": "x", "user_id": "x"}),
    ):  # fmt: skip
        reply = reader.ask(method, path, body)
        assert refused(reply)[:2] == (403, "FORBIDDEN"), path
        assert "insufficient_scope" in reply.headers["www-authenticate"]
    assert reader.post("search", query="stays", scope="Museum")["total"] == 1
    assert reader.ask("GET", "/metrics").status_code == 200
    assert reader.ask("POST", "/mcp", {}).status_code == 403


def test_tokens_outlast_a_restore_and_travel_in_no_backup(home: Installation, api: Api) -> None:
    made = make_token(home, api.web, "--user", "kim")
    made.post("memories", content="before the backup")
    backup = api.post("backups")
    made.post("memories", content="after the backup")
    late = make_token(home, api.web, "--user", "kim")
    assert home.call("restore_backup", file=backup["backup_file"], mode="replace")["status"] == "OK"
    assert [one["content"] for one in late.get("memories")["memories"]] == ["before the backup"]
    assert made.get("memories")["total"] == 1


def test_a_token_bound_to_a_scope_works_in_it_alone(home: Installation, api: Api) -> None:
    desk = make_token(home, api.web, "--scope", "Desk", "--scope", "Shelf")
    made = desk.post("memories", content="the lamp is on the desk")
    assert made["scope"] == "Desk"
    desk.post("memories", content="the book is on the shelf", scope="Shelf")
    assert desk.get("memories")["total"] == 2
    assert desk.get("memories", scope="Shelf")["total"] == 1
    assert refused(desk.ask("POST", "memories", {"content": "x", "scope": "Global"}))[:2] == (404, "SCOPE_NOT_FOUND")
    assert {one["scope_name"] for one in desk.get("scopes")["scopes"]} == {"Desk", "Shelf"}
    assert refused(desk.ask("POST", "memories", {"content": "x", "user_id": "ann"}))[:2] == (403, "FORBIDDEN")
    assert desk.ask("DELETE", "memories", query={"scope": "Shelf"}).json()["deleted_count"] == 1
    assert {one["scope_name"] for one in desk.get("scopes")["scopes"]} == {"Desk", "Shelf"}


def test_too_many_requests_of_one_token_wait_and_leave_others_alone(tmp_path: Path) -> None:
    need_parts()
    settings = {"INFINITE_MEMORY_HTTP__PORT": "0", "INFINITE_MEMORY_HTTP__RATE": "5/hour"}
    with Installation(tmp_path / "home", settings) as one, serving(one) as web:
        first, second = make_token(one, web), make_token(one, web)
        assert [first.ask("GET", "stats").status_code for _ in range(5)] == [200] * 5
        reply = first.ask("GET", "stats")
        assert refused(reply)[:2] == (429, "RATE_LIMIT_EXCEEDED")
        assert 3500 < int(reply.headers["retry-after"]) <= 3600
        assert first.ask("POST", "/mcp", {}).status_code == 429
        assert second.ask("GET", "stats").status_code == 200
        unknown = [Api(web, f"guess{number}").ask("GET", "stats").status_code for number in range(7)]
        assert unknown == [401] * 5 + [429] * 2
        assert second.ask("GET", "stats").status_code == 200
        assert web.get("/healthz").status_code == 200


# the document


def test_the_document_lists_every_route_and_no_other(api: Api) -> None:
    served = {
        (method.upper(), path) for path, methods in api.get("/openapi.json")["paths"].items() for method in methods
    }
    table = ROUTES_DOCUMENT.split("## Routes")[1].split("## ")[0]
    written = set(re.findall(r"^\| `(GET|POST|PATCH|DELETE) (/[^`]+)`", table, re.MULTILINE))
    assert {(method, path.replace("{id}", "{memory_id}")) for method, path in written} == served


def test_the_document_names_every_field_of_every_route() -> None:
    table = ROUTES_DOCUMENT.split("## Routes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([A-Z]+) (/api[^`]+)` \| [^|]* \|([^|]*)\|$", table, re.MULTILINE)
    fields = {(method, path.replace("{id}", "{memory_id}")): set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell)))
              for method, path, cell in rows}  # fmt: skip
    assert fields == {
        (one.method, one.path): {field.name for field in (*one.query, *(one.body or ()))} for one in ROUTES
    }


def test_the_document_names_every_key_of_a_memory(api: Api) -> None:
    shown = json.loads(ROUTES_DOCUMENT.split("## A memory")[1].split("```json\n")[1].split("```")[0])
    made = api.post("memories", content="x", user_id="key", tags=["a"])
    assert set(shown) == set(api.get(f"memories/{made['memory_id']}"))


CURLS = [block for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL) if "curl" in block]


@pytest.mark.parametrize("block", CURLS)
def test_the_documents_examples_run(home: Installation, api: Api, block: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    environ = os.environ | {"URL": str(api.web.base_url).rstrip("/"), "TOKEN": str(api.token)}
    done = subprocess.run(["bash", "-euc", block], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    decoder, text, replies = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        reply, end = decoder.raw_decode(text)
        replies.append(reply)
        text = text[end:].strip()
    assert len(replies) == block.count("curl ")
    assert all(reply.get("success", True) for reply in replies), replies


@pytest.mark.parametrize("cut", ["length", "chunked", "empty"])
def test_a_request_whose_client_went_away_halfway_is_not_carried_out(api: Api, cut: str) -> None:
    body = json.dumps({"content": f"half a word, {cut}", "scope": "Cut"}).encode()
    head = f"POST /api/v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.token}\r\nContent-Type: application/json\r\n"
    sent = {
        "length": f"Content-Length: {len(body) + 50}\r\n\r\n".encode() + body,
        "chunked": f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n",
        "empty": b"Content-Length: 50\r\n\r\n",
    }[cut]
    at = api.web.base_url
    with socket.create_connection((at.host, at.port)) as link:
        link.sendall(head.encode() + sent)
    api.post("memories", content=f"a whole word, {cut}", scope="Cut")
    listed = json.dumps(api.get("memories", scope="Cut"))
    assert f"a whole word, {cut}" in listed
    assert "half a word" not in listed


@pytest.mark.parametrize("option", ["--name", "--user"])
def test_a_token_has_no_name_that_a_terminal_would_obey(home: Installation, api: Api, option: str) -> None:
    done = home.command("tokens", "create", option, "ali\x1b[31mce")
    assert done.returncode == 1
    assert "control character" in done.stderr
