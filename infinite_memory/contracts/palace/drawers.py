"""Tools for drawers: stored, recalled, listed, forgotten. A drawer is a memory."""

from __future__ import annotations

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import IntegerField, NumberField, TagsField, TextField
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.palace.table import (
    GENERAL,
    PALACE,
    TABLE,
    CommandContext,
    find_memory_id,
    get_room,
    query,
    room_named,
    to_uuid,
    top_k,
)
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.importance import FULL
from infinite_memory.engine.layered_recall import IDENTITY, IMPORTANT, Layered, LayeredFound, Weighed
from infinite_memory.engine.types import NewMemory
from infinite_memory.errors import InvalidRequestError, MemoryNotFoundError
from infinite_memory.models import Filter, tag_key

GROWTH_FACTOR = 4  # factor by which a listing reads more if too many are of other rooms


@TABLE.command(
    "memory_remember", PALACE,
    TextField(name="text", about="Memory content", required=True, limit="text_bytes"),
    TextField(name="room", about="Room type (optional)", blank_is_absent=True, limit="tag_chars"),
    TagsField(name="tags", about="Tags for finding it again"),
    NumberField(name="importance", about="How much it matters, 0 to 1 (optional)", low=0, high=1),
    title="Remember",
)  # fmt: skip
async def memory_remember(call: CommandContext) -> Reply:
    """Store a memory (drawer) in a palace room."""
    importance = call.fields.find_number("importance")
    stored = await call.engine.memories.store(
        NewMemory(
            text=call.fields.text("text"),
            scope=call.palace,
            tags=call.fields["tags"] or (),
            type=room_named(call.fields.find_text("room")),
            importance=None if importance is None else importance * FULL,
        ),
        create_scope=False,
    )
    reply: Json = {
        "drawer_id": to_uuid(stored.memory.memory_id),
        "palace": stored.scope.name,
        "status": "stored",
        "room": get_room(stored.memory),
    }
    return reply | (
        {"note": f"it is found by meaning once it is embedded ({stored.pending})"} if stored.pending is not None else {}
    )


@TABLE.command(
    "memory_recall", PALACE, query(), top_k(),
    title="Recall", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_recall(call: CommandContext) -> Reply:
    """Recall memories using L0+L1+L2 progressive retrieval: at most top_k results, what answers the query first."""
    return await _recall(call, is_deep=False)


@TABLE.command(
    "memory_recall_deep", PALACE, query(), top_k(),
    title="Recall deeply", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_recall_deep(call: CommandContext) -> Reply:
    """Deep recall using L3 full search: exhaustive, and nothing beside what answers the query."""
    return await _recall(call, is_deep=True)


async def _recall(call: CommandContext, *, is_deep: bool) -> Reply:
    query_text, top_k = call.fields.text("query"), call.fields.integer("top_k")
    recalled = await call.engine.layers.search(query_text, call.palace, top_k, deep=is_deep)
    answers = [_serialize_result(result) for result in recalled.results if result.layer != IMPORTANT]
    beside = (
        []
        if is_deep
        else [
            *_serialize_identity(recalled),
            *(_serialize_result(result) for result in recalled.results if result.layer == IMPORTANT),
        ]
    )
    results = [*answers, *beside][:top_k]
    reply: Json = {"palace": recalled.scope.name, "query": query_text, "results": results}
    return reply | ({"note": recalled.note} if recalled.note is not None else {})


@TABLE.command(
    "memory_list", PALACE,
    TextField(name="room", about=f"Filter by room type (Frontend, Backend, Testing, Planning, Documentation, Research, "
                                 f"Configuration, Meetings, {GENERAL}, or custom)", blank_is_absent=True, limit="tag_chars"),
    TextField(name="tag", about="Filter by tag", blank_is_absent=True, limit="tag_chars"),
    IntegerField(name="limit", about="Max results (default 50)", default=50, low=1, high=1000, limit="top_k"),
    title="List drawers", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_list(call: CommandContext) -> Reply:
    """List drawers in a palace, optionally filtered by room type or tag. The most important come first."""
    scope = await call.engine.scopes.get(call.palace)
    return {"palace": scope.name, "drawers": [_serialize_drawer(memory) for memory in await _listed(call)]}


async def _listed(call: CommandContext) -> list[Weighed]:
    limit, tag = call.fields.integer("limit"), call.fields.find_text("tag")
    keys = frozenset({tag_key(tag)}) if tag is not None else frozenset()
    room = room_named(call.fields.find_text("room")) if "room" in call.fields else None
    if room != GENERAL:
        return await call.engine.layers.most_important(call.palace, limit, Filter(tag_keys=keys, type=room))
    asked = limit
    while True:  # General also contains memories without a room, which no filter can express
        drawers = await call.engine.layers.most_important(call.palace, asked, Filter(tag_keys=keys))
        inside = [drawer for drawer in drawers if get_room(drawer.memory) == GENERAL]
        if len(inside) >= limit or len(drawers) < asked:
            return inside[:limit]
        asked *= GROWTH_FACTOR


@TABLE.command(
    "memory_forget", PALACE,
    TextField(name="drawer_id", about="UUID of the drawer to delete", required=True),
    title="Forget", destructive=True, idempotent=True,
)  # fmt: skip
async def memory_forget(call: CommandContext) -> Reply:
    """Delete a drawer from a palace by its UUID."""
    drawer_id = call.fields.text("drawer_id")
    memory_id = find_memory_id(drawer_id)
    scope = await call.engine.scopes.get(call.palace)
    try:
        if memory_id is None:
            raise MemoryNotFoundError(drawer_id)
        await call.engine.forget.one(memory_id, call.palace)
    except MemoryNotFoundError:
        raise InvalidRequestError("", f"drawer {drawer_id[:100]} not found in palace {scope.name}") from None
    return {"status": "deleted", "drawer_id": to_uuid(memory_id), "palace": scope.name}


def _serialize_identity(layered: LayeredFound) -> list[Json]:
    text = layered.scope.description
    if not text.strip():
        return []
    return [
        {
            "drawer_id": to_uuid(layered.scope.scope_id),
            "content": text,
            "score": 1.0,
            "layer": IDENTITY,
            "tags": [],
            "importance": 1.0,
        }
    ]


def _serialize_result(hit: Layered) -> Json:
    return {
        "drawer_id": to_uuid(hit.memory.memory_id),
        "content": hit.memory.text,
        "score": hit.score,
        "layer": hit.layer,
        "tags": list(hit.memory.tags),
        "importance": hit.importance,
        "room": get_room(hit.memory),
        "created_at": format_instant(hit.memory.created_at),
    }


def _serialize_drawer(weighed: Weighed) -> Json:
    return {
        "drawer_id": to_uuid(weighed.memory.memory_id),
        "content": weighed.memory.text,
        "importance": weighed.importance,
        "tags": list(weighed.memory.tags),
        "created_at": format_instant(weighed.memory.created_at),
        "room": get_room(weighed.memory),
    }
