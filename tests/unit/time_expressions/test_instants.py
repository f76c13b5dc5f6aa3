"""Instants in requests: RFC 3339, or a date alone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions.instants import is_day, parse_day_or_instant, parse_instant

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-10T18:00:00Z", "2026-11-10T18:00:00+00:00"),
        ("2026-11-10t18:00:00z", "2026-11-10T18:00:00+00:00"),
        ("2026-11-10T18:00:00.123Z", "2026-11-10T18:00:00.123000+00:00"),
        ("2026-11-10T18:00:00.123456789Z", "2026-11-10T18:00:00.123456+00:00"),
        ("2026-11-10T18:00:00+02:00", "2026-11-10T16:00:00+00:00"),
        ("2026-11-10 18:00:00-0530", "2026-11-10T23:30:00+00:00"),
        ("2026-11-10T18:00", "2026-11-10T17:00:00+00:00"),
        ("2026-07-10T18:00:00", "2026-07-10T16:00:00+00:00"),
        ("2026-11-10", "2026-11-09T23:00:00+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
    ],
)
def test_an_instant_is_read_into_utc(text: str, expected: str) -> None:
    read = parse_instant(text, BERLIN)

    assert read == dt.datetime.fromisoformat(expected)
    assert read.utcoffset() == dt.timedelta(0)


def test_a_date_alone_means_the_whole_local_day() -> None:
    lower = parse_day_or_instant("2026-10-25", BERLIN, upper=False)
    upper = parse_day_or_instant("2026-10-25", BERLIN, upper=True)

    assert upper - lower == dt.timedelta(hours=25)


def test_an_instant_is_the_same_at_both_ends() -> None:
    lower = parse_day_or_instant("2026-10-25T10:00:00Z", BERLIN, upper=False)

    assert lower == parse_day_or_instant("2026-10-25T10:00:00Z", BERLIN, upper=True)


def test_a_day_can_be_told_from_an_instant() -> None:
    assert is_day("2026-11-10")
    assert not is_day("2026-11-10T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1762797600",
        "2026-02-30",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:00:00+25:00",
        "2026-1-1",
        "20260101",
        "٢٠٢٦-٠١-٠١",
        "2026-01-01" + "0" * 100,
        "9999-12-31T23:00:00-11:00",
    ],
)
def test_what_is_no_instant_is_refused_with_the_value(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_instant(text, BERLIN)


def test_the_last_day_of_the_calendar_has_no_next_midnight() -> None:
    with pytest.raises(ValueError, match="is not a day"):
        parse_day_or_instant("9999-12-31", BERLIN, upper=True)
