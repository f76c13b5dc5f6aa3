"""A write that the daemon has read is finished, in every contract and over every way in, whatever becomes of its client."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.daemon import ipc
from infinite_memory.daemon.handshake import greet, session_greeting
from infinite_memory.settings import HttpSettings
from tests.processes import LONG, Client, Installation, is_alive, until

Json = dict[str, Any]


def tool(number: int, tool_name: str, **arguments: Any) -> Json:
    params = {"name": tool_name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


SAVES: dict[str, Callable[[int], Json]] = {
    "actions": lambda n: {"action": "store_memory", "content": f"fact number {n}"},
    "native": lambda n: tool(n, "store_memory", content=f"fact number {n}"),
    "memory-server": lambda n: tool(n, "memory_create", type="fact", source="test", content={"n": n}, confidence=0.9, tags=["t"]),
    "palace": lambda n: tool(n, "memory_remember", palace="p", text=f"fact number {n}"),
    "laravel": lambda n: tool(
        n, "memory-write", scope_type="system", memory_type="fact", title=f"fact {n}", current_content=f"fact number {n}",
        organization="acme",
    ),
    "agentmem": lambda n: tool(n, "agentmem_add_memory", user_id="ann", content=f"fact number {n}"),
}  # fmt: skip


def open_client(installation: Installation, kind: str) -> Client:
    if kind == "actions":
        client = installation.serve()
        assert client.ask("ping")["pong"]
        return client
    client = installation.serve(*arguments_of(kind))
    client.initialize()
    return client


def arguments_of(kind: str) -> tuple[str, ...]:
    palace = ("--palace", "p") if kind == "palace" else ()
    return () if kind in ("actions", "native") else ("--contract", kind, *palace)


def stored(installation: Installation) -> int:
    reply = installation.call("get_memory_stats")
    return int(reply["stats"]["total_memories"])


def unread(client: Client) -> int:
    import fcntl
    import struct
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(client.stdin, termios.FIONREAD, b"\0\0\0\0"))
    return int(count)


@pytest.mark.parametrize("kind", SAVES)
def test_a_save_is_answered_well_in_every_contract(shared: Installation, kind: str) -> None:
    """What the tests below count on."""
    client = open_client(shared, kind)
    client.send(SAVES[kind](1))
    reply = client.reply() if kind == "actions" else client.answer()
    assert reply.get("status") == "OK" or ("error" not in reply and reply["result"].get("isError") is not True), reply


@pytest.mark.parametrize("kind", SAVES)
def test_saves_of_a_client_that_is_killed_are_all_kept(shared: Installation, kind: str) -> None:
    client = open_client(shared, kind)
    before = stored(shared)
    client.send(*[SAVES[kind](1000 + n) for n in range(12)])
    until(lambda: unread(client) == 0, "the client has taken the lines")
    until(lambda: stored(shared) > before, "the daemon has begun")
    client.process.kill()
    until(lambda: stored(shared) == before + 12, "all twelve are stored", 30)


@pytest.mark.parametrize("kind", SAVES)
def test_saves_of_a_client_that_is_terminated_are_all_kept_and_answered(shared: Installation, kind: str) -> None:
    client = open_client(shared, kind)
    before = stored(shared)
    client.send(*[SAVES[kind](2000 + n) for n in range(20)])
    assert client.terminate() == 0
    assert stored(shared) == before + 20
    replies = [one for one in client.rest() if "method" not in one]
    assert len(replies) == 20
    assert not any("error" in one for one in replies)


@pytest.mark.parametrize("kind", ["actions", "palace"] if LONG else ["palace"])
def test_saves_sent_before_the_daemon_listens_are_kept_too(installation: Installation, kind: str) -> None:
    client = installation.serve(*arguments_of(kind))
    start = [] if kind == "actions" else [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}]
    client.send(*start, *[SAVES[kind](n) for n in range(1, 21)])
    until(ipc.start_lock_path(installation.home).exists, "the client starts the daemon")
    assert client.terminate() == 0
    assert len(client.rest()) == 20 + len(start)
    assert stored(installation) == 20


@pytest.mark.parametrize("kind", ["actions", "palace"] if LONG else ["actions"])
def test_saves_in_process_are_kept_after_sigterm(installation: Installation, kind: str) -> None:
    client = installation.serve("--in-process", *arguments_of(kind))
    start = [] if kind == "actions" else [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}]
    client.send(*start, *[SAVES[kind](n) for n in range(1, 21)])
    assert client.reply()
    assert client.terminate() == 0
    assert len(client.rest()) == 19 + len(start)
    assert stored(installation) == 20


def test_saves_that_were_sent_are_kept_when_the_daemon_is_terminated(installation: Installation) -> None:
    """Clients of all contracts at one daemon; each stores texts of its own."""
    clients = {kind: open_client(installation, kind) for kind in SAVES}
    first = dict(zip(SAVES, itertools.count(0, 100)))
    for kind, client in clients.items():
        client.send(SAVES[kind](first[kind]))
        assert client.reply()
    pid = installation.daemon_pid()
    assert pid is not None
    for kind, client in clients.items():
        client.send(*[SAVES[kind](first[kind] + n) for n in range(1, 21)])
    until(lambda: not any(map(unread, clients.values())), "the clients have taken the lines")
    os.kill(pid, signal.SIGTERM)
    for kind, client in clients.items():
        replies = [client.reply() if kind == "actions" else client.answer() for _ in range(20)]
        assert not any("error" in reply for reply in replies), replies
    until(lambda: not is_alive(pid), "the daemon is gone", 90)
    assert stored(installation) == 21 * len(SAVES)


def test_a_client_that_no_longer_reads_its_replies_loses_no_request(shared: Installation) -> None:
    reads, writes = os.pipe()
    before = stored(shared)
    process = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "serve"], stdin=subprocess.PIPE, stdout=writes, env=shared.environ
    )
    os.close(writes)
    os.close(reads)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(b"".join(json.dumps(SAVES["actions"](3000 + n)).encode() + b"\n" for n in range(20)))
        stdin.flush()
        assert process.wait(60) == 0
    until(lambda: stored(shared) == before + 20, "all are stored", 30)


@pytest.mark.parametrize("contract", ["routes", None])
def test_requests_of_a_connection_that_is_dropped_are_carried_out(shared: Installation, contract: str | None) -> None:
    """The SDK's way, and the action loop's, without a pipe between."""
    before = stored(shared)
    link, _ = greet(shared.home, session_greeting({}, contract=contract))
    lines = [
        {"route": "store_memory", "fields": {"content": f"route {n}"}} if contract else SAVES["actions"](4000 + n)
        for n in range(12)
    ]
    link.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    link.close()
    until(lambda: stored(shared) == before + 12, "all are stored", 30)


@pytest.fixture
def with_http(tmp_path: Path) -> Any:
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as one:
        assert one.call("ping")["status"] == "OK"
        yield one


def make_palace(installation: Installation) -> None:
    client = installation.serve("--contract", "palace")
    client.send(tool(1, "palace_create", name="p"))
    assert "error" not in client.answer()


def _address(installation: Installation) -> tuple[str, str]:
    until(lambda: "url" in installation.status().get("http", {}), "HTTP is on")
    http_state = installation.status()["http"]
    return http_state["url"], Path(http_state["token_file"]).read_text().strip()


def _raw_request(url: str, path: str, headers: dict[str, str], body: bytes) -> socket.socket:
    """Send one request and give its connection, with the answer unread."""
    parts = urllib.parse.urlsplit(url)
    link = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
    lines = [f"POST {path} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    link.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return link


def _headers(token: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }  # fmt: skip


def _mcp_session(url: str, path: str, headers: dict[str, str], capabilities: Json | None = None) -> str:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), int(parts.port or 0))
    about = {
        "protocolVersion": "2025-06-18", "capabilities": capabilities or {}, "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}
    connection.request("POST", path, json.dumps(message), headers)
    response = connection.getresponse()
    response.read()
    session = response.getheader("mcp-session-id")
    connection.close()
    assert session, response.status
    return session


def test_writes_of_http_clients_that_drop_their_connection_are_finished(with_http: Installation) -> None:
    url, token = _address(with_http)
    headers = _headers(token)
    make_palace(with_http)
    total = stored(with_http)
    for kind in [*list(SAVES)[1:], "rest", "modern"]:
        path, extra = f"/mcp/{kind}", {}
        if kind == "rest":
            path, body = "/api/v1/memories", {"content": "over the API"}
        elif kind == "modern":
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            body = SAVES["native"](1)
            body["params"]["_meta"] = meta
            path = "/mcp"
            extra = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "store_memory"}
        else:
            extra = {"MCP-Session-Id": _mcp_session(url, path, headers), "MCP-Protocol-Version": "2025-06-18"}
            body = SAVES[kind](1)
        link = _raw_request(url, path, headers | extra, json.dumps(body).encode())
        link.close()
        total += 1
        until(lambda: stored(with_http) == total, f"the write by {kind} is finished", 30)  # noqa: B023


def test_questions_that_nobody_answers_keep_no_other_request_of_their_token_waiting(with_http: Installation) -> None:
    """Over MCP a hard deletion asks its client first; as many as a token may have under way ask here, and none is answered."""
    url, token = _address(with_http)
    headers = _headers(token)
    memory_id = with_http.serve().ask("store_memory", content="asked about")["memory_id"]
    session = _mcp_session(url, "/mcp", headers, {"elicitation": {}})
    more = headers | {"MCP-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
    links = []
    for number in range(1, 1 + HttpSettings().concurrent):
        forgets = tool(number, "delete_memory", target={"memory_id": memory_id}, forget_mode="hard")
        link = _raw_request(url, "/mcp", more, json.dumps(forgets).encode())
        link.settimeout(30)
        answer = b""
        while b"elicitation/create" not in answer:
            answer += (part := link.recv(65_536))
            assert part, answer
        links.append(link)
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), int(parts.port or 0), timeout=30)
    connection.request("GET", f"/api/v1/memories/{memory_id}", headers=headers)
    assert connection.getresponse().status == 200
    connection.close()
    for link in links:
        link.close()


def test_writes_of_http_clients_are_answered_when_the_daemon_is_terminated(with_http: Installation) -> None:
    url, token = _address(with_http)
    headers = _headers(token)
    make_palace(with_http)
    before = stored(with_http)
    session = _mcp_session(url, "/mcp/palace", headers)
    more = {"MCP-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
    long = "tea and biscuits at noon. " * 100
    save = tool(5, "memory_remember", palace="p", text=long)
    links = [
        _raw_request(url, "/mcp/palace", headers | more, json.dumps(save).encode()),
        *[
            _raw_request(url, "/api/v1/memories", headers, json.dumps({"content": f"{n} {long}"}).encode())
            for n in range(4)
        ],
    ]
    time.sleep(0.3)  # they are received; nothing tells when
    pid = with_http.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    answers = []
    for link in links:
        with link:
            answers.append(b"".join(iter(partial(link.recv, 65536), b"")))
    assert [answer.split(b"\r\n")[0].split()[1] for answer in answers] == [b"200", *[b"201"] * 4]
    until(lambda: not is_alive(pid), "the daemon is gone", 90)
    assert ipc.read_record(with_http.home) is None
    assert stored(with_http) == before + 5
