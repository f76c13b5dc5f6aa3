"""Fits what a conversation says for its turns (`infinite_memory/engine/turns.py`) to judged questions, and judges the fit.

    scripts/bench order --data FOLDER --home HOME [--everywhere]

FOLDER and HOME are those of `scripts/bench recall`, which fills HOME if it is empty. Every question's candidates are gathered once; then
the weights are fitted to the questions of all conversations but one, and tried on that one, for each in turn. Printed are recall@10
without conversations, with the weights that the program has, and with fitted ones; the last line fits to all questions.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from recall import product, read_lines

from infinite_memory.bootstrap import Application
from infinite_memory.config import load_config
from infinite_memory.engine.candidates import gather
from infinite_memory.engine.ranking import Scale
from infinite_memory.engine.search import CANDIDATES, get_meaning_share
from infinite_memory.engine.turns import ADDRESSED, AFTER, BEFORE, CONVERSATION, find_evidence
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.paths import Home

STEPS, RATE = 400, 0.5
SCALE = 7.5  # of scores in the fit's first step: it is fitted too
NONE, PRESENT = np.zeros(4), np.array([BEFORE, AFTER, CONVERSATION, ADDRESSED])


class Judged(NamedTuple):
    """The candidates of one question: their scores alone, their four kinds of evidence, and which of them are right."""

    scope: str
    scores: Any
    evidence: Any
    right: Any
    wanted: int

    def recall(self, weights: Any) -> float:
        """Return the share of right ones among the first ten."""
        first = np.argsort(-(self.scores + self.evidence @ weights), kind="stable")[:10]
        return float(self.right[first].sum() / self.wanted)


async def gather_all(home: Path, queries: Sequence[Mapping[str, Any]], everywhere: bool) -> list[Judged]:
    """Gather the candidates of every question, in this process."""
    known = json.loads((home / "stored.json").read_text("utf-8"))
    place = Home(home, True)
    judged = []
    async with Application(load_config(place.config_file, {}), place) as app:
        searcher = (await app.engine()).recall._searcher
        await (await app.engine()).recall.search("ready?", ScopedFilter(), 1, mode=Mode.SEMANTIC)
        for query in queries:
            where = ScopedFilter(None if everywhere else (query["scope"],))
            _, search = await searcher.prepare(query["text"], where, Mode.HYBRID)
            candidates, _ = gather(search, CANDIDATES)
            scale = dataclasses.replace(Scale.of(candidates, get_meaning_share(search)), lifts={})
            evidence = find_evidence(scale.to_spoken(candidates))
            right = [known[one.memory_id] in query["relevant"] for one in candidates]
            rows = [evidence.get(one.memory_id, (0.0, 0.0, 0.0, 0.0)) for one in candidates]
            scores = [scale.score(one) for one in candidates]
            judged.append(
                Judged(query["scope"], np.array(scores), np.array(rows), np.array(right), len(query["relevant"]))
            )
    return judged


def fit(judged: Sequence[Judged]) -> Any:
    """Return the four weights under which right candidates are likeliest to stand before all wrong ones."""
    usable = [one for one in judged if 0 < one.right.sum() < len(one.right)]
    weights = np.array([SCALE, 0.0, 0.0, 0.0, 0.0])  # of the score alone, then of the evidence
    for _ in range(STEPS):
        gradient = np.zeros(5)
        for one in usable:
            rows = np.column_stack([one.scores, one.evidence])
            values = rows @ weights
            wrong = np.exp(values[~one.right] - values.max())
            rival, bar = wrong @ rows[~one.right] / wrong.sum(), np.log(wrong.sum()) + values.max()
            missed = 1 / (1 + np.exp(values[one.right] - bar))
            gradient += missed @ (rows[one.right] - rival) / one.wanted
        weights += RATE * gradient / np.sqrt(len(usable))
    return weights[1:] / weights[0]


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--everywhere", action="store_true", help="ask without a scope")
    arguments = parser.parse_args()
    memories, queries = (read_lines(arguments.data / f"{name}.jsonl") for name in ("memories", "queries"))
    with product(memories, arguments.home, [queries[0]["text"]]):
        pass
    judged = asyncio.run(gather_all(arguments.home, queries, arguments.everywhere))
    unseen = []
    for scope in sorted({one.scope for one in judged}):
        weights = fit([one for one in judged if one.scope != scope])
        unseen += [one.recall(weights) for one in judged if one.scope == scope]
    for name, weights in (("alone", NONE), ("as they are", PRESENT)):
        print(f"{name:<14}recall@10 {np.mean([one.recall(weights) for one in judged]):.4f}")
    print(f"{'fitted':<14}recall@10 {np.mean(unseen):.4f}, over conversations that the fit did not see")
    print("fit to all: before {:.3f}, after {:.3f}, conversation {:.3f}, addressed {:.3f}".format(*fit(judged)))


if __name__ == "__main__":
    main()
