"""Finding by plain meaning or plain words, for contracts that judge each memory themselves; nothing is collapsed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infinite_memory.engine.by_words import searched_stems
from infinite_memory.engine.confidence import confidence_of
from infinite_memory.engine.parts import Where
from infinite_memory.engine.recall import Recalling
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import MemoryRecord
from infinite_memory.sidecar.base import Spelling

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

WIDEN = 4  # factor by which a search grows when too few of its hits pass
LEAST = 32  # hits asked for at first, so that a few that do not pass need no second search
MOST_STEMS = 40  # of a longer query the text index takes the rarest only, and would not find all


@dataclass(frozen=True, slots=True)
class Near:
    """One memory and how near it is: ``cosine`` of its best window, ``confidence`` what that is worth, 0 to 1."""

    memory: MemoryRecord
    cosine: float
    confidence: float


class Nearing(Recalling):
    """The engine's methods that give a contract memories to judge."""

    async def nearest_passing(
        self, wanted: str | Sequence[float], where: Where, k: int, passes: Callable[[MemoryRecord], bool]
    ) -> list[Near]:
        """Find the *k* nearest memories that pass *where* and *passes*; fewer only when no more pass.

        Args:
            wanted: A text, or a vector of the engine's own embedding model.

        Raises:
            EmbeddingError: the model cannot be used.
            InvalidRequestError: the vector has another length, or no direction (all zeros).
        """
        sidecar = await self.parts.index.sidecar()
        _, narrow = await self._resolve(where)
        vector = await self._direction(wanted)
        size = max(LEAST, 2 * k)
        while True:
            hits = sidecar.search(vector, size, narrow)
            found = await self._read(sidecar, [hit.memory_id for hit in hits])
            good = [
                Near(memory, hit.score, confidence_of(hit.score))
                for hit in hits
                if (memory := found.get(hit.memory_id)) is not None and passes(memory)
            ]
            if len(good) >= k or len(hits) < size:
                return good[:k]
            size *= WIDEN

    async def having_words(self, query: str, where: Where) -> list[MemoryRecord] | None:
        """Read the memories that pass *where* and have a word of *query*, in no order, and maybe some that have none.

        Returns:
            None when the text index cannot tell: it is being built, or the query has only words that it leaves out, or too many.
        """
        text, stems = self.parts.index.words, searched_stems(query)
        if text is None or not 0 < len(stems) <= MOST_STEMS:
            return None
        sidecar = await self.parts.index.sidecar()
        _, narrow = await self._resolve(where)
        every = sidecar.count(narrow)
        if not every:
            return []
        wording = text.read(query, Spelling.EXACT)
        hits = await asyncio.get_running_loop().run_in_executor(None, lambda: text.search(wording, every, narrow))
        return list((await self._read(sidecar, [hit.memory_id for hit in hits])).values())

    async def _direction(self, wanted: str | Sequence[float]) -> Vectors:
        import numpy as np  # beside the model, never at the start of a process

        embeddings = self.parts.embeddings
        if isinstance(wanted, str):
            return await embeddings.embed_query(wanted)
        await embeddings.ready()
        vector = np.asarray(wanted, dtype=np.float32)
        length = float(np.linalg.norm(vector))
        if len(vector) != embeddings.dim:
            expected = f"{embeddings.dim} numbers, as {embeddings.space} makes them, were expected"
            raise InvalidRequestError("vector", f"has {len(vector):,} numbers; {expected}")
        if not 0 < length < float("inf"):
            raise InvalidRequestError("vector", "has no direction: its length is 0, or too large")
        unit: Vectors = vector / np.float32(length)
        return unit
