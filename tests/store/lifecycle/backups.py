"""Backups that are written document by document, for tests of what one may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import bson
from bson import ObjectId

from infinite_memory.backup.archive import BackupWriter
from infinite_memory.backup.archive_format import Part
from infinite_memory.store.document_fields import DocumentKind
from tests.documents import AT, sound_document

Document = dict[str, Any]

HEAD: Mapping[str, Any] = {
    "product": "infinite-memory", "product_version": "0.1.0", "created_at": "2026-03-14T15:09:26.535Z", "schema_version": 1,
    "consistent": True, "database": "another", "reason": "asked",
}  # fmt: skip
COLLECTIONS = {
    DocumentKind.REVISION: "revisions", DocumentKind.FACT: "facts", DocumentKind.LINK: "links", DocumentKind.USE: "uses",
    DocumentKind.AGENT: "agents", DocumentKind.META: "meta",
}  # fmt: skip


def write_backup(file: Path, collections: Mapping[str, Sequence[Document | bytes]], **head: Any) -> Path:
    """Write a backup that holds these documents."""
    with file.open("wb") as opened:
        writer = BackupWriter(opened, {**HEAD, **head})
        for name, documents in collections.items():
            raws = [document if isinstance(document, bytes) else bson.encode(document) for document in documents]
            writer.add(Part(name, len(raws), b"".join(raws)))
        writer.finish({})
    return file


def sound_scope(name: str = "Work") -> Document:
    """Build a scope."""
    return {
        "_id": ObjectId(), "name": name, "name_key": name.casefold(), "description": "d", "created_at": AT,
        "archived_at": None,
    }  # fmt: skip


def sound_collections(scope: Document | None = None, **changed: Document) -> dict[str, list[Document]]:
    """Build what a sound backup holds: a document of every kind; those in *changed*, by kind, stand in the place of ours."""
    scope = scope or sound_scope()
    documents = {kind: sound_document(kind, scope["_id"]) for kind in (DocumentKind.MEMORY, *COLLECTIONS)}
    for name, document in changed.items():
        documents[DocumentKind(name)] = document
    return {
        "scopes": [scope],
        f"mem_{scope['_id']}": [documents.pop(DocumentKind.MEMORY)],
        **{COLLECTIONS[kind]: [document] for kind, document in documents.items()},
    }
