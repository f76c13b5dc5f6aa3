"""A home filled with many memories, straight through the store while no daemon runs there: a hundred thousand take a minute.

Their texts are made of words, their vectors drawn by a seeded generator: what is measured or tested with them is how much, not how well.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import numpy as np

from infinite_memory.embedding.factory import open_embedder
from infinite_memory.models import Embedding, MemoryRecord, Scope, Window, content_hash
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.paths import Home
from infinite_memory.store.mongo.store import MongoStore

FIRST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
SPAN = dt.timedelta(days=5 * 365)  # over which they lie, evenly
SCOPES = ("Harbour", "Orchard", "Workshop")
TALK = 10  # memories of a conversation; every other ten are one
COPIES = 10  # every tenth says what the one before it says
BATCH = 500
_WORDS = (
    "ada", "boiler", "calendar", "dentist", "engine", "ferry", "garden", "harbour", "invoice", "journey", "kitchen", "ladder", "meeting",
    "notebook", "orchard", "piano", "quarry", "river", "school", "ticket", "umbrella", "violin", "window", "xylophone", "yard", "zebra",
)  # fmt: skip


def get_text(number: int) -> str:
    """Return the text of memory *number*; a copy has that of the one before it."""
    plain = number - 1 if number % COPIES == COPIES - 1 else number
    words = (_WORDS[plain * factor // divisor % len(_WORDS)] for factor, divisor in ((1, 1), (7, 31), (13, 961)))
    return f"Note {plain:,} about the {' and the '.join(words)}"


def fill(home: Path, count: int, first: int = 0) -> None:
    """Write memories number *first* up to *count* into *home*."""
    asyncio.run(_fill(home, first, count))


async def _fill(home: Path, first: int, count: int) -> None:
    place = Home(home, explicit=True)
    place.make()
    mongod = LocalMongo(home, log_dir=place.logs)
    store = MongoStore(await mongod.start(), timeout_s=60.0)
    embedder = open_embedder("all-MiniLM-L6-v2")
    try:
        await store.connect()
        known = {scope.name: scope for scope in await store.list_scopes()}
        scopes = [known.get(name) or await store.create_scope(name, "", FIRST) for name in SCOPES]
        for start in range(first, count, BATCH):
            await store.insert(_make(store, scopes, embedder.space, range(start, min(start + BATCH, count)), count))
    finally:
        await store.close()
        await mongod.stop()


def _make(
    store: MongoStore, scopes: list[Scope], space: str, numbers: range, count: int, dim: int = 384
) -> list[MemoryRecord]:
    rows = np.random.default_rng(numbers.start).standard_normal((len(numbers), 1, dim), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    made = []
    for number, vector in zip(numbers, rows, strict=True):
        text, at = get_text(number), FIRST + SPAN * (number / count)
        made.append(
            MemoryRecord(
                store.new_id(), scopes[number // TALK % len(scopes)].scope_id, text, "conversation", at, at, at,
                tags=(f"shelf:{number % 100}",), occurrences=(at,), content_hash=content_hash(text),
                conversation_id=f"talk-{number // TALK}" if number // TALK % 2 else None,
                embedding=Embedding(space, (Window(0, len(text)),), vector),
            )
        )  # fmt: skip
    return made
