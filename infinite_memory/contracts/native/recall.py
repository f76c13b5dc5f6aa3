"""Commands that search and list memories."""

from __future__ import annotations

import dataclasses
from typing import Any

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
from infinite_memory.contracts.native.results import (
    SearchResults,
    add_time_frame,
    cap_texts,
    make_page,
    make_ranked,
    serialize_results,
)
from infinite_memory.contracts.native.serializers import serialize_standing
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
from infinite_memory.engine.explanation import Standing
from infinite_memory.engine.types import Mode, RecallResult, ScopedFilter
from infinite_memory.errors import EmbeddingError, InvalidRequestError
from infinite_memory.models import Filter, MemoryId, tag_key
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
    where = await make_filter(call, call.fields.inner("filter"))
    results, standing = await rank(call, where)
    reply = serialize_results(call, results)
    if standing is not None:
        reply["explained"] = serialize_standing(standing, call.fields.text("explain_id"))
    if results.is_cut:
        reply["truncated"] = True
    return add_time_frame(call, reply)


async def rank(call: CommandContext, where: ScopedFilter) -> tuple[SearchResults, Standing | None]:
    """Run the search of a `retrieve_memory` request; also return the standing of the memory named by `explain_id`."""
    fields, recall = call.fields, call.engine.recall
    where, note = await _widened(call, where)
    query_text, top_k = fields.text("query"), fields.integer("top_k")
    how: dict[str, Any] = {
        "min_confidence": fields.find_number("min_confidence") or 0.0,
        "mode": fields["mode"],
        "explain": fields.flag("explain"),
        "counts_use": call.session.counts_use,
    }
    standing: Standing | None = None
    if "explain_id" in fields:
        matches, standing = await recall.find_standing(
            MemoryId(fields.text("explain_id")), query_text, where, top_k, **how
        )
    else:
        matches = await recall.search(query_text, where, top_k, **how)
    results = make_ranked(matches)
    results.wider_note = note or await _elsewhere(call, where, matches)
    if "max_chars" in fields:
        cap_texts(results.hits, fields.integer("max_chars"))
    return results, standing


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
    return serialize_results(call, await _search_or_list(call, where, call.fields.find_text("query")))


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
    return serialize_results(call, await _search_or_list(call, where, call.fields.find_text("query")))


@TABLE.command(
    "list_memories",
    ObjectField(name="filter", about="What a memory must be to be listed", fields=FILTER_FIELDS),
    read_scope("The same as filter.scope"),
    FlagField(name="forgotten", about="Those that were soft-deleted instead, latest first; only a scope narrows them", default=False),
    limit(50), CURSOR, NOW, TIMEZONE,
    title="List memories", read_only=True, idempotent=True,
)  # fmt: skip
async def list_memories(call: CommandContext) -> Reply:
    """List memories, newest first, page by page, with any filter; or what was forgotten and can be brought back."""
    return add_time_frame(call, serialize_results(call, await list_newest(call)))


async def list_newest(call: CommandContext) -> SearchResults:
    """List the memories that match the filter of a `list_memories` request, newest first, or the forgotten ones.

    Raises:
        InvalidRequestError: the request is for forgotten memories and filters by more than the scope.
    """
    where = await make_filter(call, call.fields.inner("filter"))
    if call.fields.flag("forgotten"):
        if where.rest != Filter():
            raise InvalidRequestError("filter", "only its scope narrows what was forgotten")
        page = await call.engine.forget.list_forgotten(
            where, call.fields.integer("limit"), call.fields.find_text("cursor")
        )
        return make_page(page)
    page = await call.engine.memories.list_page(where, call.fields.integer("limit"), call.fields.find_text("cursor"))
    return make_page(page)


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
    results = await list_time(call)
    return add_time_frame(call, serialize_results(call, results), results.span)


async def list_time(call: CommandContext) -> SearchResults:
    """List the memories of the time in a `recall_memory_by_time` request, or rank them by its query or topic."""
    fields = call.fields
    span, rest = await get_time_range(call, fields, "range")
    if span is None:
        raise InvalidRequestError("time_query", "is required: give time_query in words, or range")
    asked = ScopedFilter(get_scopes(call, fields.find_text("scope")), Filter(time=span), lenient="scope" not in fields)
    where, note = await _widened(call, asked)
    query_text = fields.find_text("query")
    topic = rest if query_text is None and "cursor" not in fields and has_topic(rest) else None
    if topic is not None:
        results = await _about_topic(call, where, topic)
    else:
        results = await _search_or_list(call, where, query_text, newest_first=False)
    results.wider_note, results.span = note, span
    return results


async def _about_topic(call: CommandContext, where: ScopedFilter, topic: str) -> SearchResults:
    """Rank the memories of a time range by a topic; list them if the model is unavailable and words alone would hide some."""
    try:
        results = await _search_or_list(call, where, topic)
        if not results.note or len(results.hits) >= min(results.total or 0, call.fields.integer("limit")):
            return results
        reason = results.note
    except EmbeddingError as exc:
        reason = str(exc)
    listed = await _search_or_list(call, where, None, newest_first=False)
    listed.note = f"listed by time and not by what was asked about: {reason}"
    return listed


async def _widened(call: CommandContext, where: ScopedFilter) -> tuple[ScopedFilter, str]:
    """Search every scope if none was requested and the default ones have no memory that matches the filter; add a note about it.

    Why: a user who stored into "Personal" and asks without a scope is better served by the memory, and a note on where it was found,
    than by an empty list. If the default scopes have anything that matches the filter, only they are searched.
    """
    if not where.lenient or where.scopes is None or await call.engine.memories.count(where):
        return where, ""
    everywhere = dataclasses.replace(where, scopes=None)
    if not await call.engine.memories.count(everywhere):
        return where, ""
    return everywhere, f"nothing in {' or '.join(where.scopes)}, so every scope was searched"


async def _elsewhere(call: CommandContext, where: ScopedFilter, result: RecallResult) -> str:
    """Return a note that other scopes were not searched, if the default ones had no sure match."""
    is_sure = bool(result.matches) and result.matches[0].confidence >= SURE
    if is_sure or not where.lenient or where.scopes is None:
        return ""
    everywhere = await call.engine.memories.count(dataclasses.replace(where, scopes=None))
    if everywhere == await call.engine.memories.count(where):
        return ""
    verb = "was" if len(where.scopes) == 1 else "were"
    return f'only {" and ".join(where.scopes)} {verb} searched; "scope": "ALL" looks everywhere'


async def _search_or_list(
    call: CommandContext, where: ScopedFilter, query_text: str | None, *, newest_first: bool = True
) -> SearchResults:
    limit = call.fields.integer("limit")
    if query_text is not None:
        if "cursor" in call.fields:
            raise InvalidRequestError("cursor", "goes with a listing, not with a query; raise limit instead")
        matches = await call.engine.recall.search(query_text, where, limit, counts_use=call.session.counts_use)
        return make_ranked(matches, await call.engine.memories.count(where))  # matches beyond the results are reported
    return make_page(
        await call.engine.memories.list_page(where, limit, call.fields.find_text("cursor"), newest_first=newest_first)
    )
