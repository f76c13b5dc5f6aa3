"""Read the earlier versions of a memory, as many at a time as fit into a reply.

Why pages: a memory of 1 MiB that was changed sixty times has a history of 60 MiB. Versions are read newest first, a few at a time, until a
page is full.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import RevisionPage
from infinite_memory.store.document_checks import DocumentKind
from infinite_memory.store.mongo import mapping, schema

if TYPE_CHECKING:
    from infinite_memory.store.mongo.client import Connection
    from infinite_memory.store.set_aside import SetAside

MAX_REVISIONS = 100
MAX_CHARS = 1_000_000  # of text; a page has at least one version
_BATCH = 8  # versions per MongoDB batch: a full page leaves few of them unused


async def get_revisions(
    connection: Connection, set_aside: SetAside, memory_id: MemoryId, before: int | None
) -> RevisionPage:
    """See `Store.get_revisions`."""
    query = {"memory_id": mapping.find_object_id(memory_id)} | ({} if before is None else {"revision": {"$lt": before}})
    newest_first: list[MemoryRecord] = []
    moved_at: dict[int, dt.datetime] = {}
    chars, scope = 0, None  # each version of a moved memory is in the scope of that time
    async with connection.operation() as database:
        revisions = database[schema.REVISIONS]
        if before is not None:
            later = {"memory_id": query["memory_id"], "revision": {"$gte": before}, "moved_from": {"$exists": True}}
            if (move := await revisions.find_one(later, {"moved_from": 1}, sort=[("revision", 1)])) is not None:
                scope = move["moved_from"]
        async for document in revisions.find(query).sort("revision", -1).batch_size(_BATCH):
            if not set_aside.accepts(DocumentKind.REVISION, schema.REVISIONS, document):
                continue
            scope = document.get("moved_from") or scope or document["scope_id"]
            version = mapping.from_document(document["document"], ScopeId(str(scope)))
            chars += len(version.text)
            if newest_first and (len(newest_first) == MAX_REVISIONS or chars > MAX_CHARS):
                older = await revisions.count_documents(query | {"revision": {"$lt": newest_first[-1].revision}})
                return RevisionPage(tuple(reversed(newest_first)), older, moved_at)
            newest_first.append(version)
            if "moved_at" in document:
                moved_at[version.revision] = document["moved_at"]
    return RevisionPage(tuple(reversed(newest_first)), 0, moved_at)
