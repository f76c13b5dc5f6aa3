"""Memories and related data as JSON Lines: written by exports, read by imports.

Every field of a memory is included except its vectors, which are recomputed. Instants are RFC 3339, UTC, in milliseconds.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from infinite_memory.models import FIELDS, Fact, Link, MemoryRecord, Scope, get_details

Json = dict[str, Any]

EXPORT_FORMAT = "infinite-memory-export"
EXPORT_VERSION = 1

CR_NOTE = "carriage returns: as &#13;"
"""Stands with a memory in a Markdown export whose text has some."""

_RETURN = re.compile(r"&(?:amp;)*#13;")
_FORMULA = re.compile(
    r"'*[\t\r\n]"
    r"|['\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20\u2212]"
)
"""Characters at the start of a cell that a spreadsheet may read as a formula, also after characters that it skips, and in full width."""


def escape_returns(text: str) -> str:
    """Write carriage returns as character references, and those references that were in the text as text."""
    return _RETURN.sub(lambda match: f"&amp;{match[0][1:]}", text).replace("\r", "&#13;")


def unescape_returns(text: str) -> str:
    """Undo `escape_returns`."""
    return _RETURN.sub(lambda match: "\r" if match[0] == "&#13;" else f"&{match[0][5:]}", text)


def escape_cell(cell: str) -> str:
    """Prefix an apostrophe to what a spreadsheet may read as a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unescape_cell(cell: str) -> str:
    """Undo `escape_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def instant_to_text(instant: dt.datetime) -> str:
    """Write an instant in UTC: ``2023-07-20T15:30:45.123Z``."""
    return instant.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def header_to_json(exported_at: dt.datetime, version: str) -> Json:
    """Write the first line of an export."""
    return {
        "kind": "header",
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "exported_at": instant_to_text(exported_at),
        "product_version": version,
    }


def scope_to_json(scope: Scope) -> Json:
    """Write a scope."""
    return {
        "kind": "scope",
        "scope_id": scope.scope_id,
        "name": scope.name,
        "description": scope.description,
        "created_at": instant_to_text(scope.created_at),
        "archived_at": instant_to_text(scope.archived_at) if scope.archived_at else None,
    }


def memory_to_json(memory: MemoryRecord, scope_name: str) -> Json:
    """Write a memory; unset fields are omitted."""
    written: Json = {
        "kind": "memory",
        "memory_id": memory.memory_id,
        "scope": scope_name,
        "text": memory.text,
        "source": memory.source,
        "timestamp": instant_to_text(memory.occurred_at),
        "created_at": instant_to_text(memory.created_at),
        "updated_at": instant_to_text(memory.updated_at),
        "tags": list(memory.tags),
        "revision": memory.revision,
    }
    written |= {name: value for name, value in get_details(memory).items() if FIELDS[name].is_exported}
    if memory.structured is not None:
        written["structured"] = memory.structured
    if memory.owners:
        written["owners"] = dict(memory.owners)
    if memory.metadata:
        written["metadata"] = plain(memory.metadata)
    if memory.occurrences:
        written["occurrences"] = [instant_to_text(occurrence) for occurrence in memory.occurrences]
    if memory.deleted_at is not None:
        written["deleted_at"] = instant_to_text(memory.deleted_at)
        written |= {"pruned": True} if memory.is_pruned else {}
    return written


def revision_to_json(version: MemoryRecord, scope_name: str) -> Json:
    """Write an earlier version of a memory: all its fields of that time, with the memory's id and the version's number."""
    return memory_to_json(version, scope_name) | {"kind": "revision"}


def fact_to_json(fact: Fact, scope_name: str) -> Json:
    """Write a fact; without ``valid_to`` it is still valid."""
    written: Json = {
        "kind": "fact",
        "fact_id": fact.fact_id,
        "scope": scope_name,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "valid_from": instant_to_text(fact.valid_from),
        "confidence": fact.confidence,
    }
    if fact.valid_to is not None:
        written["valid_to"] = instant_to_text(fact.valid_to)
    return written | ({"provenance": fact.provenance} if fact.provenance is not None else {})


def link_to_json(link: Link, scope_name: str) -> Json:
    """Write a link; the scope is that of the memory in which it begins."""
    return {
        "kind": "link",
        "scope": scope_name,
        "from_id": link.from_id,
        "to_id": link.to_id,
        "relation": link.relation,
        "created_at": instant_to_text(link.created_at),
    }


def plain(value: Any) -> Any:
    """Convert stored values to JSON: instants and bytes become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dt.datetime):
        return instant_to_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
