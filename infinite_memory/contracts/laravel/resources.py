"""Resources of the Laravel contract.

memory://index          the 50 newest memories, without their content
memory://{id}           one memory, whole, with its links
memory://{id}/history   what it said, version by version
docs://...              documents for agents (`documents`)
"""

from __future__ import annotations

import json
from uuid import UUID

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.laravel.documents import DOCUMENTS, document_resources
from infinite_memory.contracts.laravel.failures import not_found
from infinite_memory.contracts.laravel.places import UUID_OWNER, memory_id_of, view_of
from infinite_memory.contracts.laravel.replies import index_out, memory_out, versions_out
from infinite_memory.contracts.laravel.searching import newest
from infinite_memory.contracts.native.table import Session
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine import Engine
from infinite_memory.errors import MemoryNotFoundError, NotFoundError, shown
from infinite_memory.models import MemoryRecord

INDEX = "memory://index"
INDEX_MOST = 50
_JSON = "application/json"
_HISTORY = "/history"

TEMPLATES: list[Json] = [
    {"uriTemplate": "memory://{id}", "name": "memory", "description": "One memory, whole, with its links", "mimeType": _JSON},
    {"uriTemplate": "memory://{id}/history", "name": "memory-history", "description": "What a memory said, version by version",
     "mimeType": _JSON},
]  # fmt: skip


def list_resources() -> list[Json]:
    """Describe what has a fixed address."""
    index = {
        "uri": INDEX,
        "name": "memory-index",
        "description": f"The {INDEX_MOST} newest memories, for discovery: no content",
        "mimeType": _JSON,
    }
    return [index, *document_resources()]


def document(uri: str) -> list[Json] | None:
    """Give a document's contents, None when *uri* is no document; needs no engine."""
    if uri not in DOCUMENTS:
        return None
    return [{"uri": uri, "mimeType": "text/markdown", "text": DOCUMENTS[uri][2]}]


async def read_resource(engine: Engine, session: Session, uri: str) -> list[Json]:
    """Read the index, a memory or its history.

    Raises:
        RpcError: there is no such memory that the caller may see.
        NotFoundError: the address is none of ours.
    """
    view = view_of(session.laravel.organization, session.laravel.user, None)
    if uri == INDEX:
        return _contents(uri, [index_out(one) for one in await newest(engine, view, INDEX_MOST)])
    name = uri.removeprefix("memory://")
    uuid = _uuid(name.removesuffix(_HISTORY))
    if name == uri or uuid is None:
        raise NotFoundError(shown(uri))
    try:
        memory = await engine.get(memory_id_of(uuid))
    except MemoryNotFoundError:
        raise not_found(uuid) from None
    if not view.shows(memory):
        raise not_found(uuid)
    if name.endswith(_HISTORY):
        return _contents(uri, versions_out(memory, await engine.history(memory.memory_id)))
    return _contents(uri, memory_out(memory, links=await _links(engine, memory)))


async def _links(engine: Engine, memory: MemoryRecord) -> list[Json]:
    """Write the links from and to a memory."""
    links = await engine.links_of(memory.memory_id)
    sidecar = await engine.parts.index.sidecar()
    ends = {end for link in links for end in (link.from_id, link.to_id)}
    found = await engine.parts.store.fetch(sidecar.locate(ends))
    return [
        {
            "source_id": found[link.from_id].owners.get(UUID_OWNER),
            "target_id": found[link.to_id].owners.get(UUID_OWNER),
            "relation_type": link.relation,
            "created_at": instant_out(link.created_at),
        }
        for link in links
        if link.from_id in found and link.to_id in found
    ]


def _contents(uri: str, value: Json | list[Json]) -> list[Json]:
    return [{"uri": uri, "mimeType": _JSON, "text": json.dumps(value, ensure_ascii=False)}]


def _uuid(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None
