"""A question asked twice is embedded once, only so many questions are kept, and what arrives together is embedded together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from infinite_memory.embedding import service as module
from infinite_memory.embedding.service import EmbeddingService
from tests.store.lifecycle.conftest import loaded_embedder

if TYPE_CHECKING:
    import pytest

    from infinite_memory.models import Vectors, Window


class Counting:
    """The real model, and what it was asked to embed."""

    def __init__(self) -> None:
        self._real = loaded_embedder()
        self.space, self.dim = self._real.space, self._real.dim
        self.embedded: list[str] = []
        self.batches: list[int] = []

    def load(self) -> None:
        """Do as the real one."""
        self._real.load()

    def windows(self, text: str) -> Sequence[Window]:
        """Do as the real one."""
        return self._real.windows(text)

    def spelled_out(self, text: str) -> float | None:
        """Do as the real one."""
        return self._real.spelled_out(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Note the texts and do as the real one."""
        self.embedded += texts
        self.batches.append(len(texts))
        return self._real.embed(texts)


def asked(counting: Counting, questions: Sequence[str]) -> list[Vectors]:
    """Ask one question after the other."""

    async def work() -> list[Vectors]:
        embeddings = EmbeddingService(counting, 60)
        embeddings.start()
        made = [await embeddings.embed_query(question) for question in questions]
        await embeddings.close()
        return made

    return asyncio.run(work())


def test_the_same_question_twice_is_embedded_once() -> None:
    counting = Counting()
    first, other, again = asked(counting, ["where is the key?", "what is for tea?", "where is the key?"])
    assert counting.embedded == ["where is the key?", "what is for tea?"]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_of_many_questions_those_asked_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_QUERIES", 2)
    counting = Counting()
    asked(counting, ["one", "two", "one", "three", "one", "two"])
    assert counting.embedded == ["one", "two", "three", "two"]


async def test_requests_that_arrive_together_are_embedded_together() -> None:
    counting = Counting()

    embeddings = EmbeddingService(counting, 60)
    embeddings.start()
    await embeddings.ready()
    await asyncio.gather(
        *(embeddings.embed_query(f"question {number}") for number in range(16)),
        *(embeddings.embed_memories([f"memory {number}"]) for number in range(16)),
    )
    await embeddings.close()
    assert sum(counting.batches) == 32
    # One may begin alone; the rest waits for it, and goes in full batches.
    assert len(counting.batches) <= 5
