"""Documents set aside: written by another program or an earlier version, and unreadable as what they should be.

Readers call `SetAside.accepts`: an invalid document is skipped as if it were absent, and recorded by collection, id and fields. A later
read that finds it valid discards the record. Nothing is written: `repair` mends or removes such documents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import ObjectId

from infinite_memory.store.document_checks import DocumentFault, DocumentKind, check_document

MAX_NOTED = 100_000
"""Documents recorded by id; beyond that, only that there are more."""

MAX_ID_CHARS = 80

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetAsideDocument:
    """A document that is set aside. ``document_id`` is the stored ``_id``, of any type."""

    collection: str
    document_id: Any
    faults: tuple[DocumentFault, ...]

    @property
    def id_text(self) -> str:
        """The id for display: only what cannot be a user's text."""
        key = self.document_id
        if isinstance(key, ObjectId):
            return str(key)
        # `bson.Code` is a `str` to Python as well, but not one that can be a key there.
        if type(key) is str and len(key) <= MAX_ID_CHARS and key.isascii() and key.isprintable():
            return key
        return f"of type {type(key).__name__}"

    @property
    def is_of_known_id(self) -> bool:
        """True if the document keeps its id when repaired."""
        return isinstance(self.document_id, ObjectId) and self.collection != "scopes"

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the invalid fields."""
        return tuple(fault.field for fault in self.faults)


class SetAside:
    """The documents set aside so far. Used from one event loop.

    ``on_noted`` is called for a document that is newly set aside.
    """

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], SetAsideDocument] = {}
        self.on_noted: Callable[[SetAsideDocument], None] = lambda _: None
        self.is_complete = True

    def __len__(self) -> int:
        return len(self._documents)

    def documents(self, collection: str | None = None) -> list[SetAsideDocument]:
        """Return what is set aside, of one collection or of all, ordered by collection and id."""
        entries = [document for document in self._documents.values() if collection in (None, document.collection)]
        return sorted(entries, key=lambda entry: (entry.collection, entry.id_text))

    def ids(self, collection: str) -> list[Any]:
        """Return the ids of a collection's set-aside documents."""
        return [document.document_id for document in self._documents.values() if document.collection == collection]

    def but_these(self, collection: str) -> dict[str, Any]:
        """Return a query condition that excludes what is set aside; empty if there is nothing."""
        keys = self.ids(collection)
        return {"_id": {"$nin": keys}} if keys else {}

    def has(self, collection: str, document_id: Any) -> bool:
        """True if a document is set aside."""
        return (collection, repr(document_id)) in self._documents

    def accepts(self, kind: DocumentKind, collection: str, document: Mapping[str, Any]) -> bool:
        """True if a document can be read; one that cannot is recorded."""
        faults = check_document(kind, document, deep=False)
        if all(fault.is_harmless for fault in faults):
            if self._documents:
                self.discard(collection, document["_id"])
            return True
        self.record(collection, document.get("_id"), [fault for fault in faults if not fault.is_harmless])
        return False

    def sound(
        self, kind: DocumentKind, collection: str, documents: Iterable[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Return those of *documents* that can be read, and record the others."""
        return [document for document in documents if self.accepts(kind, collection, document)]

    def record(self, collection: str, document_id: Any, faults: Sequence[DocumentFault]) -> None:
        """Record a document that cannot be read."""
        key = (collection, repr(document_id))
        entry = SetAsideDocument(collection, document_id, tuple(faults))
        if self._documents.get(key) == entry:
            return
        is_new = key not in self._documents
        if is_new and len(self._documents) >= MAX_NOTED:
            self.is_complete = False
            return
        self._documents[key] = entry
        if is_new:
            log.warning(
                "document %s of %s is set aside: %s",
                entry.id_text, collection, "; ".join(map(str, faults)), extra={"event": "document_set_aside"},
            )  # fmt: skip
            self.on_noted(entry)

    def discard(self, collection: str, document_id: Any) -> None:
        """Discard a document's record: it is valid by now, or removed."""
        if self._documents.pop((collection, repr(document_id)), None) is not None:
            log.info("a document of %s is no longer set aside", collection, extra={"event": "document_accepted"})

    def discard_collection(self, collection: str) -> None:
        """Discard all records of a removed collection."""
        for key in [key for key in self._documents if key[0] == collection]:
            del self._documents[key]
