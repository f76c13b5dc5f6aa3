"""Lengths as they are jotted down ("1h30 ago"), parts of a unit ("two thirds of a year ago"), and weekdays of a named week."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 26, 15, 0, tzinfo=dt.UTC)  # a Thursday


def days(text: str, now: dt.datetime = NOW) -> tuple[str, str] | None:
    """Return the first and the last day of what was read; all of the text must have been."""
    found = find_time(text, now, UTC)
    if found is None or found.span.start is None or found.span.end is None or found.rest:
        return None
    return f"{found.span.start:%m-%d}", f"{found.span.end - dt.timedelta(seconds=1):%m-%d}"


@pytest.mark.parametrize(
    ("minutes", "texts"),
    [
        (90, "1h30 ago|1 h 30 ago|1h30m ago|1h30min ago|vor 1h30|vor 1 h 30 min|il y a 1h30|il y a 1 h 30|hace 1h30|há 1h30|1h30 atrás"),
        (65, "1h05 ago|vor 1h05|il y a 1h05|hace 1h05|há 1h05"),
        (490, "8h10 ago|vor 8h10|il y a 8h10|hace 8h10|há 8h10"),
    ],
)  # fmt: skip
def test_hours_and_minutes_may_be_written_short(minutes: int, texts: str) -> None:
    for text in texts.split("|"):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text, text
        moment, minute = NOW - dt.timedelta(minutes=minutes), dt.timedelta(minutes=1)
        assert (found.span.start, found.span.end) == (moment - minute, moment + minute), text


@pytest.mark.parametrize("text", ["2h ago", "vor 2h", "il y a 2h", "il y a 2 h", "hace 2h", "há 2 h", "2h atrás"])
def test_hours_alone_too(text: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.words == text
    assert found.span.start == NOW - dt.timedelta(hours=3)


def test_what_follows_the_hours_is_taken_for_minutes_only_where_it_is() -> None:
    for text, words in (
        ("vor 2h 15 Leute", "vor 2h"),
        ("hace 2h 15 personas", "hace 2h"),
        ("vor 2h 15 März", "vor 2h"),
    ):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == words
    seconds = find_time("vor 1h 30 Sekunden", NOW, UTC)
    assert seconds is not None and seconds.span.start is not None
    assert NOW - seconds.span.start < dt.timedelta(minutes=61)
    clock = find_time("8h10", NOW, UTC)
    assert clock is not None and clock.span.start == NOW.replace(hour=8, minute=10)


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (("01-26", "05-26"), "two thirds of a year ago|two-thirds of a year ago|vor zwei Dritteln eines Jahres|vor zwei drittel Jahren"
                             "|il y a deux tiers d'une année|hace dos tercios de año|há dois terços de um ano|三分之二年前|3分の2年前"),
        (("05-26", "09-26"), "a third of a year ago|one third of a year ago|vor einem Drittel eines Jahres|il y a un tiers d'année"
                             "|hace un tercio de año|há um terço de ano|三分之一年前|三分の一年前"),
    ],
)  # fmt: skip
def test_parts_of_a_unit_are_not_the_whole_unit(span: tuple[str, str], texts: str) -> None:
    for text in texts.split("|"):
        assert days(text) == span, text
    hour = find_time("two thirds of an hour ago", NOW, UTC)
    assert hour is not None and hour.span.start == NOW - dt.timedelta(minutes=50)


@pytest.mark.parametrize(
    "text",
    [
        "two thirds of the votes",
        "un tiers de la population",
        "a third week ago",
        "un tercio de la gente",
        "三分之二的人",
    ],
)
def test_parts_of_other_things_are_no_time(text: str) -> None:
    assert find_time(text, NOW, UTC) is None
    week = find_time("perdimos dos tercios de la semana pasada", NOW, UTC)
    assert week is not None and week.words == "semana pasada"


@pytest.mark.parametrize(
    "text",
    [
        "from Monday to Wednesday last week", "Monday through Wednesday of last week", "last week between Monday and Wednesday",
        "between Monday and Wednesday last week", "last week, from Monday to Wednesday",
        "von Montag bis Mittwoch letzter Woche", "zwischen Montag und Mittwoch letzter Woche",
        "letzte Woche zwischen Montag und Mittwoch",
        "du lundi au mercredi de la semaine dernière", "entre lundi et mercredi la semaine dernière",
        "la semaine dernière entre lundi et mercredi",
        "de lunes a miércoles de la semana pasada", "entre el lunes y el miércoles de la semana pasada",
        "la semana pasada entre lunes y miércoles",
        "de segunda a quarta da semana passada", "na semana passada de segunda a quarta",
        "na semana passada entre segunda e quarta",
        "上周一到周三", "上周周一和周三之间", "先週の月曜から水曜まで", "先週の月曜と水曜の間",
    ],
)  # fmt: skip
def test_both_weekdays_are_of_the_week_that_is_named(text: str) -> None:
    for day in (23, 24, 26, 29):  # whatever today is
        assert days(text, NOW.replace(day=day)) == ("11-16", "11-18"), (text, day)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("from Monday to Wednesday two weeks ago", ("11-09", "11-11")),
        ("from Friday to Monday of last week", ("11-13", "11-16")),
        ("from Wednesday to Wednesday last week", ("11-18", "11-18")),
        ("von Montag bis Freitag vorletzter Woche", ("11-09", "11-13")),
        ("from Monday to yesterday", ("11-23", "11-25")),
        ("from Friday to yesterday", ("11-20", "11-25")),
        ("last week from the 3rd to the 5th", None),
    ],
)
def test_other_weeks_and_ends(text: str, span: tuple[str, str] | None) -> None:
    assert days(text) == span


@pytest.mark.parametrize(
    ("minutes", "texts"),
    [
        (80, "an hour twenty ago|1 hour 20 ago|vor einer Stunde zwanzig|il y a une heure vingt|il y a 1 heure 20|hace una hora y veinte"
             "|há uma hora e vinte"),
        (135, "two hours 15 ago|vor 2 Stunden 15|il y a deux heures quinze|hace dos horas y quince|há duas horas e quinze"),
    ],
)  # fmt: skip
def test_minutes_are_told_without_their_name(minutes: int, texts: str) -> None:
    for text in texts.split("|"):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text, text
        assert found.span.start == NOW - dt.timedelta(minutes=minutes + 1), text


@pytest.mark.parametrize(("text", "words"), [("il y a une heure deux fois", "il y a une heure"),
                                             ("vor einer Stunde 20 Leute", "vor einer Stunde")])  # fmt: skip
def test_another_number_is_no_minutes(text: str, words: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.words == words


@pytest.mark.parametrize(
    "text",
    ["Monday and Tuesday of last week", "Monday or Tuesday last week", "Montag und Dienstag letzter Woche",
     "Montag oder Dienstag letzter Woche", "lundi ou mardi de la semaine dernière", "lundi et mardi de la semaine dernière",
     "el lunes y el martes de la semana pasada", "segunda-feira e terça-feira da semana passada"],
)  # fmt: skip
def test_two_days_side_by_side_are_both_of_the_week_that_is_named(text: str) -> None:
    for day in (23, 24, 26, 29):
        assert days(text, NOW.replace(day=day)) == ("11-16", "11-17"), (text, day)


@pytest.mark.parametrize(
    ("text", "span"),
    [("yesterday or today", ("11-25", "11-26")), ("January or February", ("01-01", "02-28")), ("hier ou aujourd'hui", ("11-25", "11-26"))],
)  # fmt: skip
def test_one_or_the_other_is_both(text: str, span: tuple[str, str]) -> None:
    assert days(text) == span


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (("12-15", "12-24"), "the week before Christmas|in der Woche vor Weihnachten|la semaine avant Noël|la semana antes de Navidad"
                             "|a semana antes do Natal"),
        (("04-06", "04-12"), "the week after Easter|die Woche nach Ostern|la semaine après Pâques|la semana después de Pascua"),
        (("11-04", "11-15"), "the week after November 3"),
        (("12-20", "12-21"), "the weekend before Christmas|el fin de semana antes de Navidad"),
        (("12-27", "12-28"), "the weekend after Christmas|das Wochenende nach Weihnachten"),
        (("04-12", "04-12"), "a week after Easter|eine Woche nach Ostern"),
    ],
)  # fmt: skip
def test_the_week_beside_a_day_is_no_single_day(span: tuple[str, str], texts: str) -> None:
    for text in texts.split("|"):
        assert days(text) == span, text


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("两三天前", ("11-23", "11-24")), ("三四天前", ("11-22", "11-23")), ("两三周前", ("11-02", "11-15")),
        ("两三个月前", ("08-01", "09-30")), ("十二三天前", ("11-13", "11-14")), ("五六个星期前", ("10-12", "10-25")),
        ("二三日前", ("11-23", "11-24")), ("二、三日前", ("11-23", "11-24")), ("2、3日前", ("11-23", "11-24")),
        ("最近两三天", ("11-23", "11-26")), ("23天前", ("11-03", "11-03")), ("三十四天前", ("10-23", "10-23")),
    ],
)  # fmt: skip
def test_two_numbers_in_a_row_are_the_one_or_the_other(text: str, span: tuple[str, str]) -> None:
    assert days(text) == span


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (("10-01", "10-15"), "the first half of October|in der ersten Hälfte des letzten Monats|la première moitié d'octobre"
                             "|la primera mitad de octubre|a primeira metade de outubro|十月上半月|10月前半|10月の前半"),
        (("10-16", "10-31"), "in the second half of October|the second half of last month|la seconde moitié du mois dernier"
                             "|la segunda mitad del mes pasado|na segunda metade do mês passado|上个月下半月|10月後半|先月の後半"),
        (("11-16", "11-19"), "the first half of last week|in der ersten Hälfte der letzten Woche|先週の前半"),
        (("11-19", "11-22"), "the second half of last week|先週の後半"),
        (("07-01", "12-31"), "the second half of the year|昨年の後半"),
    ],
)  # fmt: skip
def test_halves_of_a_period(span: tuple[str, str], texts: str) -> None:
    for text in texts.split("|"):
        assert days(text) == span, text


def test_a_half_of_something_else_is_no_time() -> None:
    for text in ("the second half of the match", "la segunda mitad del partido", "die zweite Hälfte der Torte"):
        assert find_time(text, NOW, UTC) is None, text


@pytest.mark.parametrize(
    "text",
    [
        "at the beginning of past week",
        "early last 2 weeks",
        "the end of the last 2 weeks",
        "最近两周底",
        "ここ2週間半ば",
    ],
)
def test_the_edge_of_a_stretch_that_ends_now_is_no_fault(text: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.span.end == NOW


@pytest.mark.parametrize(
    "text",
    ["from now until Christmas", "between now and Christmas", "von jetzt bis Weihnachten", "de maintenant à Noël"],
)
def test_a_date_may_end_what_begins_now(text: str) -> None:
    found = find_time(text, NOW, UTC)
    assert found is not None and found.words == text
    assert (found.span.start, found.span.end) == (NOW, dt.datetime(2026, 12, 26, tzinfo=dt.UTC))


def test_years_too() -> None:
    for text, first, last in (("五六年前", 2020, 2021), ("三四十年前", 1986, 1996), ("二零二三年", 2023, 2023)):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text and found.span.start and found.span.end, text
        assert (found.span.start.year, found.span.end.year - 1) == (first, last), text


def test_a_portuguese_weekday_is_no_number_of_a_day() -> None:
    assert days("de segunda a sexta") == ("11-23", "11-27")
    assert days("de segunda a quarta") == ("11-23", "11-25")
    assert days("de terça a sexta") == ("11-24", "11-27")
