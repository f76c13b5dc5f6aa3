"""What is removed for good while it, or its scope, goes into another scope, so that this does not bring it back.

A merge copies memories and marks the emptied scope later, in steps that are written down (`restore_steps`). Another process that removes a
memory for good in between may come after its copy was made. So it notes what it removes beside the merge's journal, before the removal and
after it, and the merge's last step takes exactly that out of the target. That step closes the journal, unless something was noted
since it looked; who finds no open journal afterwards finds the scope gone, and looks where its memories are now.

The move of one memory on a server without transactions is written down and noted in the same way.

Why before and after: before, so that what was asked to go goes although the asking process dies; after, for a merge that began in between.
Why with the time of creation: a memory that is stored again under the same id meanwhile is another one.
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
    """Note memories (``_id`` and ``created_at``) as removed for good that are moved at this moment, or are of a scope that is merged;
    else do nothing."""
    name = schema.collection_name(scope_key)
    pours = {"do": "pour", "$or": [{"from": name}, {"to": name}]}
    moves = {"do": "move", "memory": {"$in": [one["_id"] for one in removed]}}
    merging = {**_JOURNALS, "steps": {"$elemMatch": {"$or": [pours, moves]}}}
    for journal in await database[schema.META].find(merging, {"_id": 1}).to_list(None):
        notes = [
            UpdateOne({"_id": one["_id"]}, {"$addToSet": {"created_at": one.get("created_at")}}, upsert=True)
            for one in removed
        ]
        for start in range(0, len(notes), _BATCH):
            await _notes(database, journal["_id"]).bulk_write(notes[start : start + _BATCH], ordered=False)
        await database[schema.META].update_one({**_JOURNALS, "_id": journal["_id"]}, {"$inc": {"noted": 1}})


async def take_out_removed(database: Database, merge_id: ObjectId, target: ObjectId, *, polled: bool) -> None:
    """Remove from the target of a merge or a move what was noted, and close the journal: no more is noted, and no step is done again."""
    key = f"{JOURNAL}{merge_id}"
    memories = database[schema.collection_name(target)]
    while (journal := await database[schema.META].find_one({"_id": key}, {"noted": 1})) is not None:
        removed = [note async for note in _notes(database, key).find()]
        for start in range(0, len(removed), _BATCH):
            batch = list(_pairs(removed[start : start + _BATCH]))
            there = [document["_id"] async for document in memories.find({"$or": batch}, {"_id": 1})]
            if there and polled:
                await write_tombstones(database, target, there)
            await memories.delete_many({"$or": batch})
        unchanged = {"_id": key, "noted": journal.get("noted", {"$exists": False})}
        if (await database[schema.META].update_one(unchanged, {"$set": {"closed": True}})).matched_count:
            return


async def find_merging(database: Database) -> set[str]:
    """Return the names of the collections that are merged into others at this moment."""
    journals = await database[schema.META].find({**_JOURNALS, "steps.do": "pour"}, {"steps": 1}).to_list(None)
    return {step["from"] for journal in journals for step in journal["steps"] if step["do"] == "pour"}


async def is_merging(
    database: Database,
    scope_keys: Collection[ObjectId],
    session: AsyncClientSession | None = None,
    *,
    but: ObjectId | None = None,
) -> bool:
    """True if one of some scopes is merged into another at this moment, or another into it, by any merge *but* one."""
    names = {"$in": [schema.collection_name(key) for key in scope_keys]}
    pours = {"do": "pour", "$or": [{"from": names}, {"to": names}]}
    merging = {**_JOURNALS, "steps": {"$elemMatch": pours}}
    if but is not None:
        merging["_id"] = {**_KEYS, "$ne": f"{JOURNAL}{but}"}
    return await database[schema.META].find_one(merging, {"_id": 1}, session=session) is not None


async def wait_for_moves(database: Database, scope_keys: Collection[ObjectId], limit_s: float) -> None:
    """Wait until no move of a server without transactions is under way that touches some scopes.

    To be called when a merge of them is written down: a move is written down too, and withdrawn where it sees that (`moves.apply_step`).

    Raises:
        StoreError: one takes longer than *limit_s*, or died; who connects next finishes it.
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
    """Refuse a merge that is written down where another process merges one of the scopes, or is about to remove the target.

    Each of two merges that meet sees the other's journal, so at most one of them goes on. Who removes a scope archives it first, then
    looks whether memories are on their way into it (`is_receiving_memories`), so one of a removal and a merge sees the other, too.

    Raises:
        StoreError: another process does.
    """
    there = {"$or": [{"_id": source}, {"_id": target, "archived_at": None}], **schema.PRESENT}
    is_met = await is_merging(database, [source, target], but=merge_id)
    if is_met or await database[schema.SCOPES].count_documents(there) < 2:
        raise StoreError(
            "one of these scopes is merged, archived or removed at this moment; nothing was merged, look again"
        )


async def is_receiving_memories(database: Database, scope_key: ObjectId) -> bool:
    """True if memories are moved into a scope at this moment, or another scope is merged into it."""
    ends = [{"do": "move", "to": scope_key}, {"do": "pour", "to": schema.collection_name(scope_key)}]
    coming = {**_JOURNALS, "steps": {"$elemMatch": {"$or": ends}}}
    return await database[schema.META].find_one(coming, {"_id": 1}) is not None


def _pairs(removed: Sequence[Document]) -> Iterator[Mapping[str, Any]]:
    for one in removed:
        yield {"_id": one["_id"], "created_at": {"$in": one["created_at"]}}


def _notes(database: Database, key: str) -> Any:
    """Return the collection of a merge's notes, which goes with its journal (`restore_steps.clear`)."""
    return database[f"{STAGED}{key.removeprefix(JOURNAL)}_removed"]
