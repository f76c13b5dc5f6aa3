"""Put into place what a restore staged, or move a memory or a scope into another, in journalled steps.

The plan is stored in ``meta`` (``restore.<id>``), and each step is safe to repeat. So if a process dies between steps, the next connect
completes them, and if the server goes away, the process waits for it; a crash before that leaves only unused collections, which are removed
later.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import logging
import re
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from bson import ObjectId

from infinite_memory.errors import ScopeExistsError, StoreError
from infinite_memory.store.copies import retry_while_away
from infinite_memory.store.document_checks import CHECKED_CODEC, DocumentKind, check_document
from infinite_memory.store.mongo import moves, schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import aggregate
from infinite_memory.store.mongo.facts import move_facts
from infinite_memory.store.mongo.merge_journal import JOURNAL, check_merge, take_out_removed, wait_for_moves
from infinite_memory.store.mongo.placing import add_missing, place_scope, rename
from infinite_memory.store.mongo.snapshot import LOCAL_PREFIXES, LOCAL_VALUES, STAGED
from infinite_memory.store.set_aside import SetAside

log = logging.getLogger(__name__)

ABANDONED = dt.timedelta(minutes=10)
"""A restore without a heartbeat for this long is dead, wherever it ran; its collections are removed."""

_STAGED_NAME = re.compile(rf"{STAGED}([0-9a-f]{{24}})_(.+)")

Document = dict[str, Any]
Step = dict[str, Any]


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


async def put_into_place(
    connection: Connection, restore_id: ObjectId, steps: list[Step], *, is_polled: bool,
    begin: Callable[[Database], Awaitable[None]] | None = None, before_drop: Callable[[], Awaitable[None]] | None = None,
) -> None:  # fmt: skip
    """Journal the steps and carry them out, waiting for a server that goes away in between: they must not be left half done.

    Args:
        begin: Called once between the two; if it raises `StoreError`, so does this, and nothing was changed.
        before_drop: Called before a scope is marked for removal, possibly twice.

    Raises:
        StoreUnavailableError: the server did not come back; the next connect carries the steps out.
        ScopeExistsError: another process took the name of the single scope to add; nothing was changed.
    """
    key, written, begun = f"{JOURNAL}{restore_id}", False, begin is None

    async def attempt() -> None:
        nonlocal written, begun
        async with connection.operation(factor=60) as database:
            meta = database[schema.META]
            document = await meta.find_one({"_id": key}, {"closed": 1})
            if not written if document is None else not document.get("closed"):
                journal = {"state": "committing", "at": utc_now(), "steps": steps}
                written = (
                    document is not None
                )  # one that is missing on the next attempt was completed by another process
                await meta.update_one({"_id": key}, {"$set": journal}, upsert=True)
                written = True
                try:
                    if begin is not None and not begun:
                        await begin(database)
                except StoreError:
                    await clear(database, restore_id)
                    raise
                begun = True
                try:
                    await _carry_out(database, steps, is_polled=is_polled, before_drop=before_drop)
                except ScopeExistsError:
                    await clear(database, restore_id)
                    raise
            await schema.create_shared_indexes(database, is_polled=is_polled)  # those renamed into place have none
            await clear(database, restore_id)

    await retry_while_away(attempt)


async def finish_interrupted(database: Database, set_aside: SetAside, *, is_polled: bool) -> None:
    """Complete restores that died while being put into place, and clean up those that died before."""
    journals = await database[schema.META].find({"_id": {"$regex": r"^restore\."}}).to_list(None)
    for journal in sorted(journals, key=_is_no_move):  # a merge would copy half-moved memories
        if not set_aside.accepts(DocumentKind.META, schema.META, journal):
            continue
        restore_id = ObjectId(journal["_id"].removeprefix(JOURNAL))
        if journal["state"] == "committing":
            log.warning("finishing an interrupted restore", extra={"event": "restore_finished"})
            if not journal.get("closed") and not await _lacks_target(database, journal["steps"]):
                try:
                    await _carry_out(database, journal["steps"], is_polled=is_polled)
                except ScopeExistsError as exc:
                    log.warning("the interrupted restore changed nothing: %s", exc, extra={"event": "restore_refused"})
            await clear(database, restore_id)
        elif _is_abandoned(journal):
            log.info("removing what an abandoned restore had staged", extra={"event": "restore_abandoned"})
            await clear(database, restore_id)
    await _drop_orphans(database)


async def _lacks_target(database: Database, steps: list[Step]) -> bool:
    """True for a merge into a removed scope: of two scopes that were being merged into each other one must stay."""
    targets = [step["to"] for step in steps if step["do"] == "rescope"]
    present = {"_id": {"$in": targets}, **schema.PRESENT}
    return bool(targets) and await database[schema.SCOPES].find_one(present, {"_id": 1}) is None


def _is_no_move(journal: Document) -> bool:
    steps = journal.get("steps")
    return not (isinstance(steps, list) and steps and isinstance(steps[0], dict) and steps[0].get("do") == "move")


def _is_abandoned(journal: Document) -> bool:
    """True if the staging process is known to be dead, or has sent no heartbeat for long.

    A journal without a machine name, as written by earlier versions, is judged by time alone.
    """
    if journal.get("machine") == this_machine() and not psutil.pid_exists(journal["pid"]):
        return True
    return bool(utc_now() - journal["at"] > ABANDONED)


@functools.cache
def this_machine() -> str:
    """Return an identifier of the pid namespace: two machines may share a name, and containers of one machine count separately."""
    name = f"{socket.gethostname()}:{uuid.getnode():012x}"
    with contextlib.suppress(OSError):  # outside Linux, host name and MAC address tell machines apart
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        name += f":{boot_id}:{Path('/proc/self/ns/pid').readlink()}"
    return name


async def _drop_orphans(database: Database) -> None:
    """Remove collections staged by an unknown restore: its last write raced with its cleanup."""
    names = await database.list_collection_names(filter={"name": {"$regex": f"^{STAGED}"}})
    if not names:
        return
    journals = {
        document["_id"] async for document in database[schema.META].find({"_id": {"$regex": r"^restore\."}}, {"_id": 1})
    }
    for name in names:
        if (match := _STAGED_NAME.fullmatch(name)) and f"{JOURNAL}{match[1]}" not in journals:
            await database[name].drop()


async def is_restoring(database: Database) -> bool:
    """True if a restore is running, so that collections may be without their scopes for a while."""
    return await database[schema.META].find_one({"_id": {"$regex": r"^restore\."}}, {"_id": 1}) is not None


async def _carry_out(
    database: Database, steps: list[Step], *, is_polled: bool, before_drop: Callable[[], Awaitable[None]] | None = None
) -> None:
    for step in steps:
        if step["do"] == "rename":
            await rename(database, step["from"], step["to"], is_polled=is_polled)
        elif step["do"] == "merge":
            await add_missing(database, step["from"], step["to"])
        elif step["do"] == "place":
            await place_scope(database, step, is_polled=is_polled)
        elif step["do"] == "values":
            if await database.list_collection_names(filter={"name": step["from"]}):  # else they were put there before
                if step["replace"]:
                    await database[schema.META].delete_many(_travelling_values())
                await add_missing(database, step["from"], schema.META)
        elif step["do"] == "pour":
            await moves.touch_scopes(
                database, [ObjectId(step[end].removeprefix(schema.PREFIX)) for end in ("from", "to")]
            )
            await _pour(database, step["from"], step["to"], step["mark"])
        elif step["do"] == "take_out_removed":
            await take_out_removed(database, step["mark"], step["to"], is_polled=is_polled)
        elif step["do"] == "move":
            await moves.apply_step(database, step)
        elif step["do"] == "rescope":
            for shared in schema.BELONGING:
                if shared != schema.FACTS:
                    await database[shared].update_many({"scope_id": step["from"]}, {"$set": {"scope_id": step["to"]}})
            await move_facts(database, step["from"], step["to"])
        elif step["do"] == "drop_scope":  # marked; the next connect removes the rest
            if before_drop is not None:
                await before_drop()
            mark = {"$set": {"dropping": True, "name_key": f" {step['scope']}"}}
            await database[schema.SCOPES].update_one({"_id": step["scope"]}, mark)
        elif step["do"] == "drop":
            await database[step["name"]].drop()
        elif step["do"] == "mend_meta":
            await _remove_unsound_meta(database)
        else:
            await database[schema.META].update_one(
                {"_id": "schema"}, {"$set": {"version": step["version"]}}, upsert=True
            )


async def _remove_unsound_meta(database: Database) -> None:
    """Remove invalid entries of ``meta``: they are recreated, and would break a start."""
    meta = database.get_collection(schema.META, codec_options=CHECKED_CODEC)
    unsound = [entry["_id"] async for entry in meta.find() if check_document(DocumentKind.META, entry)]
    for key in unsound:
        await meta.delete_one({"_id": key})


async def merge_scopes(
    connection: Connection, source: ObjectId, target: ObjectId, *, is_polled: bool,
    on_poured: Callable[[], Awaitable[None]] | None = None,
) -> int:  # fmt: skip
    """Move all memories of one scope into another and mark the first for removal, all or nothing; return their number.

    Another process may write to the first concurrently. What it writes before the mark is copied in another pass; what it stores after the
    mark is rejected; what it hard-deletes is finally removed from the target.
    """
    async with connection.operation(factor=60) as database:
        count = await database[schema.collection_name(source)].count_documents({})
    merge_id = ObjectId()
    moving: list[Step] = [
        {"do": "pour", "from": schema.collection_name(source), "to": schema.collection_name(target), "mark": merge_id},
        {"do": "rescope", "from": source, "to": target},
    ]
    take_out: Step = {"do": "take_out_removed", "to": target, "mark": merge_id}
    steps: list[Step] = [*moving, {"do": "drop_scope", "scope": source}, *moving, take_out]

    async def begin(database: Database) -> None:
        await check_merge(database, merge_id, source, target)
        if is_polled:
            await wait_for_moves(database, [source, target], connection.timeout_s)

    await put_into_place(connection, merge_id, steps, is_polled=is_polled, begin=begin, before_drop=on_poured)
    return count


async def _pour(database: Database, source: str, target: str, mark: ObjectId) -> None:
    """Copy memories over; their revisions are raised, so that every sidecar picks up the new scope."""
    # What is set aside because its revision is not a number moves unchanged.
    risen = {"$cond": [{"$isNumber": "$revision"}, {"$add": ["$revision", 1]}, "$revision"]}
    moved = {"$set": {"revision": risen, "moved": mark}}
    is_newer = {"$and": [{"$isNumber": "$$new.revision"}, {"$gt": ["$$new.revision", "$revision"]}]}
    newer = [{"$replaceWith": {"$cond": [is_newer, "$$new", "$$ROOT"]}}]
    into = {"$merge": {"into": target, "on": "_id", "whenMatched": newer, "whenNotMatched": "insert"}}
    await aggregate(database[source], [moved, into])
    settled = {"$unset": {"moved": ""}, **schema.CHANGED_NOW}
    await database[target].update_many({"moved": mark}, settled)


async def clear(database: Database, restore_id: ObjectId) -> None:
    """Remove a restore's collections, then its journal."""
    for name in await database.list_collection_names():
        if (match := _STAGED_NAME.fullmatch(name)) and match[1] == str(restore_id):
            await database[name].drop()
    await database[schema.META].delete_one({"_id": f"{JOURNAL}{restore_id}"})


def _travelling_values() -> Mapping[str, Any]:
    local = "|".join(re.escape(prefix) for prefix in LOCAL_PREFIXES)
    return {"_id": {"$regex": r"^value\.", "$not": {"$regex": f"^({local})"}, "$nin": sorted(LOCAL_VALUES)}}
