"""What the product does. Knows no JSON, socket, MongoDB or FAISS; its parts are handed in.

`Engine` is the one door: storing (`remember`), finding (`recall`), forgetting (`forget`), linking (`links`), scopes, upkeep.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping

from infinite_memory.engine.facts import FactKeeping
from infinite_memory.engine.layers import Layering
from infinite_memory.engine.links import Linking
from infinite_memory.engine.nearest import Nearing
from infinite_memory.engine.parts import Parts, Where
from infinite_memory.engine.remember import Remembering
from infinite_memory.engine.together import Together
from infinite_memory.engine.upkeep import Upkeep
from infinite_memory.engine.upsert import Upserting
from infinite_memory.models import MemoryId, Scope
from infinite_memory.store.owners import Agent
from infinite_memory.store.tokens import Tokens


class Engine(Upserting, Together, FactKeeping, Layering, Remembering, Linking, Nearing, Upkeep):
    """Every thing a caller may ask. Methods may run side by side on one event loop.

    ``only_owners`` is what every memory that this engine shows has among its owners; empty for all memories.
    """

    only_owners: Mapping[str, str] = {}

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._at_work: weakref.WeakValueDictionary[MemoryId, asyncio.Lock] = weakref.WeakValueDictionary()

    async def create_scope(self, name: str, description: str) -> Scope:
        """Make a scope.

        Raises:
            ScopeExistsError: one whose name folds to the same is there.
            InvalidRequestError: the name is reserved.
        """
        await self.parts.index.sidecar()
        return await self.parts.scopes.create(name, description)

    async def list_scopes(self) -> list[Scope]:
        """List every scope, archived ones too, oldest first."""
        await self.parts.index.sidecar()
        await self.parts.scopes.refresh()
        return self.parts.scopes.all()

    async def get_scope(self, name: str) -> Scope:
        """Give the scope of that name.

        Raises:
            ScopeNotFoundError: there is none; carries the nearest names.
        """
        await self.parts.index.sidecar()
        return await self.parts.scopes.get(name)

    async def add_agent(self, agent: Agent) -> bool:
        """Make an agent before it has memories; False when its user has one of that id already, which stays as it is."""
        await self.parts.index.connected()
        return await self.parts.store.owners.add_agent(agent)

    async def tokens(self) -> Tokens:
        """Give the tokens that let clients in, once the database is there."""
        await self.parts.index.connected()
        return self.parts.store.tokens

    async def count(self, where: Where) -> int:
        """Count the memories that pass *where*.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        sidecar = await self.parts.index.for_words()
        _, narrow = await self._resolve(where)
        if sidecar is self.parts.index.partial and (words := self.parts.index.words) is not None:
            return words.count(narrow)  # the words know all of them while the rest is being rebuilt
        return sidecar.count(narrow)
