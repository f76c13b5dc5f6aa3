"""Links between memories: a directed graph beside the texts, kept by the store."""

from __future__ import annotations

from infinite_memory.engine.parts import Parts
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import Link, MemoryId, MemoryRecord, floor_to_millisecond


class Linking:
    """The engine's methods that tie memories together."""

    parts: Parts

    async def link(self, source: MemoryRecord, target: MemoryRecord, relation: str) -> bool:
        """Tie two live memories; tells whether the link is new. Doing it again changes nothing.

        Raises:
            InvalidRequestError: both are the same memory.
        """
        if source.memory_id == target.memory_id:
            raise InvalidRequestError("target_id", "a memory cannot be linked with itself")
        link = Link(source.memory_id, target.memory_id, relation, floor_to_millisecond(self.parts.clock()))
        return await self.parts.store.links.put(link, source.scope_id)

    async def links_of(self, memory_id: MemoryId) -> list[Link]:
        """List the links from and to a memory whose other end is live, oldest first."""
        links = await self.parts.store.links.of([memory_id])
        ends = {end for link in links for end in (link.from_id, link.to_id)} - {memory_id}
        sidecar = await self.parts.index.sidecar()
        live = sidecar.locate(ends).keys() | {memory_id}
        return [link for link in links if link.from_id in live and link.to_id in live]
