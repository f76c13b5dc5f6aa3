"""The description of stored documents: what 0.1.0 wrote passes, what nobody can read does not, what can be mended is."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import os
from pathlib import Path
from typing import Any

import bson
import numpy as np
import pytest
from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infinite_memory.models import Embedding, MemoryId, MemoryRecord, ScopeId, Window
from infinite_memory.store.document_checks import CHECKED_CODEC, check_document, is_readable, kind_of_collection
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo.document_mending import mend_document
from infinite_memory.store.mongo.mapping import from_document, to_document
from tests.documents import AT, MISSING, Spoiling, sound_document, sound_memory, spoilings

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
COLLECTIONS = Path(__file__).resolve().parents[2] / "data" / "compat" / "0.1.0" / "collections"


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as it is read again from MongoDB."""
    raw = bson.encode(document)
    return bson.decode(raw, CHECKED_CODEC)


@pytest.mark.parametrize("file", sorted(COLLECTIONS.glob("*.bson.gz")), ids=lambda file: file.name)
def test_what_the_first_version_wrote_passes(file: Path) -> None:
    kind = kind_of_collection(file.name.removesuffix(".bson.gz"))
    assert kind is not None
    for document in bson.decode_all(gzip.decompress(file.read_bytes()), CHECKED_CODEC):
        assert check_document(kind, document) == []


@pytest.mark.parametrize("kind", DocumentKind)
def test_a_sound_document_of_every_kind_passes(kind: DocumentKind) -> None:
    assert check_document(kind, stored(sound_document(kind, ObjectId()))) == []


def test_what_is_large_and_legal_passes() -> None:
    windows = tuple(Window(start, start + 1000) for start in range(0, 900_000, 900))
    vectors = np.zeros((len(windows), 384), np.float32)
    deep: Any = 1
    for _ in range(63):
        deep = [deep]
    memory = MemoryRecord(
        MemoryId("f" * 24),
        ScopeId("a" * 24),
        "日" * 300_000,
        "s",
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        AT,
        dt.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
        tags=tuple(f"tag {number}" for number in range(5000)),
        importance=10,
        confidence=1,
        metadata={"%.$\0": deep, "": "", "big": 2**63 - 1},
        structured=[None, {"a": -(2**63)}],
        occurrences=(AT,) * 10_000,
        content_hash="",
        revision=2**40,
        embedding=Embedding("m", windows, vectors),
    )
    assert check_document(DocumentKind.MEMORY, stored(to_document(memory))) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", MISSING),
        ("text", 5),
        ("revision", "3"),
        ("revision", 0),
        ("revision", Int64(2**63 - 1)),
        ("tags", [1, 2]),
        ("tags", ["x"] * 70_000),
        ("importance", float("nan")),
        ("importance", "8"),
        ("created_at", DatetimeMS(2**60)),
        ("occurred_at", "2026-01-01"),
        ("_id", "5"),
        ("live", "yes"),
        ("owners", {"user_id": 5}),
        ("metadata", {"a": float("inf")}),
        ("metadata", []),
        ("deleted_at", AT),
    ],
)
def test_a_memory_of_the_wrong_shape_is_told_by_its_field(field: str, value: Any) -> None:
    document = Spoiling(DocumentKind.MEMORY, (field,), value).apply(sound_memory()) if value is MISSING else (
        sound_memory() | {field: value}
    )  # fmt: skip
    faults = check_document(DocumentKind.MEMORY, stored(document), deep=False)
    expected = {"deleted_at": "live", "tags": "tags[0]" if value == [1, 2] else "tags"}.get(field, field)
    assert [fault.field for fault in faults] == [expected]


def test_a_text_that_is_no_utf8_is_told() -> None:
    raw = bson.encode(sound_memory(text="xxxx")).replace(b"xxxx\0", b"x\xff\xfex\0")
    faults = check_document(DocumentKind.MEMORY, bson.decode(raw, CHECKED_CODEC))
    assert [fault.field for fault in faults] == ["text"]


@pytest.mark.parametrize("vectors", [b"abc", b"", np.full(768, np.nan, "<f4").tobytes()])
def test_a_broken_embedding_is_harmless_and_dropped(vectors: bytes) -> None:
    document = sound_memory()
    document["embedding"]["vectors"] = vectors
    [fault] = check_document(DocumentKind.MEMORY, document)
    assert (fault.field, fault.is_harmless, fault.is_mendable) == ("embedding", True, True)
    mended = mend_document(DocumentKind.MEMORY, document)
    assert mended is not None
    assert "embedding" not in mended


def test_keys_and_dates_are_mended_from_what_is_there() -> None:
    document = sound_memory()
    for field in ("tag_keys", "content_hash", "live", "updated_at"):
        del document[field]
    document |= {"source": 5, "importance": "8.5", "metadata": {"at": AT, "n": float("nan")}}
    mended = mend_document(DocumentKind.MEMORY, document)
    assert mended is not None
    sound = sound_memory()
    assert {name: mended[name] for name in ("tag_keys", "content_hash", "live", "updated_at", "importance")} == {
        name: sound[name] for name in ("tag_keys", "content_hash", "live", "updated_at", "importance")
    }
    assert mended["metadata"] == {"at": "2026-03-14T15:09:26.535Z", "n": None}


def test_what_is_hidden_in_doubt_stays_hidden() -> None:
    for change in ({"live": False}, {"live": True, "deleted_at": AT}, {"live": "x", "deleted_at": "x"}):
        mended = mend_document(DocumentKind.MEMORY, sound_memory() | change)
        assert mended is not None
        assert mended["live"] is False
        assert mended["deleted_at"] == AT


def test_a_memory_without_its_text_cannot_be_mended() -> None:
    document = sound_memory()
    del document["text"]
    assert mend_document(DocumentKind.MEMORY, document) is None


def test_a_scope_without_name_and_description_is_mended() -> None:
    key = ObjectId()
    mended = mend_document(DocumentKind.SCOPE, {"_id": key, "name": None})
    assert mended is not None
    assert mended["name"] == f"recovered {key}"
    assert check_document(DocumentKind.SCOPE, mended) == []


@settings(max_examples=2000 if LONG else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(DocumentKind).flatmap(spoilings))
def test_whatever_becomes_of_a_field_the_check_tells_or_it_can_be_read(spoiling: Spoiling) -> None:
    """Neither the check nor the mending ever raises, no fault holds a value, and what passes can be read."""
    document = stored(spoiling.apply(sound_document(spoiling.kind, ObjectId())))
    faults = check_document(spoiling.kind, document)
    assert all("Ada drinks tea" not in str(fault) for fault in faults)
    if faults and all(fault.is_mendable for fault in faults):
        mended = mend_document(spoiling.kind, document)
        if spoiling.kind in (DocumentKind.MEMORY, DocumentKind.SCOPE, DocumentKind.FACT, DocumentKind.LINK):
            assert mended is not None
    if spoiling.kind is DocumentKind.MEMORY and is_readable(spoiling.kind, document):
        memory = from_document(document, ScopeId("a" * 24))
        again = to_document(dataclasses.replace(memory, revision=memory.revision + 1))
        assert check_document(spoiling.kind, stored(again), deep=False) == []
