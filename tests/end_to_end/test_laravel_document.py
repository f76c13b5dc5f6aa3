"""The Laravel contract's document, block by block over a real `serve`, then its enums, rules and failures row by row."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.matching import differences, filled, look_up
from tests.processes import Client, Installation

Json = dict[str, Any]

DOCUMENT: Json = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "contracts" / "laravel.json").read_text("utf-8")
)
SCOPES = ("system", "organization", "repository", "user")
STATES = ("draft", "verified", "locked", "deprecated", "active")
TYPES = (
    "business_rule", "decision_log", "preference", "system_constraint", "documentation", "tech_stack", "fact", "task",
    "architecture", "user_context", "convention", "risk",
)  # fmt: skip
NOBODY = "00000000-0000-4000-8000-000000000000"


def open_client(installation: Installation, *arguments: str) -> Client:
    """Begin a session."""
    client = installation.serve("--contract", "laravel", *arguments)
    client.initialize()
    return client


@pytest.fixture(scope="module")
def client(shared: Installation) -> Iterator[Client]:
    """A session that the tests of this file share; each writes for an organization or with words of its own."""
    yield open_client(shared)


def use(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool and give its result: parsed where it is JSON."""
    reply = client.tool(1, tool, **arguments)
    assert "result" in reply, reply
    text = reply["result"]["content"][0]["text"]
    return json.loads(text) if text[:1] in "[{" else text


def refusal(client: Client, tool: str, **arguments: Any) -> Json:
    """Call a tool that fails and give the error."""
    error: Json = client.tool(1, tool, **arguments)["error"]
    return error


def write(client: Client, text: str, **fields: Any) -> Json:
    """Write a memory that shows only what a test is about."""
    given = {"organization": "acme", "scope_type": "system", "memory_type": "fact", "current_content": text}
    written: Json = use(client, "memory-write", **(given | fields))
    return written


def found(client: Client, query: str | None = None, **filters: Any) -> list[str]:
    """Search and give the contents."""
    return [one["current_content"] for one in use(client, "memory-search", query=query, filters=filters)]


def read(client: Client, uri: str) -> Any:
    """Read a resource, parsed."""
    return json.loads(client.rpc(1, "resources/read", uri=uri)["result"]["contents"][0]["text"])


def test_every_block_of_the_document_is_answered() -> None:
    blocks = DOCUMENT["blocks"]
    assert [one["block"] for one in blocks] == list(range(1, 19)), "18 fenced blocks stand in the document"
    assert DOCUMENT["blocks_in_document"] == 18
    answered = {
        one["reply_in_block"] for block in blocks for one in block.get("exchanges", ()) if "reply_in_block" in one
    }
    for block in blocks:
        [kind] = [kind for kind in ("exchanges", "reply", "schema", "prompt") if kind in block]
        assert kind != "reply" or block["block"] in answered


def test_the_documents_requests_get_the_documented_replies(installation: Installation) -> None:
    client = open_client(installation)
    blocks = {one["block"]: one for one in DOCUMENT["blocks"]}
    names: Json = {}
    for block in blocks.values():
        for exchange in block.get("exchanges", ()):
            client.send(filled(exchange["request"], names))
            reply = client.answer()
            answering = blocks[exchange["reply_in_block"]] if "reply_in_block" in exchange else exchange
            wanted = filled(answering["reply"], names)
            assert list(differences(reply, wanted)) == [], f"block {block['block']}, {block['at']}"
            names |= {name: look_up(reply, path) for name, path in answering.get("keep", {}).items()}


@pytest.mark.parametrize("block", [one for one in DOCUMENT["blocks"] if "schema" in one], ids=lambda one: one["at"])
def test_the_tools_take_what_the_document_says(client: Client, block: Json) -> None:
    wanted = block["schema"]
    [tool] = [one for one in client.rpc(1, "tools/list")["result"]["tools"] if one["name"] == wanted["tool"]]
    schema = tool["inputSchema"]
    assert set(schema["properties"]) == {*wanted["required"], *wanted["optional"]}
    assert schema.get("required", []) == wanted["required"]
    defaults = {name: one["default"] for name, one in schema["properties"].items() if "default" in one}
    assert defaults == wanted["defaults"]
    new = write(client, "a default")
    assert {name: new[name] for name in wanted.get("a_new_memory_has", ())} == wanted.get("a_new_memory_has", {})
    if "filters" in wanted:
        assert list(schema["properties"]["filters"]["properties"]) == wanted["filters"]


@pytest.mark.parametrize("block", [one for one in DOCUMENT["blocks"] if "prompt" in one], ids=lambda one: one["at"])
def test_the_prompts_say_what_the_document_says(client: Client, block: Json) -> None:
    wanted = block["prompt"]
    listed = [one["name"] for one in client.rpc(1, "prompts/list")["result"]["prompts"]]
    assert wanted["name"] in listed
    message = client.rpc(1, "prompts/get", name=wanted["name"])["result"]["messages"][0]
    for words in wanted["mentions"]:
        assert words in message["content"]["text"], words


def test_the_server_is_named_as_in_its_manifest(shared: Installation) -> None:
    begun = shared.serve("--contract", "laravel").initialize()["result"]
    assert (begun["serverInfo"]["name"], begun["serverInfo"]["version"]) == ("Memory MCP Server", "1.0.0")
    assert begun["instructions"].startswith(
        "Manages structured memories (facts, preferences, rules) for the application."
    )
    assert "hierarchical searching and versioning" in begun["instructions"]


@pytest.mark.parametrize(
    ("field", "values"),
    [("scope_type", SCOPES), ("status", STATES), ("memory_type", TYPES)],
    ids=lambda one: str(one)[:12],
)
def test_each_value_of_an_enum_is_taken_and_another_is_refused_with_all_that_are(
    client: Client, field: str, values: tuple[str, ...]
) -> None:
    for value in values:
        assert write(client, f"the {field} {value}", repository="enums", **{field: value})[field] == value
    given = {"organization": "acme", "scope_type": "system", "memory_type": "fact", "current_content": "x"}
    for tool, arguments in (
        ("memory-write", given | {field: "Nonsense"}),
        ("memory-update", {"id": NOBODY, field: "Nonsense"}),
    ):
        error = refusal(client, tool, **arguments)
        assert error["code"] == -32602
        [message] = error["data"][field]
        assert "Nonsense" in message
        assert all(f"'{value}'" in message for value in values)
    error = refusal(client, "memory-search", filters={field: "Nonsense"})
    assert list(error["data"]) == [f"filters.{field}"]


def test_every_wrong_field_is_named_at_once(client: Client) -> None:
    error = refusal(client, "memory-write", organization=" ", memory_type="fact", importance=11, id="no uuid")
    assert error["code"] == -32602
    assert set(error["data"]) == {"organization", "scope_type", "current_content", "importance", "id"}
    assert all(isinstance(message, str) for messages in error["data"].values() for message in messages)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory-update", {"id": NOBODY, "title": "x"}),
        ("memory-delete", {"id": NOBODY}),
        ("memory-restore", {"id": NOBODY}),
        ("memory-link", {"source_id": NOBODY, "target_id": NOBODY}),
    ],
)
def test_an_unknown_id_is_a_404(client: Client, tool: str, arguments: Json) -> None:
    error = refusal(client, tool, **arguments)
    assert (error["code"], error["data"]["status"]) == (-32004, 404)


def test_a_tool_that_does_not_exist_is_named(client: Client) -> None:
    error = refusal(client, "memory-writ")
    assert error["code"] == -32602
    assert "memory-write" in error["message"]


def test_writing_with_an_id_makes_it_and_then_updates_it(client: Client) -> None:
    uuid = str(uuid4())
    made = write(client, "the moon is chalk", id=uuid.upper(), title="Moon", metadata={"seen": True})
    assert (made["id"], made["outcome"]) == (uuid, "stored")
    changed = write(client, "the moon is basalt", id=uuid)
    assert (changed["id"], changed["outcome"], changed["title"]) == (uuid, "updated", "Moon")
    assert changed["created_at"] == made["created_at"]
    assert write(client, "the moon is basalt", id=uuid)["outcome"] == "unchanged"
    assert found(client, "moon") == ["the moon is basalt"]
    use(client, "memory-delete", id=uuid)
    assert found(client, "moon") == []
    assert write(client, "the moon is back", id=uuid)["id"] == uuid
    assert found(client, "moon") == ["the moon is back"]


def test_a_partial_update_leaves_the_rest_and_keeps_every_version(client: Client) -> None:
    made = write(client, "tabs are two wide", title="Tabs", metadata={"by": "Ada", "line": 3}, importance=4)
    assert use(client, "memory-update", id=made["id"], current_content="tabs are four wide")["title"] == "Tabs"
    changed = use(client, "memory-update", id=made["id"], metadata={"by": None})
    assert (changed["metadata"], changed["importance"]) == ({"by": None}, 4)
    assert use(client, "memory-update", id=made["id"], current_content="tabs are four wide")["outcome"] == "unchanged"
    history = read(client, f"memory://{made['id']}/history")
    assert [(one["version"], one["content"]) for one in history] == [
        (1, "tabs are two wide"), (2, "tabs are four wide"), (3, "tabs are four wide"),
    ]  # fmt: skip
    assert history[0]["metadata"] == {"by": "Ada", "line": 3}
    whole = read(client, f"memory://{made['id']}")
    assert whole["current_content"] == "tabs are four wide"
    assert use(client, "memory-update", id=made["id"], metadata="")["outcome"] == "unchanged"
    assert use(client, "memory-update", id=made["id"], metadata={})["metadata"] == {}
    assert found(client, "two wide tabs") == ["tabs are four wide"], "by the words it has now"


def test_a_long_history_shows_its_latest_versions(client: Client) -> None:
    memory_id = write(client, "draft 1")["id"]
    for number in range(2, 104):
        use(client, "memory-update", id=memory_id, current_content=f"draft {number}")
    history = read(client, f"memory://{memory_id}/history")
    assert [(one["version"], one["content"]) for one in history] == [(n, f"draft {n}") for n in range(3, 104)]


def test_a_locked_memory_refuses_new_content_until_it_is_unlocked(client: Client) -> None:
    made = write(client, "never deploy on Fridays", status="locked", title="Fridays")
    for field, value in (
        ("current_content", "deploy"), ("title", "x"), ("memory_type", "risk"), ("scope_type", "user"),
        ("metadata", {"a": 1}),
    ):  # fmt: skip
        error = refusal(client, "memory-update", id=made["id"], **{field: value})
        assert error["code"] == -32602
        assert "locked" in error["data"]["id"][0]
    assert refusal(client, "memory-delete", id=made["id"])["code"] == -32602
    assert use(client, "memory-update", id=made["id"], importance=9)["importance"] == 9
    assert use(client, "memory-update", id=made["id"], current_content="never deploy on Fridays", status="active")
    assert use(client, "memory-update", id=made["id"], current_content="deploy")["current_content"] == "deploy"


def test_a_deprecated_memory_is_found_only_when_asked_for(client: Client) -> None:
    made = write(client, "the quagga server is called Otto", status="deprecated")
    assert found(client, "quagga") == []
    assert found(client, "quagga", status="deprecated") == ["the quagga server is called Otto"]
    assert made["id"] not in [one["id"] for one in read(client, "memory://index")]


def test_matches_come_by_relevance_then_importance_then_the_newest(client: Client) -> None:
    for text, importance in (("heron one", 2), ("heron two", 9), ("heron three", 9), ("heron heron nest", 1)):
        write(client, text, importance=importance)
    listed = use(client, "memory-search", query="heron nest")
    assert listed[0]["current_content"] == "heron heron nest"
    assert [one["current_content"] for one in listed[1:]] == ["heron three", "heron two", "heron one"]
    relevance = [one["relevance"] for one in listed]
    assert relevance == sorted(relevance, reverse=True)
    assert all(0 < one <= 10 for one in relevance)
    assert found(client, "egret") == []
    without = use(client, "memory-search", filters={"memory_type": "fact"})
    assert all("relevance" not in one for one in without)
    keys = [(-one["importance"], one["created_at"]) for one in without]
    assert [key[0] for key in keys] == sorted(key[0] for key in keys)


def test_every_match_is_given_however_many_there_are(client: Client) -> None:
    entry = {"organization": "many", "scope_type": "organization", "memory_type": "task"}
    for start in (0, 600):
        items = [entry | {"current_content": f"polder number {number}"} for number in range(start, start + 600)]
        assert len(use(client, "memory-batch-write", items=items)["items"]) == 600
    assert len(use(client, "memory-search", query="polder", filters={"memory_type": "task"})) == 1200
    assert len(read(client, "memory://index")) == 50


def test_an_answer_that_is_too_large_asks_for_a_filter(shared: Installation) -> None:
    client = open_client(shared, "--set", "limits.reply_bytes=2000", "--organization", "large")
    for number in range(8):
        write(client, f"fjord {number} " + "x" * 400, organization="large", scope_type="organization")
    error = refusal(client, "memory-search", query="fjord")
    assert error["code"] == -32602
    assert "filter" in error["message"]


def test_metadata_filters_compare_values_and_nothing_else(client: Client) -> None:
    write(client, "ibis with a nest", metadata={"nest": {"eggs": 2}, "ok": True})
    write(client, "ibis without one", metadata={"nest": None, "ok": 1})
    assert found(client, "ibis", metadata={"nest": {"eggs": 2}}) == ["ibis with a nest"]
    assert found(client, "ibis", metadata={"ok": True}) == ["ibis with a nest"]
    assert found(client, "ibis", metadata={"nest": {"$ne": ""}}) == []


def test_the_hierarchy_shows_what_a_repository_belongs_to(shared: Installation) -> None:
    writer = open_client(shared, "--user", "ada")
    for organization, repository, reach, text in (
        ("north", None, "system", "lynx of the system"),
        ("north", None, "organization", "lynx of north"),
        ("south", None, "organization", "lynx of south"),
        ("north", "web", "repository", "lynx of web"),
        ("north", "app", "repository", "lynx of app"),
        ("north", None, "user", "lynx of ada"),
    ):
        fields = {"repository": repository} if repository else {}
        write(writer, text, organization=organization, scope_type=reach, **fields)
    everything = {"system", "north", "south", "web", "app"}

    def seen(client: Client, **filters: Any) -> set[str]:
        return {text.rsplit(" ", 1)[1] for text in found(client, "lynx", **filters)}

    assert seen(writer) == {*everything, "ada"}
    assert seen(writer, repository="web") == {"system", "north", "web", "ada"}, "its organization is known through it"
    assert seen(open_client(shared, "--user", "eve")) == everything
    assert seen(open_client(shared)) == everything
    assert seen(open_client(shared, "--organization", "South")) == {"system", "south"}
    assert seen(open_client(shared, "--organization", "north"), repository="app") == {"system", "north", "app"}
    assert seen(writer, scope_type="repository") == {"web", "app"}


def test_what_is_another_users_is_out_of_reach_by_any_tool(shared: Installation) -> None:
    ada, eve = open_client(shared, "--user", "ada"), open_client(shared, "--user", "eve")
    secret = write(ada, "the ocelot key is under the mat", scope_type="user")["id"]
    other = write(eve, "a puma")["id"]
    assert found(eve, "ocelot") == []
    assert secret not in json.dumps(use(eve, "memory-vector-search", query="where is the key"))
    assert secret not in [one["id"] for one in read(eve, "memory://index")]
    for tool, arguments in (
        ("memory-update", {"id": secret, "title": "x"}), ("memory-delete", {"id": secret}), ("memory-restore", {"id": secret}),
        ("memory-link", {"source_id": secret, "target_id": other}), ("memory-link", {"source_id": other, "target_id": secret}),
        ("memory-write", {"id": secret, "organization": "o", "scope_type": "system", "memory_type": "fact", "current_content": "x"}),
    ):  # fmt: skip
        assert refusal(eve, tool, **arguments)["code"] == -32004, tool
    for uri in (f"memory://{secret}", f"memory://{secret}/history"):
        assert eve.rpc(1, "resources/read", uri=uri)["error"]["code"] == -32004
    assert found(ada, "ocelot") == ["the ocelot key is under the mat"]


@pytest.mark.parametrize("tool", ["memory-batch-write", "memory-bulk-write"])
def test_a_batch_is_written_whole_or_not_at_all(client: Client, tool: str) -> None:
    word = tool.removeprefix("memory-").removesuffix("-write")
    good = {"organization": "acme", "scope_type": "system", "memory_type": "fact", "current_content": f"walrus {word}"}
    locked = write(client, f"walrus rule {word}", status="locked")["id"]
    known = write(client, f"narwhal {word}")["id"]
    error = refusal(client, tool, items=[good, good | {"memory_type": "nonsense", "importance": 0}, "no object"])
    assert set(error["data"]) == {"items.1.memory_type", "items.1.importance", "items.2"}
    for bad in (good | {"id": locked}, good | {"id": known, "current_content": "changed"}):
        error = refusal(client, tool, items=[good | {"id": known, "current_content": "changed"}, good, bad])
        assert error["code"] == -32602
    assert sorted(found(client, f"walrus {word}")) != []
    assert found(client, f"walrus {word}").count(f"walrus {word}") == 0
    assert found(client, f"narwhal {word}")[0] == f"narwhal {word}"
    done = use(client, tool, items=[good | {"id": known, "current_content": f"narwhal seen {word}"}, good])["items"]
    assert [one["outcome"] for one in done] == ["updated", "stored"]
    assert refusal(client, tool, items=[])["code"] == -32602
    use(client, "memory-delete", id=known)
    again = use(client, tool, items=[good | {"id": known, "current_content": f"narwhal back {word}"}])["items"]
    assert [(one["id"], one["outcome"]) for one in again] == [(known, "updated")]
    assert f"narwhal back {word}" in found(client, f"narwhal {word}")
    assert (
        use(client, tool, items=[good | {"id": known, "current_content": f"narwhal back {word}"}])["items"][0][
            "outcome"
        ]
        == "unchanged"
    )
    assert [one["content"] for one in read(client, f"memory://{known}/history")] == [
        f"narwhal {word}", f"narwhal seen {word}", f"narwhal back {word}",
    ]  # fmt: skip


def test_links_are_shown_with_both_memories_and_go_with_a_removed_one(shared: Installation, client: Client) -> None:
    one, other, third = (write(client, f"tapir {number}")["id"] for number in ("one", "two", "three"))
    for target, relation in ((other, "depends_on"), (other, "depends_on"), (third, "supersedes")):
        text = use(client, "memory-link", source_id=one, target_id=target, relation_type=relation)
        assert text == f"Memories linked successfully as '{relation}'."
    links = read(client, f"memory://{one}")["links"]
    assert [(link["source_id"], link["target_id"], link["relation_type"]) for link in links] == [
        (one, other, "depends_on"), (one, third, "supersedes"),
    ]  # fmt: skip
    assert read(client, f"memory://{other}")["links"] == links[:1]
    use(client, "memory-delete", id=third)
    assert read(client, f"memory://{one}")["links"] == links[:1], "a deleted end is not shown"
    use(client, "memory-restore", id=third)
    assert read(client, f"memory://{one}")["links"] == links
    native = shared.call("retrieve_memory", query="tapir two", filter={"scope": "Laravel"})["results"][0]
    shared.call("delete_memory", target={"memory_id": native["memory_id"]}, forget_mode="hard")
    assert read(client, f"memory://{one}")["links"] == links[1:]
    assert refusal(client, "memory-link", source_id=one, target_id=one)["code"] == -32602


def test_what_is_near_in_meaning_is_found_by_text_and_by_vector(client: Client) -> None:
    write(client, "Our canteen serves lunch at noon.", scope_type="organization", organization="food")
    near = use(client, "memory-vector-search", query="When can I eat at midday?", limit=3)
    assert near[0]["current_content"] == "Our canteen serves lunch at noon."
    assert len(near) == 3
    assert -1 <= near[2]["similarity"] <= near[0]["similarity"] <= 1
    vector = [1.0] + [0.0] * 383
    assert len(use(client, "memory-vector-search", vector=vector, limit=2)) == 2
    for arguments in (
        {}, {"query": "x", "vector": vector}, {"vector": [0.0] * 384}, {"vector": [1.0]}, {"vector": "1,2"}, {"vector": [True]},
    ):  # fmt: skip
        assert refusal(client, "memory-vector-search", **arguments)["code"] == -32602, arguments


def test_the_index_shows_no_content_and_only_light_metadata(client: Client) -> None:
    metadata = {"a": 1, "deep": {"b": 2}, "list": [1], "long": "x" * 300} | {
        f"k{number}": number for number in range(9)
    }
    text = use(client, "memory-write", organization="acme", scope_type="system", memory_type="fact",
               current_content="secret content of a stoat", title="1 2 3 4 5 6 7 8 9 10 11 12 13",
               metadata=metadata)  # fmt: skip
    assert len(text["warnings"]) == 2
    index = read(client, "memory://index")
    assert "secret content" not in json.dumps(index)
    assert index[0]["id"] == text["id"]
    assert index[0]["metadata"] == {"a": 1, "k0": 0, "k1": 1, "k2": 2, "k3": 3}
    assert text["metadata"] == metadata


def test_documents_are_there_and_other_addresses_are_not_found(client: Client) -> None:
    uris = [one["uri"] for one in client.rpc(1, "resources/list")["result"]["resources"]]
    assert uris == ["memory://index", "docs://mcp-overview", "docs://tools-guide", "docs://memory-rules"]
    for uri in uris[1:]:
        assert re.match("# ", client.rpc(1, "resources/read", uri=uri)["result"]["contents"][0]["text"])
    assert client.rpc(1, "resources/read", uri=f"memory://{NOBODY}")["error"]["code"] == -32004
    assert client.rpc(1, "resources/read", uri="docs://nothing")["error"]["code"] == -32002
    assert client.rpc(1, "prompts/get", name="nothing")["error"]["code"] == -32602
    templates = client.rpc(1, "resources/templates/list")["result"]["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == ["memory://{id}", "memory://{id}/history"]


def test_a_parameter_that_an_address_does_not_have_is_ignored_and_named(client: Client) -> None:
    made = write(client, "a polecat")
    for address in ("memory://index", f"memory://{made['id']}", f"memory://{made['id']}/history", "docs://tools-guide"):
        plain = client.rpc(1, "resources/read", uri=address)["result"]["contents"][0]
        asked = client.rpc(1, "resources/read", uri=f"{address}?limit=5")["result"]["contents"][0]
        assert asked["text"] == plain["text"]
        assert asked["_meta"]["warnings"] == ["limit is not known and was ignored; known: none"]
        assert "warnings" not in plain.get("_meta", {})


def test_unknown_fields_are_named_in_a_warning(client: Client) -> None:
    assert "did you mean title" in write(client, "a marten", tittle="x")["warnings"][0]


def test_many_who_write_the_same_uuid_at_once_write_one_memory(client: Client) -> None:
    uuid = str(uuid4())
    given = {"organization": "acme", "scope_type": "system", "memory_type": "fact", "id": uuid}
    for number in range(8):
        arguments = given | {"current_content": f"axolotl {number}"}
        call = {"name": "memory-write", "arguments": arguments}
        client.send({"jsonrpc": "2.0", "id": 100 + number, "method": "tools/call", "params": call})
    outcomes = [json.loads(client.answer()["result"]["content"][0]["text"])["outcome"] for _ in range(8)]
    assert sorted(outcomes) == ["stored"] + ["updated"] * 7
    assert len(found(client, "axolotl")) == 1
    history = read(client, f"memory://{uuid}/history")
    assert {one["content"] for one in history} == {f"axolotl {number}" for number in range(8)}, "no wording is lost"


def test_a_scope_that_was_put_away_is_said_to_be_and_a_removed_memory_is_gone(installation: Installation) -> None:
    client = open_client(installation)
    made = write(client, "the last dodo")
    installation.call("delete_memory", target={"scope": "Laravel"})
    error = refusal(
        client, "memory-write", organization="a", scope_type="system", memory_type="fact", current_content="x"
    )
    assert error["code"] == -32602
    assert "archived" in error["message"]
    installation.call("restore_memory", scope="Laravel")
    assert found(client, "dodo") == ["the last dodo"]
    installation.call("delete_memory", target={"scope": "Laravel"}, forget_mode="hard")
    assert found(client, "dodo") == []
    assert refusal(client, "memory-restore", id=made["id"])["code"] == -32004
    assert write(client, "a new dodo", id=made["id"])["outcome"] == "stored"
    assert len(read(client, f"memory://{made['id']}/history")) == 1


def test_over_http_the_contract_has_an_address_of_its_own(installation: Installation) -> None:
    client = installation.serve("--contract", "laravel", environ={"INFINITE_MEMORY_HTTP__PORT": "0"})
    client.initialize()
    write(client, "heard on the pipe")
    told = installation.status()["http"]
    token = Path(told["token_file"]).read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"}  # fmt: skip
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    reply, session = post(f"{told['url']}/mcp/laravel", headers, "initialize", about)
    assert reply["result"]["serverInfo"]["name"] == "Memory MCP Server"
    call = {"name": "memory-search", "arguments": {"query": "pipe"}}
    reply, _ = post(f"{told['url']}/mcp/laravel", headers | {"Mcp-Session-Id": session}, "tools/call", call)
    assert "heard on the pipe" in reply["result"]["content"][0]["text"]
    reply, _ = post(f"{told['url']}/mcp/agentmem", headers, "initialize", about)
    assert reply["result"]["serverInfo"]["name"] == "agentmem"


def post(url: str, headers: dict[str, str], method: str, params: Json) -> tuple[Json, str]:
    """Send one request over HTTP; gives the reply and the session's id."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        text = answer.read().decode()
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")] or [text]
        replies = [json.loads(line) for line in lines if line.strip()]
        return next(reply for reply in replies if "id" in reply), str(answer.headers.get("Mcp-Session-Id"))


def test_what_was_private_stays_out_of_the_history_that_others_read(installation: Installation) -> None:
    ann, bob = (open_client(installation, "--organization", name, "--user", name) for name in ("ann", "bob"))
    uuid = write(ann, "a private diary", organization="ann", scope_type="user")["id"]
    use(ann, "memory-update", id=uuid, current_content="for everybody now", scope_type="system")
    seen = bob.rpc(2, "resources/read", uri=f"memory://{uuid}/history")["result"]["contents"][0]["text"]
    assert [one["content"] for one in json.loads(seen)] == ["for everybody now"]


def test_nobody_is_told_of_changes_to_what_he_may_not_see(installation: Installation) -> None:
    ann, bob = (open_client(installation, "--organization", name, "--user", name) for name in ("ann", "bob"))
    private = write(ann, "a private diary", organization="ann", scope_type="user")["id"]
    public = write(ann, "for everybody", organization="ann", scope_type="system")["id"]
    for uri in (f"memory://{private}", f"memory://{private}/history", f"memory://{public}"):
        bob.rpc(3, "resources/subscribe", uri=uri)
    use(ann, "memory-update", id=private, current_content="a private diary, page 2")
    use(ann, "memory-delete", id=private)
    use(ann, "memory-update", id=public, current_content="for everybody, page 2")
    while (message := bob.reply()).get("method") != "notifications/resources/updated":
        pass
    assert message["params"]["uri"] == f"memory://{public}"
