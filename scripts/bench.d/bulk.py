"""Whether many memories at once are stored as fast as they can be embedded.

    scripts/bench bulk [--memories 5000] [--batch 500] [--rounds 3] [--report FILE]

In turn, each round: the embedder alone (batches of 16 of similar length, a thread for each core), `import` of a file through the
command line, and ``store_memories`` through ``serve``, each of texts that nobody has seen. Printed: texts a second, as a share of
what the embedder alone does in the same round (at least 0.8), and CPU for a text: of daemon and client, of MongoDB, of the embedder
alone. On a machine that others use the shares of the clock scatter; the share of the CPU (what the embedder alone takes, of what all
processes take together) does not.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from scale_parts import sections, texts  # noqa: E402
from scale_parts.homes import MODEL, environ_of  # noqa: E402
from scale_parts.running import COMMAND, Running  # noqa: E402

from infinite_memory.embedding.base import Embedder  # noqa: E402
from infinite_memory.embedding.factory import open_embedder  # noqa: E402
from infinite_memory.transfer.serialization import EXPORT_FORMAT, EXPORT_VERSION  # noqa: E402

LEAST_SHARE = 0.8
BATCH_TEXTS = 16


@dataclass(frozen=True, slots=True)
class Speed:
    """Texts a second by the clock, and milliseconds of CPU for a text: ours, MongoDB's."""

    rate: float
    cpu_ms: float
    mongod_ms: float = 0.0


def alone(embedder: Embedder, wanted: list[str]) -> Speed:
    """Embed with nothing else to do."""
    ordered = sorted(wanted, key=len)
    slices = [ordered[at : at + BATCH_TEXTS] for at in range(0, len(ordered), BATCH_TEXTS)]
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(embedder.embed, slices))
    return Speed(len(wanted) / (time.perf_counter() - began), 1000 * (time.process_time() - cpu) / len(wanted))


def imported(running: Running, wanted: list[str]) -> Speed:
    """Import a file through the command line."""
    file = running.home / "import.jsonl"
    lines = [{"kind": "header", "format": EXPORT_FORMAT, "version": EXPORT_VERSION}]
    lines += [{"kind": "memory", "text": one, "scope": "Imported"} for one in wanted]
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    before, children, began = running.cpu_s(), os.times(), time.perf_counter()
    words = [*COMMAND, "import", str(file), "--json", "--quiet"]
    done = subprocess.run(words, env=environ_of(running.home), capture_output=True, check=True)
    took, after, ended = time.perf_counter() - began, running.cpu_s(), os.times()
    if json.loads(done.stdout)["added"] != len(wanted):
        raise SystemExit(f"not all were added: {done.stdout.decode()}")
    client = ended.children_user + ended.children_system - children.children_user - children.children_system
    return _speed(len(wanted), took, before, after, client)


def stored(running: Running, wanted: list[str], batch: int) -> Speed:
    """Store through ``serve``, so many in a request."""
    before, began = running.cpu_s(), time.perf_counter()
    for at in range(0, len(wanted), batch):
        memories = [{"content": one} for one in wanted[at : at + batch]]
        reply = running.client.get("store_memories", memories=memories)
        if reply["failed"]:
            raise SystemExit(f"{reply['failed']} were refused")
    took, after = time.perf_counter() - began, running.cpu_s()
    return _speed(len(wanted), took, before, after, 0.0)


def _speed(count: int, took: float, before: tuple[float, float], after: tuple[float, float], client: float) -> Speed:
    ours, mongod = (1000 * (b - a) / count for a, b in zip(before, after, strict=True))
    return Speed(count / took, ours + 1000 * client / count, mongod)


def chunks(count: int) -> Iterator[list[str]]:
    """Give ever new texts, *count* at a time; a number in each makes them different from round to round."""
    parents = texts.parents()[:: 30_000 // count][:count]
    for number in itertools.count():
        yield [f"{number}. {parent}" for parent in parents]


def main() -> int:
    """Measure and print; gives 1 when it is slower than it is to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", type=Path, help="write the section of that page")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bulk-"))
    embedder, new = open_embedder(MODEL), chunks(options.memories)
    embedder.load()
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
    speeds: dict[str, list[Speed]] = {"embedder alone": [], "import": [], "store_memories": []}
    try:
        (folder / "home").mkdir()
        with Running(folder / "home", pinned=False) as running:
            running.client.get("store_memory", content="A first one, so that the model is there.")
            running.until_searchable()
            for _ in range(options.rounds):
                speeds["embedder alone"].append(alone(embedder, next(new)))
                speeds["import"].append(imported(running, next(new)))
                speeds["embedder alone"].append(alone(embedder, next(new)))
                speeds["store_memories"].append(stored(running, next(new), options.batch))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines, well = told(speeds)
    print("\n".join(lines))
    print(f"load at the end {os.getloadavg()[0]:.2f}")
    if options.report:
        now = dt.datetime.now(dt.UTC)
        about = (
            f"{now:%Y-%m-%d}, load {os.getloadavg()[0]:.1f}: {options.memories:,} texts of about 20 words each time, `import` by"
            f" command line and `store_memories` of {options.batch} a request, beside the embedder alone on all cores in that round;"
            f" medians of {options.rounds} rounds. On a machine that others use, the share of the CPU (what the embedder alone takes, of"
            " what all processes take) is the one to look at."
        )
        sections.put(options.report, "bulk", ["## Many at once", "", about, "", *lines])
    return 0 if well else 1


def told(speeds: dict[str, list[Speed]]) -> tuple[list[str], bool]:
    """Give a table of the medians, and whether the least share is kept."""
    base = speeds["embedder alone"]
    lines = [
        "| work | texts a second | share of the embedder's (at least 0.8) | CPU a text, ms | MongoDB's, ms | share of the CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        f"| embedder alone | {_median(one.rate for one in base):.0f} | 1 | {_median(one.cpu_ms for one in base):.2f} | | 1 |",
    ]
    well = True
    for at, name in enumerate(("import", "store_memories")):
        mine, before = speeds[name], base[at::2]  # the one just before, for the load changes
        share = _median(one.rate / other.rate for one, other in zip(mine, before, strict=True))
        of_cpu = _median(other.cpu_ms / (one.cpu_ms + one.mongod_ms) for one, other in zip(mine, before, strict=True))
        rate, cpu, mongod = (_median(getattr(one, key) for one in mine) for key in ("rate", "cpu_ms", "mongod_ms"))
        lines.append(f"| {name} | {rate:.0f} | {share:.2f} | {cpu:.2f} | {mongod:.2f} | {of_cpu:.2f} |")
        well &= share >= LEAST_SHARE
    return lines, well


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    raise SystemExit(main())
