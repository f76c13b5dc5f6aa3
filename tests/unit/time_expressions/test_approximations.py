"""Counts that are said to be rough, and holidays that are not the same day everywhere."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time, find_unsettled

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 30, 15, tzinfo=UTC)


def read(text: str, zone: ZoneInfo = UTC) -> tuple[str | None, str | None, str] | None:
    found = find_time(text, NOW, zone)
    if found is None:
        return None
    start, end = (at and at.astimezone(zone).date().isoformat()[2:] for at in (found.span.start, found.span.end))
    return start, end, found.words


OR_SO = (
    "ten or so days ago|ten days or so ago|ten days ago or so"
    "|10 days give or take ago|vor zehn Tagen oder so|il y a dix jours ou presque|hace diez días o así"
    "|há dez dias ou algo assim|十日かそこら前"
)
AND_A_BIT = (
    "two years and a bit ago|two and a bit years ago|just over two years ago|a bit over two years ago|a little more than two years ago"
    "|vor zwei Jahren und ein bisschen|vor etwas über zwei Jahren|vor ein bisschen mehr als zwei Jahren"
    "|il y a deux ans et quelques|il y a un peu plus de deux ans|hace dos años y pico|hace poco más de dos años"
    "|hace un poco más de dos años"
    "|há dois anos e pouco|há pouco mais de dois anos|há um pouco mais de dois anos|2年ちょっと前|2年と少し前"
    "|2年あまり前|2年余り前|二年余前"
    "|两年多前|两年多以前|兩年多前|大约两年多前"
)
NOT_QUITE = (
    "just under two years ago|a bit less than two years ago|not quite two years ago|vor etwas weniger als zwei Jahren"
    "|il y a un peu moins de deux ans|hace poco menos de dos años|há pouco menos de dois anos|2年弱前"
)
A_WEEK_OR_TWO = (
    "a week or two ago|vor einer Woche oder zwei|il y a une semaine ou deux|hace una semana o dos|há uma semana ou duas"
)


@pytest.mark.parametrize(
    ("texts", "start", "end"),
    [
        (OR_SO, "26-11-19", "26-11-22"),
        ("a week or so ago|vor einer Woche oder so", "26-11-16", "26-12-01"),
        (AND_A_BIT, "23-11-30", "24-12-01"),
        (NOT_QUITE, "24-11-30", "25-12-01"),
        ("just under a year ago|vor nicht ganz einem Jahr", "25-11-30", "26-05-31"),
        ("两年多一点前|2年強前", "23-11-30", "24-12-01"),
        ("since two years and a bit ago|in the past two years and a bit|seit zwei Jahren und ein bisschen|depuis deux ans et quelques"
         "|desde hace dos años y pico", "23-11-30", "26-11-30"),
        ("just over three months ago|三个多月前|三個多月前|三か月余り前", "26-07-30", "26-08-31"),
        ("three weeks and a bit ago|三个多星期前|三周多前|3週間余り前", "26-11-02", "26-11-10"),
        ("half a year and a bit ago|半年多前|半年多以前", "25-11-30", "26-05-31"),
        ("in the past two years and a bit|最近两年多|この2年余り", "23-11-30", "26-11-30"),
        ("最近两个多月", "26-08-30", "26-11-30"),
        ("more than two years ago|vor über zwei Jahren|il y a plus de deux ans|hace más de dos años|há mais de dois anos|2年以上前"
         "|超过两年前|两年以上前", None, "24-11-30"),
        ("12 dozen years ago|twelve dozen years ago|vor 12 Dutzend Jahren", "81-11-30", "83-12-01"),
        ("the week or so before Christmas", "25-12-15", "25-12-25"),
        ("十几二十天前", "26-11-10", "26-11-20"),
        ("三四十天前", "26-10-21", "26-11-01"),
        ("three weeks and change ago|just over three weeks ago", "26-11-02", "26-11-10"),
        ("ten-odd days ago|ten odd days ago|hace diez y pico días", "26-11-11", "26-11-20"),
        (A_WEEK_OR_TWO, "26-11-16", "26-11-30"),
        ("il y a dix jours environ|il y a dix jours à peu près|hace diez días más o menos|há dez dias mais ou menos|vor zehn Tagen etwa"
         "|vor so zehn Tagen|hace como diez días", "26-11-20", "26-11-21"),
        ("两年零三个月前|两年又三个月前", "24-08-01", "24-09-01"),
        ("the past ten or so days", "26-11-20", "26-11-30"),
    ],
)  # fmt: skip
def test_a_rough_count_is_read_whole(texts: str, start: str | None, end: str) -> None:
    for text in texts.split("|"):
        assert read(text) == (start, end, text)


def test_of_a_fraction_it_is_one_more_fraction() -> None:
    for text, minutes in (
        ("half an hour and a bit ago", (60, 30)), ("just over half an hour ago", (60, 30)), ("just under an hour ago", (60, 30)),
        ("an hour and a bit ago", (120, 60)), ("just over an hour and a half ago", (120, 90)),
    ):  # fmt: skip
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text
        assert (found.span.start, found.span.end) == tuple(NOW - dt.timedelta(minutes=many) for many in minutes), text


@pytest.mark.parametrize(
    "text", ["ten or so people", "two years and a bit", "just over", "a week or two", "dos años y pico", "20 odd socks"]
)
def test_a_rough_count_that_is_not_ago_is_no_time(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("シルバーウィーク", "26-09-19", "26-09-24"),
        ("去年のシルバーウィーク", "25-09-13", "25-09-24"),
        (
            "2024年のシルバーウィーク",
            "24-09-14",
            "24-09-24",
        ),  # the equinox was a Sunday, and the Monday behind it is off
        ("dia dos pais", "26-08-09", "26-08-10"),
        ("dia da mãe", "26-05-03", "26-05-04"),
        ("dia do pai", "26-03-19", "26-03-20"),
    ],
)
def test_a_holiday_of_one_country_is_read(text: str, start: str, end: str) -> None:
    assert read(text) == (start, end, text)


@pytest.mark.parametrize("text", ["お盆に何を話しましたか", "お盆は何をした", "友達とお盆に会った"])
def test_a_word_of_two_senses_is_a_time_before_a_particle_of_time(text: str) -> None:
    assert read(text) == ("26-08-13", "26-08-17", "お盆")


@pytest.mark.parametrize("text", ["お盆に料理を載せた", "お盆を拭く", "お盆に茶碗を置いた", "お盆の模様"])
def test_and_a_thing_where_something_is_done_with_it(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("zone", "mother", "father"),
    [
        ("Europe/Madrid", "26-05-03", "26-03-19"),
        ("America/Mexico_City", "26-05-10", "26-06-21"),
        ("America/Argentina/Buenos_Aires", "26-10-18", "26-06-21"),
        ("America/Bogota", "26-05-10", "26-06-21"),
    ],
)
def test_the_zone_tells_which_day_it_is(zone: str, mother: str, father: str) -> None:
    for text, day in (("día de la madre", mother), ("día del padre", father)):
        found = read(text, ZoneInfo(zone))
        assert found is not None and found[0] == day
        assert find_unsettled(text, ZoneInfo(zone)) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("what did we do on the bank holiday", "bank holiday"),
        ("over the bank holiday weekend", "bank holiday weekend"),
        ("last spring break", "spring break"),
        ("during half-term", "half-term"),
        ("el día de la madre", "día de la madre"),
        ("am Feiertag", "Feiertag"),
        ("in den Herbstferien", "Herbstferien"),
        ("pendant les vacances de la Toussaint", "vacances de la Toussaint"),
        ("no feriado", "feriado"),
        ("暑假的时候", "暑假"),
        ("三連休に何をした", "三連休"),
    ],
)
def test_what_is_another_day_from_place_to_place_is_named_and_not_guessed(text: str, name: str) -> None:
    assert read(text) is None
    assert find_unsettled(text, UTC) == (name,)


def test_a_bound_of_a_rough_count_is_read_whole() -> None:
    for text, day in (
        ("more than two years and a bit ago", "2024-11-30"),
        ("at least two or so weeks ago", "2026-11-16"),
    ):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text
        assert found.span.start is None and found.span.end is not None and found.span.end.date().isoformat() == day


def test_beside_a_time_it_is_told_as_not_read() -> None:
    found = find_time("what did we plan for spring break yesterday", NOW, UTC)
    assert found is not None and (found.words, found.unread) == ("yesterday", ("for spring break",))
    assert find_unsettled("what we said at Easter", UTC) == ()
