"""The schemas of the API's replies, for the OpenAPI document. Replies may have further fields."""

from __future__ import annotations

from infinite_memory.contracts.fields import Json
from infinite_memory.transports.http.api.serializers import OWNERS

_TEXT: Json = {"type": "string"}
_MAYBE: Json = {"type": ["string", "null"]}
_COUNT: Json = {"type": "integer"}
_NUMBER: Json = {"type": "number"}
_FLAG: Json = {"type": "boolean"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_OBJECT: Json = {"type": "object"}
_INSTANT: Json = {"type": "string", "format": "date-time"}


def _list_of(name: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _form(required: Json, optional: Json | None = None) -> Json:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


_MEMORY: Json = {
    "memory_id": _TEXT,
    "content": _TEXT,
    "scope": _MAYBE,
    "tags": _TEXTS,
    "timestamp": _INSTANT,
    "source": _MAYBE,
    "title": _MAYBE,
    "speaker": _MAYBE,
    "conversation_id": _MAYBE,
    "importance": {"type": ["number", "null"]},
    "metadata": _OBJECT,
    **dict.fromkeys(OWNERS, _MAYBE),
    "memory_type": _MAYBE,
}
_AT_WHICH: Json = {"created_at": _INSTANT, "updated_at": _INSTANT, "revision": _COUNT}
_MORE: Json = {
    "confidence": _NUMBER,
    "when": _TEXT,
    "excerpt": _TEXT,
    "count": _COUNT,
    "also_at": {"type": "array", "items": _INSTANT},
    "occurrences": {"type": "array", "items": _INSTANT},
    "truncated": _FLAG,
    "text_chars": _COUNT,
}
_WARNED: Json = {"warnings": _TEXTS}
_DONE: Json = {
    "note": _TEXT,
    "importance_score": _NUMBER,
    "facts": _TEXTS,
    "superseded": _TEXTS,
    "superseded_by": _TEXT,
    "generated": _FLAG,
    "model_error": _TEXT,
    **_WARNED,
}
_TOLD: Json = {"note": _TEXT, "time_frame": _OBJECT, "truncated": _FLAG, **_WARNED}
_PAGE: Json = {"total": _COUNT, "next_cursor": _MAYBE, "scopes_searched": _TEXTS}
_AGENT: Json = {
    "agent_id": _TEXT, "name": _TEXT, "description": _TEXT, "created_at": _INSTANT, "memory_count": _COUNT, "status": _TEXT,
}  # fmt: skip
_BACKUP: Json = {"backup_file": _TEXT, "size_bytes": _COUNT, "created_at": _MAYBE, "encrypted": _FLAG}

SCHEMAS: Json = {
    "Memory": _form(_MEMORY, {**_AT_WHICH, **_MORE, **_WARNED}),
    "StoredMemory": _form({**_MEMORY, **_AT_WHICH, "outcome": _TEXT}, {**_MORE, **_DONE}),
    "MovedMemory": _form({**_MEMORY, **_AT_WHICH, "outcome": _TEXT, "former_scope": _TEXT}, {**_MORE, "note": _TEXT, **_WARNED}),
    "MemoryList": _form({"memories": _list_of("Memory"), **_PAGE}, _TOLD),
    "SearchResults": _form({"results": _list_of("Memory"), **_PAGE}, _TOLD),
    "History": _form({"memory": {"$ref": "#/components/schemas/Memory"}, "revisions": _list_of("Memory")},
                     {"older_revisions": _COUNT, "note": _TEXT, **_WARNED}),
    "Forgotten": _form(
        {"deleted_count": _COUNT, "memory_ids": _TEXTS, "forget_mode": _TEXT},
        {"dry_run": _FLAG, "would_delete": _COUNT, "note": _TEXT, **_WARNED,
         "memories": {"type": "array", "items": _form({"memory_id": _TEXT, "content": _TEXT})}},
    ),
    "ChatAnswer": _form(
        {"response": _TEXT, "generated": _FLAG, "context_length": _COUNT, "response_time_ms": _COUNT,
         "memories_used": {"type": "array", "items": _form({"memory_id": _TEXT, "content": _TEXT, "relevance": _NUMBER})}},
        {"model": _TEXT, "note": _TEXT, "model_error": _TEXT, **_WARNED},
    ),
    "SystemPrompt": _form(
        {"system_prompt": _TEXT, "user_id": _TEXT, "context": _OBJECT, "timestamp": _INSTANT, "generated": _FLAG}, _WARNED
    ),
    "Agent": _form(_AGENT, _WARNED),
    "AgentList": _form({"agents": _list_of("Agent"), "total": _COUNT}, _WARNED),
    "ScopeList": _form(
        {"scopes": {"type": "array", "items": _form(
            {"scope_name": _TEXT, "description": _TEXT, "created_at": _INSTANT, "scope_id": _TEXT})}},
        _WARNED,
    ),
    "CreatedScope": _form({"scope_id": _TEXT, "scope_name": _TEXT, "outcome": _TEXT}, _WARNED),
    "Stats": _form({"stats": _form({"total_memories": _COUNT, "scopes": _OBJECT, "conversation_count": _COUNT})}, _WARNED),
    "Backup": _form(_BACKUP, {"path": _TEXT, "checksum": _TEXT, "counts": _OBJECT, "reason": _MAYBE, "fault": _TEXT,
                              "note": _TEXT, "removed": _TEXTS, **_WARNED}),
    "BackupList": _form({"backups": _list_of("Backup"), "folder": _TEXT}, _WARNED),
    "Health": _form({"status": {"enum": ["ok", "failing"]}, "checks": {"type": "object", "additionalProperties": _TEXT}}),
    "Error": _form({
        "success": {"const": False},
        "error": _form({"code": _TEXT, "message": _TEXT, "field": _MAYBE, "details": _OBJECT}),
    }),
}  # fmt: skip

ERRORS: dict[int, str] = {
    400: "A field is wrong; `field` names it",
    401: "No token, or one that is unknown, revoked or expired",
    403: "The token may not do this, or a foreign web page asks",
    404: "There is none, or none that the token may see",
    405: "There is no such method here",
    408: "The body took too long to arrive",
    409: "It is there already, or its scope is archived",
    413: "The body is too large",
    415: "The body is no JSON",
    421: "The Host header names another host",
    429: "Too many requests; `Retry-After` says when to come again",
    500: "A fault of ours; the log has the details",
    503: "Database, model or index cannot be used at the moment",
}
"""Error responses of every route."""
