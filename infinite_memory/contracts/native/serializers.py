"""Serialization of the engine's values for the native contract. Instants: RFC 3339, UTC, milliseconds, Z."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from infinite_memory.contracts.field_types import NamedRange
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.timestamps import format_instant, on_clock
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.explanation import Explanation, Reason, Standing
from infinite_memory.models import Match, MemoryRecord, Scope, TimeRange

_JOINERS = frozenset("\u200d\ufe0f")  # join an emoji of several characters


def serialize_range(span: TimeRange, zone: ZoneInfo) -> Json:
    """Serialize a range with the offsets of *zone*: half-open, but an inclusive last instant is returned unchanged; an open end is null."""

    def end(instant: dt.datetime | None) -> str | None:
        if instant is None:
            return None
        local = on_clock(instant, zone)
        if local.strftime("%z")[5:]:  # local mean time, as before 1900, whose offset RFC 3339 cannot express
            return format_instant(instant)
        return local.isoformat(timespec="milliseconds")

    last = span.last if isinstance(span, NamedRange) else span.end
    return {"from": end(span.start), "to": end(last), "timezone": zone.key}


def serialize_memory(engine: Engine, memory: MemoryRecord) -> Json:
    """Serialize a memory as in every reply; fields not given when it was stored are omitted."""
    scope = engine.scopes.find_by_id(memory.scope_id)
    reply: Json = {
        "text": memory.text,
        "source": memory.source,
        "timestamp": format_instant(memory.occurred_at),
        "scope": scope.name if scope else None,
        "tags": list(memory.tags),
        "memory_id": memory.memory_id,
    }
    for name in ("title", "speaker", "conversation_id", "importance"):
        if (value := getattr(memory, name)) is not None:
            reply[name] = value
    if memory.metadata:
        reply["metadata"] = dict(memory.metadata)
    if memory.owners:  # of another contract, or over HTTP: its owners and its type
        reply["owners"] = dict(memory.owners)
        if memory.type is not None:
            reply["type"] = memory.type
    if memory.deleted_at is not None:
        reply["forgotten_at"] = format_instant(memory.deleted_at)
    if len(memory.occurrences) > 1:
        reply["occurrences"] = [format_instant(occurrence) for occurrence in memory.occurrences]
    return reply


def serialize_match(engine: Engine, match: Match) -> Json:
    """Serialize a hit: the memory, its confidence, the passage that matched and the times of equal texts."""
    reply = serialize_memory(engine, match.memory) | {"confidence": match.confidence}
    if match.window is not None:
        reply["excerpt"] = match.memory.text[match.window.start : match.window.end]
    if match.repeated_at:
        reply["count"] = 1 + len(match.repeated_at)
        reply["also_at"] = [format_instant(instant) for instant in match.repeated_at]
    return reply


def serialize_explanation(explanation: Explanation) -> Json:
    """Serialize the parts of a score; ``meaning``, ``words``, ``tag``, ``exact_phrase`` and ``conversation`` add up to ``score``."""
    parts = explanation.parts
    reply: Json = {
        "score": parts.total,
        "meaning": round(parts.meaning, 9),
        "words": round(parts.words, 9),
        "by_word": {word: round(score, 9) for word, score in explanation.by_word.items()},
        "tag": parts.tag,
        "exact_phrase": parts.exact_phrase,
        "conversation": round(parts.conversation, 9),
        "rank": explanation.rank,
    }
    if explanation.cosine is not None:
        reply["cosine"] = round(explanation.cosine, 6)
    if explanation.rerank_score is not None:
        reply["rerank_score"] = round(float(explanation.rerank_score), 6)
    return reply


_REASONS = {
    Reason.SHOWN: "it is among the results",
    Reason.UNKNOWN: "no memory has this id, or it was permanently removed",
    Reason.DELETED: "it was forgotten; restore_memory brings it back",
    Reason.ARCHIVED: "its scope is archived",
    Reason.FILTER: "the filter leaves it out: {failed}",
    Reason.NOT_EMBEDDED: "it is not embedded yet, so it is not found by meaning",
    Reason.NO_WORD: "it has none of the words that were asked for",
    Reason.SAME_TEXT: "a memory that says the same was shown in its place: {above}",
    Reason.CONFIDENCE: "its confidence is {confidence}, below min_confidence",
    Reason.RANK: "others stand above it: it is number {rank}",
}


def serialize_standing(standing: Standing, memory_id: str) -> Json:
    """Serialize why a memory is, or is not, in the results."""
    rank = standing.explanation.rank if standing.explanation else None
    message = _REASONS[standing.reason].format(
        failed=", ".join(standing.failed), above=", ".join(standing.above), confidence=standing.confidence, rank=rank
    )
    if standing.is_embedded is False and standing.reason is Reason.RANK:
        message += "; it is not embedded yet, and found by its words alone"
    reply: Json = {"memory_id": memory_id, "reason": standing.reason.value, "says": message}
    if standing.failed:
        reply["filter"] = list(standing.failed)
    if standing.above:
        reply["above"] = list(standing.above)
    if standing.is_embedded is not None:
        reply["embedded"] = standing.is_embedded
    if standing.explanation is not None:
        reply["explain"] = serialize_explanation(standing.explanation)
    return reply


def cut_text(text: str, max_chars: int) -> str:
    """Truncate *text* to at most *max_chars* characters, between graphemes; a truncated text ends with an ellipsis."""
    if len(text) <= max_chars:
        return text
    end = max(0, max_chars - 1)
    while end > 0 and (unicodedata.category(text[end]).startswith("M") or _JOINERS & {text[end], text[end - 1]}):
        end -= 1
    return text[:end].rstrip() + "…" if max_chars > 0 else ""


def serialize_names(scopes: Sequence[Scope]) -> list[str]:
    """Return the names of scopes."""
    return [scope.name for scope in scopes]


def serialize_scope(scope: Scope) -> Json:
    """Serialize a scope."""
    reply: Json = {
        "scope_name": scope.name,
        "description": scope.description,
        "created_at": format_instant(scope.created_at),
        "scope_id": scope.scope_id,
    }
    if scope.archived_at is not None:
        reply["archived_at"] = format_instant(scope.archived_at)
    return reply
