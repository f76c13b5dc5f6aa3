"""Finding by meaning among memories that the caller has chosen already: exact, each memory for itself, with the plain cosine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from infinite_memory.engine.confidence import confidence_of
from infinite_memory.engine.parts import Parts
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import Filter, MemoryId


@dataclass(frozen=True, slots=True)
class Near:
    """One memory and how near it is: ``cosine`` of its best window, ``confidence`` what that is worth, 0 to 1."""

    memory_id: MemoryId
    cosine: float
    confidence: float


class Nearing:
    """The engine's method that ranks chosen memories by meaning."""

    parts: Parts

    async def nearest_of(self, wanted: str | Sequence[float], among: Collection[MemoryId], k: int) -> list[Near]:
        """Find the *k* memories of *among* that are nearest to a text or to a vector of the engine's own embedding model.

        Raises:
            EmbeddingError: the model cannot be used.
            InvalidRequestError: the vector has another length, or none at all (all zeros).
        """
        import numpy as np  # beside the model, never at the start of a process

        sidecar = await self.parts.index.sidecar()
        if isinstance(wanted, str):
            vector = await self.parts.embeddings.embed_query(wanted)
        else:
            await self.parts.embeddings.ready()
            vector = np.asarray(wanted, dtype=np.float32)
            length = float(np.linalg.norm(vector))
            if len(vector) != self.parts.embeddings.dim:
                expected = (
                    f"{self.parts.embeddings.dim} numbers, as {self.parts.embeddings.space} makes them, were expected"
                )
                raise InvalidRequestError("vector", f"has {len(vector):,} numbers; {expected}")
            if not length:
                raise InvalidRequestError("vector", "has no direction: every number is 0")
            vector = vector / np.float32(length)
        hits = sidecar.search(vector, k, Filter(memory_ids=frozenset(among)))
        return [Near(hit.memory_id, hit.score, confidence_of(hit.score)) for hit in hits]
