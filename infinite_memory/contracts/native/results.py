"""What a recall or a listing found, as a value, and how the native contract writes it. The HTTP API writes the same value its own way."""

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
    """One memory among the results. ``match`` is None in a listing; ``text`` and ``excerpt`` are what is shown of it."""

    memory: MemoryRecord
    match: Match | None
    text: str
    excerpt: str
    explanation: Explanation | None = None
    is_cut: bool = False


@dataclass(slots=True)
class SearchResults:
    """Hits in order, the scopes that were searched, and what is to be said beside them.

    ``total`` counts all that pass the filter, None where nobody counted. ``note`` is the search's own, ``wider_note`` says how much more,
    or less, than asked for was searched. ``span`` is the stretch of time that was looked into.
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
        """Whether not all texts are shown whole."""
        return any(hit.is_cut for hit in self.hits)


def make_ranked(found: RecallResult, total: int | None = None) -> SearchResults:
    """Make results of a recall."""
    hits = [
        Hit(match.memory, match, match.memory.text, _excerpt(match), found.explanations.get(match.memory.memory_id))
        for match in found.matches
    ]
    return SearchResults(hits, found.scopes, total, note=found.note or "")


def make_page(page: MemoryPage) -> SearchResults:
    """Make results of a listing."""
    hits = [Hit(memory, None, memory.text, "") for memory in page.memories]
    return SearchResults(hits, page.scopes, page.total, is_page=True, next_cursor=page.next_cursor, note=page.note)


def _excerpt(match: Match) -> str:
    return "" if match.window is None else match.memory.text[match.window.start : match.window.end]


def cap_texts(hits: Sequence[Hit], most: int) -> None:
    """Cut texts, the worst results' first, so that texts and excerpts together keep to *most* characters; what was cut says so.

    A text that is cut gives way to its excerpt, which says where the answer is. Nothing is cut inside a letter with its marks.
    """
    remaining = most
    for hit in hits:
        if len(hit.text) + len(hit.excerpt) > remaining:
            hit.excerpt = cut_text(hit.excerpt, remaining)
            hit.text = cut_text(hit.text, remaining - len(hit.excerpt))
            hit.is_cut = True
        remaining -= min(remaining, len(hit.text) + len(hit.excerpt))


def find_unread(call: CommandContext) -> str:
    """Return a note on what looks like a time in the request's words and was not read as one; "" for nothing."""
    unread = ", ".join(f"'{part}'" for part in call.time_read.unread) if call.time_read else ""
    return f"not read as a time: {unread}" if unread else ""


def serialize_time_frame(call: CommandContext, span: TimeRange | None) -> Reply | None:
    """Write the stretch of time that was looked into, and the words that were read as it; None where there was none."""
    read = call.time_read
    span = read.span if read else span
    if span is None:
        return None
    return serialize_range(span, call.session.zone) | ({"words": read.words} if read else {})


def serialize_results(call: CommandContext, results: SearchResults) -> Reply:
    """Write results and what is to be said of them, but for the time (`add_time_frame`)."""
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
    """Add the stretch of time that was looked into, the words that were read as it, and what looks like a time and was not read."""
    frame = serialize_time_frame(call, span)
    return reply if frame is None else add_note(reply, find_unread(call)) | {"time_frame": frame}


def add_note(reply: Reply, note: str) -> Reply:
    """Add *note* to what the reply says already."""
    notes = [text for text in (note, reply.get("note")) if text]
    return reply | ({"note": "; ".join(notes)} if notes else {})


def _serialize_hit(call: CommandContext, hit: Hit) -> Reply:
    written = (
        serialize_memory(call.engine, hit.memory) if hit.match is None else serialize_match(call.engine, hit.match)
    )
    reply: Reply = {}
    for name, value in written.items():
        reply[name] = value
        if name == "timestamp":  # the date in words beside it
            reply["when"] = format_relative(hit.memory.occurred_at, call.now(), call.session.zone)
    if hit.explanation is not None:
        reply["explain"] = serialize_explanation(hit.explanation)
    if hit.is_cut:
        reply["text"] = hit.text
        if "excerpt" in reply:
            reply["excerpt"] = hit.excerpt
        reply |= {"truncated": True, "text_chars": len(hit.memory.text)}
    return reply
