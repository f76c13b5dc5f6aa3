"""Compare the time of a recall through each contract with the native command's, over real `serve` processes of one daemon.

``scripts/bench contracts [--memories N] [--rounds N]`` fills a scope of a temporary home, then asks in rounds: each round asks the
native command, the same as an MCP tool, the Memory Server's search and the palace's recall once, in drawn order, for the same number of
results, with questions alike in form, none twice. Printed are medians of time and of the daemon's processor time (Linux), and the median
of the ratios to the native command of the same round with its 95 % interval (bootstrap). A round is short, so a machine that is
busy for a while slows both sides of a ratio. The bound of the median is 1.2.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
BOUND = 1.2
DRAWS = 1000  # samples behind an interval
IMPORTANT = 15  # drawers that a palace recall gives beside those that answer
WORDS = """harbour ledger tea boiler roof garden train letter cello piano bridge market winter summer fox owl
    river stone paper candle window door lamp kettle""".split()  # noqa: SIM905 - a list of words reads best as one


class Client:
    """One `serve` process."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "serve", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ,
        )  # fmt: skip

    def ask(self, message: Json) -> Json:
        """Send one message and give the next line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        reply: Json = json.loads(self._process.stdout.readline())
        return reply

    def begin(self) -> Client:
        """Go through MCP's handshake."""
        about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
        return self

    def tool(self, name: str, **arguments: Any) -> Json:
        """Call a tool and give its result."""
        call = {"name": name, "arguments": arguments}
        result: Json = self.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})["result"]
        return result


def fill(native: Client, count: int, rng: random.Random) -> None:
    """Store *count* memories of drawn words in the scope `bench`."""
    for at in range(0, count, 500):
        some = [{"content": f"{' '.join(rng.choices(WORDS, k=14))} {number}", "scope": "bench"}
                for number in range(at, min(at + 500, count))]  # fmt: skip
        native.ask({"action": "store_memories", "memories": some})


def measure(ways: Mapping[str, Callable[[str], int]], pid: int, results: int, rounds: int, rng: random.Random) -> bool:
    """Ask in rounds and print medians; tells whether all keep to the bound."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    counts: dict[str, int] = {}
    for number in range(rounds):
        for at, name in enumerate(rng.sample(list(ways), len(ways))):
            question = f"{' '.join(rng.choices(WORDS, k=5))} {results}{number:04}{at}"
            processor, began = processor_s(pid), time.perf_counter()
            counts[name] = ways[name](question)
            taken[name].append((time.perf_counter() - began, processor_s(pid) - processor))
    well = True
    for name, each in taken.items():
        ratios = [one[0] / native[0] for one, native in zip(each, taken["native"], strict=True)]
        low, high = interval(ratios, rng)
        wall_ms, processor_ms = (1000 * statistics.median(part) for part in zip(*each, strict=True))
        print(f"{results:3} asked  {name:14} {counts[name]:3} given  {wall_ms:6.1f} ms  processor {processor_ms:6.1f} ms  "
              f"{statistics.median(ratios):5.2f} ({low:.2f} to {high:.2f})")  # fmt: skip
        well &= statistics.median(ratios) <= BOUND
    return well


def interval(values: list[float], rng: random.Random) -> tuple[float, float]:
    """Give the middle 95 % of the medians of samples drawn with replacement."""
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-DRAWS // 40 - 1]


def processor_s(pid: int) -> float:
    """Give the processor time of a process with all its threads, to the nanosecond; 0 where the system does not tell."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            total_ns += int(task.read_text().split()[0])
    return total_ns / 1e9


def main() -> int:
    """Measure, and give 1 when a contract is slower than the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    rng = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="im-bench-") as folder:
        environ = os.environ | {"INFINITE_MEMORY_HOME": f"{folder}/home", "PYTHONPATH": str(ROOT)}
        native = Client(environ)
        fill(native, options.memories, rng)
        server = Client(environ, "--contract", "memory-server", "--scope", "bench").begin()
        palace = Client(environ, "--contract", "palace", "--palace", "bench").begin()
        tools = Client(environ, "--scope", "bench").begin()
        pid = int(json.loads(Path(f"{folder}/home/daemon.json").read_text())["pid"])
        well = True
        for k in (IMPORTANT + 5, IMPORTANT + 35):

            def by_native(query: str, k: int = k) -> int:
                asked = {"action": "retrieve_memory", "query": query, "top_k": k, "filter": {"scope": "bench"}}
                return len(native.ask(asked)["results"])

            def by_tool(query: str, k: int = k) -> int:
                result = tools.tool("retrieve_memory", query=query, top_k=k, filter={"scope": "bench"})
                return len(result["structuredContent"]["results"])

            def by_server(query: str, k: int = k) -> int:
                return len(server.tool("memory_search", query=query, limit=k)["structuredContent"]["items"])

            def by_palace(query: str, k: int = k) -> int:
                text = palace.tool("memory_recall", query=query, top_k=k - IMPORTANT)["content"][0]["text"]
                return len(json.loads(text)["results"])

            ways = {"native": by_native, "native-mcp": by_tool, "memory-server": by_server, "palace": by_palace}
            with contextlib.redirect_stdout(io.StringIO()):
                measure(ways, pid, k, 5, rng)  # warms up
            well &= measure(ways, pid, k, options.rounds, rng)
        subprocess.run([sys.executable, "-m", "infinite_memory", "daemon", "stop"], env=environ, check=False)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
