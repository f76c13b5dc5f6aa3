"""Clients written for the originals of our contracts, over the real process: the Memory Server's in Node, the palace's in Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Installation

Json = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "contracts" / "memory-server-client.mjs"


def test_the_documents_node_client_saves_a_runbook(installation: Installation) -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("node is missing")
        pytest.skip("node is missing")
    done = subprocess.run(
        [node, str(EXAMPLE), sys.executable, "-m", "infinite_memory", "serve", "--contract", "memory-server"],
        env=installation.environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    replies = {
        reply["id"]: reply["result"]
        for line in done.stdout.splitlines()
        if line.startswith("RPC <- ") and "id" in (reply := json.loads(line.removeprefix("RPC <- ")))
    }
    assert list(replies) == ["init", "list-tools", "save1"]
    assert replies["init"]["protocolVersion"] == "2024-11-05"
    assert [tool["name"] for tool in replies["list-tools"]["tools"]] == [
        "memory_create",
        "memory_search",
        "memory_list",
    ]
    [item] = replies["save1"]["structuredContent"]["items"]
    assert (item["type"], item["confidence"]) == ("runbook", 0.95)
    [found] = installation.call("retrieve_memory", query="how do I restore a backup?")["results"]
    assert found["text"] == "title: Restore from backup\nsteps: stop traffic, restore, verify"


class PalaceClient:
    """What an integrator of the palace writes: one process for a project, a line a request, the id that counts up."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        self._number = 0
        self.about = self.request("initialize", {"protocolVersion": "2024-11-05", "capabilities": {},
                                                 "clientInfo": {"name": "open-mpm", "version": "1.0.0"}})  # fmt: skip
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})

    def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request and read its reply."""
        self._number += 1
        self._send(
            {"jsonrpc": "2.0", "id": self._number, "method": method} | ({} if params is None else {"params": params})
        )
        assert self._process.stdout is not None
        reply: Json = json.loads(self._process.stdout.readline())
        assert reply["id"] == self._number
        return reply

    def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool and parse what it gives."""
        reply = self.request("tools/call", {"name": tool, "arguments": arguments})
        found: Json = json.loads(reply["result"]["content"][0]["text"])
        return found

    def close(self) -> int:
        """Close the pipe and give the exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait(30)

    def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def test_a_python_client_keeps_a_projects_palace_over_two_sessions(installation: Installation) -> None:
    command = [sys.executable, "-m", "infinite_memory", "serve", "--contract", "palace", "--palace", "my-project"]
    first = PalaceClient(command, installation.environ)
    assert first.about["result"]["serverInfo"]["default_palace"] == "my-project"
    assert len(first.request("tools/list")["result"]["tools"]) == 10
    kept = first.call(
        "memory_remember", text="The API gateway validates JWT tokens using RS256.", room="Backend", tags=["auth"]
    )
    assert kept["status"] == "stored"
    first.call("kg_assert", subject="auth-service", predicate="deployed_version", object="2.4.1")
    assert first.close() == 0

    second = PalaceClient(command, installation.environ)
    found = second.call("memory_recall", query="How does token validation work?", top_k=5)["results"]
    assert [(one["drawer_id"], one["layer"]) for one in found] == [(kept["drawer_id"], 2)]
    assert 0 < found[0]["score"] <= 1
    second.call("kg_assert", subject="auth-service", predicate="deployed_version", object="2.5.0")
    assert [one["object"] for one in second.call("kg_query", subject="auth-service")["triples"]] == ["2.5.0"]
    assert "my-project" in second.call("palace_list")["palaces"]
    assert second.close() == 0
