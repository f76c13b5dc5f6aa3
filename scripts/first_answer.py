"""Measures a first use: runs `serve` as an MCP client does, stores a memory and asks about it until the answer comes by meaning.

    python scripts/first_answer.py [--limit SECONDS] COMMAND...      COMMAND as `infinite-memory serve`, or `uvx infinite-memory serve`

Prints one JSON object: seconds to the handshake and to the answer by meaning, and the three replies. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

Json = dict[str, Any]

MEMORY = "My favorite color is blue"
BY_WORDS, BY_MEANING = "favorite color", "which hue do I prefer?"


class Client:
    """A small MCP client over a process's pipes."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> Json:
        """Send one request and return its result."""
        self._number += 1
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            reply = json.loads(line)
            if reply.get("id") == self._number:
                result: Json = reply["result"]
                return result
        raise SystemExit(f"the server ended with exit code {self.process.wait()}")

    def tool(self, name: str, **arguments: Any) -> Json:
        """Call one tool and return its reply."""
        reply: Json = self.ask("tools/call", name=name, arguments=arguments)["structuredContent"]
        return reply

    def close(self) -> None:
        """End the session."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> int:
    """Run the session; 0 when the answer came by meaning and is the memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which it has failed")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    started = time.monotonic()
    client = Client(options.command)
    client.ask(
        "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "first_answer", "version": "1"}
    )
    tools = len(client.ask("tools/list")["tools"])
    measured: Json = {"tools": tools, "handshake_s": round(time.monotonic() - started, 2)}
    measured["stored"] = client.tool("store_memory", content=MEMORY)
    measured["by_words"] = client.tool("retrieve_memory", query=BY_WORDS)
    while "note" in (by_meaning := client.tool("retrieve_memory", query=BY_MEANING)):
        if time.monotonic() - started > options.limit:
            break
        time.sleep(0.5)
    measured |= {"by_meaning": by_meaning, "meaning_s": round(time.monotonic() - started, 2)}
    client.close()
    print(json.dumps(measured))
    results = by_meaning.get("results", [])
    return 0 if "note" not in by_meaning and results and results[0]["text"] == MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
