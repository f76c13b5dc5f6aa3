"""The palace's document, block by block over a real `serve`, then its error table, its shutdown and its companion."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.matching import differences, filled, look_up
from tests.processes import Client, Installation

Json = dict[str, Any]

DOCUMENT: Json = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "contracts" / "palace.json").read_text("utf-8")
)
TOOLS = (
    "memory_remember", "memory_recall", "memory_recall_deep", "palace_create", "palace_list", "kg_assert", "kg_query",
    "memory_list", "memory_forget", "palace_info",
)  # fmt: skip


def use(client: Client, tool: str, **arguments: Any) -> Json:
    """Call a tool and give its result, parsed."""
    reply = client.rpc(1, "tools/call", name=tool, arguments=arguments)
    assert "result" in reply, reply
    result: Json = json.loads(reply["result"]["content"][0]["text"])
    return result


def failure(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails and give the message."""
    error = client.rpc(1, "tools/call", name=tool, arguments=arguments)["error"]
    assert error["code"] == -32603
    message: str = error["message"]
    return message


def test_every_block_of_the_document_is_answered_or_has_its_reason() -> None:
    blocks = DOCUMENT["blocks"]
    assert [block["block"] for block in blocks] == list(range(1, 35)), "34 fenced blocks stand in the document"
    assert DOCUMENT["blocks_in_document"] == 34
    answered = {
        exchange["reply_in_block"]
        for block in blocks for exchange in block.get("exchanges", ()) if "reply_in_block" in exchange
    }  # fmt: skip
    for block in blocks:
        kinds = [kind for kind in ("exchanges", "notification", "reply", "elsewhere") if kind in block]
        assert len(kinds) == 1, block["at"]
        if kinds == ["reply"]:
            assert block["block"] in answered, f"no request has the reply of block {block['block']}"
    assert [block["block"] for block in blocks if "elsewhere" in block] == [1, 2, 12, 13, 33, 34]


def test_the_documents_requests_get_the_documented_replies(installation: Installation) -> None:
    scoped, unscoped = (
        installation.serve("--contract", "palace", "--palace", "my-project"),
        installation.serve("--contract", "palace"),
    )
    blocks = {one["block"]: one for one in DOCUMENT["blocks"]}
    names: Json = {}
    for block in blocks.values():
        if "notification" in block:
            scoped.send(block["notification"])  # the next reply shows that none came of it
        for exchange in block.get("exchanges", ()):
            request = filled(exchange["request"], names)
            answering = blocks[exchange["reply_in_block"]] if "reply_in_block" in exchange else exchange
            client = unscoped if answering.get("session") == "without --palace" else scoped
            client.send(request)
            reply = client.answer()
            wanted = filled(answering["reply"], names)
            if wanted.get("id") == "<as asked>":
                wanted["id"] = request["id"]
            if "${drawer}" in json.dumps(exchange["request"]):
                wanted["result"]["content"][0]["text"]["<json>"]["drawer_id"] = names["drawer"]
            assert list(differences(reply, wanted)) == [], f"block {block['block']}, {block['at']}"
            names |= {name: look_up(reply, path) for name, path in answering.get("keep", {}).items()}


@pytest.mark.parametrize("name", ["x" * 257, "ALL"])
def test_a_default_that_cannot_be_a_palace_ends_the_program(shared: Installation, name: str) -> None:
    """One that was too long was made by `palace_list`, and no other tool took it."""
    client = shared.serve("--contract", "palace", "--palace", name)
    assert client.process.wait(30) == 2


def test_the_schemas_need_a_palace_only_without_a_default(shared: Installation) -> None:
    for arguments, needed in (((), True), (("--palace", "p"), False)):
        client = shared.serve("--contract", "palace", *arguments)
        about = client.initialize()["result"]
        assert about["serverInfo"].get("default_palace") == (None if needed else "p")
        assert about["capabilities"] == {"tools": {}}
        tools = client.rpc(1, "tools/list")["result"]["tools"]
        assert tuple(one["name"] for one in tools) == TOOLS
        for tool in tools:
            schema = tool["inputSchema"]
            if tool["name"] not in ("palace_create", "palace_list"):
                assert "palace" in schema["properties"]
                assert ("palace" in schema.get("required", ())) is needed, tool["name"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("no_such", {}, "unknown tool: no_such"),
        ("memory_recall", {"query": "x"}, "memory_recall: missing 'palace' (no --palace default configured)"),
        ("memory_remember", {"palace": "errors"}, "memory_remember: missing 'text'"),
        ("memory_remember", {"palace": "errors", "text": None}, "memory_remember: missing 'text'"),
        ("memory_recall", {"palace": "errors"}, "memory_recall: missing 'query'"),
        ("memory_forget", {"palace": "errors"}, "memory_forget: missing 'drawer_id'"),
        ("palace_create", {}, "palace_create: missing 'name'"),
        ("kg_assert", {"palace": "errors", "subject": "a", "predicate": "b"}, "kg_assert: missing 'object'"),
        ("kg_query", {"palace": "errors"}, "kg_query: missing 'subject'"),
        ("memory_remember", {"palace": "nowhere", "text": "x"}, "memory_remember: there is no palace 'nowhere'"),
        ("memory_recall", {"palace": "nowhere", "query": "x"}, "memory_recall: there is no palace 'nowhere'"),
        ("palace_info", {"palace": "nowhere"}, "palace_info: there is no palace 'nowhere'"),
        ("kg_query", {"palace": "nowhere", "subject": "x"}, "kg_query: there is no palace 'nowhere'"),
        ("memory_remember", {"palace": "ALL", "text": "x"}, "memory_remember: palace: 'ALL' is reserved and cannot be a name"),
        ("palace_create", {"name": "all"}, "palace_create: name: 'all' is reserved and cannot be a name"),
        ("palace_create", {"name": "Errors"}, "palace_create: a palace named 'Errors' exists already"),
        ("memory_forget", {"palace": "errors", "drawer_id": "a3f1c2d4-1234-5678-9abc-def012345678"},
         "memory_forget: drawer a3f1c2d4-1234-5678-9abc-def012345678 not found in palace errors"),
        ("memory_recall", {"palace": "errors", "query": "x", "top_k": 0}, "memory_recall: top_k: 0 is not"),
        ("kg_assert", {"palace": "errors", "subject": "a", "predicate": "b", "object": "c", "confidence": 2},
         "kg_assert: confidence: 2 is not a number from 0 to 1"),
    ],
)  # fmt: skip
def test_each_failure_of_a_tool_is_an_internal_error_that_says_why(
    shared: Installation, name: str, arguments: Json, message: str
) -> None:
    client = shared.serve("--contract", "palace")
    client.rpc(0, "tools/call", name="palace_create", arguments={"name": "errors"})
    assert failure(client, name, **arguments).startswith(message)


def test_each_row_of_the_error_table_has_its_code_and_the_session_goes_on(shared: Installation) -> None:
    client = shared.serve("--contract", "palace", "--palace", "table")
    client.send_bytes(b'{"jsonrpc": "2.0", "id": 1,\n')
    parse = client.answer()
    assert (parse["id"], parse["error"]["code"]) == (None, -32700)
    client.send_bytes(b'{"jsonrpc": "2.0", "id": "\xff"}\n')
    assert client.answer()["error"]["code"] == -32700
    for method in ("resources/list", "prompts/list", "no/such"):
        error = client.rpc(2, method)["error"]
        assert (error["code"], error["message"]) == (-32601, f"Method not found: {method}")
    client.send_bytes(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n')
    assert client.answer()["error"]["code"] == -32600, "no batches"
    client.send(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
    )
    assert client.rpc(3, "ping") == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_layers_come_in_order_and_a_question_gets_all_its_answers(shared: Installation) -> None:
    client = shared.serve("--contract", "palace", "--palace", "layers")
    use(client, "palace_create", name="layered", description="I keep the harbour's books.")
    for number in range(20):
        use(client, "memory_remember", palace="layered", text=f"ledger entry {number}", importance=number / 100)
    answer = use(client, "memory_remember", palace="layered", text="The harbour master is called Ingrid.", importance=1)
    for tool, layer in (("memory_recall", 2), ("memory_recall_deep", 3)):
        results = use(client, tool, palace="layered", query="Who is the harbour master?", top_k=3)["results"]
        assert [one["layer"] for one in results] == [layer] * 3
        assert results[0]["drawer_id"] == answer["drawer_id"]
        assert len({one["drawer_id"] for one in results}) == len(results)
        assert all(0 <= one["score"] <= 1 and 0 <= one["importance"] <= 1 for one in results)
    wide = use(client, "memory_recall", palace="layered", query="Who is the harbour master?", top_k=50)["results"]
    assert [one["layer"] for one in wide] == [2] * 21 + [0]
    assert wide[-1]["content"] == "I keep the harbour's books."


def test_drawers_lie_in_rooms_and_are_listed_by_importance(shared: Installation) -> None:
    client = shared.serve("--contract", "palace", "--palace", "rooms")
    for text, room, importance in (
        ("a", "Backend", 0.2), ("b", None, 0.9), ("c", "Attic", 0.4), ("d", "Backend", 0.8), ("e", " ", None),
    ):  # fmt: skip
        use(client, "memory_remember", text=text, room=room, importance=importance, tags=["x", text])
    drawers = use(client, "memory_list")["drawers"]
    assert [one["content"] for one in drawers] == ["b", "d", "e", "c", "a"]
    assert [one["room"] for one in drawers] == ["General", "Backend", "General", "Custom(Attic)", "Backend"]
    for room, texts in (("Backend", ["d", "a"]), ("General", ["b", "e"]), ("Attic", ["c"]), ("Custom(Attic)", ["c"])):
        assert [one["content"] for one in use(client, "memory_list", room=room)["drawers"]] == texts
    assert [one["content"] for one in use(client, "memory_list", tag="X", limit=2)["drawers"]] == ["b", "d"]
    assert use(client, "memory_list", room="General", limit=1)["drawers"][0]["content"] == "b"


def test_a_drawer_is_a_memory_a_palace_a_scope_and_facts_are_counted(installation: Installation) -> None:
    client = installation.serve("--contract", "palace", "--palace", "home")
    kept = use(client, "memory_remember", text="The boiler was serviced in May.", room="Research", tags=["boiler"])
    [found] = installation.call("retrieve_memory", query="boiler service", filter={"scope": "home"})["results"]
    assert found["text"] == "The boiler was serviced in May."
    native = installation.call("store_memory", content="The roof is red.", scope="home")
    assert native["status"] == "OK"
    drawers = use(client, "memory_list", room="General")["drawers"]
    assert [drawer["content"] for drawer in drawers] == ["The roof is red."]
    use(client, "kg_assert", subject="boiler", predicate="state", object="old")
    use(client, "kg_assert", subject="boiler", predicate="state", object="new")
    stats = installation.call("get_memory_stats")["stats"]
    assert (stats["scopes"]["home"], stats["facts"]) == (2, 1)
    about = use(client, "palace_info")
    assert (about["drawer_count"], about["fact_count"], about["data_dir"]) == (2, 1, str(installation.home))
    assert use(client, "memory_forget", drawer_id=kept["drawer_id"])["status"] == "deleted"
    assert use(client, "memory_forget", drawer_id=kept["drawer_id"])["status"] == "deleted", "a second time says so too"
    assert installation.call("retrieve_memory", query="boiler", filter={"scope": "home"})["results"][0]["text"] == (
        "The roof is red."
    )
    assert use(client, "palace_info")["drawer_count"] == 1
    exported = installation.command("export").stdout
    kinds = [json.loads(line) for line in exported.splitlines()]
    assert {kind["object"] for kind in kinds if kind.get("kind") == "fact"} == {"old", "new"}


def test_the_graph_keeps_what_held_and_can_be_asked_for_it(shared: Installation) -> None:
    client = shared.serve("--contract", "palace", "--palace", "graph")
    first = use(client, "kg_assert", subject="Ada", predicate="lives_in", object="Lund", confidence=0.6)
    assert first["outcome"] == "asserted"
    again = use(client, "kg_assert", subject="Ada", predicate="lives_in", object="Lund", provenance="letter")
    assert again["outcome"] == "confirmed"
    use(client, "kg_assert", subject="Ada", predicate="plays", object="cello")
    moved = use(client, "kg_assert", subject="ada", predicate="lives_in", object="Malmö")
    assert (moved["outcome"], moved["closed"]["object"]) == ("replaced", "Lund")
    assert moved["closed"]["valid_to"] == moved["triple"]["valid_from"]
    now = use(client, "kg_query", subject="Ada")["triples"]
    assert [(one["predicate"], one["object"], one["valid_to"]) for one in now] == [
        ("lives_in", "Malmö", None), ("plays", "cello", None),
    ]  # fmt: skip
    [then] = use(client, "kg_query", subject="Ada", at=first["triple"]["valid_from"])["triples"]
    assert (then["object"], then["confidence"], then["provenance"]) == ("Lund", 1.0, "letter")
    assert use(client, "kg_query", subject="Ada", at="1999-01-01")["triples"] == []
    assert use(client, "kg_query", subject="nobody")["triples"] == []


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT"])
def test_the_session_ends_with_0_and_what_was_asked_is_answered(shared: Installation, how: str) -> None:
    client = shared.serve("--contract", "palace", "--palace", "ending")
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                 "params": {"name": "memory_remember", "arguments": {"text": f"the last word before {how}"}}})  # fmt: skip
    if how == "end of input":
        client.stdin.close()
    else:
        assert "result" in client.answer()
        client.process.send_signal(getattr(signal, how))
    assert client.process.wait(30) == 0
    if how == "end of input":
        assert "result" in client.rest()[0]


def test_the_companion_speaks_the_same_palace_until_the_session_ends(shared: Installation) -> None:
    client = shared.serve("--contract", "palace", "--palace", "web", "--http", "127.0.0.1:0")
    use(client, "memory_remember", text="heard on the pipe")
    found = re.search(r"HTTP at (http://127\.0\.0\.1:\d+/mcp), with the token of (.+)", client.errors())
    assert found is not None
    url, token = found[1], Path(found[2]).read_text().strip()
    begun, session = post(
        url, token, "initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
    )
    assert begun["result"]["serverInfo"]["default_palace"] == "web"
    listed, _ = post(url, token, "tools/call", {"name": "memory_list", "arguments": {}}, session)
    assert [one["content"] for one in json.loads(listed["result"]["content"][0]["text"])["drawers"]] == [
        "heard on the pipe"
    ]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        post(url, "wrong", "ping", {})
    assert client.close() == 0
    with pytest.raises(urllib.error.URLError, match="refused"):
        post(url, token, "ping", {})


@pytest.mark.parametrize("address", ["0.0.0.0:3031", "example.com:80", "127.0.0.1", "127.0.0.1:99999"])
def test_a_companion_listens_on_this_machine_only(shared: Installation, address: str) -> None:
    done = shared.command("serve", "--contract", "palace", "--http", address, input="")
    assert done.returncode == 2
    assert f"--http {address}" in done.stderr


def post(url: str, token: str, method: str, params: Json, session: str | None = None) -> tuple[Json, str | None]:
    """Send one request over HTTP; gives the reply and the session's id."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"} | ({"Mcp-Session-Id": session} if session else {})  # fmt: skip
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        text = answer.read().decode()
        told = next(
            line[5:] for line in (f"data:{text}", *text.splitlines()) if line.startswith("data:") and is_json(line[5:])
        )
        return json.loads(told), answer.headers.get("Mcp-Session-Id")


def is_json(text: str) -> bool:
    """Tell whether *text* is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
