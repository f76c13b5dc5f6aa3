"""The AgentMem contract's document, block by block over a real `serve`, then its enums, errors and rules row by row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.matching import differences
from tests.processes import Client, Installation, until

Json = dict[str, Any]

DOCUMENT: Json = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "contracts" / "agentmem.json").read_text("utf-8")
)
TYPES = ("Episodic", "Semantic", "Procedural", "Factual", "Core", "Working", "Resource", "Knowledge", "Contextual")
SCOPES = (
    ("user", None), ("agent", "agent_id"), ("run", "run_id"), ("session", "session_id"), ("organization", "org_id"),
)  # fmt: skip
ENGINES = ("vector", "bm25", "fulltext", "fuzzy", "hybrid")


def open_client(installation: Installation) -> Client:
    """Begin a session."""
    client = installation.serve("--contract", "agentmem")
    client.initialize()
    return client


@pytest.fixture(scope="module")
def client(shared: Installation) -> Iterator[Client]:
    """A session that the tests of this file share; each has users of its own."""
    yield open_client(shared)


def use(client: Client, tool: str, **arguments: Any) -> Json:
    """Call a tool and give its reply, good or bad."""
    result = client.tool(1, f"agentmem_{tool}", **arguments)["result"]
    reply: Json = json.loads(result["content"][0]["text"])
    assert result["structuredContent"] == reply
    assert result["isError"] is not reply["success"]
    return reply


def add(client: Client, content: str, user_id: str, **fields: Any) -> Json:
    """Add a memory that shows only what a test is about."""
    reply = use(client, "add_memory", content=content, user_id=user_id, **fields)
    assert reply["success"], reply
    return reply


def found(client: Client, query: str, user_id: str, **fields: Any) -> list[str]:
    """Search and give the contents."""
    reply = use(client, "search_memories", query=query, user_id=user_id, **fields)
    assert reply["success"], reply
    return [one["content"] for one in reply["results"]]


def code(reply: Json) -> str:
    """Give the error code of a reply, whose form is the document's."""
    assert list(reply)[:2] == ["success", "error"]
    assert reply["success"] is False
    assert set(reply["error"]) == {"code", "message", "details"}
    text: str = reply["error"]["code"]
    return text


def counts(client: Client) -> dict[str, int]:
    """Give the number of memories of each agent."""
    return {one["agent_id"]: one["memory_count"] for one in use(client, "list_agents")["agents"]}


def test_every_block_of_the_document_is_answered_or_has_its_reason() -> None:
    blocks = DOCUMENT["blocks"]
    assert [one["block"] for one in blocks] == list(range(1, 16)), "15 fenced blocks stand in the document"
    assert DOCUMENT["blocks_in_document"] == 15
    answered = {
        one["reply_in_block"] for block in blocks for one in block.get("exchanges", ()) if "reply_in_block" in one
    }
    for block in blocks:
        [kind] = [kind for kind in ("exchanges", "reply", "elsewhere") if kind in block]
        assert kind != "reply" or block["block"] in answered
    assert [one["block"] for one in blocks if "elsewhere" in one] == [13, 14, 15]


def test_the_documents_requests_get_the_documented_replies(installation: Installation) -> None:
    client = open_client(installation)
    blocks = {one["block"]: one for one in DOCUMENT["blocks"]}
    for block in blocks.values():
        for exchange in block.get("exchanges", ()):
            result = client.tool(1, exchange["tool"], **exchange["arguments"])["result"]
            answering = blocks[exchange["reply_in_block"]] if "reply_in_block" in exchange else exchange
            reply = json.loads(result["content"][0]["text"])
            assert list(differences(reply, answering["reply"])) == [], f"block {block['block']}, {block['at']}"


@pytest.mark.parametrize("kind", TYPES)
def test_each_memory_type_is_taken_and_searched_by(client: Client, kind: str) -> None:
    assert add(client, f"a heron of type {kind}", "types", memory_type=kind)["memory_type"] == kind
    assert found(client, "heron", "types", memory_type=kind) == [f"a heron of type {kind}"]


@pytest.mark.parametrize(("scope", "needs"), SCOPES)
def test_each_scope_type_needs_its_id_and_is_inferred_from_it(client: Client, scope: str, needs: str | None) -> None:
    ids = {needs: "x1"} if needs else {}
    assert add(client, f"scoped to {scope}", "scopes", scope_type=scope, **ids)["scope_type"] == scope
    inferred = (
        "user" if scope == "organization" else scope
    )  # an organization is wider than the user, who is always given
    assert add(client, f"inferred {scope}", "scopes", **ids)["scope_type"] == inferred
    if needs:
        refused = use(client, "add_memory", content="x", user_id="scopes", scope_type=scope)
        assert code(refused) == "INVALID_PARAMETERS"
        assert refused["error"]["details"] == {"field": needs}


def test_the_narrowest_id_given_wins(client: Client) -> None:
    ids = {"org_id": "o", "agent_id": "a", "run_id": "r", "session_id": "s"}
    for name, scope in (("session_id", "session"), ("run_id", "run"), ("agent_id", "agent"), ("org_id", "user")):
        assert add(client, f"narrowest {scope}", "narrow", **ids)["scope_type"] == scope
        del ids[name]


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("add_memory", {"user_id": "u"}, "content"),
        ("add_memory", {"content": " ", "user_id": "u"}, "content"),
        ("add_memory", {"content": "x"}, "user_id"),
        ("add_memory", {"content": "x", "user_id": ""}, "user_id"),
        ("add_memory", {"content": "x", "user_id": {"$ne": ""}}, "user_id"),
        ("add_memory", {"content": "x", "user_id": "u", "memory_type": "episodic"}, "memory_type"),
        ("add_memory", {"content": "x", "user_id": "u", "scope_type": "team"}, "scope_type"),
        ("add_memory", {"content": "x", "user_id": "u", "metadata": "{not json"}, "metadata"),
        ("add_memory", {"content": "x", "user_id": "u", "metadata": "[1]"}, "metadata"),
        ("add_memory", {"content": "x" * 1_048_577, "user_id": "u"}, "content"),
        ("search_memories", {"user_id": "u"}, "query"),
        ("search_memories", {"query": "x"}, "user_id"),
        ("search_memories", {"query": "x", "user_id": "u", "limit": 101}, "limit"),
        ("search_memories", {"query": "x", "user_id": "u", "limit": 0}, "limit"),
        ("search_memories", {"query": "x", "user_id": "u", "search_type": "magic"}, "search_type"),
        ("search_memories", {"query": "x", "user_id": "u", "min_score": 1.5}, "min_score"),
        ("chat", {"user_id": "u"}, "message"),
        ("chat", {"message": "x", "user_id": "u", "max_memories": -1}, "max_memories"),
        ("get_system_prompt", {}, "user_id"),
        ("get_system_prompt", {"user_id": "u", "include_history": "yes"}, "include_history"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named_and_store_nothing(client: Client, tool: str, arguments: Json, field: str) -> None:
    reply = use(client, tool, **arguments)
    assert code(reply) == "INVALID_PARAMETERS"
    assert reply["error"]["details"]["field"].startswith(field)
    assert found(client, "x", "u") == []


@pytest.mark.parametrize("tool", ["search_memories", "chat", "get_system_prompt"])
def test_an_agent_that_never_was_is_not_found(client: Client, tool: str) -> None:
    arguments = {"search_memories": {"query": "x"}, "chat": {"message": "x"}}.get(tool, {})
    reply = use(client, tool, user_id="u", agent_id="nobody", **arguments)
    assert code(reply) == "AGENT_NOT_FOUND"
    assert reply["error"]["details"] == {"agent_id": "nobody"}


def test_the_metadata_comes_back_whether_it_was_text_or_an_object(client: Client) -> None:
    add(client, "a note as text", "meta", metadata='{"a": {"b": [1, null]}}')
    add(client, "a note as an object", "meta", metadata={"c": 1})
    reply = use(client, "search_memories", query="note", user_id="meta")
    assert sorted(json.dumps(one["metadata"]) for one in reply["results"]) == ['{"a": {"b": [1, null]}}', '{"c": 1}']


def test_one_user_never_sees_anothers_memories(client: Client) -> None:
    for user in ("ada", "Ada", "ada2", "agentmem:ada"):
        add(client, f"the secret of {user}", user, agent_id="sharer", org_id="same", session_id="same")
    for engine in ENGINES:
        assert found(client, "secret", "ada", search_type=engine, limit=100) == ["the secret of ada"], engine
    assert found(client, "secret", "ada", agent_id="sharer") == ["the secret of ada"]
    assert found(client, "the secret of ada", "stranger") == []
    chat = use(client, "chat", message="What is the secret?", user_id="ada", agent_id="sharer")
    assert [one["content"] for one in chat["memories_used"]] == ["the secret of ada"]
    for reply in (chat, use(client, "get_system_prompt", user_id="ada", include_history=True)):
        assert not any(f"the secret of {other}" in json.dumps(reply) for other in ("Ada", "ada2", "agentmem"))


@pytest.mark.parametrize(
    ("query", "engines"),
    [
        ("lighthouse keeper", {"bm25", "fulltext", "fuzzy", "vector", "hybrid"}),
        ("lighthouse captain", {"bm25", "fuzzy", "vector", "hybrid"}),  # not every word
        ("lighthuose", {"fuzzy", "vector", "hybrid"}),  # a slip
        ("person who guards the beacon by the sea", {"vector", "hybrid"}),  # no word of it
    ],
)
def test_each_engine_finds_what_it_is_for(client: Client, query: str, engines: set[str]) -> None:
    add(client, "Ines works as a lighthouse keeper", "engines")
    add(client, "Tom repairs bicycles", "engines")
    for engine in ENGINES:
        first = found(client, query, "engines", search_type=engine)[:1]
        assert (first == ["Ines works as a lighthouse keeper"]) is (engine in engines), engine


def test_scores_fall_and_the_least_score_cuts(client: Client) -> None:
    for text in ("the ferry leaves at nine", "the ferry is blue", "bread is baked on Mondays", "a cat sleeps"):
        add(client, text, "scores")
    for engine in ENGINES:
        reply = use(client, "search_memories", query="when does the ferry leave", user_id="scores", search_type=engine)
        scores = [one["score"] for one in reply["results"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= one <= 1 and math.isfinite(one) for one in scores)
        assert reply["total"] == reply["total_results"] == len(scores)
    least = scores[1]
    assert len(found(client, "when does the ferry leave", "scores", min_score=least)) == 2
    assert len(found(client, "when does the ferry leave", "scores", limit=1)) == 1


def test_saying_it_again_is_a_duplicate_and_saying_something_else_is_not(client: Client) -> None:
    first = add(client, "Likes C.", "again")
    for same in ("Likes C.", "likes  c", " Likes C!"):
        repeated = add(client, same, "again")
        assert (repeated["memory_id"], repeated["outcome"]) == (first["memory_id"], "duplicate")
    for other in ("Likes C++", "Likes C#", "Likes 5", "Likes -5"):
        assert add(client, other, "again")["outcome"] == "stored"
    assert add(client, "Likes C.", "again", agent_id="coder")["outcome"] == "stored", "an agent's own"
    assert add(client, "Likes C.", "again2")["memory_id"] != first["memory_id"]


@pytest.mark.parametrize(
    ("fields", "score"),
    [
        ({"content": "a b c", "memory_type": "Working"}, 0.6 * 0.2 + 0.2 * 3 / 12),
        ({"content": "a b c d e f g h i j k l m", "memory_type": "Core"}, 0.6 + 0.2),
        ({"content": "always tea", "memory_type": "Factual"}, 0.6 * 0.8 + 0.2 + 0.2 * 2 / 12),
        ({"content": "préfère thé"}, 0.6 * 0.5 + 0.2 + 0.2 * 2 / 12),
        ({"content": "whatever", "metadata": {"importance": 0.33}}, 0.33),
    ],
)
def test_importance_follows_its_formula(client: Client, fields: Json, score: float) -> None:
    assert add(client, user_id="important", **fields)["importance_score"] == pytest.approx(score, abs=0.0051)


def test_agents_are_counted_right_after_deletions(shared: Installation, client: Client) -> None:
    for number in range(4):
        add(client, f"entry number {number}", "counted", agent_id="count_er")
    assert counts(client)["count_er"] == 4
    listed = shared.call(
        "retrieve_memory", query="entry number", top_k=4, filter={"source": "agentmem:counted", "scope": "AgentMem"}
    )
    ids = [one["memory_id"] for one in listed["results"]]
    shared.call("delete_memory", target={"memory_id": ids[0]})
    shared.call("delete_memory", target={"memory_id": ids[1]}, forget_mode="hard")
    assert counts(client)["count_er"] == 2
    assert len(found(client, "entry", "counted", agent_id="count_er")) == 2
    for one in ids[2:]:
        shared.call("delete_memory", target={"memory_id": one})
    assert counts(client)["count_er"] == 0
    assert found(client, "entry", "counted", agent_id="count_er") == [], "it exists, and has nothing"


def test_chat_without_a_model_answers_from_the_memories_and_says_so(client: Client) -> None:
    add(client, "Her dog is called Bolt", "chatty")
    reply = use(client, "chat", message="What is the name of the dog?", user_id="chatty")
    assert "Bolt" in reply["response"]
    assert reply["generated"] is False
    assert reply["memories_used"] == reply["memory_context_used"]
    for off in ({"include_memories": False}, {"use_memory": False}, {"max_memories": 0}):
        silent = use(client, "chat", message="What is the name of the dog?", user_id="chatty", **off)
        assert silent["memories_used"] == []
        assert "Bolt" not in silent["response"]
    assert use(client, "chat", message="anything?", user_id="nobody")["memories_used"] == []


def test_an_agent_in_a_chat_sees_what_belongs_to_no_other_agent(client: Client) -> None:
    add(client, "Shared: the parrot is green", "house")
    add(client, "Mine: the parrot is loud", "house", agent_id="mine")
    add(client, "Theirs: the parrot bites", "house", agent_id="theirs")
    used = use(client, "chat", message="the parrot", user_id="house", agent_id="mine")["memories_used"]
    assert {one["content"].split(":")[0] for one in used} == {"Shared", "Mine"}
    prompt = use(client, "get_system_prompt", user_id="house", agent_id="mine", include_history=True)
    assert "Theirs" not in prompt["system_prompt"]
    assert prompt["context"]["memory_count"] == 2
    assert found(client, "parrot", "house", agent_id="mine") == ["Mine: the parrot is loud"]


def test_a_system_prompt_holds_preferences_and_history_when_asked(client: Client) -> None:
    add(client, "Prefers tea to coffee", "prompted", memory_type="Factual")
    add(client, "Lives in Lund", "prompted", memory_type="Core")
    add(client, "Went sailing", "prompted", memory_type="Episodic")
    full = use(client, "get_system_prompt", user_id="prompted", include_history=True)
    assert full["context"]["preferences"] == ["Prefers tea to coffee"]
    assert all(words in full["system_prompt"] for words in ("tea", "Lund", "sailing"))
    bare = use(client, "get_system_prompt", user_id="prompted", include_preferences=False)
    assert bare["context"]["preferences"] == []
    assert "tea" not in bare["system_prompt"]
    assert "sailing" not in bare["system_prompt"]
    empty = use(client, "get_system_prompt", user_id="unknown")
    assert empty["context"] == {"preferences": [], "memory_count": 0, "last_active": None}


def test_the_backend_that_is_gone_is_said_to_be_unavailable(installation: Installation) -> None:
    broken = {
        "INFINITE_MEMORY_MONGODB__URI": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=200",
        "INFINITE_MEMORY_MONGODB__TIMEOUT_S": "1",
        "INFINITE_MEMORY_RECALL__WAIT_S": "1",
    }
    client = installation.serve("--contract", "agentmem", environ=broken)
    client.initialize()
    assert code(use(client, "add_memory", content="x", user_id="u")) == "BACKEND_UNAVAILABLE"


def test_the_tools_are_the_documents(client: Client) -> None:
    tools = {one["name"]: one["inputSchema"] for one in client.rpc(1, "tools/list")["result"]["tools"]}
    assert set(tools) == {
        f"agentmem_{name}" for name in ("add_memory", "search_memories", "chat", "get_system_prompt", "list_agents")
    }
    assert tools["agentmem_add_memory"]["required"] == ["content", "user_id"]
    defaults = {name: one.get("default") for name, one in tools["agentmem_search_memories"]["properties"].items()}
    assert (defaults["limit"], defaults["search_type"]) == (10, "hybrid")
    assert tools["agentmem_add_memory"]["properties"]["memory_type"]["default"] == "Episodic"
    prompt = tools["agentmem_get_system_prompt"]["properties"]
    assert [prompt[name]["default"] for name in ("include_preferences", "include_history", "max_context")] == [
        True,
        False,
        10,
    ]
    assert tools["agentmem_chat"]["properties"]["max_memories"]["default"] == 5


def test_what_was_added_is_there_after_the_daemon_was_killed(installation: Installation) -> None:
    client = open_client(installation)
    kept = add(client, "survives", "u")
    client.kill()
    installation.kill_everything()
    until(lambda: installation.daemon_pid() is None, "the daemon is gone")
    client = open_client(installation)
    assert found(client, "survives", "u") == ["survives"]
    assert add(client, "survives", "u")["memory_id"] == kept["memory_id"]


def test_many_who_say_the_same_at_once_make_one_memory(client: Client) -> None:
    call = {"name": "agentmem_add_memory", "arguments": {"content": "the same at once", "user_id": "chorus"}}
    for number in range(8):
        client.send({"jsonrpc": "2.0", "id": 100 + number, "method": "tools/call", "params": call})
    outcomes = [client.answer()["result"]["structuredContent"]["outcome"] for _ in range(8)]
    assert sorted(outcomes) == ["duplicate"] * 7 + ["stored"]
    assert found(client, "same", "chorus") == ["the same at once"]
