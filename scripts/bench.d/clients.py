"""Whether many clients at once get what one client's cost allows.

    scripts/bench clients [--clients 64] [--seconds 20] [--memories 10000] [--cache FOLDER]

Each client is a ``serve`` process that sends one request after the other, 90 % recalls of new questions and 10 % stores. Daemon,
MongoDB and clients share one core, so what one client's CPU for an operation (MongoDB's and its own included) allows is one second
divided by it. Printed: throughput as a share of that (at least 0.8; on a machine that others use it falls by what they take, the CPU
of an operation does not), p50 and p99 (at most ten times p50), errors (none).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from scale_parts import texts  # noqa: E402
from scale_parts.homes import Corpus, fill  # noqa: E402
from scale_parts.running import Client, Json, Running  # noqa: E402

STORES = 0.1
ALONE = 300
LEAST_SHARE, MOST_RATIO = 0.8, 10


class Questions:
    """Requests that are all different; several threads may take them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rng = random.Random(64)
        self._count = 0

    def next(self) -> tuple[str, Json]:
        """Give an action and its fields."""
        with self._lock:
            self._count += 1
            [question] = texts.questions(1, self._count)
            question = question.removesuffix("?") + f" {self._count}?"
            if self._rng.random() < STORES:
                return "store_memory", {"content": question}
            return "retrieve_memory", {"query": question}


def ask_for(client: Client, questions: Questions, until: float, seconds: list[float], errors: list[str]) -> None:
    """Send requests until a moment; notes how long each took."""
    while time.perf_counter() < until:
        action, fields = questions.next()
        began = time.perf_counter()
        reply = client.ask(action, **fields)
        seconds.append(time.perf_counter() - began)
        if reply["status"] != "OK":
            errors.append(str(reply.get("error")))


def pin(pid: int, core: int) -> None:
    """Keep a process, all its threads, on one core."""
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, {core})


def measure(running: Running, count: int, span_s: float) -> bool:
    """Measure one client, then *count*; tells whether the bounds are kept."""
    questions, core = Questions(), max(os.sched_getaffinity(0))
    running.measure(questions.next() for _ in range(ALONE // 3))
    alone = running.measure(questions.next() for _ in range(ALONE))
    allowed = 1000 / (alone.cpu + alone.mongod)
    clients = [Client(running.home) for _ in range(count)]
    for client in clients:
        client.get("ping")
        pin(client.process.pid, core)
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {core} or {core})
    seconds: list[float] = []
    errors: list[str] = []
    before = sum(running.cpu_s(clients))
    began = time.perf_counter()
    threads = [
        threading.Thread(target=ask_for, args=(client, questions, began + span_s, seconds, errors))
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    throughput = len(seconds) / (time.perf_counter() - began)
    cpu_ms = 1000 * (sum(running.cpu_s(clients)) - before) / len(seconds)
    for client in clients:
        client.end()
    p50, p99 = (1000 * one for one in np.percentile(seconds, (50, 99)))
    print(
        f"one client: CPU {alone.cpu:.1f} ms and MongoDB's {alone.mongod:.1f}: allows {allowed:.1f} requests a second"
    )
    print(f"{count} clients: {throughput:.1f} a second, {throughput / allowed:.2f} of that (at least {LEAST_SHARE})")
    print(
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms: {p99 / p50:.1f} times (under {MOST_RATIO}); {len(errors)} errors {errors[:3]}"
    )
    one_ms = alone.cpu + alone.mongod
    print(f"CPU of an operation with {count} clients, all together: {cpu_ms:.1f} ms; with one: {one_ms:.1f} ms")
    return throughput >= LEAST_SHARE * allowed and p99 < MOST_RATIO * p50 and not errors


def main() -> int:
    """Measure; gives 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "infinite-memory-scale")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    try:
        print(f"load {os.getloadavg()[0]:.2f}")
        fill(folder / "home", Corpus(options.cache), 0, options.memories)
        with Running(folder / "home", pinned=True) as running:
            running.until_searchable()
            well = measure(running, options.clients, options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
