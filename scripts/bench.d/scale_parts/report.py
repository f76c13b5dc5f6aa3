"""Prints the scale bench's figures and writes them as a page with a plot."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from infinite_memory import __version__
from scale_parts import sections
from scale_parts.operations import FLAT
from scale_parts.running import Cost
from scale_parts.vectors import Found

RETRIEVE_GROWTH, FLAT_GROWTH, SCOPES_RATIO = 2.5, 1.2, 3.0
VERSIONS = ("faiss-cpu", "tantivy", "onnxruntime", "pymongo", "numpy")


@dataclass(slots=True)
class Size:
    """What was measured at one size."""

    size: int
    costs: dict[str, Cost] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)


def show_cost(size: int, name: str, cost: Cost) -> None:
    """Print one operation."""
    times = f"p50 {cost.p50:8.1f}  p95 {cost.p95:8.1f}  CPU {cost.cpu:7.1f}  MongoDB {cost.mongod:6.1f} ms"
    print(f"{size:>9,} {name:<14} {times}", flush=True)


def show_size(made: Size) -> None:
    """Print what else was measured at one size."""
    for name, value in made.figures.items():
        print(f"{made.size:>9,} {name:<50}{value:14,.1f}")
    for one in made.found:
        print(f"{made.size:>9,} vectors, {one.name:<14} {_found(one)}", flush=True)


def _found(one: Found) -> str:
    return f"CPU {one.cpu_10:6.2f} ms for ten, {one.cpu_100:6.2f} for a hundred, recall@10 {one.recall:.4f}"


def growths(sizes: Sequence[Size]) -> list[tuple[str, str, float, float]]:
    """Give for each operation and tenfold: name, step, growth of its CPU, the most it may be."""
    made = []
    for smaller, larger in pairwise(sizes):
        for name in smaller.costs.keys() & larger.costs.keys() & {"retrieve", *FLAT}:
            growth = larger.costs[name].cpu / smaller.costs[name].cpu
            bound = RETRIEVE_GROWTH if name == "retrieve" else FLAT_GROWTH
            made.append((name, f"{smaller.size:,} to {larger.size:,}", growth, bound))
    return sorted(made)


def show_growth(sizes: Sequence[Size]) -> None:
    """Print the growth column."""
    for name, step, growth, bound in growths(sizes):
        print(f"growth {name:<10} {step:<24} {growth:5.2f} (at most {bound})", flush=True)


def show_scopes(scopes: Mapping[str, tuple[Cost, Cost]]) -> None:
    """Print what a thousand scopes cost beside one."""
    for name, (one, many) in scopes.items():
        print(
            f"ALL over a thousand scopes / one: {name:<10} CPU {many.cpu:6.1f} / {one.cpu:6.1f} ms"
            f" = {many.cpu / one.cpu:4.2f}, p50 {many.p50:6.1f} / {one.p50:6.1f} ms (at most {SCOPES_RATIO})",
            flush=True,
        )


def write(page: Path, sizes: Sequence[Size], scopes: Mapping[str, tuple[Cost, Cost]], scopes_size: int) -> None:
    """Write the page, and the plot beside it."""
    plot = page.with_suffix(".png")
    draw(plot, sizes)
    now = dt.datetime.now(dt.UTC)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)
    text = [
        "# Performance",
        "",
        "What an operation costs with a thousand to a million memories, and how that grows. Written by"
        " `scripts/bench scale --report docs/performance.md`; do not edit by hand.",
        "",
        f"Measured on {now:%Y-%m-%d} with infinite-memory {__version__}: "
        f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, {platform.system()}"
        f" {'.'.join(platform.release().split('.')[:2])}, Python {platform.python_version()}, {versions}; load {os.getloadavg()[0]:.1f}.",
        "",
        "The memories are generated sentences of about 25 words; 30,000 of them are embedded, larger sizes tile those with noise (cosine"
        " 0.86 to the parent). Daemon, client and MongoDB share one core. CPU is that of daemon and client together. Questions are new each"
        " time, 12 to 20 tokens, hybrid mode, five results; tag and time recalls give 20 memories.",
        "",
        "## CPU of an operation, ms",
        "",
        *_table(["operation", *_heads(sizes)], _costs(sizes, lambda one: f"{one.cpu:.1f}")),
        "",
        "MongoDB's beside it:",
        "",
        *_table(["operation", *_heads(sizes)], _costs(sizes, lambda one: f"{one.mongod:.1f}")),
        "",
        "`random` and `near` are recalls with a tag that so many percent bear: drawn by lot, or lying together in meaning.",
        "",
        "## Wall clock of an operation, p50 / p95, ms",
        "",
        *_table(["operation", *_heads(sizes)], _costs(sizes, lambda one: f"{one.p50:.1f} / {one.p95:.1f}")),
        "",
        f"![latency against size]({plot.name})",
        "",
        "## Growth of CPU with the size",
        "",
        *_table(
            ["operation", "from, to", "growth", "bound"],
            [[name, step, f"{growth:.2f}", f"{bound}"] for name, step, growth, bound in growths(sizes)],
        ),
        "",
        "## Vector search alone",
        "",
        "CPU of a search for ten / for a hundred, ms, and recall@10 against an exact search in full precision. Up to 65,536 vectors the"
        " search is exact; above, a product quantiser's fast scan gives a pool that is scored exactly (`index/vector/pq_index.py`).",
        "",
        *_table(
            ["filter", *_heads(sizes)],
            [
                [made.name, *(f"{one.cpu_10:.2f} / {one.cpu_100:.2f}, {one.recall:.3f}" for one in row)]
                for row in zip(*(size.found for size in sizes), strict=True)
                for made in row[:1]
            ],
        ),
        "",
        "## Starting, memory, saving",
        "",
        *_table(
            ["figure", *_heads(sizes)],
            [[name.strip(), *(f"{one.figures[name]:,.1f}" for one in sizes)] for name in sizes[0].figures],
        ),
        "",
    ]  # fmt: skip
    if scopes:
        text += [
            f"## A thousand scopes beside one, {scopes_size:,} memories, scope ALL",
            "",
            *_table(
                ["operation", "CPU, one scope, ms", "CPU, a thousand, ms", "ratio"],
                [
                    [name, f"{one.cpu:.1f}", f"{many.cpu:.1f}", f"{many.cpu / one.cpu:.2f}"]
                    for name, (one, many) in scopes.items()
                ],
            ),
            "",
        ]
    page.write_text("\n".join(text) + sections.all_of(page), "utf-8")


def draw(file: Path, sizes: Sequence[Size]) -> None:
    """Plot wall clock and CPU against size, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, what in zip(axes, ("p50", "cpu"), strict=True):
        for name in ("retrieve", *FLAT):
            axis.plot(
                [size.size for size in sizes], [getattr(size.costs[name], what) for size in sizes], "o-", label=name
            )
        axis.set(xscale="log", yscale="log", xlabel="memories", title="wall clock, p50" if what == "p50" else "CPU")
        axis.grid(True, which="both", alpha=0.3)
    axes[0].set_ylabel("ms an operation")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def _heads(sizes: Sequence[Size]) -> list[str]:
    return [f"{size.size:,}" for size in sizes]


def _costs(sizes: Sequence[Size], form: Callable[[Cost], str]) -> list[list[str]]:
    return [[name, *(form(size.costs[name]) for size in sizes)] for name in sizes[0].costs]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory_gib() -> float:
    import psutil

    return float(psutil.virtual_memory().total) / 2**30
