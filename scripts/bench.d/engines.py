"""What recalls, filtered recalls and stores cost with the embedded engine and with a Milvus server, over one memory in one sitting.

    scripts/bench engines [--size 100000] [--rounds 50] [--passes 2] [--lite | --uri http://host:19530] [--home FOLDER]

Without `--uri` the server of the package `milvus` 2.3.5 is started, which listens on all interfaces, or with `--lite` Milvus' embedded
form. The memories are those of `scripts/bench scale`, with random vectors: an exact search costs the same whatever they are. Each pass
asks both engines the same questions, each of a daemon of its own; printed are wall clock and the CPU of daemon and client, in ms, the
memory of the daemon, and how many of the first ten hits of 50 questions are the same with both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from scale_parts import texts  # noqa: E402
from scale_parts.homes import MODEL, Corpus, fill  # noqa: E402
from scale_parts.operations import Asking  # noqa: E402
from scale_parts.running import Running  # noqa: E402

from infinite_memory.embedding.factory import open_embedder  # noqa: E402
from tests.milvus_server import LiteServer, MilvusServer  # noqa: E402

SHOWN = ("retrieve", "random 1 %", "random 10 %", "by tag", "by time", "get", "store")
COMPARED = 50
BEGAN_AT = time.monotonic()


class RandomCorpus(Corpus):
    """Memories whose vectors have nothing to do with their texts, and need no model."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        embedder = open_embedder(MODEL)
        self.space, self.parents = embedder.space, texts.parents()
        rows = rng.standard_normal((len(self.parents), embedder.dim), dtype=np.float32)
        self.vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._order = np.random.default_rng(1).permutation(len(self.parents))


def note(text: str) -> None:
    """Say on standard error what is done now."""
    print(f"{time.monotonic() - BEGAN_AT:6.0f} s  {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def milvus(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield where Milvus is, starting one where none is named."""
    if arguments.uri:
        yield arguments.uri
        return
    server = LiteServer(folder / "milvus") if arguments.lite else MilvusServer(folder / "milvus")
    try:
        server.start()
        yield server.uri
    finally:
        server.kill()


def measure(home: Path, size: int, rounds: int, engine: str, uri: str) -> list[list[str]]:
    """Print what operations cost with one engine; gives the first hits of some questions."""
    os.environ["INFINITE_MEMORY_INDEX__ENGINE"], os.environ["INFINITE_MEMORY_INDEX__URI"] = engine, uri
    with Running(home, pinned=False) as running:
        print(f"{engine:<8} searchable after {running.until_searchable():.1f} s", flush=True)
        for name, cost in Asking(size, rounds).run(running):
            if name in SHOWN:
                print(
                    f"{engine:<8} {name:<12} p50 {cost.p50:7.1f}  p95 {cost.p95:7.1f}  CPU {cost.cpu:6.1f}",
                    flush=True,
                )
        used = psutil.Process(running.status()["pid"]).memory_full_info()
        print(f"{engine:<8} the daemon has {used.uss / 2**20:.0f} MiB of its own, {used.rss / 2**20:.0f} resident")
        questions = texts.questions(COMPARED, 7)
        asked = [running.client.get("retrieve_memory", query=one, top_k=10)["results"] for one in questions]
        return [[hit["memory_id"] for hit in hits] for hits in asked]


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--lite", action="store_true", help="take Milvus' embedded form as a server")
    parser.add_argument("--uri", help="take a server that runs already")
    parser.add_argument("--home", type=Path, help="keep the home there, and take what it holds the next time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engines-") as made:
        home = arguments.home or Path(made) / "home"
        if not home.exists():
            home.mkdir(parents=True)
            note(f"storing {arguments.size:,} memories")
            fill(home, RandomCorpus(), 0, arguments.size)
        note("starting Milvus")
        with milvus(arguments, Path(made)) as uri:
            for number in range(arguments.passes):
                note(f"pass {number + 1}")
                ours, theirs = (
                    measure(home, arguments.size, arguments.rounds, engine, uri) for engine in ("faiss", "milvus")
                )
                same = sum(len(set(one) & set(other)) for one, other in zip(ours, theirs, strict=True))
                print(f"{same} of {sum(map(len, ours))} hits are the same", flush=True)


if __name__ == "__main__":
    main()
