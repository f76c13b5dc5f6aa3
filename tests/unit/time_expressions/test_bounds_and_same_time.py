"""Bounds of a length ago ("at most two weeks ago"), the same time of another period, the Chinese dial and the Japanese fiscal year."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC)  # a Wednesday


def read(text: str, now: dt.datetime = NOW, zone: ZoneInfo = UTC) -> str | None:
    """Return both ends in the zone, "now" for the present; all of the text must have been read."""
    found = find_time(text, now, zone)
    if found is None or found.rest or found.unread:
        return None
    ends = []
    for end in (found.span.start, found.span.end):
        wall = end.astimezone(zone) if end else None
        ends.append("now" if end == now else f"{wall:%y-%m-%d %H:%M}".removesuffix(" 00:00") if wall else "")
    return " to ".join(ends)


@pytest.mark.parametrize(
    "texts",
    [
        "at most two weeks ago|two weeks ago at most|a maximum of two weeks ago",
        "vor höchstens zwei Wochen|höchstens vor zwei Wochen|vor zwei Wochen höchstens|vor weniger als zwei Wochen|vor bis zu zwei Wochen",
        "il y a au plus deux semaines|il y a moins de deux semaines|il y a deux semaines maximum|il y a tout au plus deux semaines",
        "hace como máximo dos semanas|hace menos de dos semanas|hace dos semanas como mucho|como mucho hace dos semanas",
        "há no máximo duas semanas|há menos de duas semanas|no máximo duas semanas atrás|há duas semanas no máximo",
        "最多两周前|不到两周前|不超过两周前|两周以内",
        "せいぜい2週間前|長くても2週間前|2週間以内|2週間未満前",
    ],
)
def test_at_most_so_long_ago_is_from_then_until_now(texts: str) -> None:
    for text in texts.split("|"):
        assert read(text) == "26-11-11 to now", text


@pytest.mark.parametrize(
    "texts",
    [
        "more than a year ago|at least a year ago",
        "vor mehr als einem Jahr|vor über einem Jahr|vor mindestens einem Jahr",
        "il y a plus d'un an|il y a au moins un an",
        "hace más de un año|hace al menos un año",
        "há mais de um ano|há pelo menos um ano",
        "超过一年前|至少一年前|少なくとも1年前|1年以上前",
    ],
)
def test_at_least_so_long_ago_is_all_before(texts: str) -> None:
    for text in texts.split("|"):
        assert read(text) == " to 25-11-25", text


def test_hours_have_bounds_too() -> None:
    for text in (
        "il y a moins d'une heure",
        "vor weniger als einer Stunde",
        "hace menos de una hora",
        "há menos de uma hora",
    ):
        assert read(text) == "26-11-25 14:20 to now", text


@pytest.mark.parametrize(
    "texts",
    [
        "seit über zwei Wochen",
        "depuis plus de deux semaines",
        "desde hace más de dos semanas",
        "desde há mais de duas semanas",
    ],
)
def test_since_a_length_and_more_begins_with_the_length(texts: str) -> None:
    assert read(texts) == "26-11-11 to now"


def test_a_word_between_the_opener_and_the_length_is_stepped_over() -> None:
    for text in ("vor nur zwei Tagen", "il y a seulement deux jours", "hace apenas dos días", "há apenas dois dias"):
        assert read(text) == "26-11-23 to 26-11-24", text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vor zwei Wochen mindestens 300 Leute", "vor zwei Wochen"),
        ("two weeks ago over 300 people came", "two weeks ago"),
        ("hace dos años más de 300 personas", "hace dos años"),
    ],
)
def test_a_bound_of_something_else_is_none_of_the_time(text: str, words: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.words == words


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            "this time last year|at this time last year|same time last year|letztes Jahr um diese Zeit|um diese Zeit vor einem Jahr"
            "|l'année dernière à la même époque|à la même période de l'année dernière|il y a un an à la même époque"
            "|el año pasado por estas fechas|a estas alturas del año pasado|nesta época do ano passado|no ano passado por esta altura"
            "|去年这个时候|去年的这个时候|去年同期|去年の今頃|昨年の同じ時期|this time in 2025",
            "25-11-11 to 25-12-10",
        ),
        ("this time two years ago|两年前的这个时候|vor zwei Jahren um diese Zeit", "24-11-11 to 24-12-10"),
        ("this time last month|上个月这个时候|先月の今頃", "26-10-22 to 26-10-29"),
        ("this time last week|letzte Woche um diese Zeit|上周这个时候", "26-11-17 to 26-11-20"),
        (
            "this time yesterday|gestern um diese Zeit|hier à la même heure|ayer a esta hora|ontem a esta hora|昨天这个时候|昨日の今頃",
            "26-11-24 14:20 to 26-11-24 16:20",
        ),
        (
            "on this day last year|this day last year|the same day last year|letztes Jahr am selben Tag|heute vor einem Jahr"
            "|le même jour l'an dernier|el mismo día del año pasado|hoy hace un año|去年今天|去年の今日",
            "25-11-25 to 25-11-26",
        ),
        ("this day|今天|今日", "26-11-25 to 26-11-26"),
    ],
)
def test_the_same_time_of_another_period(texts: str, expected: str) -> None:
    for text in texts.split("|"):
        assert read(text) == expected, text


@pytest.mark.parametrize(
    "text",
    ["this time", "at the same time", "I want this time to be different", "差一点", "这一刻", "plus de deux semaines"],
)
def test_the_new_words_alone_are_no_time(text: str) -> None:
    assert find_time(text, NOW, UTC) is None


def test_at_the_same_time_as_something_is_no_time_of_the_year() -> None:
    found = find_time("last year at the same time as Bob", NOW, UTC)
    assert found is not None and found.words == "last year"


@pytest.mark.parametrize(
    ("texts", "hour"),
    [
        ("差一刻五点|差一刻鐘五點|五点差一刻|差十五分五点|4点3刻", "04:45"),
        ("差五分八点|差5分钟8点|八点差五分", "07:55"),
        ("五点一刻|五点过一刻", "05:15"),
        ("las cinco menos diez|as cinco menos dez|cinq heures moins dix", "04:50"),
    ],
)
def test_minutes_before_and_after_the_hour(texts: str, hour: str) -> None:
    for text in texts.split("|"):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text, text
        assert found.span.start is not None and f"{found.span.start:%d %H:%M}" == f"25 {hour}", text


def test_a_part_of_the_day_before_the_dial() -> None:
    assert read("昨天下午差一刻五点") == "26-11-24 16:45 to 26-11-24 16:46"
    assert read("昨天下午五点三刻") == "26-11-24 17:45 to 26-11-24 17:46"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ("2024年度|令和6年度|24年度", "24-04-01 to 25-04-01"),
        ("昨年度|2025年度", "25-04-01 to 26-04-01"),
        ("2024年度第1四半期|2024年度の第1四半期", "24-04-01 to 24-07-01"),
        ("2024年度上半期|2024年度上期|2024年度前半", "24-04-01 to 24-10-01"),
        ("2024年度の3月", "25-03-01 to 25-04-01"),
        ("2024年度の5月3日", "24-05-03 to 24-05-04"),
        ("2024年度の夏", "24-06-01 to 24-09-01"),
        ("2024年度から2025年度まで", "24-04-01 to 26-04-01"),
    ],
)
def test_a_japanese_fiscal_year_begins_in_april(texts: str, expected: str) -> None:
    for text in texts.split("|"):
        assert read(text) == expected, text


def test_before_april_the_fiscal_year_is_that_of_the_year_before() -> None:
    february = dt.datetime(2026, 2, 1, 12, 0, tzinfo=dt.UTC)
    found = find_time("今年度の売上", february, UTC)

    assert found is not None and found.span.start is not None
    assert f"{found.span.start:%y-%m-%d}" == "25-04-01"


def test_without_kana_it_is_japanese_in_japan_and_else_chinese() -> None:
    for zone, expected in (("Asia/Shanghai", "24-01-01"), ("Asia/Tokyo", "24-04-01")):
        found = find_time("2024年度预算", NOW, ZoneInfo(zone))
        assert found is not None and found.span.start is not None
        assert f"{found.span.start.astimezone(ZoneInfo(zone)):%y-%m-%d}" == expected
    chinese = find_time("2024年度", NOW, UTC, "zh")
    assert chinese is not None and chinese.span.start is not None and chinese.span.start.month == 1


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            "il y a une quinzaine de jours|hace cosa de dos semanas|há coisa de duas semanas|2週間ほど前|大约两周前",
            "26-11-09 to 26-11-16",
        ),
        ("la semaine d'avant|the week before|die Woche davor", "26-11-16 to 26-11-23"),
        ("le mois d'avant|the month before", "26-10-01 to 26-11-01"),
        ("la semaine d'avant Noël", "25-12-15 to 25-12-25"),
        ("estos días|ces jours-ci|in diesen Tagen|nestes dias", "26-11-11 to now"),
        (
            "durante las vacaciones de Navidad|pendant les vacances de Noël|in den Weihnachtsferien",
            "25-12-20 to 26-01-07",
        ),
        ("gestern kurz nach 15 Uhr|yesterday shortly after 3pm|hier peu après 15h", "26-11-24 15:00 to 26-11-25"),
        ("im Laufe der letzten Woche", "26-11-16 to 26-11-23"),
        ("昨天下午三点左右|昨日15時くらい", "26-11-24 15:00 to 26-11-24 16:00"),
    ],
)
def test_words_beside_a_time_that_are_part_of_it(texts: str, expected: str) -> None:
    for text in texts.split("|"):
        assert read(text) == expected, text


def test_a_number_before_what_is_before_is_not_dropped() -> None:
    for text in ("three weeks before", "three days before"):
        found = find_time(text, NOW, UTC)
        assert found is None or found.words == text, text
