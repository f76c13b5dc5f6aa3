"""Recall and cost of the vector search alone, on the saved sidecar of a home, against an exact search in full precision."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infinite_memory.embedding.factory import open_embedder
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import Filter
from infinite_memory.paths import Home
from scale_parts import texts
from scale_parts.homes import MODEL, SHARES, Corpus, embedded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infinite_memory.models import Vectors

K, QUESTIONS, BLOCK = 10, 100, 50_000


@dataclass(frozen=True, slots=True)
class Found:
    """What one kind of filter costs and finds: CPU milliseconds a search for ten and for a hundred, recall@10."""

    name: str
    cpu_10: float
    cpu_100: float
    recall: float


def measure(home: Path, corpus: Corpus, size: int) -> Iterator[Found]:
    """Search with and without filters, on the sidecar as the last daemon saved it."""
    embedder = open_embedder(MODEL)
    embedder.load()
    questions = embedded(embedder.embed, texts.questions(QUESTIONS, 99))
    sidecar = _load(home)
    tags = [corpus.tags(number) for number in range(size)]
    kinds: dict[str, str | None] = {"no filter": None}
    kinds |= {f"{kind} {share:g} %": f"{kind}:{share:g}" for kind in ("random", "near") for share in SHARES}
    allowed = {name: np.array([tag is None or tag in one for one in tags]) for name, tag in kinds.items()}
    exact = _exact(corpus, size, questions, allowed)
    order = {
        one: number for number, one in enumerate(chain.from_iterable(sidecar.iter_revisions()))
    }  # ids rise with the number
    for name, tag in kinds.items():
        where = Filter(tag_keys=frozenset({tag} if tag else ()))
        began = time.process_time()
        found = [[hit.memory_id for hit in sidecar.search(question, K, where)] for question in questions]
        cpu_10 = time.process_time() - began
        began = time.process_time()
        for question in questions:
            sidecar.search(question, 10 * K, where)
        cpu_100 = time.process_time() - began
        shares = [
            len({order[one] for one in ids} & set(best)) / max(1, len(best))
            for ids, best in zip(found, exact[name], strict=True)
        ]
        yield Found(name, 1000 * cpu_10 / QUESTIONS, 1000 * cpu_100 / QUESTIONS, float(np.mean(shares)))


def _load(home: Path) -> FaissIndex:
    folder = Home(home, explicit=True).sidecars
    header = json.loads(max(folder.glob("generation-*/header.json")).read_bytes().split(b"\n")[0])
    return FaissIndexFiles(folder).load(header["database"], header["space"], header["dim"])[0]


def _exact(
    corpus: Corpus, size: int, questions: Vectors, allowed: dict[str, NDArray[np.bool_]]
) -> dict[str, list[list[int]]]:
    """Give for each filter and question the numbers of the best ten."""
    best = {name: [np.empty((2, 0)) for _ in questions] for name in allowed}
    for first in range(0, size, BLOCK):
        end = min(size, first + BLOCK)
        scores = questions @ corpus.rows(first, end).T
        for name, marks in allowed.items():
            numbers = np.flatnonzero(marks[first:end])
            for at in range(len(questions)):
                both = np.hstack((best[name][at], np.vstack((scores[at][numbers], numbers + first))))
                best[name][at] = both[:, np.argsort(-both[0])[:K]]
    return {name: [one[1].astype(int).tolist() for one in each] for name, each in best.items()}
