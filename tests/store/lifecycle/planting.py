"""Memories put straight into the store, with vectors from a seeded generator: quick, for tests that need many."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Window, content_hash
from tests.store.lifecycle.conftest import Memory

LONG_AGO = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


async def plant(memory: Memory, scope: str, texts: list[str], **fields: Any) -> list[MemoryId]:
    """Store a memory for each text; *fields* are those of the record, or functions from a text's number to them.

    Equal texts, but for case and white space, get equal vectors.
    """
    parts = memory.services
    await parts.embeddings.ready()
    place = await parts.scopes.get_open(scope, create=True)
    made = []
    for number, text in enumerate(texts):
        given = {name: value(number) if callable(value) else value for name, value in fields.items()}
        source = given.pop("source", "conversation")
        at = given.pop("occurred_at", LONG_AGO + dt.timedelta(minutes=number))
        folded = " ".join(text.casefold().split())
        seed = int.from_bytes(content_hash(folded).encode()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal((1, parts.embeddings.dim)).astype(np.float32)
        vector /= np.linalg.norm(vector)
        embedding = Embedding(parts.embeddings.space, (Window(0, len(text)),), vector)
        made.append(
            MemoryRecord(
                parts.store.new_id(), place.scope_id, text, source, at, at, at, occurrences=(at,),
                content_hash=content_hash(text), embedding=embedding, **given,
            )
        )  # fmt: skip
    for start in range(0, len(made), 500):
        await parts.store.insert(made[start : start + 500])
        await parts.index.on_written([one for one in made[start : start + 500] if one.deleted_at is None])
    return [one.memory_id for one in made]
