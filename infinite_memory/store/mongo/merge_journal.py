"""Record of hard deletes during a move or a merge of scopes, so that these do not bring the memories back.

A merge copies memories and marks the emptied scope later, in journalled steps (`restore_steps`). Another process may hard-delete a memory
in between, after its copy was made. So it records what it removes with the merge's journal, both before and after the removal, and the
merge's last step removes exactly that from the target. That step closes the journal, unless something was recorded since it looked; a
process that finds no open journal afterwards finds the scope gone, and locates its memories again.

The move of one memory on a server without transactions is journalled and recorded in the same way.

Why before and after: before, so that the removal is completed even if the process dies; after, for a merge that began in between. Why with
the creation time: a memory stored under the same id since then is a different one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bson import ObjectId
from pymongo import UpdateOne

from infinite_memory.errors import StoreError
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.change_feed import write_tombstones
from infinite_memory.store.mongo.client import Database
from infinite_memory.store.mongo.drivers import Document
from infinite_memory.store.mongo.snapshot import STAGED

if TYPE_CHECKING:
    from pymongo.asynchronous.client_session import AsyncClientSession

JOURNAL = "restore."

LOOK_AGAIN_S = 0.1

_BATCH = 500

_KEYS = {"$regex": r"^restore\."}
_JOURNALS = {"_id": _KEYS, "state": "committing", "closed": {"$ne": True}}


async def note_removed(database: Database, scope_key: ObjectId, removed: Sequence[Document]) -> None:
    """Record memories (``_id`` and ``created_at``) as hard-deleted if they are being moved or their scope merged."""
    name = schema.collection_name(scope_key)
    pours = {"do": "pour", "$or": [{"from": name}, {"to": name}]}
    moves = {"do": "move", "memory": {"$in": [document["_id"] for document in removed]}}
    merging = {**_JOURNALS, "steps": {"$elemMatch": {"$or": [pours, moves]}}}
    for journal in await database[schema.META].find(merging, {"_id": 1}).to_list(None):
        notes = [
            UpdateOne({"_id": document["_id"]}, {"$addToSet": {"created_at": document.get("created_at")}}, upsert=True)
            for document in removed
        ]
        for start in range(0, len(notes), _BATCH):
            await _notes(database, journal["_id"]).bulk_write(notes[start : start + _BATCH], ordered=False)
        await database[schema.META].update_one({**_JOURNALS, "_id": journal["_id"]}, {"$inc": {"noted": 1}})


async def take_out_removed(database: Database, merge_id: ObjectId, target: ObjectId, *, is_polled: bool) -> None:
    """Remove what was recorded from the target of a merge or move, and close the journal: nothing more is recorded, no step is repeated."""
    key = f"{JOURNAL}{merge_id}"
    memories = database[schema.collection_name(target)]
    while (journal := await database[schema.META].find_one({"_id": key}, {"noted": 1})) is not None:
        removed = [note async for note in _notes(database, key).find()]
        for start in range(0, len(removed), _BATCH):
            batch = list(_pairs(removed[start : start + _BATCH]))
            existing = [document["_id"] async for document in memories.find({"$or": batch}, {"_id": 1})]
            if existing and is_polled:
                await write_tombstones(database, target, existing)
            await memories.delete_many({"$or": batch})
        unchanged = {"_id": key, "noted": journal.get("noted", {"$exists": False})}
        if (await database[schema.META].update_one(unchanged, {"$set": {"closed": True}})).matched_count:
            return


async def find_merging(database: Database) -> set[str]:
    """Return the names of the collections that are being merged into others."""
    journals = await database[schema.META].find({**_JOURNALS, "steps.do": "pour"}, {"steps": 1}).to_list(None)
    return {step["from"] for journal in journals for step in journal["steps"] if step["do"] == "pour"}


async def is_merging(
    database: Database,
    scope_keys: Collection[ObjectId],
    session: AsyncClientSession | None = None,
    *,
    excluding: ObjectId | None = None,
) -> bool:
    """True if one of some scopes is being merged into another, or another into it, by any merge *excluding* one."""
    names = {"$in": [schema.collection_name(key) for key in scope_keys]}
    pours = {"do": "pour", "$or": [{"from": names}, {"to": names}]}
    merging = {**_JOURNALS, "steps": {"$elemMatch": pours}}
    if excluding is not None:
        merging["_id"] = {**_KEYS, "$ne": f"{JOURNAL}{excluding}"}
    return await database[schema.META].find_one(merging, {"_id": 1}, session=session) is not None


async def wait_for_moves(database: Database, scope_keys: Collection[ObjectId], limit_s: float) -> None:
    """Wait until no move on a server without transactions that involves any of some scopes is running.

    Call it once a merge of them is journalled: a move is journalled too, and withdrawn if it sees the merge (`moves.apply_step`).

    Raises:
        StoreError: one takes longer than *limit_s*, or its process died; the next connect completes it.
    """
    keys = {"$in": list(scope_keys)}
    moving = {**_JOURNALS, "steps": {"$elemMatch": {"do": "move", "$or": [{"from": keys}, {"to": keys}]}}}
    give_up_at = time.monotonic() + limit_s
    while await database[schema.META].find_one(moving, {"_id": 1}) is not None:
        if time.monotonic() > give_up_at:
            raise StoreError(
                "a memory is being moved into or out of these scopes; nothing was merged, try again in a moment"
            )
        await asyncio.sleep(LOOK_AGAIN_S)


async def check_merge(database: Database, merge_id: ObjectId, source: ObjectId, target: ObjectId) -> None:
    """Reject a journalled merge if another process merges one of the scopes, or is about to remove the target.

    Two concurrent merges see each other's journals, so at most one of them goes on. A removal archives the scope first, then checks whether
    memories are being moved into it (`is_receiving_memories`), so of a removal and a merge one sees the other too.

    Raises:
        StoreError: another process does so.
    """
    query = {"$or": [{"_id": source}, {"_id": target, "archived_at": None}], **schema.PRESENT}
    is_met = await is_merging(database, [source, target], excluding=merge_id)
    if is_met or await database[schema.SCOPES].count_documents(query) < 2:
        raise StoreError(
            "one of these scopes is merged, archived or removed at this moment; nothing was merged, look again"
        )


async def is_receiving_memories(database: Database, scope_key: ObjectId) -> bool:
    """True if memories are being moved into a scope, or another scope is being merged into it."""
    ends = [{"do": "move", "to": scope_key}, {"do": "pour", "to": schema.collection_name(scope_key)}]
    coming = {**_JOURNALS, "steps": {"$elemMatch": {"$or": ends}}}
    return await database[schema.META].find_one(coming, {"_id": 1}) is not None


def _pairs(removed: Sequence[Document]) -> Iterator[Mapping[str, Any]]:
    for document in removed:
        yield {"_id": document["_id"], "created_at": {"$in": document["created_at"]}}


def _notes(database: Database, key: str) -> Any:
    """Return the collection of a merge's records, which is removed with its journal (`restore_steps.clear`)."""
    return database[f"{STAGED}{key.removeprefix(JOURNAL)}_removed"]
