"""Measures whether a recall finds what answers: plain dense, plain BM25, grep and ours side by side, by category.

    scripts/bench recall --data FOLDER [--queries FILE] [--everywhere] [--modes hybrid,semantic] [--save DIR] [--sure] [--home DIR] [--lite]
    scripts/bench recall --xquad FOLDER [--questions de] [--paragraphs en] [--every 3] [--unrelated] ...
    scripts/bench recall --sts FOLDER [--questions fr] [--paragraphs en] ... or --squad FILE ...

FOLDER holds ``memories.jsonl`` (id, text, timestamp, tags, scope) and ``queries.jsonl`` (id, text, relevant, category, scope), with
`--xquad` the files of XQuAD: questions in one language over paragraphs in the same or another, with `--sts` pairs of
sentences that mean the same, with `--squad` a file in the form of SQuAD. No data comes with the project. Memories
are stored and questions asked through ``infinite-memory serve``, by `store_memories` and `retrieve_memory`. Measures: "first" is the share
of questions whose first hit is right; recall@5 and @10 the share of the relevant ones found, at least one of them ("any"), all of them
("all"); MRR and nDCG of the first ten; each with its 95 % interval by bootstrap over questions. `--sure` prints how often a hit of each
confidence was right.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from recall_parts.sts import read_sts  # noqa: E402
from recall_parts.xquad import read_squad, read_xquad  # noqa: E402

BATCH = 100
FIRST = 10
ROUNDS = 1000
ASKED_BEFORE = (
    10  # questions: one alone may be too short for its language to be told, and then nobody waits for the second model
)
UNSURE = 0.5  # confidence under which a hit is not to be believed
SURE = 0.8  # confidence from which it is

Ranked = dict[str, list[str]]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


class Product:
    """The product behind its pipes, in a home of its own."""

    def __init__(self, home: Path) -> None:
        environ = {**os.environ, "INFINITE_MEMORY_HOME": str(home), "HF_HUB_OFFLINE": "1"}
        command = [str(ROOT / ".venv/bin/infinite-memory"), "serve", "--in-process"]
        self._process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request and give its reply; a refusal ends the run."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        if reply["status"] != "OK":
            raise SystemExit(f"{request['action']} was refused: {reply['error']}")
        return reply

    def cpu_s(self) -> float:
        """CPU seconds that the process took so far."""
        import psutil

        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    def close(self) -> None:
        """Let it finish."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextlib.contextmanager
def index_on_milvus(folder: Path) -> Iterator[None]:
    """Let the product have its index on a Milvus that is started for it, with its data in *folder*."""
    from tests.milvus_server import LiteServer

    server = LiteServer(folder)
    try:
        server.start()
        os.environ |= {"INFINITE_MEMORY_INDEX__ENGINE": "milvus", "INFINITE_MEMORY_INDEX__URI": server.uri}
        yield
    finally:
        server.kill()


@contextlib.contextmanager
def product(
    memories: Sequence[Mapping[str, Any]], home: Path, questions: Sequence[str]
) -> Iterator[tuple[Product, dict[str, str]]]:
    """Run the product with *memories* in *home*, which is filled once; gives it and the data's id of each memory's own.

    Of *questions* the first are asked beforehand, so that a second model that they need is there and has read everything.
    """
    stored = home / "stored.json"
    running = Product(home)
    try:
        if not stored.is_file():
            stored.write_text(json.dumps(store(running, memories)), "utf-8")
        known = json.loads(stored.read_text("utf-8"))
        running.ask(action="retrieve_memory", query="ready?", filter={"scope": "ALL"})
        for question in questions[:ASKED_BEFORE]:
            running.ask(action="retrieve_memory", query=question, filter={"scope": "ALL"})
        wait_for_vectors(running)
        yield running, known
    finally:
        running.close()


def store(running: Product, memories: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Store *memories*; gives the data's id of each memory's own."""
    known: dict[str, str] = {}
    for at in range(0, len(memories), BATCH):
        batch = memories[at : at + BATCH]
        stored = running.ask(
            action="store_memories",
            memories=[
                {
                    "content": one["text"],
                    "metadata": {name: one[name] for name in ("timestamp", "tags", "scope") if name in one},
                }
                for one in batch
            ],
        )
        known |= {kept["memory_id"]: one["id"] for kept, one in zip(stored["results"], batch, strict=True)}
    return known


def ours(
    running: Product, known: Mapping[str, str], queries: Sequence[Mapping[str, Any]], mode: str, everywhere: bool
) -> tuple[Ranked, dict[str, list[float]], float]:
    """Ask every question once; gives ids, confidences and CPU milliseconds a question. Prints what recall could not use, if anything."""
    ranked: Ranked = {}
    notes: Counter[str] = Counter()
    sure: dict[str, list[float]] = {}
    before = running.cpu_s()
    for query in queries:
        scope = "ALL" if everywhere else query["scope"]
        reply = running.ask(
            action="retrieve_memory", query=query["text"], filter={"scope": scope}, top_k=FIRST, mode=mode
        )
        notes.update([reply["note"]] if "note" in reply else [])
        ranked[query["id"]] = [known[one["memory_id"]] for one in reply["results"]]
        sure[query["id"]] = [one["confidence"] for one in reply["results"]]
    cpu_ms = 1000 * (running.cpu_s() - before) / len(queries)
    for note, count in notes.items():
        print(f"{mode:<14}{count} of {len(queries)} answers have a note: {note}")
    return ranked, sure, cpu_ms


def plain(
    memories: Sequence[Mapping[str, Any]], queries: Sequence[Mapping[str, Any]], everywhere: bool
) -> dict[str, Ranked]:
    """Rank by the texts as they are: by cosine of whole texts, by BM25 over lower-case words, and by words found as in grep."""
    from infinite_memory.embedding.factory import open_embedder

    embedder = open_embedder("all-MiniLM-L6-v2")
    embedder.load()

    def embed(texts: list[str]) -> Any:
        return np.concatenate([embedder.embed(texts[at : at + 16]) for at in range(0, len(texts), 16)])

    dense = embed([one["text"] for one in queries]) @ embed([memory["text"] for memory in memories]).T
    texts = [memory["text"].lower() for memory in memories]
    split = [text.split() for text in texts]
    counts = [Counter(words) for words in split]
    frequency = Counter(word for one in counts for word in one)
    mean = sum(map(len, split)) / len(split)
    scopes = [memory["scope"] for memory in memories]
    found: dict[str, Ranked] = {"plain dense": {}, "plain BM25": {}, "grep": {}}
    for number, query in enumerate(queries):
        allowed = [at for at, scope in enumerate(scopes) if everywhere or scope == query["scope"]]
        words = [(word, math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5)))
                 for word in set(query["text"].lower().split())]  # fmt: skip

        def bm25(at: int, words: Sequence[tuple[str, float]] = words) -> float:
            weight = 1.2 * (0.25 + 0.75 * len(split[at]) / mean)
            return sum(idf * n * 2.2 / (n + weight) for word, idf in words if (n := counts[at][word]))

        scored = {
            "plain dense": {at: float(dense[number][at]) for at in allowed},
            "plain BM25": {at: bm25(at) for at in allowed},
            "grep": {at: float(sum(word.strip("?.,!") in texts[at] for word, _ in words)) for at in allowed},
        }
        for name, scores in scored.items():
            best = sorted(allowed, key=lambda at, scores=scores: -scores[at])[:FIRST]  # type: ignore[misc]
            found[name][query["id"]] = [memories[at]["id"] for at in best]
    return found


def measures(relevant: set[str], ids: Sequence[str]) -> dict[str, float]:
    """Give all measures of one question."""
    made: dict[str, float] = {"first": float(bool(ids) and ids[0] in relevant)}
    for k in (5, 10):
        hits = sum(one in relevant for one in ids[:k])
        made |= {
            f"recall@{k}": hits / len(relevant),
            f"any@{k}": float(hits > 0),
            f"all@{k}": float(hits == len(relevant)),
        }
    made["MRR"] = next((1 / rank for rank, one in enumerate(ids[:10], 1) if one in relevant), 0.0)
    gain = sum(1 / math.log2(rank + 1) for rank, one in enumerate(ids[:10], 1) if one in relevant)
    made["nDCG"] = gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(relevant)) + 1))
    return made


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Give the 95 % interval of the mean by bootstrap."""
    rng = random.Random(7)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(ROUNDS))
    return means[int(0.025 * ROUNDS)], means[int(0.975 * ROUNDS) - 1]


def show(name: str, queries: Sequence[Mapping[str, Any]], ranked: Ranked) -> None:
    """Print one method's table: a line for all questions and one for each category."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for query in queries:
        found = measures(set(query["relevant"]), ranked.get(query["id"], []))
        groups["all"].append(found)
        groups[query.get("category", "-")].append(found)
    for group, found in groups.items():
        cells = []
        for measure in found[0]:
            values = [one[measure] for one in found]
            low, high = interval(values)
            cells.append(f"{measure} {sum(values) / len(values):.3f} [{low:.3f} {high:.3f}]" if group == "all" else
                         f"{measure} {sum(values) / len(values):.3f}")  # fmt: skip
        print(f"{name:<14}{group:<24}n={len(found):<5}" + "  ".join(cells), flush=True)


def show_sureness(queries: Sequence[Mapping[str, Any]], ranked: Ranked, sure: Mapping[str, Sequence[float]]) -> None:
    """Print how often hits of each confidence were right."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    right = []
    for query in queries:
        relevant = set(query["relevant"])
        for one, confidence in zip(ranked[query["id"]], sure[query["id"]], strict=True):
            bins[min(9, int(10 * confidence))].append((confidence, one in relevant))
        right += [c for one, c in zip(ranked[query["id"]], sure[query["id"]], strict=True) if one in relevant]
    for at in sorted(bins):
        said, was = np.mean([c for c, _ in bins[at]]), np.mean([r for _, r in bins[at]])
        print(f"confidence {at / 10:.1f}-{at / 10 + 0.1:.1f}: said {said:.3f}, right {was:.3f}, {len(bins[at])} hits")
    if right:
        print(f"median confidence of right hits: {np.median(right):.3f}")
    best = [
        ranked[query["id"]][0] in query["relevant"]
        for query in queries
        if max(sure[query["id"]][:1], default=0) >= SURE
    ]
    print(f"best hits with a confidence of {SURE} or more: {sum(best)} of {len(best)} right")


def read_data(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read memories and questions."""
    options = {"step": arguments.every, "unrelated": arguments.unrelated}
    languages = arguments.questions, arguments.paragraphs or arguments.questions
    if arguments.xquad is not None:
        return read_xquad(arguments.xquad, *languages, **options)
    if arguments.sts is not None:
        return read_sts(arguments.sts, *languages, **options)
    if arguments.squad is not None:
        return read_squad(arguments.squad, **options)
    return read_lines(arguments.data / "memories.jsonl"), read_lines(
        arguments.queries or arguments.data / "queries.jsonl"
    )


def wait_for_vectors(running: Product) -> None:
    """Wait until every memory has all its vectors."""
    while True:
        stats = running.ask(action="get_memory_stats")["stats"]
        second = stats["model"].get("second", {})
        waiting = stats["pending_embeddings"] + second.get("pending_embeddings", 0)
        if not waiting and second.get("state") in (None, "off", "not needed", "ready"):
            return
        time.sleep(0.5)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("--data", type=Path)
    sources.add_argument("--xquad", type=Path, help="folder with the files of XQuAD, xquad.LANGUAGE.json")
    sources.add_argument("--sts", type=Path, help="folder with the test files of stsb-multi-mt, and KorSTS for Korean")
    sources.add_argument("--squad", type=Path, help="a file in the form of SQuAD")
    parser.add_argument("--questions", default="de", help="language of the questions")
    parser.add_argument("--paragraphs", help="language of the memories (default: that of the questions)")
    parser.add_argument("--every", type=int, default=1, help="ask every so many of the questions")
    parser.add_argument("--unrelated", action="store_true", help="ask questions that no memory answers")
    parser.add_argument("--queries", type=Path, help="other questions than FOLDER/queries.jsonl")
    parser.add_argument("--everywhere", action="store_true", help="ask without a scope")
    parser.add_argument("--modes", default="hybrid,semantic,text,fuzzy")
    parser.add_argument("--save", type=Path, help="write each method's run as JSON into this folder")
    parser.add_argument("--sure", action="store_true", help="print how often hits of each confidence were right")
    parser.add_argument("--no-plain", action="store_true", help="leave out the baselines")
    parser.add_argument("--home", type=Path, help="keep the home there, and take what it holds the next time")
    parser.add_argument("--lite", action="store_true", help="with the index on Milvus' embedded form, as a server")
    arguments = parser.parse_args()
    memories, queries = read_data(arguments)
    runs: dict[str, Ranked] = {} if arguments.no_plain else plain(memories, queries, arguments.everywhere)
    for name, ranked in runs.items():
        show(name, queries, ranked)
    with tempfile.TemporaryDirectory(prefix="recall-") as made, contextlib.ExitStack() as ends:
        home = arguments.home or Path(made)
        if arguments.lite:
            ends.enter_context(index_on_milvus(home / "milvus"))
        for mode in arguments.modes.split(","):
            # A process of its own for each mode: none finds the questions embedded already.
            with product(memories, home, [one["text"] for one in queries]) as (running, known):
                ranked, sure, cpu_ms = ours(running, known, queries, mode, arguments.everywhere)
            runs[mode] = ranked
            show(mode, queries, ranked)
            print(f"{mode:<14}{cpu_ms:.1f} ms of CPU a question")
            if arguments.unrelated:
                best = [listed[0] if listed else 0.0 for listed in sure.values()]
                under, low = np.mean([one < UNSURE for one in best]), np.quantile(best, 0.97)
                print(f"{mode:<14}best hit under {UNSURE}: {under:.3f}; 97 of 100 best hits are under {low:.3f}")
            if arguments.sure:
                show_sureness(queries, ranked, sure)
    if arguments.save:
        arguments.save.mkdir(parents=True, exist_ok=True)
        for name, ranked in runs.items():
            (arguments.save / f"{name.replace(' ', '-')}.json").write_text(json.dumps(ranked), "utf-8")


if __name__ == "__main__":
    main()
