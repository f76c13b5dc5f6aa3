"""dateparser's own parser: asked for a whole phrase that nothing else reads, and only for what is plainly a time of the past."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time
from infinite_memory.time_expressions.locales.whole_phrase import MAX_LENGTH, read_whole

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC)
WALL = NOW.replace(tzinfo=None)
FORM = "%Y-%m-%d %H:%M"


def read(text: str, *codes: str) -> tuple[str, str] | None:
    """Return what dateparser makes of *text* in the locales *codes*, to the minute."""
    reading = read_whole(text, WALL, NOW, list(codes))
    if reading is None or reading.span.start is None or reading.span.end is None:
        return None
    return reading.span.start.strftime(FORM), reading.span.end.strftime(FORM)


@pytest.mark.parametrize(
    ("text", "code", "start", "end"),
    [
        ("3 napja", "hu", "2026-11-22 00:00", "2026-11-23 00:00"),
        ("2 ay 3 gün önce", "tr", "2026-09-22 00:00", "2026-09-23 00:00"),
        ("неделю назад", "ru", "2026-11-16 00:00", "2026-11-23 00:00"),
        ("1 giorno e 2 ore fa", "it", "2026-11-24 12:20", "2026-11-24 14:20"),
        ("15 марта 2025 в 15:30", "ru", "2025-03-15 15:30", "2025-03-15 15:31"),
        ("вчера в 15:00", "ru", "2026-11-24 15:00", "2026-11-24 15:01"),
        ("15 marzo 2025", "it", "2025-03-15 00:00", "2025-03-16 00:00"),
    ],
)
def test_the_width_follows_from_the_smallest_unit_that_was_said(text: str, code: str, start: str, end: str) -> None:
    assert read(text, code) == (start, end)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("4 дня", "ru"),
        ("4 dagen", "nl"),
        ("4 days before", "nl"),
        ("ma", "hu"),
        ("15 marzo", "it"),
        ("in 3 giorni", "it"),
        ("15 марта 2099", "ru"),
        ("что было 3 дня назад", "ru"),
        ("99999 дней назад", "ru"),
        ("до 15 марта 2025", "ru"),
        ("sinds 12 maart 2025", "nl"),
        ("3 napja", "xx"),
    ],
)
def test_what_is_not_plainly_a_time_of_the_past_is_none(text: str, code: str) -> None:
    assert read(text, code) is None


def test_a_text_that_two_locales_read_differently_is_not_read() -> None:
    assert read("3 дня назад", "ru", "bg") == read("3 дня назад", "ru")
    assert read("02 ay 3 gün önce " + "x" * MAX_LENGTH, "tr") is None


@pytest.mark.parametrize("text", ["1 giorno e 2 ore fa", "15 марта 2025 в 15:30", "přibližně před 2 dny"])
def test_it_is_asked_where_the_caller_says_that_the_text_is_a_time(text: str) -> None:
    found = find_time(text, NOW, UTC, whole=True)
    inside = find_time(text, NOW, UTC)

    assert found is not None and found.rest == "" and found.words == text
    assert inside is None or inside.rest or inside.span == found.span


@pytest.mark.parametrize(
    "text", ["4 days before", "4 dias antes", "sinds gisteren", "что было до вчера", "vor vier Tagen oder", "so"]
)
def test_it_makes_no_time_of_what_the_readers_refused(text: str) -> None:
    inside = find_time(text, NOW, UTC)

    assert find_time(text, NOW, UTC, whole=True) == inside
