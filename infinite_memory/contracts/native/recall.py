"""Commands that find and list memories."""

from __future__ import annotations

import dataclasses

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import (
    ChoiceField,
    FlagField,
    IntegerField,
    NameField,
    NumberField,
    ObjectField,
    TextField,
    TimeRangeField,
)
from infinite_memory.contracts.native.serializers import (
    cut_text,
    serialize_explanation,
    serialize_match,
    serialize_memory,
    serialize_names,
    serialize_range,
    serialize_standing,
)
from infinite_memory.contracts.native.table import (
    CURSOR,
    FILTER_FIELDS,
    NOW,
    TABLE,
    TIMEZONE,
    CommandContext,
    IdField,
    get_scopes,
    get_time_range,
    limit,
    make_filter,
    query,
    read_scope,
)
from infinite_memory.contracts.timestamps import format_relative
from infinite_memory.engine.types import MemoryPage, Mode, RecallResult, ScopedFilter
from infinite_memory.errors import EmbeddingError, InvalidRequestError
from infinite_memory.models import Filter, MemoryId, MemoryRecord, TimeRange, tag_key
from infinite_memory.time_expressions.question_words import has_topic

SURE = 0.5  # a best match below this is as likely wrong as right


@TABLE.command(
    "retrieve_memory",
    query(required=True),
    ChoiceField(
        name="mode", about="What to go by: meaning and words (hybrid), meaning alone, words alone, or words and their look-alikes",
        choices=Mode, default=Mode.HYBRID,
    ),
    ObjectField(name="filter", about="What a memory must be to be considered", fields=FILTER_FIELDS),
    read_scope("The same as filter.scope"),
    IntegerField(name="top_k", about="Most results", default=5, low=1, high=1000, limit="top_k"),
    NumberField(name="min_confidence", about="Leave out weaker matches", low=0, high=1),
    IntegerField(name="max_chars", about="Most characters of text in the reply", low=100, high=100_000_000),
    FlagField(name="explain", about="Also tell the parts of each result's score", default=False),
    IdField(name="explain_id", about="A memory: also tell why it is, or is not, among the results"),
    NOW, TIMEZONE,
    title="Recall by meaning", read_only=True, idempotent=True,
)  # fmt: skip
async def retrieve_memory(call: CommandContext) -> Reply:
    """Find the memories that answer a question, best first, each with a confidence. Use it before answering anything that may
    depend on what the user said earlier. Weak matches are returned with a low confidence, not hidden."""
    fields = call.fields
    where, note = await _widened(call, await make_filter(call, fields.inner("filter")))
    found = await call.engine.recall.search(
        fields.text("query"),
        where,
        fields.integer("top_k"),
        min_confidence=fields.find_number("min_confidence") or 0.0,
        mode=fields["mode"],
        explain=fields.flag("explain"),
        counts_use=call.session.counts_use,
    )
    reply = _noted(_found(call, found), note or await _elsewhere(call, where, found))
    if "explain_id" in fields:
        reply["explained"] = await _explained(call, where)
    if "max_chars" in fields:
        _cap(reply, fields.integer("max_chars"))
    return _timed(call, reply)


async def _explained(call: CommandContext, where: ScopedFilter) -> Reply:
    """Tell where the memory that is named stands in a recall."""
    fields = call.fields
    standing = await call.engine.recall.find_standing(
        MemoryId(fields.text("explain_id")),
        fields.text("query"),
        where,
        fields.integer("top_k"),
        min_confidence=fields.find_number("min_confidence") or 0.0,
        mode=fields["mode"],
    )
    return serialize_standing(standing, fields.text("explain_id"))


@TABLE.command(
    "search_by_tag",
    TextField(name="tag", about="The tag to look for", required=True),
    query(required=False), read_scope("Only this scope; without it every scope is searched"), limit(50), CURSOR,
    title="Find by tag", read_only=True, idempotent=True,
)  # fmt: skip
async def search_by_tag(call: CommandContext) -> Reply:
    """List the memories that bear a tag, newest first, in every scope unless one is given; with a query, the nearest in
    meaning first. Use it when the user names a tag."""
    names = get_scopes(call, call.fields.find_text("scope"), everywhere=True)
    where = ScopedFilter(names, Filter(tag_keys=frozenset({tag_key(call.fields.text("tag"))})))
    return await _search_or_list(call, where, call.fields.find_text("query"))


@TABLE.command(
    "search_by_scope",
    NameField(name="scope", about="The scope to look into, or ALL", required=True),
    query(required=False), limit(50), CURSOR,
    title="Find by scope", read_only=True, idempotent=True,
)  # fmt: skip
async def search_by_scope(call: CommandContext) -> Reply:
    """List the memories of a scope, newest first; with a query, the nearest in meaning first. Use it when the user asks about
    one context only."""
    where = ScopedFilter(get_scopes(call, call.fields.text("scope")))
    return await _search_or_list(call, where, call.fields.find_text("query"))


@TABLE.command(
    "list_memories",
    ObjectField(name="filter", about="What a memory must be to be listed", fields=FILTER_FIELDS),
    read_scope("The same as filter.scope"),
    limit(50), CURSOR, NOW, TIMEZONE,
    title="List memories", read_only=True, idempotent=True,
)  # fmt: skip
async def list_memories(call: CommandContext) -> Reply:
    """List memories, newest first, page by page, with any filter."""
    where = await make_filter(call, call.fields.inner("filter"))
    listing = await call.engine.memories.list_page(where, call.fields.integer("limit"), call.fields.find_text("cursor"))
    return _timed(call, _listed(call, listing))


@TABLE.command(
    "recall_memory_by_time",
    TextField(name="time_query", about="A stretch of time in words: yesterday, last week, in March", limit="query_chars"),
    TimeRangeField(name="range", about="The stretch of time itself; it wins over words; both ends inside"),
    query(required=False), read_scope(), limit(100), CURSOR, NOW, TIMEZONE,
    title="Recall by time", read_only=True, idempotent=True,
)  # fmt: skip
async def recall_memory_by_time(call: CommandContext) -> Reply:
    """List the memories of a stretch of time, oldest first. With a query, or a sentence that has a topic beside its time
    words ("what did we decide about the budget last week"), the nearest to that first. Use it for questions about a time."""
    fields = call.fields
    span, rest = await get_time_range(call, fields, "range")
    if span is None:
        raise InvalidRequestError("time_query", "is required: give time_query in words, or range")
    asked = ScopedFilter(get_scopes(call, fields.find_text("scope")), Filter(time=span), lenient="scope" not in fields)
    where, note = await _widened(call, asked)
    wanted = fields.find_text("query")
    topic = rest if wanted is None and "cursor" not in fields and has_topic(rest) else None
    if topic is not None:
        reply = await _about_topic(call, where, topic)
    else:
        reply = await _search_or_list(call, where, wanted, newest_first=False)
    return _timed(call, _noted(reply, note), span)


async def _about_topic(call: CommandContext, where: ScopedFilter, topic: str) -> Reply:
    """Rank the memories of a stretch of time by a topic; list them where the model is not there and words alone would hide some."""
    try:
        reply = await _search_or_list(call, where, topic)
        if "note" not in reply or len(reply["results"]) >= min(reply["total"], call.fields.integer("limit")):
            return reply
        why = str(reply["note"])
    except EmbeddingError as exc:
        why = str(exc)
    listed = await _search_or_list(call, where, None, newest_first=False)
    return listed | {"note": f"listed by time and not by what was asked about: {why}"}


async def _widened(call: CommandContext, where: ScopedFilter) -> tuple[ScopedFilter, Reply]:
    """Look into every scope where no scope was asked for and the usual ones hold nothing that passes; and say so.

    Why: who stored into "Personal" and asks without a scope is better served by the memory, and a word on where it was found,
    than by an empty list. Where the usual scopes hold anything that passes the filter, they alone are searched.
    """
    if not where.lenient or where.scopes is None or await call.engine.memories.count(where):
        return where, {}
    everywhere = dataclasses.replace(where, scopes=None)
    if not await call.engine.memories.count(everywhere):
        return where, {}
    return everywhere, {"note": f"nothing in {' or '.join(where.scopes)}, so every scope was searched"}


async def _elsewhere(call: CommandContext, where: ScopedFilter, found: RecallResult) -> Reply:
    """Say that other scopes were not searched, where nothing sure was found in the usual ones."""
    is_sure = bool(found.matches) and found.matches[0].confidence >= SURE
    if is_sure or not where.lenient or where.scopes is None:
        return {}
    everywhere = await call.engine.memories.count(dataclasses.replace(where, scopes=None))
    if everywhere == await call.engine.memories.count(where):
        return {}
    return {"note": f'only {" and ".join(where.scopes)} was searched; "scope": "ALL" looks everywhere'}


async def _search_or_list(
    call: CommandContext, where: ScopedFilter, wanted: str | None, *, newest_first: bool = True
) -> Reply:
    most = call.fields.integer("limit")
    if wanted is not None:
        if "cursor" in call.fields:
            raise InvalidRequestError("cursor", "goes with a listing, not with a query; raise limit instead")
        found = _found(call, await call.engine.recall.search(wanted, where, most))
        return found | {"total": await call.engine.memories.count(where)}  # what is not among the results is told of
    listing = await call.engine.memories.list_page(
        where, most, call.fields.find_text("cursor"), newest_first=newest_first
    )
    return _listed(call, listing)


def _found(call: CommandContext, found: RecallResult) -> Reply:
    results = [_dated(call, serialize_match(call.engine, match), match.memory) for match in found.matches]
    for result, match in zip(results, found.matches, strict=True):
        if (explanation := found.explanations.get(match.memory.memory_id)) is not None:
            result["explain"] = serialize_explanation(explanation)
    reply: Reply = {
        "results": results,
        "scopes_searched": serialize_names(found.scopes),
    }
    return reply | ({"note": found.note} if found.note else {})


def _listed(call: CommandContext, listing: MemoryPage) -> Reply:
    return {
        "results": [_dated(call, serialize_memory(call.engine, memory), memory) for memory in listing.memories],
        "total": listing.total,
        "next_cursor": listing.next_cursor,
        "scopes_searched": serialize_names(listing.scopes),
    }


def _dated(call: CommandContext, result: Reply, memory: MemoryRecord) -> Reply:
    """Put the date in words beside the timestamp."""
    told: Reply = {}
    for name, value in result.items():
        told[name] = value
        if name == "timestamp":
            told["when"] = format_relative(memory.occurred_at, call.now(), call.session.zone)
    return told


def _timed(call: CommandContext, reply: Reply, span: TimeRange | None = None) -> Reply:
    """Add the stretch of time that was looked into, the words that were read as it, and what looks like a time and was not read."""
    read = call.time_read
    span = read.span if read else span
    if span is None:
        return reply
    frame = serialize_range(span, call.session.zone) | ({"words": read.words} if read else {})
    unread = ", ".join(f"'{part}'" for part in read.unread) if read else ""
    return _noted(reply, {"note": f"not read as a time: {unread}"} if unread else {}) | {"time_frame": frame}


def _noted(reply: Reply, note: Reply) -> Reply:
    """Add what *note* says to what the reply says already."""
    notes = [one for one in (note.get("note"), reply.get("note")) if one]
    return reply | ({"note": "; ".join(notes)} if notes else {})


def _cap(reply: Reply, most: int) -> None:
    """Cut texts, the worst results' first, so that texts and excerpts together keep to *most* characters; what was cut says so.

    A text that is cut gives way to its excerpt, which says where the answer is. Nothing is cut inside a letter with its marks.
    """
    left = most
    for result in reply["results"]:
        text, excerpt = result["text"], result.get("excerpt", "")
        if len(text) + len(excerpt) > left:
            told = cut_text(excerpt, left)
            if excerpt:
                result["excerpt"] = told
            result |= {"text": cut_text(text, left - len(told)), "truncated": True, "text_chars": len(text)}
            reply["truncated"] = True
        left -= min(left, len(result["text"]) + len(result.get("excerpt", "")))
