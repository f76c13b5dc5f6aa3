"""MCP as its clients see it: the official Python client over a pipe and over HTTP, and many clients that mind only themselves."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from infinite_memory.contracts.native.tools import offered
from tests.processes import LONG, Installation, need_parts, until
from tests.processes import Client as Piped

Json = dict[str, Any]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One home with HTTP for all tests of this file: each uses scopes of its own."""
    need_parts()
    with Installation(
        tmp_path_factory.mktemp("mcp") / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}, is_stopped=LONG
    ) as made:
        made.command("daemon", "start")
        yield made


@contextlib.asynccontextmanager
async def connected(
    installation: Installation, transport: str, mode: str, arguments: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[Client]:
    """Connect the official client."""
    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            command = [sys.executable, "-m", "infinite_memory", "serve", *arguments]
            parameters = StdioServerParameters(command=command[0], args=command[1:], env=installation.environ)
            link: Any = stdio_client(parameters)
        else:
            about = installation.status()["http"]
            headers = {"Authorization": f"Bearer {Path(about['token_file']).read_text().strip()}"}
            web = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            link = streamable_http_client(f"{about['url']}/mcp", http_client=web)
        yield await stack.enter_async_context(Client(link, mode=mode, **options))


def told(result: mcp_types.CallToolResult) -> Json:
    """Give a tool's structured result, which is the same as its text."""
    assert result.structured_content is not None
    [content] = result.content
    assert isinstance(content, mcp_types.TextContent)
    assert json.loads(content.text) == result.structured_content
    return result.structured_content


WAYS = [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto")]


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_the_official_client_runs_every_tool(installation: Installation, transport: str, mode: str) -> None:
    """The client checks each result against the tool's output schema itself."""
    scope = f"{transport} {mode}"
    ran: set[str] = set()

    async with connected(installation, transport, mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {command.name for command in offered("all")}

        async def call(name: str, *, fails: bool = False, **arguments: Any) -> Json:
            ran.add(name)
            result = await client.call_tool(name, arguments)
            assert result.is_error is fails, (name, result.structured_content)
            return told(result)

        await call("create_memory_scope", scope_name=scope, description="for a test")
        await call("set_active_scope", scope=scope)
        kept = await call("store_memory", content="The spare key is under the blue pot", scope=scope, tags=["key"])
        await call("store_memories", memories=[{"content": "Tea is at five", "scope": scope}] * 2)
        found = await call("retrieve_memory", query="where is the spare key?", filter={"scope": scope})
        assert found["results"][0]["memory_id"] == kept["memory_id"]
        assert "data" in found["notice"]
        await call("search_by_tag", tag="key", scope=scope)
        assert (await call("search_by_scope", scope=scope))["total"] == 3
        await call("list_memories", filter={"scope": scope})
        assert len((await call("recall_memory_by_time", time_query="today", scope=scope))["results"]) == 3
        await call("update_memory", memory_id=kept["memory_id"], content="The spare key is with Ada")
        assert (await call("get_memory", memory_id=kept["memory_id"]))["memory"]["text"].endswith("Ada")
        await call("delete_memory", target={"memory_id": kept["memory_id"]})
        await call("restore_memory", memory_id=kept["memory_id"])
        await call("list_memory_scopes")
        for name in ("get_memory_stats", "optimize_memory", "reindex", "health_check", "ping", "help"):
            await call(name)
        made = await call("backup_memory")
        await call("list_backups")
        await call("verify_backup", file=made["backup_file"])
        await call("restore_backup", file=made["backup_file"], scope=scope, as_scope=f"{scope} again")
        await call("change_memory_scope", scope=scope, description="changed")
        await call("merge_memory_scopes", scope=f"{scope} again", into=scope, confirm=True)
        exported = await call("export_memory", scope=scope)
        folder = installation.home / "imports"
        folder.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(exported["path"], folder)
        await call("import_memory", path=exported["export_file"], dry_run=True)
        assert ran == set(listed), set(listed) - ran


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_more_than_one_memory_goes_only_when_the_user_agrees(
    installation: Installation, transport: str, mode: str
) -> None:
    scope = f"asked {transport} {mode}"
    questions: list[str] = []
    answer = "decline"

    async def ask(_: Any, params: Any) -> mcp_types.ElicitResult:
        questions.append(params.message)
        return mcp_types.ElicitResult(action=answer, content={} if answer == "accept" else None)  # type: ignore[arg-type]

    target = {"scope": scope}
    async with connected(installation, transport, mode) as client:
        await client.call_tool(
            "store_memories", {"memories": [{"content": f"tea {n}", "scope": scope} for n in range(3)]}
        )
        refused = await client.call_tool("delete_memory", {"target": target})
        assert refused.is_error
        assert "confirm: true" in told(refused)["error"]
    async with connected(installation, transport, mode, elicitation_callback=ask) as client:
        assert (await client.call_tool("delete_memory", {"target": target, "confirm": True})).is_error
        assert "3 memories" in questions[0]
        answer = "accept"
        assert told(await client.call_tool("delete_memory", {"target": target}))["deleted_count"] == 3


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_resources_prompts_completions_and_progress(
    installation: Installation, transport: str, mode: str
) -> None:
    scope = f"Resources {transport} {mode}"
    steps: list[float] = []

    async def count(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async with connected(installation, transport, mode) as client:
        kept = told(await client.call_tool("store_memory", {"content": "tea", "scope": scope, "tags": ["a:b"]}))
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        [address] = [uri for uri in uris if uri.endswith(scope.replace(" ", "%20"))]
        for uri in (address, "memory://recent", f"memory://item/{kept['memory_id']}", "memory://tag/a%3Ab"):
            [content] = (await client.read_resource(uri)).contents
            assert isinstance(content, mcp_types.TextResourceContents)
            assert kept["memory_id"] in content.text
        with pytest.raises(Exception, match="not found"):
            await client.read_resource("memory://item/..%2f..%2fetc%2fpasswd")
        assert len((await client.list_resource_templates()).resource_templates) == 4
        assert {prompt.name for prompt in (await client.list_prompts()).prompts} >= {
            "recall",
            "save",
            "weekly_summary",
        }
        ref = mcp_types.PromptReference(name="recall")
        got = await client.complete(ref, {"name": "scope", "value": scope.lower()})
        assert got.completion.values == [scope]
        tags = mcp_types.ResourceTemplateReference(uri="memory://tag/{tag}{?limit}")
        assert "a:b" in (await client.complete(tags, {"name": "tag", "value": "A"})).completion.values
        await client.call_tool("optimize_memory", {}, progress_callback=count)
        assert steps


def rpc(client: Piped, number: int, method: str, **params: Any) -> Json:
    """Send one request and give its reply; notifications that come between are passed over."""
    client.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    while (message := client.reply()).get("id") != number:
        assert "method" in message, message
    return message


def tool(client: Piped, number: int, name: str, **arguments: Any) -> Json:
    """Call one tool and give its result."""
    result: Json = rpc(client, number, "tools/call", name=name, arguments=arguments)["result"]
    return result


def test_a_subscriber_is_told_of_what_others_write(installation: Installation) -> None:
    reader, writer = installation.serve(), installation.serve()
    reader.initialize()
    rpc(reader, 1, "resources/subscribe", uri="memory://scope/Watched")
    until_quiet = rpc(reader, 2, "resources/read", uri="memory://recent")
    assert "result" in until_quiet or "error" in until_quiet
    writer.ask("store_memory", content="tea", scope="Watched")
    heard: set[str] = set()
    while heard != {"notifications/resources/updated", "notifications/resources/list_changed"}:
        heard.add(reader.reply()["method"])


def test_ten_clients_mind_only_themselves(installation: Installation) -> None:
    """One cancels, one leaves in the middle of a call, one sends garbage: the others notice nothing."""
    clients = [installation.serve() for _ in range(10)]
    for client in clients:
        assert "result" in client.initialize()
    cancels, leaves, babbles, *others = clients
    search = {"name": "retrieve_memory", "arguments": {"query": "slow one", "top_k": 100}}
    call = {"jsonrpc": "2.0", "id": 41, "method": "tools/call", "params": search}
    cancels.send(call, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}})
    leaves.send(call)
    leaves.process.kill()
    babbles.send_bytes(b"\xff\xfe garbage\n" + b"[" * 1000 + b"\n" + b'{"jsonrpc": 2}\n')
    for number, client in enumerate(others):
        stored = tool(client, 1, "store_memory", content=f"fact {number}", scope=f"Client {number}")
        assert stored["isError"] is False
        found = tool(client, 2, "retrieve_memory", query="fact", filter={"scope": f"Client {number}"})
        assert [one["text"] for one in found["structuredContent"]["results"]] == [f"fact {number}"]
    replies: list[Json] = []
    while len(replies) < 3:
        if "method" not in (message := babbles.reply()):
            replies.append(message)
    assert [one["error"]["code"] for one in replies] == [-32700, -32700, -32600]
    assert "result" in rpc(babbles, 5, "ping")
    cancels.send({"jsonrpc": "2.0", "id": 42, "method": "ping"})
    while (message := cancels.reply()).get("id") != 42:  # the call may have been faster than its cancellation
        assert "method" in message or (message["id"] == 41 and "result" in message)
    for client in others:
        assert client.close() == 0


def test_calls_in_flight_are_answered_before_the_end(installation: Installation) -> None:
    """FC-020."""
    client = installation.serve()
    client.initialize()
    call = {"jsonrpc": "2.0", "method": "tools/call"}
    client.send(
        call | {"id": 1, "params": {"name": "store_memory", "arguments": {"content": "a", "scope": "Late"}}},
        call | {"id": 2, "params": {"name": "retrieve_memory", "arguments": {"query": "a"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
    )
    assert client.close() == 0
    rest = [one for one in client.rest() if "id" in one]
    assert {one["id"] for one in rest} == {1, 2, 3}
    assert all("result" in one for one in rest)


def test_a_tool_call_without_an_id_stores_nothing(installation: Installation) -> None:
    """FC-031."""
    client = installation.serve()
    client.initialize()
    ghost = {"name": "store_memory", "arguments": {"content": "ghost write", "scope": "Ghosts"}}
    client.send({"jsonrpc": "2.0", "method": "tools/call", "params": ghost})
    assert rpc(client, 7, "tools/list")["id"] == 7
    found = tool(client, 8, "search_by_scope", scope="Ghosts")
    assert found["structuredContent"]["error_code"] == "NOT_FOUND"


def test_fewer_tools_are_offered_to_who_asks_for_them(installation: Installation) -> None:
    client = installation.serve("--tools", "core")
    client.initialize()
    names = {tool["name"] for tool in rpc(client, 1, "tools/list")["result"]["tools"]}
    assert "retrieve_memory" in names
    assert "reindex" not in names


def post(installation: Installation, body: Any, token: bool = True, **headers: str) -> tuple[int, Json | None]:
    """Post one message to /mcp as a bare HTTP client would."""
    about = installation.status()["http"]
    link = http.client.HTTPConnection("127.0.0.1", int(about["url"].rsplit(":", 1)[1]), timeout=60)
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token:
        sent["Authorization"] = f"Bearer {Path(about['token_file']).read_text().strip()}"
    with contextlib.closing(link):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        link.request("POST", "/mcp/native", data, sent | {name.replace("_", "-"): one for name, one in headers.items()})
        answer = link.getresponse()
        text = answer.read().decode()
    lines = [text, *(line[5:] for line in text.splitlines() if line.startswith("data:"))]
    for line in lines:
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(line)
    return answer.status, None


BEGIN = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}


def test_http_is_for_who_has_the_token_and_comes_from_here(installation: Installation) -> None:
    """FC-038."""
    assert post(installation, BEGIN, token=False)[0] == 401
    assert post(installation, BEGIN, Authorization="Bearer wrong")[0] == 401
    assert post(installation, BEGIN, Origin="https://attacker.example")[0] == 403
    assert post(installation, BEGIN, Host="rebind.attacker.example")[0] in (403, 421)
    assert post(installation, BEGIN, Origin="http://localhost:6274")[0] == 200
    status, message = post(installation, BEGIN)
    assert status == 200
    assert message is not None
    assert message["result"]["protocolVersion"] == "2025-06-18"
    about = installation.status()["http"]
    token_file = Path(about["token_file"])
    for file in (token_file, token_file.parent / "logs" / "daemon.out"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert about["url"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"jsonrpc":"2.0","id":1', -32700), ([BEGIN], -32600), ({"id": 3, "method": "ping"}, -32600),
     ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, -32600),
     (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700)],
)  # fmt: skip
def test_http_refuses_what_a_pipe_refuses(installation: Installation, body: Any, code: int) -> None:
    status, message = post(installation, body)
    assert status == 400
    assert message is not None
    assert message["error"]["code"] == code


async def test_eighty_calls_at_once_over_http_get_each_its_own_answer(installation: Installation) -> None:
    """FC-113."""

    async with connected(installation, "http", "legacy") as client:
        stores = [
            client.call_tool("store_memory", {"content": f"parallel item {n}", "scope": "Many"}) for n in range(40)
        ]
        finds = [client.call_tool("retrieve_memory", {"query": f"parallel item {n}"}) for n in range(40)]
        results = await asyncio.gather(*stores, *finds)
        assert [result.structured_content for result in results if result.is_error] == []
        assert len({told(result)["memory_id"] for result in results[:40]}) == 40
        listed = told(await client.call_tool("search_by_scope", {"scope": "Many"}))
        assert listed["total"] == 40


def test_a_port_that_is_taken_keeps_only_http_away(installation: Installation, tmp_path: Path) -> None:
    taken = installation.status()["http"]["url"].rsplit(":", 1)[1]
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_HTTP__PORT": taken}) as other:
        assert "there is no HTTP" in other.command("daemon", "start").stderr
        assert "error" in other.status()["http"]
        doctor = other.command("doctor", "--json")
        [http] = [check for check in json.loads(doctor.stdout)["checks"] if check["check"] == "http"]
        assert (doctor.returncode, http["ok"]) == (1, False)
        assert other.call("ping")["status"] == "OK"


async def test_a_session_that_was_ended_is_unknown_afterwards(installation: Installation) -> None:
    assert post(installation, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id="0" * 32)[0] == 404

    async with connected(installation, "http", "legacy") as client:
        await client.list_tools()
    until(lambda: installation.status()["http"]["sessions"] < 10, "ended sessions are gone")
