"""Storing new memories and changing known ones in one step: all of it happens or nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from infinite_memory.engine.parts import Changes, Draft
from infinite_memory.engine.pending import embedded_text
from infinite_memory.engine.remember import WRITE_TRIES, Remembering, changed, content_hash
from infinite_memory.errors import MemoryChangedError, MemoryNotFoundError, StoreError
from infinite_memory.models import MemoryId, MemoryRecord, floor_to_millisecond


class Together(Remembering):
    """The engine's method that writes several memories as one."""

    async def write_together(
        self, drafts: Sequence[Draft], changes: Mapping[MemoryId, Changes], check: Callable[[MemoryRecord], None]
    ) -> tuple[list[MemoryRecord], list[MemoryRecord]]:
        """Store *drafts* and make *changes*; what is softly deleted is live again.

        Args:
            check: Sees each memory that is about to be changed, and may raise.

        Returns:
            The new memories and the changed ones, each in the order given.

        Raises:
            MemoryNotFoundError: one that is to be changed is gone.
            AlreadyExistsError: a draft has the id of a memory that is there.
        """
        await self.parts.index.sidecar()
        names = dict.fromkeys(draft.scope for draft in drafts)
        scopes = {name: await self.parts.scopes.get_open(name, create=True) for name in names}
        new = [one.memory for one in await self._made(drafts, scopes)] if drafts else []
        for _ in range(WRITE_TRIES):
            after = [await self._after(memory_id, one, check) for memory_id, one in changes.items()]
            try:
                stored = await self.parts.store.write_together(new, after)
            except MemoryChangedError:
                continue
            await self.parts.index.wrote([*new, *stored])
            return new, stored
        raise StoreError("these memories are being changed by others all the time; try again")

    async def _after(
        self, memory_id: MemoryId, changes: Changes, check: Callable[[MemoryRecord], None]
    ) -> MemoryRecord:
        located = await self.parts.store.locate([memory_id])
        found = await self.parts.store.fetch(located, deleted=None, vectors=True)
        if memory_id not in found:
            raise MemoryNotFoundError(memory_id)
        old = found[memory_id]
        check(old)
        new = dataclasses.replace(changed(old, changes), deleted_at=None, is_pruned=False)
        if embedded_text(new) != embedded_text(old):
            [(embedding, _)] = await self._embed([new])
            new = dataclasses.replace(new, embedding=embedding)
        now = floor_to_millisecond(self.parts.clock())
        return dataclasses.replace(new, content_hash=content_hash(new.text), updated_at=now)
