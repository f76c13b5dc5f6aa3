"""Resources of the Laravel contract.

memory://index          the 50 newest memories, without their content
memory://{id}           one memory, complete, with its links
memory://{id}/history   its versions
docs://...              documents for agents (`static_content`)

None of them has parameters: a query string is ignored, and reported in ``_meta.warnings``.
"""

from __future__ import annotations

import json

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.laravel.access import UUID_OWNER, find_visible, make_view
from infinite_memory.contracts.laravel.errors import not_found
from infinite_memory.contracts.laravel.search import newest
from infinite_memory.contracts.laravel.serializers import serialize_index_entry, serialize_memory, serialize_versions
from infinite_memory.contracts.laravel.static_content import DOCUMENTS, document_resources
from infinite_memory.contracts.laravel.table import UUID_FORM, Caller
from infinite_memory.contracts.mcp import noted_contents, parse_query
from infinite_memory.contracts.session import ClientSession
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import NotFoundError, format_count, truncated_repr
from infinite_memory.models import MemoryRecord

INDEX = "memory://index"
MAX_INDEX_ENTRIES = 50
_JSON = "application/json"
_HISTORY = "/history"

TEMPLATES: list[Json] = [
    {"uriTemplate": "memory://{id}", "name": "memory", "description": "One memory, whole, with its links", "mimeType": _JSON},
    {"uriTemplate": "memory://{id}/history", "name": "memory-history", "description": "What a memory said, version by version",
     "mimeType": _JSON},
]  # fmt: skip


def list_resources() -> list[Json]:
    """Return the resources with a fixed URI."""
    index = {
        "uri": INDEX,
        "name": "memory-index",
        "description": f"The {MAX_INDEX_ENTRIES} newest memories, for discovery: no content",
        "mimeType": _JSON,
    }
    return [index, *document_resources()]


def split_parameters(uri: str) -> tuple[str, tuple[str, ...]]:
    """Return a URI without its parameters, and a warning for each of them."""
    address, _, query = uri.partition("?")
    return address, parse_query(query, has_limit=False)[1]


def document(uri: str) -> list[Json] | None:
    """Return a document's contents, None if *uri* is not a document; needs no engine."""
    address, warnings = split_parameters(uri)
    if address not in DOCUMENTS:
        return None
    contents: Json = {"uri": uri, "mimeType": "text/markdown", "text": DOCUMENTS[address][2]}
    return [contents | ({"_meta": {"warnings": list(warnings)}} if warnings else {})]


async def read_resource(engine: Engine, session: ClientSession, uri: str) -> list[Json]:
    """Read the index, a memory or its history.

    Raises:
        RpcError: there is no such memory that the caller may see.
        NotFoundError: the URI is not one of ours.
    """
    caller = Caller.of(session)
    view = make_view(caller.organization, caller.user, None)
    address, warnings = split_parameters(uri)
    if address == INDEX:
        entries = [serialize_index_entry(record) for record in await newest(engine, view, MAX_INDEX_ENTRIES)]
        return _contents(uri, entries, warnings)
    name = address.removeprefix("memory://")
    uuid = _uuid(name.removesuffix(_HISTORY))
    if name == address or uuid is None:
        raise NotFoundError(truncated_repr(uri))
    memory = await find_visible(engine, view, uuid)
    if memory is None:
        raise not_found(uuid)
    if name.endswith(_HISTORY):
        history = await engine.memories.history(memory.memory_id)
        # some versions may be from the time when it was another user's own
        visible = [revision for revision in history.revisions if view.allows(revision)]
        older = (f"{format_count(history.older, 'older version')} not shown",) if history.older else ()
        return _contents(uri, serialize_versions(memory, visible, history.older), older + warnings)
    return _contents(uri, serialize_memory(memory, links=await _links(engine, memory, view)), warnings)


async def _links(engine: Engine, memory: MemoryRecord, view: Visibility) -> list[Json]:
    """Serialize the links from and to a memory whose other ends are visible."""
    links = await engine.graph.get_links(memory.memory_id)
    ends = {end for link in links for end in (link.from_id, link.to_id)}
    ends_read = await engine.memories.find(list(ends))
    visible = {memory_id: end for memory_id, end in ends_read.items() if view.allows(end)}
    return [
        {
            "source_id": visible[link.from_id].owners.get(UUID_OWNER),
            "target_id": visible[link.to_id].owners.get(UUID_OWNER),
            "relation_type": link.relation,
            "created_at": format_instant(link.created_at),
        }
        for link in links
        if link.from_id in visible and link.to_id in visible
    ]


def _contents(uri: str, value: Json | list[Json], warnings: tuple[str, ...]) -> list[Json]:
    return noted_contents([{"uri": uri, "mimeType": _JSON, "text": json.dumps(value, ensure_ascii=False)}], warnings)


def _uuid(text: str) -> str | None:
    return text.lower() if UUID_FORM.fullmatch(text) else None
