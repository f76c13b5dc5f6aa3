"""What everything costs at 1,000, 10,000, 100,000 and a million memories, and how fast the costs grow.

    scripts/bench scale [--sizes 1000,10000,100000,1000000] [--rounds 200] [--cache FOLDER] [--homes FOLDER] [--keep] [--report FILE]

30,000 different texts are embedded once and kept in the cache folder; larger sizes tile them with noise (`scale_parts/homes.py`).
Printed for each size: wall clock (p50, p95) and CPU of an operation (daemon and client together, MongoDB's beside it, all on one
core), the vector search alone with its recall@10 against an exact search, memory, how soon it is searchable after a start, how fast a
lost sidecar comes back, the longest that others wait while it is saved; and in the end the growth from size to size, and what a
thousand scopes cost beside one. Standard error says which step is under way. `--report docs/performance.md` writes the page and its plot.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from scale_parts import report, starting, vectors  # noqa: E402
from scale_parts.homes import Corpus, fill  # noqa: E402
from scale_parts.operations import Asking  # noqa: E402
from scale_parts.running import Cost, Running  # noqa: E402

SCOPES = 1000
BEGAN_AT = time.monotonic()


def note(text: str) -> None:
    """Say on standard error what is done now: each step takes minutes at a hundred thousand memories."""
    print(f"{time.monotonic() - BEGAN_AT:6.0f} s  {text}", file=sys.stderr, flush=True)


def measure_size(home: Path, corpus: Corpus, size: int, first: int, rounds: int) -> report.Size:
    """Grow the home from *first* to *size* memories and measure everything there."""
    made = report.Size(size)
    note(f"{size:,} memories: storing")
    fill(home, corpus, first, size)
    note(f"{size:,} memories: starts, saves and rebuilding")
    made.figures |= starting.measure(home, size)
    note(f"{size:,} memories: vector search alone")
    made.found = list(vectors.measure(home, corpus, size))
    note(f"{size:,} memories: operations")
    with Running(home, pinned=True) as running:
        running.until_searchable()
        for name, cost in Asking(size, rounds).run(running):
            made.costs[name] = cost
            report.show_cost(size, name, cost)
        rss, of_files = running.rss()
        made.figures |= {"RSS of the daemon, MiB": rss / 2**20, "  of it mapped files, MiB": of_files / 2**20}
    report.show_size(made)
    return made


def measure_scopes(folder: Path, corpus: Corpus, size: int, rounds: int) -> dict[str, tuple[Cost, Cost]]:
    """Ask ALL in a home of one scope and in one of a thousand."""
    costs: list[dict[str, Cost]] = []
    for scopes in (1, SCOPES):
        note(f"{scopes:,} scopes")
        home = folder / f"scopes-{scopes}"
        fill(home, corpus, 0, size, scopes)
        with Running(home, pinned=True) as running:
            running.until_searchable()
            costs.append(dict(Asking(size, rounds).run(running, everywhere=True)))
        shutil.rmtree(home)
    return {name: (costs[0][name], costs[1][name]) for name in costs[0]}


def main() -> None:
    """Measure, print, and write the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "infinite-memory-scale")
    parser.add_argument("--homes", type=Path, help="where the homes are made: 6 GB for a million")
    parser.add_argument(
        "--scopes-size", type=int, default=20_000, help="memories for a thousand scopes beside one; 0: none"
    )
    parser.add_argument("--keep", action="store_true", help="leave the home there")
    parser.add_argument("--report", type=Path, help="write the page there, and its plot beside it")
    options = parser.parse_args()
    if options.report and importlib.util.find_spec("matplotlib") is None:
        parser.error("--report draws a plot: install the extra first, pip install -e '.[bench]' (matplotlib)")
    note("embedding 30,000 texts, unless the cache has them")
    corpus = Corpus(options.cache)
    folder = Path(tempfile.mkdtemp(prefix="scale-", dir=options.homes))
    sizes: list[report.Size] = []
    scopes: dict[str, tuple[Cost, Cost]] = {}
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
    try:
        first = 0
        for size in map(int, options.sizes.split(",")):
            sizes.append(measure_size(folder / "home", corpus, size, first, options.rounds))
            first = size
        if options.scopes_size:
            scopes = measure_scopes(folder, corpus, options.scopes_size, options.rounds)
        report.show_growth(sizes)
        report.show_scopes(scopes)
        if options.report:
            report.write(options.report, sizes, scopes, options.scopes_size)
    finally:
        print(f"load at the end {os.getloadavg()[0]:.2f}", flush=True)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
