"""Homes filled for the scale bench: memories with their vectors, written through the store while no daemon runs.

Memory *number* is a copy of parent ``number % 30000`` (in shuffled order), the first copy with the parent's own vector, later ones
with noise: cosine 0.86 to the parent. What it bears follows from its number alone, so a home can grow from one size to the next:

- ``random:S``: S % of all, drawn by number; ``near:S``: S % that lie together in meaning;
- ``rare:K``: exactly twenty memories at every size; the topic; a conversation of twenty for every other twenty;
- one minute between one memory's time and the next's.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infinite_memory.embedding.factory import open_embedder
from infinite_memory.models import Embedding, MemoryRecord, Window, content_hash
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.paths import Home
from infinite_memory.store.mongo.store import MongoStore
from scale_parts import texts

if TYPE_CHECKING:
    from infinite_memory.models import Scope, Vectors

MODEL = "all-MiniLM-L6-v2"
FIRST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
COSINE = 0.86
SHARES = (0.1, 1, 10, 50)
GROUP = 20
RARE = 50
BATCH = 500


class Corpus:
    """The parents with their vectors, embedded once and kept in *folder*."""

    def __init__(self, folder: Path) -> None:
        embedder = open_embedder(MODEL)
        self.space, self.parents = embedder.space, texts.parents()
        file = folder / "parents.npy"
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            embedder.load()
            unfinished = folder / "parents.tmp.npy"
            np.save(unfinished, embedded(embedder.embed, self.parents))
            unfinished.replace(file)
        self.vectors: Vectors = np.load(file)
        self._order = np.random.default_rng(1).permutation(len(self.parents))

    def parent(self, number: int) -> int:
        """Tell which parent memory *number* is a copy of; parents stand topic after topic."""
        return int(self._order[number % len(self._order)])

    def rows(self, first: int, end: int) -> Vectors:
        """Give the vectors of the memories from *first* to *end*."""
        parents = self.vectors[self._order[np.arange(first, end) % len(self._order)]]
        made = parents.copy()
        for at, number in enumerate(range(first, end)):
            if number >= len(self._order):
                noise = np.random.default_rng(number).standard_normal(parents.shape[1], dtype=np.float32)
                noise -= (noise @ parents[at]) * parents[at]
                made[at] = COSINE * parents[at] + (1 - COSINE**2) ** 0.5 * noise / np.linalg.norm(noise)
        return made

    def tags(self, number: int) -> tuple[str, ...]:
        """Give the tags of memory *number*."""
        drawn = (number * 2_654_435_761 % 2**32) / 2**32
        place = self.parent(number)
        tags = [f"random:{share:g}" for share in SHARES if 100 * drawn < share]
        tags += [f"near:{share:g}" for share in SHARES if 100 * place / len(self.parents) < share]
        if number < GROUP * RARE:
            tags.append(f"rare:{number // GROUP}")
        return (*tags, list(texts.TOPICS)[place // texts.PER_TOPIC])

    def text(self, number: int) -> str:
        """Give the text of memory *number*."""
        return f"{self.parents[self.parent(number)]} {texts.variation(number)}"

    def memory(self, number: int, vector: Vectors, store: MongoStore, scope: Scope) -> MemoryRecord:
        """Make memory *number*."""
        text = self.text(number)
        at = FIRST + dt.timedelta(minutes=number)
        return MemoryRecord(
            memory_id=store.new_id(), scope_id=scope.scope_id, text=text, source="conversation", occurred_at=at,
            created_at=at, updated_at=at, tags=self.tags(number), content_hash=content_hash(text), occurrences=(at,),
            conversation_id=f"talk-{number // GROUP}" if number // GROUP % 2 else None,
            embedding=Embedding(self.space, (Window(0, len(text)),), vector[None]),
        )  # fmt: skip


def embedded(embed: Callable[[list[str]], Vectors], wanted: list[str]) -> Vectors:
    """Embed *wanted* in batches of texts of like length."""
    order = sorted(range(len(wanted)), key=lambda at: len(wanted[at]))
    batches = [order[at : at + 16] for at in range(0, len(order), 16)]
    made = np.concatenate([embed([wanted[at] for at in batch]) for batch in batches])
    return made[np.argsort(np.concatenate(batches))]


def fill(home: Path, corpus: Corpus, first: int, end: int, scopes: int = 1) -> None:
    """Write the memories from *first* to *end* into the home, over *scopes* scopes; no daemon may run there."""
    asyncio.run(_fill(home, corpus, first, end, scopes))


async def _fill(home: Path, corpus: Corpus, first: int, end: int, scopes: int) -> None:
    place = Home(home, explicit=True)
    place.make()
    mongod = LocalMongo(home, log_dir=place.logs)
    store = MongoStore(await mongod.start(), timeout_s=30.0)
    try:
        await store.connect()
        known = {scope.name: scope for scope in await store.list_scopes()}
        names = [scope_name(number) for number in range(scopes)]
        wanted = [known.get(name) or await store.create_scope(name, "", FIRST) for name in names]
        for batch in _batches(first, end):
            vectors = await asyncio.to_thread(corpus.rows, batch[0], batch[-1] + 1)
            await store.insert(
                [corpus.memory(n, vectors[n - batch[0]], store, wanted[n // GROUP % scopes]) for n in batch]
            )
    finally:
        await store.close()
        await mongod.stop()


def _batches(first: int, end: int) -> Iterator[range]:
    for at in range(first, end, BATCH):
        yield range(at, min(end, at + BATCH))


def scope_name(number: int) -> str:
    """Name the scope of that number."""
    return f"Shelf {number}"


def environ_of(home: Path) -> dict[str, str]:
    """Give the environment in which the product uses *home*."""
    return {**os.environ, "INFINITE_MEMORY_HOME": str(home), "INFINITE_MEMORY_DAEMON__IDLE_EXIT_S": "0"}
