"""Hidden duplicates of a memory: merged into it (`merged_into`), or merged before that was recorded, and thus with the same text.

A move leaves the memories merged into a memory in their scope, so the scopes it came from are searched too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import HiddenDoubles, Located
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.memory_reads import batches

if TYPE_CHECKING:
    from bson import ObjectId

    from infinite_memory.store.mongo.client import Database

_VALUES = 10_000  # per query, which reads all hidden memories of a scope

T = TypeVar("T")


async def find_hidden_doubles(database: Database, located: Located) -> HiddenDoubles:
    """See `Store.find_hidden_doubles`."""
    keys: dict[ObjectId, set[ObjectId]] = defaultdict(set)
    named: dict[ObjectId, dict[str, list[MemoryId]]] = defaultdict(lambda: defaultdict(list))
    for scope_id, ids in batches(located):
        scope_key = mapping.object_id(scope_id)
        for key in [scope_key, *await _former_places(database, ids)]:
            keys[key].update(ids)
        live = {"_id": {"$in": ids}, "live": True}
        async for document in database[schema.collection_name(scope_key)].find(live, {"content_hash": 1}):
            named[scope_key][str(document.get("content_hash", ""))].append(MemoryId(str(document["_id"])))
    merged: dict[MemoryId, ScopeId] = {}
    alike: dict[MemoryId, ScopeId] = {}
    originals: dict[MemoryId, ScopeId] = {}
    for key, into in keys.items():
        memories, scope_id = database[schema.collection_name(key)], ScopeId(str(key))
        for some in _parts(list(into)):
            async for document in memories.find({"live": False, "merged_into": {"$in": some}}, {"_id": 1}):
                merged[MemoryId(str(document["_id"]))] = scope_id
        for hashes in _parts(list(named[key])):
            of_text = {"live": False, "merged_into": {"$exists": False}, "content_hash": {"$in": hashes}}
            async for document in memories.find(of_text, {"content_hash": 1}):
                alike[MemoryId(str(document["_id"]))] = scope_id
                originals |= dict.fromkeys(named[key][document["content_hash"]], scope_id)
    return HiddenDoubles(merged, alike, originals)


async def _former_places(database: Database, keys: Sequence[ObjectId]) -> list[ObjectId]:
    """Return the scopes from which some of the memories were moved."""
    moves = {"memory_id": {"$in": keys}, "moved_from": {"$exists": True}}
    cursor = database[schema.REVISIONS].find(moves, {"moved_from": 1})
    return list(dict.fromkeys([document["moved_from"] async for document in cursor]))


def _parts(items: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), _VALUES):
        yield list(items[start : start + _VALUES])
