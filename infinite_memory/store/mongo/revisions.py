"""Reads the earlier versions of a memory, as many at once as one reply can carry.

Why pages: a memory of 1 MiB that was changed sixty times has a history of 60 MiB. Versions are read from the newest backwards, a few
at a time, until a page is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import RevisionPage
from infinite_memory.store.document_checks import DocumentKind
from infinite_memory.store.mongo import mapping, schema

if TYPE_CHECKING:
    from infinite_memory.store.mongo.client import Connection
    from infinite_memory.store.set_aside import SetAside

MAX_REVISIONS = 100
MAX_CHARS = 1_000_000  # of text; a page holds one version in any case
_BATCH = 8  # versions that MongoDB sends at once: a page that is full leaves few of them unused


async def get_revisions(
    connection: Connection, set_aside: SetAside, memory_id: MemoryId, before: int | None
) -> RevisionPage:
    """See `Store.get_revisions`."""
    query = {"memory_id": mapping.find_object_id(memory_id)} | ({} if before is None else {"revision": {"$lt": before}})
    newest_first: list[MemoryRecord] = []
    chars = 0
    async with connection.operation() as database:
        revisions = database[schema.REVISIONS]
        async for document in revisions.find(query).sort("revision", -1).batch_size(_BATCH):
            if not set_aside.accepts(DocumentKind.REVISION, schema.REVISIONS, document):
                continue
            version = mapping.from_document(document["document"], ScopeId(str(document["scope_id"])))
            chars += len(version.text)
            if newest_first and (len(newest_first) == MAX_REVISIONS or chars > MAX_CHARS):
                older = await revisions.count_documents(query | {"revision": {"$lt": newest_first[-1].revision}})
                return RevisionPage(tuple(reversed(newest_first)), older)
            newest_first.append(version)
    return RevisionPage(tuple(reversed(newest_first)), 0)
