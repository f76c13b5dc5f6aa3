"""What looks through the texts of many memories holds up nobody: `run` fails where the event loop is held."""

from __future__ import annotations

import datetime as dt

import numpy as np

from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Window, content_hash
from tests.processes import LONG
from tests.store.lifecycle.conftest import Memory, Open

COUNT, CHARS, WINDOW = 300 if LONG else 100, 9000, 750
LATIN = [
    f"{first}{second}{third}" for first in ("bar", "mel", "tor") for second in "aeiou" for third in ("n", "lu", "sk")
]
UNREAD = "ⴰⴱⴳ ⴷⴹⴻ ⴼⴽⵀ"  # a script that the model has no tokens for
NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)


def text_of(number: int) -> str:
    """Make a text of `CHARS` characters, another for each number."""
    words = np.random.default_rng(number).choice(LATIN, CHARS // 4)
    return f"{UNREAD} {number} {' '.join(words)}"[:CHARS]


async def store_many(memory: Memory) -> None:
    """Store long memories with vectors in the model's space; drawn by lot, for the model would take minutes."""
    engine = memory.engine
    scope = await engine.scopes.get("Global")
    space, dim = memory.services.embeddings.space, memory.services.embeddings.dim
    windows = tuple(Window(at, min(CHARS, at + WINDOW)) for at in range(0, CHARS, WINDOW))
    made = []
    for number in range(COUNT):
        text = text_of(number)
        vectors = np.random.default_rng(number).normal(size=(len(windows), dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        one = MemoryRecord(MemoryId(f"{number + 1:024x}"), scope.scope_id, text, "test", NOW, NOW, NOW, occurrences=(NOW,),
                           content_hash=content_hash(text), embedding=Embedding(space, windows, vectors))  # fmt: skip
        made.append(one)
    await memory.services.store.insert(made)
    await memory.services.index.on_written(made)


async def test_a_question_to_many_long_memories_holds_up_nobody(open_memory: Open) -> None:
    """Which window of each answers, and which words of the question it has, is looked for in a thread."""

    async with open_memory() as memory:
        await memory.store("warm")  # the model is there
        await store_many(memory)
        for query in (text_of(COUNT), UNREAD):
            found = await memory.ok("retrieve_memory", query=query, top_k=COUNT)
            assert len(found["results"]) == COUNT, query[:40]
            assert "excerpt" in found["results"][0]
