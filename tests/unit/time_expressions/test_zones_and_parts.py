"""Zones that are said with a time, and parts of a period: thirds, halves in one word, weekdays by number."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

NEW_YORK = ZoneInfo("America/New_York")
NOW = dt.datetime(2026, 11, 28, 15, 0, tzinfo=dt.UTC)  # a Saturday


def start(text: str) -> str | None:
    """Return where the time begins, in UTC; all of the text must have been read."""
    found = find_time(text, NOW, NEW_YORK)
    if found is None or found.span.start is None or found.rest or found.unread:
        return None
    return f"{found.span.start:%m-%d %H:%M}"


def days(text: str) -> tuple[str, str] | None:
    """Return the first and the last day of what was read; all of the text must have been."""
    found = find_time(text, NOW, ZoneInfo("UTC"))
    if found is None or found.span.start is None or found.span.end is None or found.rest:
        return None
    return f"{found.span.start:%y-%m-%d}", f"{found.span.end - dt.timedelta(seconds=1):%y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T10:00:00Z", "03-01 10:00"),
        ("2026-03-01T10:00Z", "03-01 10:00"),
        ("2026-03-01T10:00:00.123Z", "03-01 10:00"),
        ("2026-03-01T10:00:00+05:30", "03-01 04:30"),
        ("2026-03-01T10:00+05:30", "03-01 04:30"),
        ("2026-03-01T10:00-08:00", "03-01 18:00"),
        ("2026-03-01 10:00:00.123456-08:00", "03-01 18:00"),
        ("2026-03-01T10:00:00-0800", "03-01 18:00"),
        ("since 2026-03-01T10:00:00Z", "03-01 10:00"),
        ("between 2026-03-01T10:00:00Z and 2026-03-02T10:00:00Z", "03-01 10:00"),
        ("Fri, 27 Nov 2026 10:00:00 GMT", "11-27 10:00"),
        ("Fri, 27 Nov 2026 10:00:00 +0200", "11-27 08:00"),
        ("yesterday at 10:00 UTC", "11-27 10:00"),
        ("yesterday at 5pm PST", "11-28 01:00"),
        ("10am PST yesterday", "11-27 18:00"),
        ("from 2 to 4 pm UTC yesterday", "11-27 14:00"),
        ("at 10:00Z today", "11-28 10:00"),
        ("gestern um 17 Uhr MEZ", "11-27 16:00"),
        ("hier à 17h UTC", "11-27 17:00"),
        ("ontem às 17:00 GMT-3", "11-27 20:00"),
        ("昨日の17時 JST", "11-27 08:00"),
        ("昨天下午5点 UTC", "11-27 17:00"),
    ],
)
def test_a_zone_behind_a_time_is_read(text: str, expected: str) -> None:
    assert start(text) == expected


def test_the_day_of_a_time_without_one_is_counted_in_its_zone() -> None:
    evening = dt.datetime(2026, 11, 28, 2, 0, tzinfo=dt.UTC)  # the 27th in New York
    found = find_time("at 01:00Z", evening, NEW_YORK)
    assert found is not None and found.span.start == dt.datetime(2026, 11, 28, 1, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "unread"),
    [("yesterday at 5pm IST", "IST"), ("ieri alle 14:30 UTC", "UTC"), ("wczoraj o 14:30 CET", "CET")],
)
def test_a_zone_that_is_not_read_is_named(text: str, unread: str) -> None:
    found = find_time(text, NOW, NEW_YORK)
    assert found is not None and found.unread == (unread,)


def test_what_only_looks_like_a_zone_is_none() -> None:
    for text, words in (
        ("hier à 17h est-ce que tu es venu", "hier à 17h"),
        ("yesterday 10:00-11:00", "yesterday 10:00-11:00"),
        ("yesterday at 5 pm and z", "yesterday at 5 pm"),
    ):
        found = find_time(text, NOW, NEW_YORK)
        assert found is not None and found.words == words and not found.unread


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        ("the first third of October|das erste Drittel des Oktobers|le premier tiers d'octobre", "26-10-01", "26-10-10"),
        ("el primer tercio de octubre|o primeiro terço de outubro", "26-10-01", "26-10-10"),
        ("the middle third of October|the second third of last month", "26-10-11", "26-10-21"),
        ("the last third of 2025", "25-09-01", "25-12-31"),
        ("the last half of October|die zweite Oktoberhälfte|in der zweiten Hälfte des Oktobers", "26-10-16", "26-10-31"),
        ("die zweite Jahreshälfte 2025|去年下半年|去年后半年", "25-07-01", "25-12-31"),
        ("die erste Jahreshälfte|今年上半年|上半年", "26-01-01", "26-06-30"),
        ("去年上半年|去年前半年|2025年上半年|2025年前半年", "25-01-01", "25-06-30"),
        ("下半年", "26-07-01", "26-12-31"),
        ("am Jahresanfang", "26-01-01", "26-04-30"),
        ("Monatsende", "26-11-21", "26-11-30"),
        ("Jahresmitte 2025", "25-05-01", "25-08-31"),
        ("一二月|1、2月", "26-01-01", "26-02-28"),
        ("去年七八月", "25-07-01", "25-08-31"),
        ("一二月八日", "25-12-08", "25-12-08"),
    ],
)  # fmt: skip
def test_parts_of_a_period(texts: str, first: str, last: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, last), text


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        ("the last two Mondays|die letzten zwei Montage|les deux derniers lundis|过去两个星期一", "26-11-16", "26-11-23"),
        ("last 3 Sundays|los últimos tres domingos|los tres últimos domingos", "26-11-08", "26-11-22"),
        ("the next two Mondays", "26-11-30", "26-12-07"),
        ("the first two Mondays of October", "26-10-05", "26-10-12"),
        ("the last two Mondays of October", "26-10-19", "26-10-26"),
        ("the last two weekends of October", "26-10-24", "26-11-01"),
    ],
)  # fmt: skip
def test_several_weekdays_are_read_from_the_first_to_the_last(texts: str, first: str, last: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, last), text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ("quarter to five yesterday|at quarter to five yesterday|gestern um Viertel vor fünf", "27 04:45"),
        ("hier à cinq heures moins le quart|ayer a las cinco menos cuarto|ontem às quinze para as cinco", "27 04:45"),
        ("gestern um zehn vor acht|hier à huit heures moins dix|at ten to eight yesterday", "27 07:50"),
        ("gestern um halb fünf", "27 04:30"),
        ("gestern um fünf nach halb neun", "27 08:35"),
        ("ayer a las tres y media|ontem às três e meia|à trois heures et demie hier", "27 03:30"),
        ("hier à trois heures et quart|gestern Viertel nach drei", "27 03:15"),
        ("hier à midi et demi", "27 12:30"),
        ("quarter to one yesterday", "27 12:45"),
        ("昨日の5時10分前", "27 04:50"),
        ("昨日の5時10分", "27 05:10"),
        ("from five to nine yesterday", "27 05:00"),
        ("yesterday after 3pm|gestern nach 15 Uhr|hier après 15h|ontem depois das 15h", "27 15:00"),
    ],
)  # fmt: skip
def test_minutes_before_and_after_the_hour(texts: str, expected: str) -> None:
    for text in texts.split("|"):
        found = find_time(text, NOW, ZoneInfo("UTC"))
        assert found is not None and found.span.start is not None and not found.rest, text
        assert f"{found.span.start:%d %H:%M}" == expected, text


@pytest.mark.parametrize("text", ["about five to nine people came yesterday", "yesterday five to nine people came"])
def test_a_range_of_numbers_is_no_time_of_the_day(text: str) -> None:
    found = find_time(text, NOW, ZoneInfo("UTC"))
    assert found is not None and found.words == "yesterday"


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        ("yesterday before 3pm|gestern vor 15 Uhr|yesterday until midnight", "26-11-27", "26-11-27"),
        ("the day before last Christmas|la víspera de Navidad|a véspera de Natal", "25-12-24", "25-12-24"),
        ("the day before last Monday", "26-11-22", "26-11-22"),
        ("the day before last", "26-11-26", "26-11-26"),
        ("not more than two weeks ago|at most two weeks ago", "26-11-14", "26-11-28"),
        ("March two years ago|two years ago in March|vor zwei Jahren im März|im März vor zwei Jahren", "24-03-01", "24-03-31"),
        ("il y a deux ans en mars|hace dos años en marzo|há dois anos em março", "24-03-01", "24-03-31"),
        ("两年前的三月|2年前の3月", "24-03-01", "24-03-31"),
        ("Christmas three years ago", "23-12-25", "23-12-25"),
        ("Nov 3-5, 2025|Nov 3 - 5, 2025|between Nov 3 and 5, 2025", "25-11-03", "25-11-05"),
        ("上个月底|先月末", "26-10-22", "26-10-31"),
        ("la deuxième quinzaine d'octobre|la segunda quincena de octubre", "26-10-16", "26-10-31"),
        ("na primeira quinzena de outubro", "26-10-01", "26-10-15"),
        ("in der ersten Oktoberwoche", "26-09-28", "26-10-04"),
        ("am letzten Oktoberwochenende 2025", "25-10-25", "25-10-26"),
        ("本月初|今月初め", "26-11-01", "26-11-10"),
        ("去年底|昨年末", "25-09-01", "25-12-31"),
    ],
)  # fmt: skip
def test_what_was_read_in_part_before(texts: str, first: str, last: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, last), text


def test_a_day_that_is_told_by_its_distance_is_one_day_before_a_noun_too() -> None:
    found = find_time("3日前の会議", NOW, ZoneInfo("UTC"))
    assert found is not None and (found.span.start, found.span.end) == (
        dt.datetime(2026, 11, 25, tzinfo=dt.UTC),
        dt.datetime(2026, 11, 26, tzinfo=dt.UTC),
    )


@pytest.mark.parametrize("text", ["3 business days ago", "10 working days ago", "ten-ish days ago"])
def test_a_number_that_was_not_understood_is_not_dropped(text: str) -> None:
    assert find_time(text, NOW, ZoneInfo("UTC")) is None


@pytest.mark.parametrize(
    "text",
    [
        "el cuarto de baño es grande",
        "das erste Drittel der Gruppe ging nach Hause",
        "die zweite Hälfte des Kuchens",
        "zehn vor der Tür",
        "five to one odds",
        "the score was ten to eight",
        "quarter to the left",
        "ein Monatsticket kaufen",
        "der Jahresbericht ist fertig",
        "la primera quincena de personas",
        "上半身が痛い",
        "前の席に座った",
        "the last two bananas",
        "no more than three apples",
        "the first third of the book",
        "a ratio of 3 to 5",
        "my Z index is 10",
        "menos mal",
    ],
)
def test_words_for_parts_and_zones_alone_are_no_time(text: str) -> None:
    assert find_time(text, NOW, NEW_YORK) is None
