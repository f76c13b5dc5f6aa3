"""The daemon goes under its clients: each request sent gets one answer, none is carried out twice, order is kept."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import Client, Installation, is_alive, until

CLIENTS = 5
BEFORE, AFTER = 40, 10


def kill(installation: Installation) -> None:
    pid = installation.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def stop(installation: Installation) -> None:
    assert installation.command("daemon", "stop").returncode == 0


GOES = pytest.mark.parametrize("goes", [kill, stop])


@GOES
def test_five_clients_of_the_action_loop_lose_no_request(
    installation: Installation, goes: Callable[[Installation], None]
) -> None:
    clients = [installation.serve() for _ in range(CLIENTS)]
    for number, client in enumerate(clients):
        assert client.ask("create_memory_scope", scope_name=f"Scope {number}")["status"] == "OK"
        assert client.ask("set_active_scope", scope=f"Scope {number}")["status"] == "OK"
    for number, client in enumerate(clients):
        client.send(*(_store(number, count) for count in range(BEFORE)))
    first = [client.reply() for client in clients]
    assert [reply["status"] for reply in first] == ["OK"] * CLIENTS
    goes(installation)
    answered = [[one] + [client.reply() for _ in range(BEFORE - 1)] for one, client in zip(first, clients, strict=True)]
    for number, client in enumerate(clients):
        client.send(*(_store(number, count) for count in range(BEFORE, BEFORE + AFTER)))
        client.stdin.close()
    stored: dict[str, str] = {}
    for number, client in enumerate(clients):
        replies = answered[number] + client.rest()
        assert [reply["request_id"] for reply in replies] == list(range(BEFORE + AFTER)), "order, and one each"
        assert client.process.wait(30) == 0
        for count, reply in enumerate(replies):
            if reply["status"] == "OK":
                assert reply["scope"] == f"Scope {number}", "the active scope went along"
                stored[f"memory {count} of {number}"] = reply["memory_id"]
            else:
                assert reply["error_code"] == "CONNECTION_ERROR"
                assert "stopped before it answered" in reply["error"]
        assert all(reply["status"] == "OK" for reply in replies[BEFORE:]), "the new daemon serves them all"
    _all_there_once(installation, stored)


@GOES
def test_five_clients_of_mcp_lose_no_request(installation: Installation, goes: Callable[[Installation], None]) -> None:
    clients = [installation.serve("--scope", f"Scope {number}") for number in range(CLIENTS)]
    for client in clients:
        assert client.initialize()["result"]["serverInfo"]["name"]
    for number, client in enumerate(clients):
        client.send(*(_tool(number, count) for count in range(1, BEFORE)))
    first = [client.answer() for client in clients]
    goes(installation)
    answered = [
        [one] + [client.answer() for _ in range(BEFORE - 2)] for one, client in zip(first, clients, strict=True)
    ]
    stored: dict[str, str] = {}
    for number, client in enumerate(clients):
        client.send(*(_tool(number, count) for count in range(BEFORE, BEFORE + AFTER)))
        client.stdin.close()
        replies = answered[number] + [one for one in client.rest() if "method" not in one]
        assert Counter(reply["id"] for reply in replies) == Counter(range(1, BEFORE + AFTER)), "one answer each"
        for reply in replies:
            if "error" in reply:
                assert reply["error"]["code"] == -32603, reply
                assert reply["id"] < BEFORE, reply
            else:
                kept: dict[str, Any] = reply["result"]["structuredContent"]
                assert kept["scope"] == f"Scope {number}"
                stored[f"memory {reply['id']} of {number}"] = kept["memory_id"]
        assert client.process.wait(30) == 0
    _all_there_once(installation, stored)


def test_an_mcp_session_goes_on_without_a_second_handshake(installation: Installation) -> None:
    client = installation.serve()
    client.initialize()
    assert client.tool(1, "set_active_scope", scope="Global")["result"]
    for number, goes in enumerate((kill, stop), 2):
        pid = installation.status()["pid"]
        goes(installation)
        until(lambda pid=pid: not is_alive(pid), "the daemon is gone")
        reply = client.tool(number, "store_memory", content=f"tea {number}")
        assert reply["id"] == number
        assert "result" in reply, reply
        assert reply["result"]["structuredContent"]["outcome"] == "stored"
    assert not client.has_more(), "the replayed handshake's reply is the daemon's business"
    assert client.tool(9, "list_memories")["result"]["structuredContent"]["total"] == 2


def test_everything_killed_at_once_is_survived_too(installation: Installation) -> None:
    client: Client = installation.serve()
    ids = [client.ask("store_memory", content=f"memory {n}")["memory_id"] for n in range(5)]
    client.send({"action": "list_memories", "request_id": "under way"})
    installation.kill_everything()
    reply = client.reply()
    assert reply["request_id"] == "under way"
    assert reply["status"] == "OK" or reply["error_code"] == "CONNECTION_ERROR"
    listed = client.ask("list_memories")
    assert {one["memory_id"] for one in listed["results"]} == set(ids)


def _store(number: int, count: int) -> dict[str, Any]:
    return {"action": "store_memory", "content": f"memory {count} of {number}", "request_id": count}


def _tool(number: int, count: int) -> dict[str, Any]:
    call = {"name": "store_memory", "arguments": {"content": f"memory {count} of {number}"}}
    return {"jsonrpc": "2.0", "id": count, "method": "tools/call", "params": call}


def _all_there_once(installation: Installation, stored: dict[str, str]) -> None:
    """Whatever was answered OK is there; whatever is there is there once."""
    client = installation.serve()
    texts: list[str] = []
    for number in range(CLIENTS):
        listed = client.ask("search_by_scope", scope=f"Scope {number}", limit=1000)
        texts += [one["text"] for one in listed["results"]]
        known = {one["text"]: one["memory_id"] for one in listed["results"]}
        mine = {text: memory_id for text, memory_id in stored.items() if text.endswith(f" of {number}")}
        assert mine.items() <= known.items()
    assert max(Counter(texts).values()) == 1, "none was carried out twice"


# One write of each sibling contract: the flags, the tool and its arguments for a text.
SIBLINGS: dict[str, tuple[tuple[str, ...], str, Callable[[str], dict[str, Any]]]] = {
    "memory-server": (
        (),
        "memory_create",
        lambda text: {"type": "note", "source": "test", "content": {"text": text}, "confidence": 1},
    ),
    "palace": (("--palace", "project"), "memory_remember", lambda text: {"text": text}),
    "laravel": (
        (),
        "memory-write",
        lambda text: {
            "organization": "acme",
            "scope_type": "system",
            "memory_type": "fact",
            "title": text,
            "current_content": text,
        },
    ),
    "agentmem": ((), "agentmem_add_memory", lambda text: {"content": text, "user_id": "alice"}),
}


@GOES
def test_clients_of_the_sibling_contracts_lose_no_request(
    installation: Installation, goes: Callable[[Installation], None]
) -> None:
    """Two clients of each contract, all at one daemon."""
    contracts = [*SIBLINGS, *SIBLINGS]
    clients = [installation.serve("--contract", contract, *SIBLINGS[contract][0]) for contract in contracts]

    def call(number: int, count: int) -> dict[str, Any]:
        _, tool, arguments = SIBLINGS[contracts[number]]
        params = {"name": tool, "arguments": arguments(f"memory {count} of {number}")}
        return {"jsonrpc": "2.0", "id": count, "method": "tools/call", "params": params}

    for number, client in enumerate(clients):
        assert client.initialize()["result"]["serverInfo"]["name"], contracts[number]
    for number, client in enumerate(clients):
        client.send(*(call(number, count) for count in range(1, BEFORE)))
    first = [client.answer() for client in clients]
    goes(installation)
    answered = [
        [one] + [client.answer() for _ in range(BEFORE - 2)] for one, client in zip(first, clients, strict=True)
    ]
    stored: set[str] = set()
    for number, client in enumerate(clients):
        client.send(*(call(number, count) for count in range(BEFORE, BEFORE + AFTER)))
        client.stdin.close()
        replies = answered[number] + [one for one in client.rest() if "method" not in one]
        assert Counter(reply["id"] for reply in replies) == Counter(range(1, BEFORE + AFTER)), "one answer each"
        for reply in replies:
            if "error" in reply:
                assert reply["error"]["code"] == -32603, reply
                assert reply["id"] < BEFORE, reply
            else:
                assert not reply["result"].get("isError"), reply
                stored.add(f"memory {reply['id']} of {number}")
        assert client.process.wait(30) == 0
    client = installation.serve()
    listed = client.ask("list_memories", scope="ALL", limit=1000)["results"]
    texts = [text for one in listed if (text := _first_named(one["text"]))]
    assert stored <= set(texts)
    assert max(Counter(texts).values()) == 1, "none was carried out twice"


def _first_named(text: str) -> str | None:
    """Give the name of a memory wherever a contract put it into the text."""
    found = re.search(r"memory \d+ of \d+", text)
    return found[0] if found else None
