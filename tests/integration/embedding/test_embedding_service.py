"""Embedding off the event loop: nothing is lost, mixed up or left waiting, whoever asks together with whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.errors import EmbeddingError
from tests.store.lifecycle.conftest import loaded_embedder

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

TEXTS = [f"{'word ' * (number % 40)}number {number}" for number in range(90)]


async def test_bulk_and_single_requests_together_get_their_own_vectors() -> None:
    embedder = loaded_embedder()

    embeddings = EmbeddingService(embedder, 60)
    embeddings.start()
    bulk, other, *single = await asyncio.gather(
        embeddings.embed_memories(TEXTS),
        embeddings.embed_memories(TEXTS[:20]),
        *(embeddings.embed_query(text) for text in TEXTS[::7]),
    )
    await embeddings.close()
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    for made, wanted in ((bulk, alone), (other, alone[:20])):
        assert np.allclose(np.concatenate([one.vectors for one in made]), wanted, atol=1e-5)
    assert np.allclose(np.stack(single), alone[::7], atol=1e-5)


async def test_a_worker_that_ran_dry_is_followed_by_another() -> None:
    embeddings = EmbeddingService(loaded_embedder(), 60)
    embeddings.start()
    for number in range(40):
        await asyncio.wait_for(embeddings.embed_query(f"question {number}"), 60)
        await asyncio.wait_for(embeddings.embed_memories([f"memory {number}"] * (1 + number % 3)), 60)
    await embeddings.close()


async def test_a_model_that_breaks_refuses_the_whole_request_and_goes_on() -> None:
    real = loaded_embedder()

    class Breaking:
        """The real model, but for texts that name a break."""

        space, dim = real.space, real.dim
        load, windows, spelled_out = real.load, real.windows, real.spelled_out

        def embed(self, texts: Sequence[str]) -> Vectors:
            if any("break" in text for text in texts):
                raise EmbeddingError("the model broke")
            return real.embed(texts)

    embeddings = EmbeddingService(Breaking(), 60)
    embeddings.start()
    with pytest.raises(EmbeddingError, match="the model broke"):
        await embeddings.embed_memories([*TEXTS, "break"])
    assert len(await embeddings.embed_memories(TEXTS[:40])) == 40
    await embeddings.close()
