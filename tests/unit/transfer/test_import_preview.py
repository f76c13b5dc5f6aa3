"""What a dry run shows of a file stays small, whatever the file holds, and says where everything would go."""

from __future__ import annotations

import datetime as dt

from infinite_memory.transfer.formats import Incoming
from infinite_memory.transfer.preview import (
    MAX_LABEL_CHARS,
    MAX_SAMPLES,
    MAX_SCOPES,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    ImportPreview,
    clip,
)


def make_incoming(text: str = "tea", day: int | None = 1, **fields: object) -> Incoming:
    """Make what a reader gives, of a day in May 2024 or without a time."""
    occurred_at = None if day is None else dt.datetime(2024, 5, day, tzinfo=dt.UTC)
    return Incoming(key=text, text=text, occurred_at=occurred_at, **fields)  # type: ignore[arg-type]


def test_the_first_memories_are_shown_and_all_are_counted() -> None:
    preview = ImportPreview()
    for number in range(12):
        preview.note(make_incoming(f"note {number}", day=12 - number), "Home", is_new=True)
    preview.note(make_incoming("undated", day=None), "Global", is_new=False)
    preview.note(make_incoming("hidden", deleted_at=dt.datetime.now(dt.UTC)), "HOME", is_new=True)
    assert [one.text for one in preview.samples] == [f"note {number}" for number in range(MAX_SAMPLES)]
    assert [(one.name, one.count, one.is_new) for one in preview.scopes] == [("Home", 13, True), ("Global", 1, False)]
    assert (preview.earliest, preview.latest) == (make_incoming(day=1).occurred_at, make_incoming(day=12).occurred_at)
    assert (preview.undated, preview.forgotten) == (1, 1)


def test_where_the_time_of_an_event_is_missing_the_time_of_storing_counts() -> None:
    preview = ImportPreview()
    created_at = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    preview.note(make_incoming(day=None, created_at=created_at), "Global", is_new=False)
    assert (preview.samples[0].occurred_at, preview.undated) == (created_at, 0)


def test_everything_is_clipped() -> None:
    preview = ImportPreview()
    tags = tuple(f"{number}{'x' * 500}" for number in range(100))
    preview.note(make_incoming("  " + "long " * 100_000, tags=tags, speaker="y" * 9_000), "z" * 256, is_new=True)
    [one] = preview.samples
    assert len(one.text) <= MAX_TEXT_CHARS
    assert one.text.startswith("long long")
    assert one.text.endswith("…")
    assert len(one.tags) == MAX_TAGS
    labels = (*one.tags, one.speaker or "", one.scope, preview.scopes[0].name)
    assert {len(label) for label in labels} == {MAX_LABEL_CHARS}


def test_of_very_many_scopes_the_first_are_named() -> None:
    preview = ImportPreview()
    for number in range(MAX_SCOPES + 30):
        preview.note(make_incoming(f"note {number}"), f"scope {number}", is_new=True)
    assert (len(preview.scopes), preview.in_other_scopes) == (MAX_SCOPES, 30)
    preview.note(make_incoming("one more"), "Scope 3", is_new=True)
    assert (preview.scopes[0].name, preview.scopes[0].count) == ("scope 3", 2)


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert clip("x" * 5, 5) == "xxxxx"
    assert clip("ab cdef", 4) == "ab…"
