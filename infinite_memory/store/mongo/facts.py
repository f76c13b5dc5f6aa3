"""`Facts` on MongoDB: one document per triple in ``facts``.

A document holds the fields of `Fact` and ``subject_key``, ``predicate_key`` (folded) and ``active``. A unique index over active ones
serialises concurrent assertions. Closing the old triple and adding the new one are one transaction. A standalone server has no
transactions: there this process serialises assertions, and reopens the old triple if adding fails; only two processes on one such server
could still leave overlapping ranges. Past ranges also overlap after a merge of scopes that disagreed at the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from infinite_memory.errors import ScopeNotFoundError, StoreError
from infinite_memory.models import MILLISECOND, Fact, FactId, ScopeId, floor_to_millisecond, fold
from infinite_memory.store.document_checks import CHECKED_CODEC, DocumentKind, is_readable
from infinite_memory.store.facts import Asserted, FactOutcome, Facts
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import Document, aggregate, in_transaction
from infinite_memory.store.mongo.mapping import object_id

if TYPE_CHECKING:
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.asynchronous.collection import AsyncCollection

_TRIES = 20
"""How often a conflicting assertion is retried; with each conflict one of the parties has succeeded."""


class MongoFacts(Facts):
    """See `Facts`. ``polled`` (as in `schema`) is set once the server's kind is known."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.polled = False
        self._one_by_one = asyncio.Lock()

    async def put(self, fact: Fact) -> Asserted:
        for _ in range(_TRIES):
            async with self._connection.operation() as database:
                await _check_scope(database, fact.scope_id)
                try:
                    asserted = await self._put(database, fact)
                except DuplicateKeyError:  # another one was added between read and insert
                    continue
                await _check_kept(database, asserted)
                return asserted
        raise StoreError("this fact is being asserted by others all the time; try again")

    async def _put(self, database: Database, fact: Fact) -> Asserted:
        facts = database[schema.FACTS]
        if self.polled:
            async with self._one_by_one:
                return await _replace(facts, fact, None, self._accepts)
        done: list[Asserted] = []

        async def work(session: AsyncClientSession) -> None:
            done[:] = [await _replace(facts, fact, session, self._accepts)]

        await in_transaction(database.client, work)
        return done[0]

    async def of_subject(self, scope_id: ScopeId, subject: str, at: dt.datetime | None) -> list[Fact]:
        query: Document = {"scope_id": object_id(scope_id), "subject_key": fold(subject)}
        if at is None:
            query["active"] = True
        else:
            query |= {"valid_from": {"$lte": at}, "$or": [{"active": True}, {"valid_to": {"$gt": at}}]}
        return await self._list(query, [("predicate_key", 1), ("valid_from", 1)])

    async def history(self, scope_id: ScopeId, subject: str, predicate: str) -> list[Fact]:
        return await self._list(_about(scope_id, subject, predicate), [("valid_from", 1), ("_id", 1)])

    async def _list(self, query: Document, order: list[tuple[str, int]]) -> list[Fact]:
        async with self._connection.operation() as database:
            documents = await database[schema.FACTS].find(query).sort(order).to_list(None)
        return [from_document(document) for document in documents if self._accepts(document)]

    def _accepts(self, document: Document) -> bool:
        return self._connection.set_aside.accepts(DocumentKind.FACT, schema.FACTS, document)

    async def count(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        query: Document = {"active": True}
        if scope_ids is not None:
            query["scope_id"] = {"$in": [object_id(scope_id) for scope_id in scope_ids]}
        query |= self._connection.set_aside.but_these(schema.FACTS)
        async with self._connection.operation(factor=4) as database:
            return await database[schema.FACTS].count_documents(query)


async def _check_scope(database: Database, scope_id: ScopeId) -> None:
    """Raise `ScopeNotFoundError` if a scope was merged or removed."""
    present = {"_id": object_id(scope_id), **schema.PRESENT}
    if await database[schema.SCOPES].find_one(present, {"_id": 1}) is None:
        raise ScopeNotFoundError(scope_id)


async def _check_kept(database: Database, asserted: Asserted) -> None:
    """Undo an assertion and raise `ScopeNotFoundError` if its scope was removed concurrently and the new fact was not moved along."""
    fact, facts = asserted.fact, database[schema.FACTS]
    try:
        await _check_scope(database, fact.scope_id)
    except ScopeNotFoundError:
        if asserted.outcome is FactOutcome.CONFIRMED:
            return  # it is not new: it was moved with the scope's facts
        query = {"_id": object_id(fact.fact_id), "scope_id": object_id(fact.scope_id)}
        if (await facts.delete_one(query)).deleted_count:
            if asserted.closed is not None:
                await _open_again(facts, object_id(asserted.closed.fact_id))
            raise


async def _replace(
    facts: AsyncCollection[Document],
    fact: Fact,
    session: AsyncClientSession | None,
    accepts: Callable[[Document], bool],
) -> Asserted:
    """Carry out one assertion; atomic inside a transaction.

    Raises:
        DuplicateKeyError: another assertion interfered.
    """
    about = _about(fact.scope_id, fact.subject, fact.predicate)
    newest = await _newest(facts, about, session, accepts)
    current = newest if newest is not None and newest["active"] else None
    if current is not None and current["object"] == fact.object:
        changes: Document = {"confidence": fact.confidence}
        if fact.provenance is not None:
            changes["provenance"] = fact.provenance
        await facts.update_one({"_id": current["_id"]}, {"$set": changes}, session=session)
        return Asserted(from_document(current | changes), FactOutcome.CONFIRMED)
    begins_at = floor_to_millisecond(fact.valid_from)
    if newest is not None:
        begins_at = max(begins_at, newest.get("valid_to") or newest["valid_from"] + MILLISECOND)
    if current is not None:
        closing = {"$set": {"active": False, "valid_to": begins_at}}
        closed = await facts.update_one({"_id": current["_id"], "active": True}, closing, session=session)
        if closed.matched_count == 0:
            raise DuplicateKeyError("the triple was closed by another assertion")
    document = _to_document(fact, begins_at)
    try:
        await facts.insert_one(document, session=session)
    except PyMongoError:
        if current is not None and session is None:
            await _open_again(facts, current["_id"])
        raise
    if current is None:
        return Asserted(from_document(document), FactOutcome.ASSERTED)
    return Asserted(from_document(document), FactOutcome.REPLACED, from_document(current | {"valid_to": begins_at}))


async def _newest(
    facts: AsyncCollection[Document],
    query: Document,
    session: AsyncClientSession | None,
    accepts: Callable[[Document], bool],
) -> Document | None:
    """Return the triple that holds, else the one that held last, among readable ones."""
    async for document in facts.find(query, session=session).sort([("active", -1), ("valid_from", -1)]):
        if accepts(document):
            return document
    return None


async def _open_again(facts: AsyncCollection[Document], key: ObjectId) -> None:
    """Reopen a closed triple, unless another one holds now."""
    with contextlib.suppress(DuplicateKeyError):
        await facts.update_one({"_id": key, "active": False}, {"$set": {"active": True}, "$unset": {"valid_to": ""}})


async def move_facts(database: Database, source: ObjectId, target: ObjectId) -> None:
    """Move the facts of one scope into another, history included. Safe to repeat, and while facts are asserted.

    If both scopes have a fact for the same subject and predicate, the newer one holds and the older one is closed when that began, as if
    both had been asserted in one scope; if both have the same object, one is kept, from the earlier start on.

    Raises:
        StoreError: others keep asserting the same facts.
    """
    facts = database.get_collection(schema.FACTS, codec_options=CHECKED_CODEC)
    key = {"subject": "$subject_key", "predicate": "$predicate_key"}
    both: list[Document] = [
        {"$match": {"scope_id": {"$in": [source, target]}, "active": True}},
        {"$group": {"_id": key, "facts": {"$push": "$$ROOT"}}},
        {"$match": {"facts.1": {"$exists": True}}},
    ]
    for _ in range(_TRIES):
        for group in await aggregate(facts, both, allowDiskUse=True):
            *incoming, existing = sorted(group["facts"], key=lambda fact: bool(fact["scope_id"] == target))
            for fact in incoming:
                await _settle(facts, fact, existing, target)
        try:
            await facts.update_many({"scope_id": source}, {"$set": {"scope_id": target}})
        except DuplicateKeyError:  # another one was asserted between read and move
            continue
        return
    raise StoreError("facts of these scopes are being asserted by others all the time; try again")


async def _settle(facts: AsyncCollection[Document], incoming: Document, existing: Document, target: ObjectId) -> None:
    """Let only one of two facts hold: the incoming one or the one that holds in the scope."""
    here = {"_id": existing["_id"], "active": True}
    if not is_readable(DocumentKind.FACT, incoming):  # it is set aside, and moved unchanged
        await facts.update_one({"_id": incoming["_id"]}, {"$set": {"scope_id": target, "active": False}})
    elif not is_readable(DocumentKind.FACT, existing):
        await facts.update_one(here, {"$set": {"active": False}})
    elif incoming["object"] == existing["object"]:
        newer, older = (incoming, existing) if incoming["valid_from"] > existing["valid_from"] else (existing, incoming)
        provenance = older.get("provenance") if newer.get("provenance") is None else newer["provenance"]
        joined = {"confidence": newer["confidence"], "provenance": provenance, "valid_from": older["valid_from"]}
        if (await facts.update_one(here, {"$set": joined})).matched_count:
            await facts.delete_one({"_id": incoming["_id"]})
    elif incoming["valid_from"] > existing["valid_from"]:
        await facts.update_one(here, {"$set": {"active": False, "valid_to": incoming["valid_from"]}})
    else:
        closed_at = max(existing["valid_from"], incoming["valid_from"] + MILLISECOND)
        closing = {"scope_id": target, "active": False, "valid_to": closed_at}
        await facts.update_one({"_id": incoming["_id"], "active": True}, {"$set": closing})


def _about(scope_id: ScopeId, subject: str, predicate: str) -> Document:
    return {"scope_id": object_id(scope_id), "subject_key": fold(subject), "predicate_key": fold(predicate)}


def _to_document(fact: Fact, begins_at: dt.datetime) -> Document:
    return {
        "_id": ObjectId(),
        **_about(fact.scope_id, fact.subject, fact.predicate),
        "active": True,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "valid_from": begins_at,
        "confidence": fact.confidence,
        "provenance": fact.provenance,
    }


def whole_document(fact: Fact) -> Document:
    """Return the document of a fact with its own id, unchanged: closed if it has an end."""
    document = _to_document(fact, floor_to_millisecond(fact.valid_from)) | {"_id": object_id(fact.fact_id)}
    if fact.valid_to is not None:
        document |= {"active": False, "valid_to": floor_to_millisecond(fact.valid_to)}
    return document


def from_document(document: Mapping[str, Any]) -> Fact:
    """Return the fact in a document."""
    return Fact(
        FactId(str(document["_id"])),
        ScopeId(str(document["scope_id"])),
        document["subject"],
        document["predicate"],
        document["object"],
        document["valid_from"],
        document.get("valid_to"),
        document["confidence"],
        document.get("provenance"),
    )
