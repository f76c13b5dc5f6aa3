"""`Links` on MongoDB: one document per link in ``links``.

A document's ``_id`` is derived from its ends and relation, so that concurrent identical links become one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from pymongo.errors import DuplicateKeyError

from infinite_memory.models import Link, MemoryId, ScopeId, floor_to_millisecond
from infinite_memory.store.belongings import Links
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.mapping import find_object_id, object_id

_BATCH = 1000

Document = dict[str, Any]


class MongoLinks(Links):
    """See `Links`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put(self, link: Link, scope_id: ScopeId) -> bool:
        document = to_document(link, scope_id)
        async with self._connection.operation() as database:
            try:
                await database[schema.LINKS].insert_one(document)
            except DuplicateKeyError:
                return False
        return True

    async def of(self, memory_ids: Collection[MemoryId]) -> list[Link]:
        keys = [key for memory_id in memory_ids if (key := find_object_id(memory_id)) is not None]
        links: dict[str, Link] = {}
        for start in range(0, len(keys), _BATCH):
            condition = {"$in": keys[start : start + _BATCH]}
            async with self._connection.operation() as database:
                async for document in database[schema.LINKS].find(
                    {"$or": [{"from_id": condition}, {"to_id": condition}]}
                ):
                    if self._connection.set_aside.accepts(DocumentKind.LINK, schema.LINKS, document):
                        links[str(document["_id"])] = from_document(document)
        return sorted(links.values(), key=lambda link: (link.created_at, link.from_id, link.to_id, link.relation))


def to_document(link: Link, scope_id: ScopeId) -> Document:
    """Return the stored form of a link."""
    return {
        "_id": link_key(link),
        "scope_id": object_id(scope_id),
        "from_id": object_id(link.from_id),
        "to_id": object_id(link.to_id),
        "relation": link.relation,
        "created_at": floor_to_millisecond(link.created_at),
    }


def from_document(document: Mapping[str, Any]) -> Link:
    """Return the link in a document."""
    ends = MemoryId(str(document["from_id"])), MemoryId(str(document["to_id"]))
    return Link(*ends, document["relation"], document["created_at"])


def link_key(link: Link) -> str:
    """Return the id of a link, derived from its ends and relation."""
    return make_link_key(link.from_id, link.to_id, link.relation)


def make_link_key(from_id: str, to_id: str, relation: str) -> str:
    """Return the id of the link with these ends and relation."""
    return hashlib.sha256("\0".join((from_id, to_id, relation)).encode("utf-8", "surrogatepass")).hexdigest()
