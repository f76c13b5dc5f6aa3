"""Parts of a period ("the final third of October"), several of what comes again ("the last two summers"), plurals without a number."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC)  # a Wednesday


def days(text: str, now: dt.datetime = NOW) -> tuple[str, str] | None:
    """Return the first and the last day of what was read; all of the text must have been."""
    found = find_time(text, now, UTC)
    if found is None or found.span.start is None or found.span.end is None or found.rest or found.unread:
        return None
    return f"{found.span.start:%y-%m-%d}", f"{found.span.end - dt.timedelta(seconds=1):%y-%m-%d}"


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        (
            "the final third of October|the closing third of October|im letzten Oktoberdrittel|le tiers final d'octobre"
            "|el tercio final de octubre|o terço final de outubro"
            "|十月的最后三分之一|10月的后三分之一|10月の最後の3分の1|10月の終わりの三分の一",
            "26-10-22",
            "26-10-31",
        ),
        (
            "the central third of October|das mittlere Drittel des Oktobers|le tiers central d'octobre|el tercio medio de octubre"
            "|o terço médio de outubro|上个月的中间三分之一|10月の真ん中の3分の1",
            "26-10-11",
            "26-10-21",
        ),
        ("the opening third of October|10月的前三分之一|10月の最初の三分の一", "26-10-01", "26-10-10"),
        ("the latter half of October|die letzte Oktoberhälfte|10月の後半", "26-10-16", "26-10-31"),
        ("im ersten Drittel 2025|erstes Jahresdrittel 2025|the first third of 2025", "25-01-01", "25-04-30"),
        ("the final quarter of 2025|the last quarter of 2025|2025年最后三个月", "25-10-01", "25-12-31"),
        ("the final week of October", "26-10-26", "26-11-01"),
        ("10月の最初の月曜日", "26-10-05", "26-10-05"),
        ("10月の最後の月曜日", "26-10-26", "26-10-26"),
        ("十月的前三天|10月最初の3日間", "26-10-01", "26-10-03"),
        (
            "the last days of October|die letzten Tage im Oktober|les derniers jours d'octobre|los últimos días de octubre"
            "|os últimos dias de outubro",
            "26-10-22",
            "26-10-31",
        ),
        ("the first days of May|los primeros días de mayo|les premiers jours de mai", "26-05-01", "26-05-10"),
    ],
)
def test_a_part_of_a_period_is_named_in_many_ways(texts: str, first: str, last: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, last), text


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        (
            "the last two summers|the past two summers|the last couple of summers|die letzten zwei Sommer|die letzten beiden Sommer"
            "|die beiden letzten Sommer|les deux derniers étés|au cours des deux derniers étés|los dos últimos veranos"
            "|los últimos dos veranos|os dois últimos verões|os últimos dois verões|过去两个夏天|最近两个夏天|过去两年的夏天"
            "|過去2回の夏|ここ2年の夏",
            "25-06-01",
            "26-08-31",
        ),
        ("the past three winters|in den letzten drei Wintern|les trois derniers hivers", "23-12-01", "26-02-28"),
        ("the last three Octobers", "24-10-01", "26-10-31"),
        ("the last two Novembers", "24-11-01", "25-11-30"),
        ("the last two Christmases|las dos últimas navidades|os últimos dois natais", "24-12-25", "25-12-25"),
        ("die letzten beiden Montage|the last two Mondays", "26-11-16", "26-11-23"),
        ("the next two summers", "27-06-01", "28-08-31"),
    ],
)
def test_several_of_what_comes_again_are_one_stretch(texts: str, first: str, last: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, last), text


def test_a_season_that_goes_on_is_none_of_the_last_ones() -> None:
    july = dt.datetime(2026, 7, 10, 12, 0, tzinfo=dt.UTC)

    assert days("the last two summers", july) == ("24-06-01", "25-08-31")
    assert days("last summer", july) == ("25-06-01", "25-08-31")


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        ("in den letzten Tagen|ces derniers jours|en los últimos días|nos últimos dias|the past days", "26-11-11"),
        ("in den letzten Wochen|ces dernières semaines|en las últimas semanas|the last weeks", "26-10-25"),
        ("in den letzten Monaten|ces derniers mois|los meses pasados|nos últimos meses", "26-05-25"),
        ("in den letzten Jahren|ces dernières années|en los últimos años|in past years", "21-11-25"),
    ],
)
def test_a_plural_without_a_number_is_more_than_one(texts: str, first: str) -> None:
    for text in texts.split("|"):
        assert days(text) == (first, "26-11-25"), text


@pytest.mark.parametrize(
    ("text", "first"),
    [("last weeks meeting", "11-16"), ("le mois dernier", "10-01"), ("la semana pasada", "11-16")],
)
def test_what_is_one_stays_one(text: str, first: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.span.start is not None and f"{found.span.start:%m-%d}" == first


@pytest.mark.parametrize(
    "text", ["summers", "he falls", "the last two may be wrong", "the final report", "mittlere Reife"]
)
def test_the_new_words_alone_are_no_time(text: str) -> None:
    assert find_time(text, NOW, UTC) is None
