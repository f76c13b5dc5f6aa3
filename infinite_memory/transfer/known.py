"""Detection of memories that an import has brought already: those with a known key or id and the same current or earlier text.

A key (a file name in a folder, a row of a table) is unique within its origin only, and its text may have changed since. An entry with a
known key and another text is therefore a new memory, stored beside the first under an id derived from its text too. One of our own ids
stands for one memory, whatever its text; an entry with another text under it is reported and skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from infinite_memory.models import MemoryId, MemoryRecord, ScopeId, content_hash
from infinite_memory.store.base import Store
from infinite_memory.transfer.validation import Admitted

OTHER = "bears the id of a memory that is here and says something else"


@dataclass(slots=True)
class Sorted:
    """A batch of an import: entries to store under their ids, how many exist already, and skipped entries.

    ``beside`` counts those that are stored beside another memory with their key.
    """

    fresh: dict[MemoryId, Admitted] = field(default_factory=dict)
    present: int = 0
    beside: int = 0
    other: list[Admitted] = field(default_factory=list)


class Known:
    """Knows what exists, in the store or from the same import."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._taken = set[bytes]()  # ids with a digest of their texts; bytes take half as much memory as strings

    async def sort(self, batch: Iterable[Admitted]) -> Sorted:
        """Sort the memories of a batch."""
        result = Sorted()
        unseen = []
        for entry in batch:
            if _name_text(entry) in self._taken:
                result.present += 1
            else:
                self._taken.add(_name_text(entry))
                unseen.append(entry)
        located = (
            await self._store.locate({memory_id for record in unseen for memory_id in _ids(record)}) if unseen else {}
        )
        names = {memory_id for record in unseen for memory_id in (record.memory_id, *record.former_ids)}
        stored = await self._store.fetch(
            {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id in names}, deleted=None
        )
        for entry in unseen:
            await self._sort_in(entry, located, stored, result)
        return result

    async def _sort_in(
        self,
        memory: Admitted,
        located: Mapping[MemoryId, ScopeId],
        stored: Mapping[MemoryId, MemoryRecord],
        result: Sorted,
    ) -> None:
        """Return the group of one memory."""
        name = bytes.fromhex(memory.memory_id)
        is_named = memory.memory_id in located or name in self._taken
        if memory.other_id in located or await self._is_there(memory, located, stored):
            result.present += 1
        elif not is_named:
            result.fresh[memory.memory_id] = memory
        elif memory.other_id is not None:
            result.fresh[memory.other_id] = memory
            result.beside += 1
        else:
            result.other.append(memory)
        self._taken.add(name)

    async def _is_there(
        self, memory: Admitted, located: Collection[MemoryId], stored: Mapping[MemoryId, MemoryRecord]
    ) -> bool:
        """True if the memory with its id has the same text, or had it before an edit."""
        for memory_id in (memory.memory_id, *memory.former_ids):
            if memory_id in located and (
                memory_id not in stored or await self._says(stored[memory_id], memory.content_hash)
            ):
                return True  # one that is set aside cannot be read, but it exists
        return False

    async def _says(self, memory: MemoryRecord, text_hash: str) -> bool:
        """True if a memory or one of its earlier versions has that text."""
        if text_hash == (memory.content_hash or content_hash(memory.text)):
            return True
        before = None
        while memory.revision > 1:
            page = await self._store.get_revisions(memory.memory_id, before)
            if any(text_hash == (revision.content_hash or content_hash(revision.text)) for revision in page.revisions):
                return True
            if not page.older or not page.revisions:
                return False
            before = page.revisions[0].revision
        return False


def _ids(memory: Admitted) -> tuple[MemoryId, ...]:
    return (memory.memory_id, *memory.former_ids, *((memory.other_id,) if memory.other_id is not None else ()))


def _name_text(memory: Admitted) -> bytes:
    """Return a digest of a memory's text and its key or id; never equal to a key or id."""
    return b"".join((bytes.fromhex(memory.memory_id), bytes.fromhex(memory.content_hash)[:8]))
