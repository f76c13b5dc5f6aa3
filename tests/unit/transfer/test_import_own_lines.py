"""JSON Lines of anybody's own: which files they are, and what becomes of their fields."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.formats import Refused
from tests.import_files import left_out, memories, read_entries, write_files

RECORDS: list[dict[str, Any]] = [
    {"text": "The lease ends in May", "tags": ["home", "lease"], "date": "2026-03-02", "Scope": "Flat", "rooms": 3},
    {"content": "The boiler is old", "tags": "home, boiler", "importance": 7, "id": 12, "metadata": {"floor": 2}},
]


def write(folder: Path, *records: object) -> Path:
    file = folder / "mine.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return file


def as_list(folder: Path, *records: object) -> Path:
    file = folder / "mine.json"
    file.write_text(json.dumps(records, indent=2))
    return file


@pytest.mark.parametrize("make", [write, as_list])
def test_an_object_with_a_text_is_a_memory_and_names_count_as_columns_do(make: Any, tmp_path: Path) -> None:
    form, entries = read_entries(make(tmp_path, *RECORDS))
    lease, boiler = memories(entries)
    assert (form, left_out(entries)) == ("json-lines", {})
    assert (lease.text, lease.tags, lease.scope) == ("The lease ends in May", ("home", "lease"), "Flat")
    assert (lease.occurred_at, lease.metadata) == (dt.datetime(2026, 3, 2, tzinfo=dt.UTC), {"rooms": 3})
    assert (boiler.text, boiler.tags, boiler.importance) == ("The boiler is old", ("home", "boiler"), 7)
    assert (boiler.key, boiler.metadata) == ("12", {"floor": 2, "id": 12})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"title": "no text"}, "has no text"),
        ({"text": 5}, "its text is not a text"),
        ({"text": "a", "content": "b"}, "has two fields for its text"),
        ({"text": "a", "date": "next week"}, "its timestamp is not a time such as 2024-03-01T09:30:00Z"),
        ({"text": "a", "importance": "much"}, "its importance is not a number"),
        ({"text": "a", "scope": 3}, "its scope is not a text"),
        ({"text": "a", "tags": {"b": 1}}, "its tags are not a list or a text"),
        (["text"], "is no object"),
    ],
)
def test_a_line_that_cannot_be_taken_whole_is_left_out_and_told(bad: object, why: str, tmp_path: Path) -> None:
    _, entries = read_entries(write(tmp_path, {"text": "before"}, bad, {"text": "after"}))
    assert [one.text for one in memories(entries)] == ["before", "after"]
    [refused] = [one for one in entries if isinstance(one, Refused)]
    assert (refused.where, refused.reason) == ("line 2", why)


def test_a_line_that_is_no_json_costs_itself_alone(tmp_path: Path) -> None:
    file = write_files(tmp_path, {"mine.jsonl": '{"text": "before"}\n{"text": \n{"text": "after"}\n'}) / "mine.jsonl"
    _, entries = read_entries(file)
    assert [one.text for one in memories(entries)] == ["before", "after"]
    assert sum(left_out(entries).values()) == 1


def test_what_says_more_plainly_what_it_is_stays_that(tmp_path: Path) -> None:
    assert read_entries(write(tmp_path, {"memory": "tea", "user_id": "ada"}))[0] == "mem0"
    assert read_entries(write(tmp_path, {"content": "tea", "state": "active"}))[0] == "openmemory"
    notes = write_files(tmp_path / "vault", {"Tea.md": "Green tea\n", "settings.json": '{"text": "a theme"}'})
    form, entries = read_entries(notes)
    assert (form, [one.text for one in memories(entries)]) == ("notes", ["Green tea"])


def test_an_object_without_a_text_is_in_no_form(tmp_path: Path) -> None:
    for content in ('{"title": "x"}', '{\n  "text": "over several lines"\n}'):
        with pytest.raises(InvalidRequestError, match="is in no form"):
            read_entries(write_files(tmp_path, {"a.json": content}) / "a.json")
