"""Memories as documents: keys and numbers that MongoDB would read or cut come back as they were."""

from __future__ import annotations

import datetime as dt

import bson
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import Embedding, MemoryId, MemoryRecord, ScopeId, Window
from infinite_memory.store.mongo.mapping import (
    decode_value,
    embedding_from_document,
    embedding_to_document,
    encode_value,
    escape_key,
    from_document,
    object_id,
    to_document,
    unescape_key,
)

NOW = dt.datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats(allow_nan=False) | TEXTS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def make_memory(**fields: object) -> MemoryRecord:
    memory_id, scope_id = MemoryId("a" * 24), ScopeId("b" * 24)
    return MemoryRecord(memory_id, scope_id, "tea", "conversation", NOW, NOW, NOW, **fields)  # type: ignore[arg-type]


@given(JSON)
def test_any_json_value_comes_back_through_bson(value: object) -> None:
    document = bson.decode(bson.encode({"value": encode_value(value, "metadata")}))
    assert decode_value(document["value"]) == value


@given(TEXTS)
def test_an_escaped_key_holds_nothing_that_mongodb_reads(key: str) -> None:
    escaped = escape_key(key)
    assert not set(escaped) & {".", "$", "\0"}
    assert unescape_key(escaped) == key


@pytest.mark.parametrize("key", ["%00", "%2500", "%25", "a.b", "$ne", "", "%", "%2"])
def test_a_key_that_looks_escaped_comes_back(key: str) -> None:
    assert unescape_key(escape_key(key)) == key


def test_numbers_keep_their_kind() -> None:
    value = {"int": 1, "long": 2**40, "float": 1.0, "flag": True}
    found = decode_value(bson.decode(bson.encode(encode_value(value, "metadata"))))
    assert [type(one) for one in found.values()] == [int, int, float, bool]


@pytest.mark.parametrize(
    ("value", "problem"),
    [({"a": [0, -(2**63) - 1]}, r"metadata\.a\[1\]"), ({"a": {1, 2}}, r"metadata\.a"), ({"a": object()}, "kept")],
)
def test_what_cannot_be_kept_is_refused_by_its_path(value: object, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        encode_value(value, "metadata")


def test_instants_are_cut_to_milliseconds_in_utc() -> None:
    found = from_document(to_document(make_memory()), ScopeId("b" * 24))
    assert found.occurred_at == dt.datetime(2026, 3, 14, 9, 39, 26, 535000, tzinfo=dt.UTC)


def test_a_plain_memory_stores_no_empty_fields() -> None:
    document = to_document(make_memory())
    assert not {"title", "metadata", "deleted_at", "embedding", "owners"} & document.keys()
    assert document["live"] is True


def test_vectors_are_kept_as_little_endian_float32() -> None:
    rows = np.array([[0.6, 0.8], [1, 0]], dtype=">f4")
    document = embedding_to_document(Embedding("space", (Window(0, 5), Window(3, 9)), rows))
    assert bytes(document["vectors"]) == rows.astype("<f4").tobytes()
    found = embedding_from_document(bson.decode(bson.encode(document)))
    assert (found.space, found.windows) == ("space", (Window(0, 5), Window(3, 9)))
    np.testing.assert_array_equal(found.vectors, rows)


@pytest.mark.parametrize("text", ["", "a" * 23, "g" * 24, "a" * 25, "\0" * 24])
def test_a_wrong_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="24 hexadecimal"):
        object_id(text)
