"""The product at work on a home: its daemon, its clients, and what they use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from scale_parts.homes import environ_of, scope_name

COMMAND = [sys.executable, "-m", "infinite_memory"]
QUESTION = "which of the things that were told is about the harbour and its lighthouse?"
Json = dict[str, Any]


class Client:
    """One ``infinite-memory serve``, which starts the daemon when there is none."""

    def __init__(self, home: Path) -> None:
        words = [*COMMAND, "serve", "--scope", scope_name(0)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ_of(home), cwd=home
        )

    def ask(self, action: str, **fields: Any) -> Json:
        """Send one request and give its reply, whatever it says."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"action": action, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        reply: Json = json.loads(self.process.stdout.readline())
        return reply

    def get(self, action: str, **fields: Any) -> Json:
        """Send one request; a refusal ends the run."""
        reply = self.ask(action, **fields)
        if reply["status"] != "OK":
            raise SystemExit(f"{action} was refused: {reply['error']}")
        return reply

    def end(self) -> None:
        """Close it as a client program does."""
        self.process.communicate()


class Running:
    """A daemon with one client; *pinned* keeps them and MongoDB on one core."""

    def __init__(self, home: Path, *, pinned: bool) -> None:
        cores = os.sched_getaffinity(0)
        self.home = home
        try:
            if pinned:
                os.sched_setaffinity(0, {max(cores)})
            self.began = time.perf_counter()
            self.client = Client(home)
        finally:
            os.sched_setaffinity(0, cores)
        self._status: Json = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.end()
        subprocess.run([*COMMAND, "daemon", "stop"], env=environ_of(self.home), capture_output=True, check=True)

    def status(self) -> Json:
        """Ask the daemon about itself."""
        words = [*COMMAND, "daemon", "status", "--json"]
        told: Json = json.loads(
            subprocess.run(words, env=environ_of(self.home), capture_output=True, check=True).stdout
        )
        return told

    def until_searchable(self) -> float:
        """Seconds from the start of the first client to a recall that used meaning and words."""
        while True:
            reply = self.client.ask("retrieve_memory", query=QUESTION)
            note = reply.get("note", "")
            is_whole = "by words alone" not in note and "meaning alone" not in note
            if reply["status"] == "OK" and reply["results"] and is_whole:
                return time.perf_counter() - self.began
            time.sleep(0.02)

    def cpu_s(self, clients: Sequence[Client] = ()) -> tuple[float, float]:
        """CPU seconds so far: of daemon and clients together, and of MongoDB."""
        if not self._status:
            self._status = self.status()
        ours = _cpu_s((self._status["pid"], *(one.process.pid for one in (self.client, *clients))))
        return ours, _cpu_s((self._status["mongod_pid"],))

    def rss(self) -> tuple[int, int]:
        """Resident bytes of the daemon: all, and those of mapped files, which the system may take back at any time."""
        lines = Path(f"/proc/{self.status()['pid']}/status").read_text().splitlines()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss") or "VmRSS" in line}
        return 1024 * kib["VmRSS"], 1024 * kib["RssFile"]

    def measure(self, requests: Iterable[tuple[str, Json]]) -> Cost:
        """Send requests one after the other."""
        seconds: list[float] = []
        before = self.cpu_s()
        for action, fields in requests:
            began = time.perf_counter()
            self.client.get(action, **fields)
            seconds.append(time.perf_counter() - began)
        after = self.cpu_s()
        p50, p95 = np.percentile(seconds, (50, 95))
        return Cost(
            1000 * p50, 1000 * p95, *(1000 * (b - a) / len(seconds) for a, b in zip(before, after, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one operation: wall clock, and CPU of daemon with client, and of MongoDB."""

    p50: float
    p95: float
    cpu: float
    mongod: float


def _cpu_s(pids: Iterable[int]) -> float:
    """Sum processes' CPU clocks, numbered as ``clock_getcpuclockid`` does; ``/proc/PID/stat`` counts in 10 ms."""
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)
