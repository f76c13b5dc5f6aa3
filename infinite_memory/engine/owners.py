"""Whose memories there are: owners as they stand in the documents, agents that were made, and the tokens that let clients in.

What an owner means is the contract's affair; here it is a name and a value beside a memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from infinite_memory.engine.access import Access
from infinite_memory.engine.visibility import ANYBODYS
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import MemoryId, Scope
from infinite_memory.store.api_tokens import ApiTokens, TokenRecord
from infinite_memory.store.base import Store
from infinite_memory.store.owners import Agent, OwnerCount


class Owners:
    """The owners that a caller may see."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync) -> None:
        self._access, self._store, self._index = access, store, index

    async def find(self, scope: Scope, memory_id: MemoryId) -> Mapping[str, str] | None:
        """Return whose a memory is, live or hidden; None where none of that id is seen in the scope. Reads nothing else of it."""
        return (await self.find_several(scope, [memory_id])).get(memory_id)

    async def find_several(self, scope: Scope, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
        """Return whose memories are, as `find` does; those that are not seen are left out."""
        visibility = self._access.visibility
        if not visibility.allows_scope(scope):
            return {}
        owners = await self._store.owners.read(scope.scope_id, memory_ids)
        return {memory_id: owner for memory_id, owner in owners.items() if visibility.allows_owners(owner)}

    async def count(
        self, scope: Scope, name: str, *, owner: str | None = None, leave_out_status: Collection[str] = ()
    ) -> list[OwnerCount]:
        """Count the memories of a scope by the owner of that *name*, owners in alphabetical order; as `Owners.tally` of the store.

        Raises:
            ForbiddenError: more than equal owners decides what is seen.
        """
        among = self._narrow(scope)
        return await self._store.owners.tally(
            scope.scope_id, name, owner=owner, among=among, leave_out_status=leave_out_status
        )

    async def list_ids(
        self, scope: Scope, owners: Mapping[str, str], *, leave_out_status: Collection[str] = ()
    ) -> frozenset[MemoryId]:
        """List the live memories of a scope that have all of these owners, without reading them; errors as in `count`."""
        seen = self._narrow(scope)
        if any(owners.get(name, value) != value for name, value in seen.items()):
            return frozenset()
        return await self._store.owners.live_ids_of(
            scope.scope_id, {**owners, **seen}, leave_out_status=leave_out_status
        )

    def _narrow(self, scope: Scope) -> Mapping[str, str]:
        """Return the owners that all memories seen in a scope have."""
        visibility = self._access.visibility
        exact = visibility.exact_owners
        if not visibility.allows_scope(scope) or not (exact or visibility.owners == ANYBODYS):
            visibility.check_everything()
        return exact

    async def list_agents(self) -> list[Agent]:
        """List the agents that were made, oldest first: those of the user who is seen, or everybody's where everything is."""
        visibility = self._access.visibility
        if not visibility.sees_everything and visibility.agents_of is None:
            return []
        await self._index.connected()
        return await self._store.owners.agents(visibility.agents_of)

    async def add_agent(self, agent: Agent) -> bool:
        """Make an agent before it has memories; False when its user has one of that id already, which stays as it is.

        Raises:
            ForbiddenError: it is an agent of a user who is not seen.
        """
        self._access.visibility.check_agent(agent)
        await self._index.connected()
        return await self._store.owners.add_agent(agent)

    async def remove_agents(self, user_id: str) -> None:
        """Remove the agents that were made for a user; their memories stay.

        Raises:
            ForbiddenError: it is a user who is not seen.
        """
        visibility = self._access.visibility
        if visibility.agents_of != user_id:
            visibility.check_everything()
        await self._index.connected()
        await self._store.owners.remove_agents(user_id)


class Tokens(ApiTokens):
    """The tokens that let clients in, for who sees everything. Waits for the database, and for nothing else."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync) -> None:
        self._access, self._store, self._index = access, store, index

    async def _tokens(self) -> ApiTokens:
        self._access.visibility.check_everything()
        await self._index.connected()
        return self._store.tokens

    async def put(self, token: TokenRecord) -> None:
        await (await self._tokens()).put(token)

    async def find(self, token_id: str) -> TokenRecord | None:
        return await (await self._tokens()).find(token_id)

    async def all(self) -> list[TokenRecord]:
        return await (await self._tokens()).all()

    async def replace_secret(self, token_id: str, secret_hash: str) -> TokenRecord | None:
        return await (await self._tokens()).replace_secret(token_id, secret_hash)

    async def remove(self, token_id: str) -> bool:
        return await (await self._tokens()).remove(token_id)
