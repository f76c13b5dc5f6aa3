"""Values that travel between the parts: folding, tag keys, half-open ranges."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from infinite_memory.engine.types import MemoryUpdate, NewMemory
from infinite_memory.index.metadata_table import COLUMNS
from infinite_memory.models import (
    CONVERSATION_PREFIXES,
    DETAILS,
    FIELDS,
    FILTERED,
    SPEAKER_PREFIXES,
    FieldType,
    Filter,
    FilterRule,
    IndexRow,
    MemoryDetails,
    MemoryRecord,
    TimeRange,
    floor_to_millisecond,
    fold,
    tag_key,
    tag_keys,
    tagged_value,
)
from infinite_memory.transfer.formats import Incoming

NOON = dt.datetime(2026, 3, 14, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Work", "wORK"),
        (" work\t", "Work"),
        ("Café", "Cafe\u0301"),
        ("STRASSE", "straße"),
        ("ΟΔΟΣ", "οδος"),
    ],
)
def test_spellings_of_one_name_fold_to_the_same(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(("one", "other"), [("test", "testing"), ("a b", "ab"), ("résumé", "resume"), ("K2", "K²")])
def test_different_names_stay_different(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_folding_twice_is_folding_once() -> None:
    for text in ("İstanbul", "ŉ", "\u1e9e", "ﬁn", "\u0345", "Ǆ"):
        assert fold(fold(text)) == fold(text)


def test_a_range_is_half_open() -> None:
    span = TimeRange(NOON, NOON + dt.timedelta(hours=1))
    assert span.holds(NOON)
    assert not span.holds(NOON + dt.timedelta(hours=1))
    assert TimeRange(None, NOON).holds(dt.datetime.min.replace(tzinfo=dt.UTC))
    assert TimeRange(NOON, None).holds(dt.datetime.max.replace(tzinfo=dt.UTC))


def test_instants_are_cut_to_milliseconds_of_utc() -> None:
    berlin = dt.timezone(dt.timedelta(hours=1))
    precise = dt.datetime(2026, 3, 14, 13, 0, 0, 123_999, tzinfo=berlin)
    assert floor_to_millisecond(precise) == dt.datetime(2026, 3, 14, 12, 0, 0, 123_000, tzinfo=dt.UTC)
    assert floor_to_millisecond(precise).tzinfo is dt.UTC


def test_person_and_speaker_tags_mean_the_same() -> None:
    assert tag_key("person: Ada") == tag_key("Speaker:ada")
    assert tag_key("session:7") == tag_key("conversation:7")
    assert tag_keys(["Tea"], speaker="Ada", conversation_id="7") == {"tea", tag_key("person:Ada"), tag_key("session:7")}


def test_what_a_tag_says_is_found_as_written() -> None:
    assert tagged_value(["tea", "person: Ada Lovelace"], SPEAKER_PREFIXES) == "Ada Lovelace"
    assert tagged_value(["Conversation:7"], CONVERSATION_PREFIXES) == "7"
    assert tagged_value(["speaker:", "tea"], SPEAKER_PREFIXES) is None


def test_every_field_of_a_memory_is_described_once() -> None:
    assert set(FIELDS) == {one.name for one in dataclasses.fields(MemoryRecord)}
    assert {one.name for one in DETAILS} == {one.name for one in dataclasses.fields(MemoryDetails)}
    for one in DETAILS:
        assert one.type in (FieldType.TEXT, FieldType.NUMBER)
        assert (one.maximum is None) is (one.type is FieldType.TEXT), one.name
        assert one.is_mutable
    for kind in (NewMemory, MemoryUpdate, Incoming):
        assert issubclass(kind, MemoryDetails)
    mutable = {one.name for one in FIELDS.values() if one.is_mutable}
    assert mutable == {one.name for one in dataclasses.fields(MemoryUpdate)} - {"whole_metadata", "no_longer"}


def test_what_is_filtered_by_has_its_place_in_filters_and_in_the_index() -> None:
    parts = {one.name for one in dataclasses.fields(Filter)}
    rows = {one.name for one in dataclasses.fields(IndexRow)}
    for name, by in FILTERED.items():
        assert by.part in parts
        assert name in rows
        assert by.column in COLUMNS
        assert (by.rule is FilterRule.AT_LEAST) is (FIELDS[name].type is FieldType.NUMBER)
