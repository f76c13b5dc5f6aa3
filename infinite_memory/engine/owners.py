"""Owners of memories, agents, and tokens of HTTP clients.

The contract defines what an owner means; here it is a name and a value of a memory.
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
        """Return the owners of a memory, live or soft-forgotten; None if it is not visible in the scope. Reads nothing else of it."""
        return (await self.find_several(scope, [memory_id])).get(memory_id)

    async def find_several(self, scope: Scope, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
        """Return the owners of memories, as `find` does; invisible ones are left out."""
        visibility = self._access.visibility
        if not visibility.allows_scope(scope):
            return {}
        owners = await self._store.owners.read(scope.scope_id, memory_ids)
        return {memory_id: owner for memory_id, owner in owners.items() if visibility.allows_owners(owner)}

    async def count(
        self, scope: Scope, name: str, *, owner: str | None = None, leave_out_status: Collection[str] = ()
    ) -> list[OwnerCount]:
        """Return the number of memories of a scope by the owner *name*, in alphabetical order; as `Owners.tally` of the store.

        Raises:
            ForbiddenError: visibility depends on more than equal owners.
        """
        among = self._narrow(scope)
        return await self._store.owners.tally(
            scope.scope_id, name, owner=owner, owners=among, leave_out_status=leave_out_status
        )

    async def list_ids(
        self, scope: Scope, owners: Mapping[str, str], *, leave_out_status: Collection[str] = ()
    ) -> frozenset[MemoryId]:
        """Return the ids of live memories of a scope with all of these owners, without reading them; errors as in `count`."""
        seen = self._narrow(scope)
        if any(owners.get(name, value) != value for name, value in seen.items()):
            return frozenset()
        return await self._store.owners.live_ids_of(
            scope.scope_id, {**owners, **seen}, leave_out_status=leave_out_status
        )

    def _narrow(self, scope: Scope) -> Mapping[str, str]:
        """Return the owners that all visible memories in a scope have."""
        visibility = self._access.visibility
        exact = visibility.exact_owners
        if not visibility.allows_scope(scope) or not (exact or visibility.owners == ANYBODYS):
            visibility.check_everything()
        return exact

    async def list_agents(self) -> list[Agent]:
        """Return the registered agents, oldest first: those of the visible user, or all for unrestricted callers."""
        visibility = self._access.visibility
        if not visibility.sees_everything and visibility.agents_of is None:
            return []
        await self._index.connected()
        return await self._store.owners.agents(visibility.agents_of)

    async def add_agent(self, agent: Agent) -> bool:
        """Register an agent before it has memories; False if its user already has one with that id, which is left unchanged.

        Raises:
            ForbiddenError: its user is not visible.
        """
        self._access.visibility.check_agent(agent)
        await self._index.connected()
        return await self._store.owners.add_agent(agent)

    async def remove_agents(self, user_id: str) -> None:
        """Remove the registered agents of a user; their memories stay.

        Raises:
            ForbiddenError: the user is not visible.
        """
        visibility = self._access.visibility
        if visibility.agents_of != user_id:
            visibility.check_everything()
        await self._index.connected()
        await self._store.owners.remove_agents(user_id)


class Tokens(ApiTokens):
    """The tokens of HTTP clients; for unrestricted callers. Waits only for the database."""

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
