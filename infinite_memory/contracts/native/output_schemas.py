"""The JSON Schema of each command's reply: the output schemas of the MCP tools.

Short on purpose: every tool uses some of a client's context. Replies may have further fields.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_MAYBE: Json = {"type": ["string", "null"]}
_COUNT: Json = {"type": "integer"}
_FLAG: Json = {"type": "boolean"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_OBJECT: Json = {"type": "object"}
_OBJECTS: Json = {"type": "array", "items": _OBJECT}
_MEMORY: Json = {
    "text": _TEXT,
    "memory_id": _TEXT,
    "scope": _MAYBE,
    "timestamp": _TEXT,
    "tags": _TEXTS,
    "source": _MAYBE,
}
_MEMORIES: Json = {"type": "array", "items": {"type": "object", "properties": _MEMORY}}
_MATCHES: Json = {
    "type": "array",
    "items": {"type": "object", "properties": {**_MEMORY, "confidence": {"type": "number"}}},
}
_LISTED: Json = {"results": _MATCHES, "total": _COUNT, "next_cursor": _MAYBE, "scopes_searched": _TEXTS}
_SPAN: Json = {"type": "object", "properties": {"from": _MAYBE, "to": _MAYBE, "timezone": _TEXT, "words": _TEXT}}
_KEPT: Json = {"memory_id": _TEXT, "scope": _TEXT, "outcome": _TEXT}
_BACKUP: Json = {"backup_file": _TEXT, "path": _TEXT, "size_bytes": _COUNT, "counts": _OBJECT, "note": _TEXT}

_RESULTS: dict[str, Json] = {
    "store_memory": _KEPT,
    "store_memories": {"stored": _COUNT, "failed": _COUNT, "results": _OBJECTS},
    "update_memory": {**_KEPT, "revision": _COUNT},
    "get_memory": {
        "memory": {"type": "object", "properties": _MEMORY},
        "revisions": _MEMORIES,
        "older_revisions": _COUNT,
        "note": _TEXT,
    },
    "retrieve_memory": {"results": _MATCHES, "scopes_searched": _TEXTS},
    "search_by_tag": _LISTED,
    "search_by_scope": _LISTED,
    "list_memories": _LISTED,
    "recall_memory_by_time": {**_LISTED, "time_frame": _SPAN},
    "delete_memory": {
        "deleted_count": _COUNT,
        "memory_ids": _TEXTS,
        "forget_mode": _TEXT,
        "scope": _TEXT,
        "note": _TEXT,
    },
    "restore_memory": {"memory_id": _TEXT, "scope": _TEXT, "outcome": _TEXT},
    "create_memory_scope": {"scope_id": _TEXT, "scope_name": _TEXT, "outcome": _TEXT},
    "list_memory_scopes": {"scopes": _OBJECTS},
    "change_memory_scope": {"scope_id": _TEXT, "scope_name": _TEXT, "description": _TEXT, "outcome": _TEXT},
    "merge_memory_scopes": {
        "scope": _TEXT,
        "into": _TEXT,
        "moved": _COUNT,
        "dry_run": _FLAG,
        "would_move": _COUNT,
    },
    "set_active_scope": {"scope": _TEXT, "outcome": _TEXT},
    "get_memory_stats": {"stats": _OBJECT},
    "optimize_memory": {"operations": _TEXTS, "counts": _OBJECT, "dry_run": _FLAG},
    "backup_memory": _BACKUP,
    "list_backups": {"backups": _OBJECTS, "folder": _TEXT},
    "verify_backup": {"whole": _FLAG, **_BACKUP},
    "restore_backup": {
        "backup_file": _TEXT,
        "mode": _TEXT,
        "restored_memories": _COUNT,
        "restored_scopes": _COUNT,
        "skipped_memories": _COUNT,
        "saved_before": _TEXT,
        "dry_run": _FLAG,
    },
    "export_memory": {"export_file": _TEXT, "path": _TEXT},
    "import_memory": {"format": _TEXT, "added": _COUNT, "present": _COUNT, "skipped": _COUNT, "note": _TEXT},
    "reindex": {"count": _COUNT},
    "health_check": {"healthy": _FLAG, "checks": _OBJECT, "set_aside": _OBJECTS},
    "ping": {"pong": _FLAG, "version": _TEXT},
    "help": {"commands": _OBJECTS},
}


def result_schema(name: str) -> Json:
    """Return the schema of a command's reply."""
    properties = {"status": {"enum": ["OK", "ERROR"]}, **_RESULTS[name]}
    return {"type": "object", "properties": properties, "required": ["status"]}
