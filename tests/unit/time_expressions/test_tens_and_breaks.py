"""Counts said by their tens ("十多天前"), and holidays of several days: read whole, never a part of what was said."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

ZONE = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=ZONE)


def read(text: str) -> tuple[str, str, str] | None:
    found = find_time(text, NOW, ZONE)
    if found is None:
        return None
    assert found.span.start is not None and found.span.end is not None
    return found.span.start.date().isoformat(), found.span.end.date().isoformat(), found.words


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("十几天前", "2026-11-11", "2026-11-20"),
        ("十多天前", "2026-11-11", "2026-11-20"),
        ("二十多天前", "2026-11-01", "2026-11-10"),
        ("30多天前", "2026-10-22", "2026-10-31"),
        ("十来天前", "2026-11-18", "2026-11-23"),
        ("几十天前", "2026-09-01", "2026-11-11"),
        ("十几年前", "2007-01-01", "2016-01-01"),
        ("十几个月前", "2025-04-01", "2026-01-01"),
        ("一百多年前", "1827-01-01", "1926-01-01"),
        ("十数日前", "2026-11-11", "2026-11-20"),
        ("数十年前", "1936-01-01", "2007-01-01"),
        ("há dez e poucos dias", "2026-11-11", "2026-11-20"),
        ("há uma dezena de dias", "2026-11-19", "2026-11-22"),
        ("il y a une dizaine de jours", "2026-11-19", "2026-11-22"),
        ("hace una decena de días", "2026-11-19", "2026-11-22"),
        ("vor einem Dutzend Tagen", "2026-11-17", "2026-11-20"),
    ],
)
def test_a_count_by_its_tens_is_as_wide_as_it_says(words: str, start: str, end: str) -> None:
    assert read(words) == (start, end, words)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("五一假期", "2026-05-01", "2026-05-06"),
        ("国庆假期", "2026-10-01", "2026-10-08"),
        ("去年国庆假期", "2025-10-01", "2025-10-08"),
        ("春节假期", "2026-02-16", "2026-02-24"),
        ("清明节", "2026-04-04", "2026-04-05"),
        ("清明节假期", "2026-04-02", "2026-04-07"),
        ("除夕", "2026-02-16", "2026-02-17"),
        ("ゴールデンウィーク", "2026-04-29", "2026-05-06"),
        ("去年のゴールデンウィーク", "2025-04-29", "2025-05-06"),
        ("お盆", "2026-08-13", "2026-08-17"),
        ("正月休み", "2025-12-29", "2026-01-04"),
        ("三が日", "2026-01-01", "2026-01-04"),
        ("敬老の日", "2026-09-21", "2026-09-22"),
        ("2021年の海の日", "2021-07-22", "2021-07-23"),
        ("春分の日", "2026-03-20", "2026-03-21"),
        ("秋分の日", "2026-09-23", "2026-09-24"),
        ("Karwoche", "2026-03-29", "2026-04-06"),
        ("Buß- und Bettag", "2026-11-18", "2026-11-19"),
        ("semana santa", "2026-03-29", "2026-04-06"),
    ],
)
def test_a_holiday_has_all_its_days(words: str, start: str, end: str) -> None:
    assert read(words) == (start, end, words)


@pytest.mark.parametrize("words", ["ten or so people", "十几个人", "几十本书", "数十冊の本", "お盆を拭く"])
def test_no_part_of_a_count_is_read_as_a_time(words: str) -> None:
    assert read(words) is None
