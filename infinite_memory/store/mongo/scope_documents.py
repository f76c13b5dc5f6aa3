"""Which documents of ``scopes`` are read as scopes: valid ones, the older of two with one name, and Global in any case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infinite_memory.models import fold
from infinite_memory.store.document_checks import DocumentFault, check_document
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo.document_mending import mend_document

GLOBAL_NAME = "Global"

Document = dict[str, Any]

TAKEN = DocumentFault("name", "a name that no older scope has", is_mendable=True)


def readable_scopes(scopes: Sequence[Document]) -> tuple[list[Document], list[tuple[Document, list[DocumentFault]]]]:
    """Split documents into those that are read as scopes and those that are set aside, with their faults.

    An invalid document of Global is in both, repaired in the first: Global always exists.

    Args:
        scopes: Older ones first.
    """
    by_name: dict[str, Document] = {}
    unsound: list[tuple[Document, list[DocumentFault]]] = []
    for scope in scopes:
        faults = [fault for fault in check_document(DocumentKind.SCOPE, scope, deep=False) if not fault.is_harmless]
        if not faults and fold(scope["name"]) in by_name:
            faults = [TAKEN]
        if faults:
            unsound.append((scope, faults))
        else:
            by_name[fold(scope["name"])] = scope
    if fold(GLOBAL_NAME) not in by_name and (mended := mended_global([scope for scope, _ in unsound])) is not None:
        by_name[fold(GLOBAL_NAME)] = mended
    return list(by_name.values()), unsound


def mended_global(scopes: Sequence[Document]) -> Document | None:
    """Return the scope Global as repaired from its own document; None if there is none."""
    key = fold(GLOBAL_NAME)
    for scope in scopes:
        name: Any = scope.get("name")
        is_named = isinstance(name, str) and fold(name) == key
        if is_named or scope.get("name_key") == key:
            mended = mend_document(DocumentKind.SCOPE, scope if is_named else scope | {"name": GLOBAL_NAME})
            if mended is not None:
                return mended
    return None
