"""The figures of both, how many times more the peer needs, and the section of the page that says so."""

from __future__ import annotations

import datetime as dt
import os
import statistics
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scale_parts import sections


@dataclass(slots=True)
class Operation:
    """One kind of work, done *count* times on both: milliseconds of CPU of one, and seconds by the clock of each."""

    count: int
    ours_ms: float = 0.0
    mongod_ms: float = 0.0
    peer_ms: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"ours": [], "peer": []})

    async def timed(self, name: str, work: Awaitable[None]) -> None:
        """Do one, and note how long it took."""
        began = time.perf_counter()
        await work
        self.seconds[name].append(time.perf_counter() - began)

    def clock_ms(self, name: str) -> str:
        """Say the median and the 95th percentile."""
        p50, p95 = 1000 * np.percentile(self.seconds[name], (50, 95))
        return f"{p50:.1f} / {p95:.1f}"


@dataclass(slots=True)
class Result:
    """Everything that was measured. Memory: resident bytes, and the proportional share; idle: CPU in a second, of ours, MongoDB, peer."""

    peer: str
    memories: int
    windows: int
    padded: bool
    operations: dict[str, Operation] = field(default_factory=dict)
    handshakes: dict[str, list[float]] = field(default_factory=lambda: {"ours": [], "ours, no daemon": [], "peer": []})
    idle_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)

    def ratios(self) -> Iterator[tuple[str, float, float]]:
        """Give what is compared, how many times more the peer needs, and how many times it is to be at least."""
        for name, bound in (("retrieve", 4.0), ("store", 10.0)):
            one = self.operations[name]
            yield f"CPU of {name}", one.peer_ms / one.ours_ms, bound
            yield f"CPU of {name}, MongoDB's with ours", one.peer_ms / (one.ours_ms + one.mongod_ms), 0.0
        peer = statistics.median(self.handshakes["peer"])
        yield "handshake, a daemon runs", peer / statistics.median(self.handshakes["ours"]), 5.0
        yield "handshake, no daemon runs", peer / statistics.median(self.handshakes["ours, no daemon"]), 0.0
        title = f"memory of {self.windows} windows"
        for at, kind in enumerate(("resident", "proportional")):
            yield f"{title}, {kind}", self._memory(at, "ours"), 5.0
            yield f"{title}, {kind}, MongoDB's with ours", self._memory(at, "ours", "MongoDB's"), 0.0

    def _memory(self, kind: int, *names: str) -> float:
        return self.memory["peer"][kind] / sum(self.memory[name][kind] for name in names)


def show(made: Result) -> bool:
    """Print everything; tells whether all bounds are kept."""
    print("\n".join(_lines(made)))
    return all(ratio >= bound for _, ratio, bound in made.ratios())


def write(page: Path, made: Result) -> None:
    """Put the section into the page, in the place of the one before."""
    now = dt.datetime.now(dt.UTC)
    padding = "is as the model ships it, and pads to 128 tokens" if made.padded else "is made not to pad"
    text = [
        "## Beside a peer",
        "",
        f"{now:%Y-%m-%d}, load {os.getloadavg()[0]:.1f}: {made.peer} with its `[sqlite]` extra and our model, {made.memories:,}"
        " memories of the same vectors on both sides, in one run and in turn, through the official MCP client. CPU is that of all"
        f" processes that work for the window, less what they use when idle; MongoDB's is beside it. The peer's tokenizer {padding};"
        " its memories are years old (it compares a new one with all of the last day, and refuses what is like one of them).",
        "",
        *_lines(made),
    ]
    sections.put(page, "peers", text)


def _lines(made: Result) -> Iterator[str]:
    yield "| figure | InfiniteMemory | MongoDB beside it | the peer |"
    yield "| --- | ---: | ---: | ---: |"
    for name, one in made.operations.items():
        yield f"| CPU of {name}, ms | {one.ours_ms:.1f} | {one.mongod_ms:.1f} | {one.peer_ms:.1f} |"
        yield f"| {name} by the clock, p50 / p95, ms | {one.clock_ms('ours')} | | {one.clock_ms('peer')} |"
    idle = " | ".join(f"{one:.1f}" for one in made.idle_ms)
    yield f"| CPU of a second when idle, ms | {idle} |"
    for name, title in (("ours", "handshake, a daemon runs, ms"), ("ours, no daemon", "handshake, no daemon runs, ms")):
        own, peer = (1000 * statistics.median(made.handshakes[one]) for one in (name, "peer"))
        yield f"| {title} | {own:.0f} | | {peer:.0f} |"
    for at, kind in enumerate(("resident", "proportional")):
        ours, mongod, peer = (made.memory[name][at] / 2**20 for name in ("ours", "MongoDB's", "peer"))
        yield f"| memory of {made.windows} windows, {kind}, MiB | {ours:.0f} | {mongod:.0f} | {peer:.0f} |"
    yield ""
    yield "| the peer needs | times as much | at least |"
    yield "| --- | ---: | ---: |"
    for name, ratio, bound in made.ratios():
        yield f"| {name} | {ratio:.1f} | {f'{bound:g}' if bound else ''} |"
