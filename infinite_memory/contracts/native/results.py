"""The results of a recall or a listing as a value, and their form in the native contract. The HTTP API serializes the same value itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.native.serializers import (
    cut_text,
    serialize_explanation,
    serialize_match,
    serialize_memory,
    serialize_names,
    serialize_range,
)
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.contracts.timestamps import format_relative
from infinite_memory.engine.explanation import Explanation
from infinite_memory.engine.types import MemoryPage, RecallResult
from infinite_memory.models import Match, MemoryRecord, Scope, TimeRange


@dataclass(slots=True)
class Hit:
    """One memory in the results. ``match`` is None in a listing; ``text`` and ``excerpt`` are the displayed parts of it."""

    memory: MemoryRecord
    match: Match | None
    text: str
    excerpt: str
    explanation: Explanation | None = None
    is_cut: bool = False


@dataclass(slots=True)
class SearchResults:
    """Hits in order, the scopes that were searched, and notes about them.

    ``total`` counts all that match the filter, None if not counted. ``note`` is the search's own, ``wider_note`` says how much more,
    or less, than requested was searched. ``span`` is the time range that was searched.
    """

    hits: list[Hit]
    scopes: Sequence[Scope]
    total: int | None = None
    is_page: bool = False
    next_cursor: str | None = None
    note: str = ""
    wider_note: str = ""
    span: TimeRange | None = None

    @property
    def is_cut(self) -> bool:
        """Whether any text is truncated."""
        return any(hit.is_cut for hit in self.hits)


def make_ranked(result: RecallResult, total: int | None = None) -> SearchResults:
    """Return the results of a recall."""
    hits = [
        Hit(match.memory, match, match.memory.text, _excerpt(match), result.explanations.get(match.memory.memory_id))
        for match in result.matches
    ]
    return SearchResults(hits, result.scopes, total, note=result.note or "")


def make_page(page: MemoryPage) -> SearchResults:
    """Return the results of a listing."""
    hits = [Hit(memory, None, memory.text, "") for memory in page.memories]
    return SearchResults(hits, page.scopes, page.total, is_page=True, next_cursor=page.next_cursor, note=page.note)


def _excerpt(match: Match) -> str:
    return "" if match.window is None else match.memory.text[match.window.start : match.window.end]


def cap_texts(hits: Sequence[Hit], max_chars: int) -> None:
    """Truncate texts, the last results' first, so that texts and excerpts have at most *max_chars* characters in total.

    Truncated hits are marked. A text is reduced in favour of its excerpt, which contains the answer. Nothing is cut inside a grapheme.
    """
    remaining = max_chars
    for hit in hits:
        if len(hit.text) + len(hit.excerpt) > remaining:
            hit.excerpt = cut_text(hit.excerpt, remaining)
            hit.text = cut_text(hit.text, remaining - len(hit.excerpt))
            hit.is_cut = True
        remaining -= min(remaining, len(hit.text) + len(hit.excerpt))


def find_unread(call: CommandContext) -> str:
    """Return a note about parts of the request that look like a time but were not parsed; "" if there are none."""
    unread = ", ".join(f"'{phrase}'" for phrase in call.time_read.unread) if call.time_read else ""
    return f"not read as a time: {unread}" if unread else ""


def serialize_time_frame(call: CommandContext, span: TimeRange | None) -> Reply | None:
    """Serialize the time range that was searched, and the words it was parsed from; None if there was none."""
    read = call.time_read
    span = read.span if read else span
    if span is None:
        return None
    return serialize_range(span, call.session.zone) | ({"words": read.words} if read else {})


def serialize_results(call: CommandContext, results: SearchResults) -> Reply:
    """Serialize results and their notes, without the time (`add_time_frame`)."""
    names = serialize_names(results.scopes)
    reply: Reply = {"results": [_serialize_hit(call, hit) for hit in results.hits]}
    if results.is_page:
        reply |= {"total": results.total, "next_cursor": results.next_cursor}
    reply["scopes_searched"] = names
    if results.note:
        reply["note"] = results.note
    if results.total is not None:
        reply["total"] = results.total
    return add_note(reply, results.wider_note)


def add_time_frame(call: CommandContext, reply: Reply, span: TimeRange | None = None) -> Reply:
    """Add the time range that was searched, the words it was parsed from, and parts that look like a time but were not parsed."""
    frame = serialize_time_frame(call, span)
    return reply if frame is None else add_note(reply, find_unread(call)) | {"time_frame": frame}


def add_note(reply: Reply, note: str) -> Reply:
    """Append *note* to the reply's note."""
    notes = [text for text in (note, reply.get("note")) if text]
    return reply | ({"note": "; ".join(notes)} if notes else {})


def _serialize_hit(call: CommandContext, hit: Hit) -> Reply:
    written = (
        serialize_memory(call.engine, hit.memory) if hit.match is None else serialize_match(call.engine, hit.match)
    )
    reply: Reply = {}
    for name, value in written.items():
        reply[name] = value
        if name == "timestamp":  # followed by the date in words
            reply["when"] = format_relative(hit.memory.occurred_at, call.now(), call.session.zone)
    if hit.explanation is not None:
        reply["explain"] = serialize_explanation(hit.explanation)
    if hit.is_cut:
        reply["text"] = hit.text
        if "excerpt" in reply:
            reply["excerpt"] = hit.excerpt
        reply |= {"truncated": True, "text_chars": len(hit.memory.text)}
    return reply
