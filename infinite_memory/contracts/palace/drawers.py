"""Tools about drawers: put in, recalled, listed, forgotten. A drawer is a memory."""

from __future__ import annotations

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import IntegerField, NumberField, TagsField, TextField
from infinite_memory.contracts.palace.rooms import GENERAL, room_named, room_of
from infinite_memory.contracts.palace.table import PALACE, TABLE, Call, query, top_k
from infinite_memory.contracts.uuids import find_memory_id, uuid_of
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine.importance import FULL
from infinite_memory.engine.layers import IDENTITY, Layered, LayeredFound, Weighed
from infinite_memory.engine.parts import Draft
from infinite_memory.errors import InvalidRequestError, MemoryNotFoundError
from infinite_memory.models import Filter, tag_key

WIDEN = 4  # factor by which a listing reads on when its room left out too many


@TABLE.command(
    "memory_remember", PALACE,
    TextField(name="text", about="Memory content", required=True, limit="text_bytes"),
    TextField(name="room", about="Room type (optional)", blank_is_absent=True, limit="tag_chars"),
    TagsField(name="tags", about="Tags for finding it again"),
    NumberField(name="importance", about="How much it matters, 0 to 1 (optional)", low=0, high=1),
    title="Remember",
)  # fmt: skip
async def memory_remember(call: Call) -> Reply:
    """Store a memory (drawer) in a palace room."""
    importance = call.fields.find_number("importance")
    kept = await call.engine.remember(
        Draft(
            text=call.fields.text("text"),
            scope=call.palace,
            tags=call.fields["tags"] or (),
            type=room_named(call.fields.find_text("room")),
            importance=None if importance is None else importance * FULL,
        ),
        create_scope=False,
    )
    reply: Json = {
        "drawer_id": uuid_of(kept.memory.memory_id),
        "palace": kept.scope.name,
        "status": "stored",
        "room": room_of(kept.memory),
    }
    return reply | (
        {"note": f"it is found by meaning once it is embedded ({kept.pending})"} if kept.pending is not None else {}
    )


@TABLE.command(
    "memory_recall", PALACE, query(), top_k(),
    title="Recall", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_recall(call: Call) -> Reply:
    """Recall memories using L0+L1+L2 progressive retrieval."""
    return await _recall(call, deep=False)


@TABLE.command(
    "memory_recall_deep", PALACE, query(), top_k(),
    title="Recall deeply", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_recall_deep(call: Call) -> Reply:
    """Deep recall using an exhaustive L3 search."""
    return await _recall(call, deep=True)


async def _recall(call: Call, *, deep: bool) -> Reply:
    wanted = call.fields.text("query")
    found = await call.engine.recall_layers(wanted, call.palace, call.fields.integer("top_k"), deep=deep)
    results = [*_identity_out(found), *(_result_out(one) for one in found.results)]
    reply: Json = {"palace": found.scope.name, "query": wanted, "results": results}
    return reply | ({"note": found.note} if found.note is not None else {})


@TABLE.command(
    "memory_list", PALACE,
    TextField(name="room", about=f"Filter by room type (Frontend, Backend, Testing, Planning, Documentation, Research, "
                                 f"Configuration, Meetings, {GENERAL}, or custom)", blank_is_absent=True, limit="tag_chars"),
    TextField(name="tag", about="Filter by tag", blank_is_absent=True, limit="tag_chars"),
    IntegerField(name="limit", about="Max results (default 50)", default=50, low=1, high=1000, limit="top_k"),
    title="List drawers", read_only=True, idempotent=True,
)  # fmt: skip
async def memory_list(call: Call) -> Reply:
    """List drawers in a palace, optionally filtered by room type or tag. The most important come first."""
    scope = await call.engine.get_scope(call.palace)
    return {"palace": scope.name, "drawers": [_drawer_out(one) for one in await _listed(call)]}


async def _listed(call: Call) -> list[Weighed]:
    limit, tag = call.fields.integer("limit"), call.fields.find_text("tag")
    keys = frozenset({tag_key(tag)}) if tag is not None else frozenset()
    room = room_named(call.fields.find_text("room")) if "room" in call.fields else None
    if room != GENERAL:
        return await call.engine.weightiest(call.palace, limit, Filter(tag_keys=keys, type=room))
    asked = limit
    while True:  # General is also where memories of no room lie, which no filter can tell
        drawers = await call.engine.weightiest(call.palace, asked, Filter(tag_keys=keys))
        inside = [one for one in drawers if room_of(one.memory) == GENERAL]
        if len(inside) >= limit or len(drawers) < asked:
            return inside[:limit]
        asked *= WIDEN


@TABLE.command(
    "memory_forget", PALACE,
    TextField(name="drawer_id", about="UUID of the drawer to delete", required=True),
    title="Forget", destructive=True, idempotent=True,
)  # fmt: skip
async def memory_forget(call: Call) -> Reply:
    """Delete a drawer from a palace by its UUID."""
    given = call.fields.text("drawer_id")
    memory_id = find_memory_id(given)
    scope = await call.engine.get_scope(call.palace)
    try:
        if memory_id is None:
            raise MemoryNotFoundError(given)
        await call.engine.forget_one(memory_id, call.palace)
    except MemoryNotFoundError:
        raise InvalidRequestError("", f"drawer {given[:100]} not found in palace {scope.name}") from None
    return {"status": "deleted", "drawer_id": uuid_of(memory_id), "palace": scope.name}


def _identity_out(found: LayeredFound) -> list[Json]:
    text = found.scope.description
    if not text.strip():
        return []
    return [
        {
            "drawer_id": uuid_of(found.scope.scope_id),
            "content": text,
            "score": 1.0,
            "layer": IDENTITY,
            "tags": [],
            "importance": 1.0,
        }
    ]


def _result_out(one: Layered) -> Json:
    return {
        "drawer_id": uuid_of(one.memory.memory_id),
        "content": one.memory.text,
        "score": one.score,
        "layer": one.layer,
        "tags": list(one.memory.tags),
        "importance": one.importance,
        "room": room_of(one.memory),
        "created_at": instant_out(one.memory.created_at),
    }


def _drawer_out(one: Weighed) -> Json:
    return {
        "drawer_id": uuid_of(one.memory.memory_id),
        "content": one.memory.text,
        "importance": one.importance,
        "tags": list(one.memory.tags),
        "created_at": instant_out(one.memory.created_at),
        "room": room_of(one.memory),
    }
