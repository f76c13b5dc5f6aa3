"""How soon it answers, and what a recall and a window cost: start.py [--runs 10] [--memories 1000].

Every figure is the median of the runs, with the slowest beside it; times are also given as multiples of `python -c pass`,
measured in turn with them, because that is what the machine's load shows in. CPU is that of daemon and client together,
MongoDB's beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil

COMMAND = [str(Path(sys.executable).with_name("infinite-memory"))]
QUESTION = (
    '{"action": "retrieve_memory", "query": "which of my notes speaks of the harbour and its lighthouse number %d?"}\n'
)


class Serve:
    """One `serve` process with its pipes."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"INFINITE_MEMORY_HOME": str(home)},
        )

    def ask(self, line: str) -> tuple[dict[str, object], float]:
        """Send a line; gives the reply and the seconds since the process was started."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        return reply, time.perf_counter() - self.began

    def end(self) -> None:
        """Close it as a client program does."""
        self.process.communicate()


def daemon(home: Path, what: str) -> str:
    """Run `daemon WHAT` for a home."""
    environ = os.environ | {"INFINITE_MEMORY_HOME": str(home)}
    words = [*COMMAND, "daemon", what, *(["--json"] if what == "status" else [])]
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False).stdout


def bare_python() -> float:
    """Seconds that an interpreter takes to do nothing."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def show(name: str, seconds: list[float], pass_s: float | None = None) -> None:
    """Print one row."""
    middle = statistics.median(seconds)
    ratio = f"{middle / pass_s:8.1f} x pass" if pass_s else ""
    print(f"{name:<58}{middle * 1000:9.1f} ms  (most {max(seconds) * 1000:.1f}){ratio}", flush=True)


@contextmanager
def filled_home(memories: int) -> Iterator[Path]:
    """Give a home with memories in it, its daemon running."""
    folder = Path(tempfile.mkdtemp(prefix="im-bench-"))
    try:
        serve = Serve(folder / "home")
        for first in range(0, memories, 200):
            entries = [
                {
                    "content": f"Note {at}: the lighthouse number {at * 7919 % 1009} of harbour {at * 31 % 97} was painted."
                }
                for at in range(first, min(first + 200, memories))
            ]
            reply, _ = serve.ask(json.dumps({"action": "store_memories", "memories": entries}) + "\n")
            assert reply["failed"] == 0, reply
        serve.end()
        yield folder / "home"
    finally:
        daemon(folder / "home", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def measure_start(home: Path, runs: int) -> None:
    """How soon the first reply and the first semantic answer come, with a daemon and without."""
    passes, warm, cold, semantic, here_bad, here_semantic, boots, here_rss = [], [], [], [], [], [], [], []
    for run in range(runs):
        passes.append(bare_python())
        serve = Serve(home)
        warm.append(serve.ask("no request\n")[1])
        serve.end()
        daemon(home, "stop")
        serve = Serve(home)
        cold.append(serve.ask("no request\n")[1])
        reply, seconds = serve.ask(QUESTION % run)
        assert reply["results"], reply
        semantic.append(seconds)
        serve.end()
        daemon(home, "stop")
        serve = Serve(home, "--in-process")
        here_bad.append(serve.ask("no request\n")[1])
        reply, seconds = serve.ask(QUESTION % (run + 1000))
        assert reply["results"], reply
        here_semantic.append(seconds)
        here_rss.append(psutil.Process(serve.process.pid).memory_info().rss)
        serve.end()
        boots.append(mongod_boot_s(home))
        daemon(home, "start")
    unit = statistics.median(passes)
    show("python -c pass", passes)
    show("a daemon runs: spawn of serve to first reply", warm, unit)
    show("no daemon: spawn of serve to first reply", cold, unit)
    show("no daemon: spawn of serve to first semantic answer", semantic, unit)
    show("serve --in-process: first reply to a bad line", here_bad, unit)
    show("serve --in-process: first semantic answer", here_semantic, unit)
    show("MongoDB's own boot in those runs (from its log)", boots)
    print(
        f"{'memory of one serve --in-process':<58}{statistics.median(here_rss) / 2**20:9.1f} MiB  (ten windows: ten times that)"
    )


def mongod_boot_s(home: Path) -> float:
    """Seconds from mongod's first line to taking connections, at its last start, by its own log."""
    stamps = re.compile(r'"\$date":"([^"]+)"')
    starts, ready = [], []
    for line in (home / "logs" / "mongod.log").read_text("utf-8", "replace").splitlines():
        found = stamps.search(line)
        if found and '"id":4615611' in line:  # "MongoDB starting"
            starts.append(found[1])
        if found and '"id":23016' in line:  # "Waiting for connections"
            ready.append(found[1])
    return (datetime.fromisoformat(ready[-1]) - datetime.fromisoformat(starts[-1])).total_seconds()


def measure_cost(home: Path, runs: int) -> None:
    """CPU of a warm recall, and memory of windows."""
    serve = Serve(home)
    serve.ask(QUESTION % 1)
    status = json.loads(daemon(home, "status"))
    processes = [status["pid"], serve.process.pid]
    ours, theirs = [], []
    for run in range(runs):
        before, before_mongo = sum(map(cpu_s, processes)), cpu_s(status["mongod_pid"])
        for at in range(50):
            serve.ask(QUESTION % (run * 100 + at + 10_000))
        ours.append((sum(map(cpu_s, processes)) - before) / 50)
        theirs.append((cpu_s(status["mongod_pid"]) - before_mongo) / 50)
    show("CPU of one recall, daemon and client, new questions", ours)
    show("  MongoDB's beside it", theirs)
    more = [Serve(home) for _ in range(9)]
    for one in more:
        one.ask("no request\n")
    windows = [psutil.Process(one.process.pid).memory_info().rss for one in (serve, *more)]
    rss = psutil.Process(status["pid"]).memory_info().rss
    print(f"{'memory of the daemon with ten clients':<58}{rss / 2**20:9.1f} MiB")
    print(f"{'memory of one client, on average':<58}{sum(windows) / len(windows) / 2**20:9.1f} MiB")
    for one in (serve, *more):
        one.end()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--memories", type=int, default=1000)
    options = parser.parse_args()
    print(
        f"{options.memories:,} memories, {options.runs} runs, load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"
    )
    with filled_home(options.memories) as home:
        measure_start(home, options.runs)
        measure_cost(home, options.runs)
    print(f"load at the end {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
