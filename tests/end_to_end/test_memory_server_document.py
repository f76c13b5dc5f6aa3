"""The Memory Server's document, block by block over a real `serve`, then its error table and its environment variables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.matching import differences, filled, look_up
from tests.processes import Client, Installation

Json = dict[str, Any]

DOCUMENT: Json = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "contracts" / "memory-server.json").read_text("utf-8")
)
NOTE = {"type": "note", "content": {"text": "tea at four"}, "source": "test://1", "confidence": 0.5}


def begin(installation: Installation, **environ: str) -> Client:
    """Start a session in the contract and go through the handshake."""
    client = installation.serve("--contract", "memory-server", environ=environ)
    assert "result" in client.initialize()
    return client


@pytest.fixture
def client(shared: Installation) -> Iterator[Client]:
    """A session of the daemon that this file shares."""
    yield begin(shared)


def create(client: Client, **changes: Any) -> Json:
    """Save a note, in which some fields are others."""
    return client.tool(1, "memory_create", **{name: one for name, one in (NOTE | changes).items() if one != "absent"})


def test_every_block_of_the_document_is_answered_or_has_its_reason() -> None:
    numbers = [one["block"] for one in DOCUMENT["blocks"]]
    assert numbers == list(range(1, 17)), "16 fenced blocks stand in the document"
    assert DOCUMENT["blocks_in_document"] == 16
    for block in DOCUMENT["blocks"]:
        assert ("exchanges" in block) is not ("elsewhere" in block), block["at"]
    assert [one["block"] for one in DOCUMENT["blocks"] if "elsewhere" in one] == [15, 16]


def test_the_documents_requests_get_the_documented_replies(installation: Installation) -> None:
    seeding = begin(installation)
    for request in DOCUMENT["setup"]:
        seeding.send(request)
        assert "result" in seeding.answer()
    client = installation.serve("--contract", "memory-server")
    names: Json = {}
    for block in DOCUMENT["blocks"]:
        if block.get("new_session"):
            client = installation.serve("--contract", "memory-server")
        for exchange in block.get("exchanges", ()):
            request = filled(exchange["request"], names)
            client.send(request)
            reply = client.answer()
            wanted = json.loads(
                json.dumps(exchange["reply"]).replace("<as asked>", str(request["params"].get("protocolVersion")))
                if "params" in request
                else json.dumps(exchange["reply"])
            )
            assert reply["id"] == request["id"]
            assert list(differences(reply, wanted)) == [], f"block {block['block']}, {block['at']}"
            names |= {name: look_up(reply, path) for name, path in exchange.get("keep", {}).items()}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"type": "absent"}, "type: is required"),
        ({"content": "absent"}, "content: is required"),
        ({"content": None}, "content: is required"),
        ({"source": "absent"}, "source: is required"),
        ({"confidence": "absent"}, "confidence: is required"),
        ({"confidence": 1.5}, "confidence: 1.5 is not a number from 0 to 1"),
        ({"confidence": True}, "confidence: True is not a number"),
        ({"tags": ["Blue"]}, "tags[0]: 'Blue' is not a tag that matches"),
        ({"tags": ["a b"]}, "tags[0]: 'a b' is not"),
        ({"tags": [""]}, "tags[0]: '' is not"),
        ({"tags": ["a" * 101]}, "tags[0]: "),
        ({"tags": [f"t{number}" for number in range(21)]}, "21 tags is more than the limit of 20"),
        ({"content": {"text": "x" * 10_000}}, "content: 10,011 characters of JSON is more than the limit of 10,000"),
    ],
)  # fmt: skip
def test_what_the_document_refuses_to_save_is_an_error_that_says_what_is_wrong(
    client: Client, arguments: Json, named: str
) -> None:
    error = create(client, **arguments)["error"]
    assert error["code"] == -32000
    assert named in error["message"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "query: is required"),
        ({"query": " "}, "query: is blank"),
        ({"query": "x" * 1001}, "query: 1,001 characters is more than the limit of 1,000"),
        ({"query": "tea", "limit": 0}, "limit: 0 is not"),
        ({"query": "tea", "limit": "many"}, "limit: 'many' is not"),
        ({"query": "tea", "tags": ["NO"]}, "tags[0]: 'NO' is not"),
    ],
)
def test_what_the_document_refuses_to_search_is_an_error_that_says_what_is_wrong(
    client: Client, arguments: Json, named: str
) -> None:
    error = client.tool(1, "memory_search", **arguments)["error"]
    assert error["code"] == -32000
    assert named in error["message"]


def test_each_operational_error_has_the_documents_code(shared: Installation) -> None:
    client = shared.serve("--contract", "memory-server")
    assert client.tool(1, "memory_list")["error"]["code"] == -32002
    assert client.rpc(2, "ping")["result"] == {}
    client.initialize()
    again = client.rpc(3, "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={})
    assert again["error"]["code"] == -32002
    assert client.tool(4, "memory_forge")["error"]["code"] == -32601
    assert client.rpc(5, "no/such")["error"]["code"] == -32601
    assert client.rpc(6, "resources/read", uri="mem://item/123e4567")["error"]["code"] == -32002
    assert client.rpc(7, "resources/read", uri="mem://recent?limit=0")["error"]["code"] == -32000
    assert client.rpc(8, "prompts/get", name="memory_forget")["error"]["code"] == -32000
    assert client.rpc(9, "tools/call", name="memory_list", arguments=[])["error"]["code"] == -32000
    client.send_bytes(b"{nonsense\n")
    broken = client.answer()
    assert (broken["id"], broken["error"]["code"]) == (None, -32700)


def test_a_session_whose_first_line_is_nonsense_is_answered_in_json_rpc(shared: Installation) -> None:
    client = shared.serve("--contract", "memory-server")
    client.send_bytes(b"hello\n")
    assert client.answer()["error"]["code"] == -32700
    assert "result" in client.initialize()


def test_saving_again_merges_whatever_the_order_of_keys_and_never_doubles(shared: Installation) -> None:
    client, other = begin(shared), begin(shared)
    content = {"a": 1, "b": {"c": [1, 2.0], "d": "x"}}
    first = create(client, type="merge", content=content, tags=["project:p1"], confidence=0.9)
    turned = {"b": {"d": "x", "c": [1.0, 2]}, "a": 1.0}
    second = create(other, type=" merge ", content=turned, tags=["project:p2", "project:p1"], confidence="0.4")
    third = create(client, type="merge", content=content, tags=["project:p1"], confidence=0.9)
    one, two, three = (reply["result"]["structuredContent"]["items"][0] for reply in (first, second, third))
    assert one["id"] == two["id"] == three["id"]
    assert one["createdAt"] == two["createdAt"] == three["createdAt"]
    assert [entry["outcome"] for entry in (one, two, three)] == ["stored", "updated", "duplicate"]
    assert (two["tags"], two["confidence"]) == (["project:p1", "project:p2"], 0.9)
    assert one["updatedAt"] <= two["updatedAt"] <= three["updatedAt"]
    listed = client.tool(5, "memory_list", type="merge")["result"]["structuredContent"]
    assert (listed["total"], [entry["id"] for entry in listed["items"]]) == (1, [one["id"]])
    other_order = create(client, type="merge", content={"a": 1, "b": {"c": [2, 1], "d": "x"}})
    assert other_order["result"]["structuredContent"]["items"][0]["outcome"] == "stored"


def test_what_is_saved_is_an_ordinary_memory_and_what_is_forgotten_elsewhere_comes_back_when_saved(
    installation: Installation,
) -> None:
    client = begin(installation)
    saved = create(client, tags=["topic:tea"])["result"]["structuredContent"]["items"][0]
    found = installation.call("retrieve_memory", query="when is tea?")["results"]
    assert [(one["memory_id"], one["text"]) for one in found] == [(saved["id"], "tea at four")]
    installation.call("delete_memory", target={"memory_id": saved["id"]})
    assert client.tool(2, "memory_list")["result"]["structuredContent"]["items"] == []
    again = create(client, tags=["topic:four"])["result"]["structuredContent"]["items"][0]
    assert (again["id"], again["tags"]) == (saved["id"], ["topic:tea", "topic:four"])
    installation.call("update_memory", memory_id=saved["id"], content="tea at five")
    other = create(client)["result"]["structuredContent"]["items"][0]
    assert (other["id"] == saved["id"], other["outcome"]) == (False, "stored")
    changed = client.rpc(9, "resources/read", uri=f"mem://item/{saved['id']}")["result"]["contents"][0]["text"]
    assert json.loads(changed)["content"] == {"text": "tea at five"}


def test_limits_above_the_maximum_are_lowered_and_any_of_several_tags_matches(shared: Installation) -> None:
    client = begin(shared, SEARCH_MAX_LIMIT="2", SEARCH_DEFAULT_LIMIT="1", MAX_TAGS_COUNT="2", MAX_CONTENT_LENGTH="40")
    for number, tag in enumerate(("any:a", "any:b", "any:c")):
        assert "result" in create(client, type="limited", content={"text": f"tea {number}"}, tags=[tag])
    found = client.tool(2, "memory_search", query="tea", type="limited", limit=50)["result"]["structuredContent"]
    assert len(found["items"]) == 2
    assert len(client.tool(3, "memory_search", query="tea")["result"]["structuredContent"]["items"]) == 1
    tagged = client.tool(4, "memory_list", tags=["any:a", "any:c"])["result"]["structuredContent"]["items"]
    assert {tag for one in tagged for tag in one["tags"]} == {"any:a", "any:c"}
    text = client.rpc(5, "resources/read", uri="mem://by-type/limited?limit=9")["result"]["contents"][0]["text"]
    assert len(json.loads(text)) == 2
    assert "limit of 2" in create(client, tags=["a", "b", "c"])["error"]["message"]
    assert "limit of 40" in create(client, content={"text": "x" * 40})["error"]["message"]
    wrong = shared.serve("--contract", "memory-server", environ={"MAX_TAGS_COUNT": "few"})
    assert wrong.process.wait(30) == 2
    assert "MAX_TAGS_COUNT = 'few' is not a whole number" in wrong.errors()


def test_variables_that_are_not_followed_are_named_on_standard_error_without_their_values(shared: Installation) -> None:
    client = begin(
        shared, DATABASE_URL="postgres://user:secret@host/db", EMBEDDINGS_POOLING="mean", DB_MAX_POOL_SIZE="5",
        EMBEDDINGS_MODEL="Xenova/all-MiniLM-L6-v2", MCP_PROTOCOL_VERSION="2025-06-18",
    )  # fmt: skip
    said = client.errors()
    assert "DATABASE_URL is ignored" in said
    assert "DB_MAX_POOL_SIZE is ignored" in said
    assert "secret" not in said
    assert "POOLING" not in said
    assert "embedding.model" not in said, "the default model by its name on the hub is the default model"


def test_the_version_of_the_environment_is_offered_to_a_client_that_asks_for_an_unknown_one(
    shared: Installation,
) -> None:
    for given, answered in (({}, "2024-11-05"), ({"MCP_PROTOCOL_VERSION": "2025-06-18"}, "2025-06-18")):
        client = shared.serve("--contract", "memory-server", environ=given)
        reply = client.rpc(1, "initialize", protocolVersion="1999-01-01", capabilities={}, clientInfo={})
        assert reply["result"]["protocolVersion"] == answered


def test_unknown_fields_are_named_in_a_warning(client: Client) -> None:
    structured = client.tool(1, "memory_list", tag=["project:p1"])["result"]["structuredContent"]
    assert structured["warnings"] == ["tag is not known and was ignored; did you mean tags?"]


def test_the_contract_is_served_in_process_too(installation: Installation) -> None:
    client = installation.serve("--contract", "memory-server", "--in-process")
    assert "result" in client.initialize()
    assert create(client)["result"]["structuredContent"]["items"][0]["outcome"] == "stored"
    assert client.close() == 0
