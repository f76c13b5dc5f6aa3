"""How long each view of the page takes at the server, with many memories.

    scripts/bench page [--sizes 10000,100000] [--rounds 40] [--homes FOLDER] [--keep]

A home is filled straight through the store, its daemon started, and each view asked for over one connection as a browser does.
Printed for each view: wall clock (p50, p95; 100 ms is what a view may take), and the CPU that daemon and MongoDB spend on it together,
which says more on a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import httpx2
import numpy as np
import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.browser import get_login  # noqa: E402
from tests.many_memories import SPAN, fill, get_text  # noqa: E402
from tests.processes import Installation  # noqa: E402

BOUND_MS = 100
WARM_UP = 3
AT_REST = 0.15  # of a core, over `REST_S`: what a start brings with it, such as saving the index, is over
REST_S, MAX_WAIT_S = 3, 60


def list_views(memory_id: str) -> dict[str, str]:
    """Return the address of each view, and of its costly forms."""
    question = urllib.parse.quote(f"what about the {get_text(4321).rpartition(' ')[2]} and the harbour")
    one = f"/page/memories/{memory_id}"
    found = f"/page/search?q={question}"
    return {
        "Search, newest": "/", "Search, a question": found, "Search, of a month": f"{found}&time=march+2022",
        "Search, of a scope": f"{found}&scope=Orchard", "Search, listed by tag": "/page/search?tags=shelf:7",
        "Timeline, years": "/page/timeline", "Timeline, a year": "/page/timeline?at=2022",
        "Timeline, a month": "/page/timeline?at=2022-03", "Timeline, a week": "/page/timeline?at=2022-W11",
        "Timeline, a day": "/page/timeline?at=2022-03-14", "Memory": one, "Memory, edit": f"{one}/edit",
        "Memory, move": f"{one}/move", "Why": f"/page/why?q={question}&id={memory_id}", "Scopes": "/page/scopes",
        "Scope": "/page/scope?name=Orchard", "Duplicates": "/page/duplicates", "Backups and jobs": "/page/backups",
        "Health": "/page/health", "Tokens": "/page/tokens", "Import": "/page/import",
        "Forget, by a tag": "/page/forget?tag=shelf:7&scope=Orchard", "Forgotten": "/page/forgotten",
    }  # fmt: skip


def measure(home: Installation, size: int, rounds: int) -> bool:
    """Ask for every view and print what it took; True if each kept to the bound."""
    assert home.command("daemon", "start").returncode == 0
    status = home.status()
    processes = [psutil.Process(status["pid"]), psutil.Process(status["mongod_pid"])]
    while (listed := home.call("list_memories", filter={"scope": "ALL"}, limit=1))["status"] != "OK":
        time.sleep(1)  # the index is being built
    _wait_for_rest(processes)
    url, code = get_login(home)
    with httpx2.Client(base_url=url, timeout=120, headers={"Origin": url.rstrip("/")}) as client:
        assert client.post("page/login", data={"token": code, "next": "/"}).status_code == 303
        print(f"\n{size:,} memories, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"{'view':24} {'p50 ms':>8} {'p95 ms':>8} {'CPU ms':>8} {'KiB':>7}")
        is_within = True
        for name, address in list_views(listed["results"][0]["memory_id"]).items():
            for _ in range(WARM_UP):
                client.get(address).raise_for_status()
            seconds, length, before = [], 0, _cpu_s(processes)
            for _ in range(rounds):
                began = time.perf_counter()
                length = len(client.get(address).raise_for_status().content)
                seconds.append(time.perf_counter() - began)
            p50, p95 = 1000 * np.percentile(seconds, (50, 95))
            cpu = 1000 * (_cpu_s(processes) - before) / rounds
            is_within &= bool(p95 <= BOUND_MS)
            print(f"{name:24} {p50:8.1f} {p95:8.1f} {cpu:8.1f} {length / 1024:7.1f}", flush=True)
    return is_within


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _wait_for_rest(processes: list[psutil.Process]) -> None:
    """Wait until a start's own work is over, so that no view is charged with it."""
    until = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < until:
        before = _cpu_s(processes)
        time.sleep(REST_S)
        if _cpu_s(processes) - before < AT_REST * REST_S:
            return


def main() -> int:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--homes", type=Path, help="where the home is made: some 4 KiB a memory")
    parser.add_argument("--keep", action="store_true", help="leave the home there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="page-", dir=options.homes))
    first, is_within = 0, True
    try:
        for size in map(int, options.sizes.split(",")):
            fill(folder / "home", size, first)
            first = size
            with Installation(folder / "home", {"INFINITE_MEMORY_HTTP__PORT": "0"}) as home:
                is_within &= measure(home, size, options.rounds)
    finally:
        if options.keep:
            print(f"the home is {folder / 'home'}, its memories lie over {SPAN.days} days")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
