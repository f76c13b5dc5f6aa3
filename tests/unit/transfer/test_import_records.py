"""What comes in from elsewhere is stored in the shape that every document has to have."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from bson import ObjectId

from infinite_memory.models import ScopeId
from infinite_memory.store.document_checks import DocumentKind, check_document
from infinite_memory.store.mongo.mapping import to_document
from infinite_memory.transfer.validation import make_id, to_record
from tests.import_files import FILES, memories, read_entries


@pytest.mark.parametrize("path", sorted(FILES.iterdir()), ids=lambda path: path.name)
def test_every_example_makes_documents_that_pass_every_check(path: Path) -> None:
    _, entries = read_entries(path)
    now = dt.datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=dt.UTC)
    for one in memories(entries):
        record = to_record(make_id(one), one, ScopeId(str(ObjectId())), now)
        assert check_document(DocumentKind.MEMORY, to_document(record)) == []
