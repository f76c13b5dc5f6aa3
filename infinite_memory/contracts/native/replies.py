"""How the engine's values look in replies of the native contract. Instants: RFC 3339, UTC, milliseconds, Z."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine import Engine
from infinite_memory.models import Match, MemoryRecord, Scope, TimeRange

_JOINERS = frozenset("\u200d\ufe0f")  # hold an emoji of several characters together


def range_out(span: TimeRange, zone: ZoneInfo) -> Json:
    """Write a half-open range with the offsets of *zone*; an open end is null."""

    def end(instant: dt.datetime | None) -> str | None:
        return None if instant is None else instant.astimezone(zone).isoformat(timespec="milliseconds")

    return {"from": end(span.start), "to": end(span.end), "timezone": zone.key}


def memory_out(engine: Engine, memory: MemoryRecord) -> Json:
    """Write a memory as every reply shows it; what was not given when it was stored is left out."""
    scope = engine.parts.scopes.find_by_id(memory.scope_id)
    reply: Json = {
        "text": memory.text,
        "source": memory.source,
        "timestamp": instant_out(memory.occurred_at),
        "scope": scope.name if scope else None,
        "tags": list(memory.tags),
        "memory_id": memory.memory_id,
    }
    for name in ("title", "speaker", "conversation_id", "importance"):
        if (value := getattr(memory, name)) is not None:
            reply[name] = value
    if memory.metadata:
        reply["metadata"] = dict(memory.metadata)
    if memory.owners:  # of another contract's, or over HTTP: whose it is, and of which type
        reply["owners"] = dict(memory.owners)
        if memory.type is not None:
            reply["type"] = memory.type
    if len(memory.occurrences) > 1:
        reply["occurrences"] = [instant_out(one) for one in memory.occurrences]
    return reply


def match_out(engine: Engine, match: Match) -> Json:
    """Write a hit: the memory, its confidence, the stretch that matched and the times of equal texts."""
    reply = memory_out(engine, match.memory) | {"confidence": match.confidence}
    if match.window is not None:
        reply["excerpt"] = match.memory.text[match.window.start : match.window.end]
    if match.repeated_at:
        reply["count"] = 1 + len(match.repeated_at)
        reply["also_at"] = [instant_out(one) for one in match.repeated_at]
    return reply


def cut_text(text: str, most: int) -> str:
    """Cut *text* to at most *most* characters, at the end of a letter with all its marks; what was cut shows an ellipsis."""
    if len(text) <= most:
        return text
    end = max(0, most - 1)
    while end > 0 and (unicodedata.category(text[end]).startswith("M") or _JOINERS & {text[end], text[end - 1]}):
        end -= 1
    return text[:end].rstrip() + "…" if most > 0 else ""


def names_out(scopes: Sequence[Scope]) -> list[str]:
    """List the names of scopes."""
    return [scope.name for scope in scopes]


def scope_out(scope: Scope) -> Json:
    """Write a scope."""
    reply: Json = {
        "scope_name": scope.name,
        "description": scope.description,
        "created_at": instant_out(scope.created_at),
        "scope_id": scope.scope_id,
    }
    if scope.archived_at is not None:
        reply["archived_at"] = instant_out(scope.archived_at)
    return reply
