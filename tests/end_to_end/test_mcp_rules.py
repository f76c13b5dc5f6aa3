"""The rules of MCP that servers are known to break, on the native contract and the real process; numbers are those of the field cases.

FC-031 (a request sent as a notification) and FC-038 (foreign web pages) are in `test_mcp_clients`.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from infinite_memory.transports.mcp import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from tests.processes import LONG, Client, Installation, need_parts

Json = dict[str, Any]
MODERN = {"_meta": {VERSION_KEY: MODERN_VERSIONS[-1], CAPABILITIES_KEY: {}}}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One home with HTTP for all tests of this file: each uses scopes of its own."""
    need_parts()
    with Installation(
        tmp_path_factory.mktemp("rules") / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}, is_stopped=LONG
    ) as made:
        made.command("daemon", "start")
        yield made


def begun(installation: Installation) -> Client:
    """Open a client that has gone through the handshake."""
    client = installation.serve()
    assert "result" in client.initialize()
    return client


def notification(client: Client, method: str) -> Json:
    """Give the parameters of the next notification of that method."""
    while (message := client.reply()).get("method") != method:
        assert "error" not in message, message
    params: Json = message["params"]
    return params


@pytest.mark.parametrize(
    ("asked", "answered"),
    [*((one, one) for one in HANDSHAKE_VERSIONS), *((one, HANDSHAKE_VERSIONS[-1]) for one in ("2099-01-01", "", None, 7))],
)  # fmt: skip
def test_a_version_that_is_spoken_is_answered_and_our_newest_otherwise(
    installation: Installation, asked: Any, answered: str
) -> None:
    """FC-028."""
    client = installation.serve()
    result = client.rpc(1, "initialize", protocolVersion=asked, capabilities={})["result"]
    assert result["protocolVersion"] == answered
    assert client.rpc(2, "tools/list")["result"]["tools"]


def test_before_the_handshake_only_ping_is_answered(installation: Installation) -> None:
    """FC-029."""
    client = installation.serve()
    assert client.rpc(1, "tools/list")["error"]["code"] == -32002
    assert client.tool(2, "store_memory", content="too early")["error"]["code"] == -32002
    assert client.rpc(3, "ping")["result"] == {}
    assert "result" in client.initialize()
    assert client.rpc(5, "initialize", protocolVersion="2025-06-18")["error"]["code"] == -32002
    assert client.rpc(6, "tools/list")["result"]["tools"]


@pytest.mark.parametrize("number", [0, -1, "", "abc", 2**53 + 1, "7"])
def test_an_id_comes_back_as_it_was(installation: Installation, number: Any) -> None:
    """FC-032."""
    client = begun(installation)
    client.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
    reply = client.answer()
    assert reply == {"jsonrpc": "2.0", "id": number, "result": {}}
    assert type(reply["id"]) is type(number)


def test_a_cancelled_call_is_not_answered_and_harms_nothing(installation: Installation) -> None:
    """FC-034. Only what was done before it could be stopped is answered."""
    client = begun(installation)
    cancels = [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": one}} for one in (41, 41, 9999)
    ]
    call = {"name": "retrieve_memory", "arguments": {"query": "a question", "top_k": 100}}
    client.send({"jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": call}, *cancels)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
    client.send({"jsonrpc": "2.0", "id": 42, "method": "ping"})
    while (reply := client.answer())["id"] != 42:
        assert (reply["id"], "result" in reply) == (41, True)
    assert client.tool(43, "ping")["result"]["structuredContent"]["pong"] is True


def test_each_fault_of_a_message_has_its_code(installation: Installation) -> None:
    """FC-035. What is no JSON is answered without an id, so that nobody takes it for the answer to a request 0."""
    client = begun(installation)
    for line, number, code in (
        (b'{"jsonrpc": "2.0", "id": 0, "method": "ping"', None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"17", None, -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None, -32600),
        (b'{"id": 5, "method": "ping"}', 5, -32600),
        (b'{"jsonrpc": "2.0", "id": 6}', 6, -32600),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}', 7, -32601),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": []}', 8, -32602),
    ):
        client.send_bytes(line + b"\n")
        reply = client.answer()
        assert (reply["id"], reply["error"]["code"]) == (number, code), line
    assert client.rpc(9, "ping")["result"] == {}


def test_a_client_of_both_eras_may_probe_and_then_shake_hands(installation: Installation) -> None:
    """FC-037."""
    client = installation.serve()
    found = client.rpc(1, "server/discover", **MODERN)["result"]
    assert found["supportedVersions"] == list(MODERN_VERSIONS)
    assert client.rpc(2, "server/discover")["error"]["code"] == -32601
    wrong = {"_meta": {VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {}}}
    assert client.rpc(3, "server/discover", **wrong)["error"]["data"]["supported"] == list(MODERN_VERSIONS)
    stored = client.rpc(4, "tools/call", name="ping", arguments={}, **MODERN)["result"]
    assert stored["structuredContent"]["pong"] is True
    assert "result" in client.initialize()
    assert client.rpc(6, "tools/list")["result"]["tools"]


def test_an_address_means_the_same_however_it_is_encoded(installation: Installation) -> None:
    """FC-040."""
    client = begun(installation)
    scope, tag = "Ärger & Co/1", "area:käse 100%"
    client.tool(1, "store_memory", content="cheese", scope=scope, tags=[tag])
    listed = [one["uri"] for one in client.rpc(2, "resources/list")["result"]["resources"]]
    assert f"memory://scope/{quote(scope, safe='')}" in listed
    for number, uri in enumerate(
        (*listed, f"memory://scope/{quote(scope)}", f"memory://scope/{quote(scope, safe='')}?limit=5",
         f"memory://tag/{quote(tag, safe='')}", f"memory://tag/{quote(tag, safe=':')}?limit=1"), 10,
    ):  # fmt: skip
        [content] = client.rpc(number, "resources/read", uri=uri)["result"]["contents"]
        assert content["uri"] == uri
        assert "stats" in uri or "cheese" in content["text"] or "Global" in uri, uri
    assert client.rpc(90, "resources/read", uri="memory://recent?limit=0")["error"]["code"] == -32602
    assert client.rpc(91, "resources/read", uri="memory://nothing/here")["error"]["code"] == -32002


def test_a_client_hears_only_of_what_it_chose_to_hear(installation: Installation) -> None:
    client = begun(installation)
    for number, level in ((1, "error"), (3, "warning")):
        assert client.rpc(number, "logging/setLevel", level=level)["result"] == {}
        call = {"name": "list_memory_scopes", "arguments": {"colour": level}}
        client.send({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": call})
        heard = []
        while "method" in (message := client.reply()):
            heard.append(message)
        assert message["id"] == number + 1
        logged = [one["params"]["level"] for one in heard if one["method"] == "notifications/message"]
        assert logged == (["warning"] if level == "warning" else [])


def test_a_client_of_the_later_era_listens_for_changes(installation: Installation) -> None:
    client, writer = installation.serve(), installation.serve()
    uri = "memory://scope/Listened"
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [uri]}
    client.send(
        {"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": {"notifications": wanted, **MODERN}}
    )
    assert notification(client, "notifications/subscriptions/acknowledged")["notifications"] == wanted
    assert writer.ask("store_memory", content="tea", scope="Listened")["status"] == "OK"
    heard: set[str] = set()
    while heard != {"notifications/resources/updated", "notifications/resources/list_changed"}:
        message = client.reply()
        assert message["params"]["_meta"][SUBSCRIPTION_KEY] == "ear"
        heard.add(message["method"])
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "ear"}})
    assert client.rpc(2, "tools/call", name="ping", arguments={}, **MODERN)["id"] == 2


class Web:
    """A bare HTTP client of one session."""

    def __init__(self, installation: Installation) -> None:
        about = installation.status()["http"]
        self._port = int(about["url"].rsplit(":", 1)[1])
        self._headers = {
            "Authorization": f"Bearer {Path(about['token_file']).read_text().strip()}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        answer = self.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                                    "params": {"protocolVersion": "2025-11-25", "capabilities": {}}})  # fmt: skip
        self._headers |= {
            "Mcp-Session-Id": str(answer.getheader("mcp-session-id")),
            "MCP-Protocol-Version": "2025-11-25",
        }
        answer.close()
        self.send("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}).close()

    def send(self, method: str, message: Json | None = None, **headers: str) -> http.client.HTTPResponse:
        """Send a request over a link of its own; closing the answer closes that."""
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        link.request(
            method,
            "/mcp",
            None if message is None else json.dumps(message),
            {**self._headers, **named, "Connection": "close"},
        )
        return link.getresponse()


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Give id and data of each event of a stream."""
    number, data = "", ""
    for raw in answer:
        name, _, value = raw.decode().rstrip("\r\n").partition(":")
        if name == "id":
            number = value.strip()
        elif name == "data":
            data = value.strip()
        elif not name and number:
            yield number, data
            number, data = "", ""


def test_a_stream_that_broke_in_mid_call_is_resumed(installation: Installation) -> None:
    """The answer that was not heard is there under the id of the last event that was."""
    web = Web(installation)
    call = {"name": "optimize_memory", "arguments": {}, "_meta": {"progressToken": "t"}}
    with web.send("POST", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}) as answer:
        first, data = next(events(answer))
        assert data == ""
    with web.send("GET", Last_Event_ID=first) as again:
        assert again.status == 200
        told = [json.loads(data) for _, data in _until_answered(again)]
    assert [one["id"] for one in told if "result" in one] == [7]
    assert any(one.get("method") == "notifications/progress" for one in told)


def _until_answered(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    for number, data in events(answer):
        if data:
            yield number, data
            if "result" in json.loads(data):
                return
