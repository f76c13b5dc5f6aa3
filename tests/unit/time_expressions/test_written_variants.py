"""The same date written otherwise: ordinals with a dot, first years of an era, umlauts in two letters, days of the lunar calendar."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC)
FORM = "%Y-%m-%d %H:%M"


def read(text: str, zone: str = "UTC") -> str | None:
    """Return both ends of what was read, midnights as days."""
    found = find_time(text, NOW, ZoneInfo(zone))
    if found is None or found.span.start is None or found.span.end is None:
        return None
    ends = [
        end.astimezone(ZoneInfo(zone)).strftime(FORM).removesuffix(" 00:00")
        for end in (found.span.start, found.span.end)
    ]
    return " ".join(ends)


@pytest.mark.parametrize(
    ("texts", "span"),
    [
        ("1.º de mayo|el 1.º de mayo|1.º de maio", "2026-05-01 2026-05-02"),
        (
            "3.er trimestre de 2016|el 3.er trimestre de 2016|3.º trimestre de 2016|3.º trimestre 2016",
            "2016-07-01 2016-10-01",
        ),
        ("el 3.er lunes de octubre|quedamos el 3.er lunes de octubre en casa", "2026-10-19 2026-10-20"),
        ("2.ª semana de mayo", "2026-05-11 2026-05-18"),
    ],
)
def test_an_ordinal_has_its_ending_behind_a_dot(texts: str, span: str) -> None:
    for text in texts.split("|"):
        assert read(text) == span, text


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("27.11. 18:00", "2025-11-27 18:00 2025-11-27 18:01"),
        ("am 27.11. 18 Uhr Treffen mit Anna", "2025-11-27 18:00 2025-11-27 19:00"),
        ("27.11. 2015", "2015-11-27 2015-11-28"),
        ("Es waren 3.7. 5 Leute", None),
        ("1.2.3", None),
    ],
)
def test_a_day_with_two_dots_has_its_time_or_year_behind_a_space(text: str, span: str | None) -> None:
    assert read(text) == span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("令和元年5月1日", "2019-05-01 2019-05-02"),
        ("平成元年1月8日", "1989-01-08 1989-01-09"),
        ("令和元年", "2019-01-01 2020-01-01"),
        ("令和元年の5月", "2019-05-01 2019-06-01"),
        ("令和元年度", "2019-04-01 2020-04-01"),
    ],
)
def test_the_first_year_of_an_era_has_a_word(text: str, span: str) -> None:
    assert read(text) == span


@pytest.mark.parametrize(
    ("texts", "span"),
    [
        ("旧正月|農曆正月初一|大年初一", "2026-02-17 2026-02-18"),
        ("农历八月十五|中秋", "2026-09-25 2026-09-26"),
        ("农历五月初五", "2026-06-19 2026-06-20"),
        ("正月十五|元宵", "2026-03-03 2026-03-04"),
        ("农历八月十六|阴历三月三|旧暦8月15日|陰曆七月十五", None),
    ],
)
def test_a_day_of_the_lunar_calendar_is_none_of_the_solar_one(texts: str, span: str | None) -> None:
    for text in texts.split("|"):
        assert read(text) == span, text


@pytest.mark.parametrize(
    "text", ["その日", "当日", "この日", "这一天", "当天", "ce jour", "dieser Tag", "este día", "this day"]
)
def test_this_day_alone_is_today(text: str) -> None:
    assert read(text) == "2026-11-25 2026-11-26"


@pytest.mark.parametrize(
    "text",
    [
        "その日は雨だった",
        "当日の朝は早かった",
        "当天晚上我们去了",
        "这一天我很累",
        "ce jour il pleuvait",
        "on that day we left",
    ],
)
def test_that_day_in_a_sentence_is_no_time(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("im Maerz 2015", "2015-03-01 2015-04-01"),
        ("vor fuenf Minuten", "2026-11-25 15:14 2026-11-25 15:16"),
        ("vor zwoelf Tagen", "2026-11-13 2026-11-14"),
        ("im Fruehling", "2026-03-01 2026-06-01"),
    ],
)
def test_german_umlauts_may_be_two_letters(text: str, span: str) -> None:
    assert read(text) == span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("ante-ontem", "2026-11-23 2026-11-24"),
        ("ante ontem", "2026-11-23 2026-11-24"),
        ("ante ayer", "2026-11-23 2026-11-24"),
        ("dia dos professores", None),
        ("o dia dos professores foi bom", None),
        ("el día dos fuimos al cine", "2026-11-02 2026-11-03"),
        ("réveillon", "2025-12-31 2026-01-01"),
        ("REVEILLON", "2025-12-31 2026-01-01"),
        ("dia dos namorados", "2026-06-12 2026-06-13"),
        ("dia das criancas", "2026-10-12 2026-10-13"),
        ("端午の節句", "2026-05-05 2026-05-06"),
        ("メーデー", "2026-05-01 2026-05-02"),
        ("Heilig Abend", "2025-12-24 2025-12-25"),
        ("昨天正午", "2026-11-24 12:00 2026-11-24 13:00"),
    ],
)
def test_other_spellings_and_names_of_days(text: str, span: str | None) -> None:
    assert read(text) == span


@pytest.mark.parametrize(
    ("texts", "span"),
    [
        ("Q3/2016|Q3/16|T3/2016", "2016-07-01 2016-10-01"),
        ("08/12 de 2015|8 de 12 de 2015", "2015-12-08 2015-12-09"),
        ("primer bimestre de 2016|primeiro bimestre de 2016|premier bimestre 2016", "2016-01-01 2016-03-01"),
        ("el bimestre pasado|bimestre passado", "2026-09-01 2026-11-01"),
    ],
)
def test_a_part_of_a_year_keeps_its_year(texts: str, span: str) -> None:
    for text in texts.split("|"):
        assert read(text) == span, text


@pytest.mark.parametrize(
    ("texts", "span"),
    [
        ("27/11 a las 18hs|el 27/11 a las 18 hs|27/11 a las 18 hrs", "2025-11-27 18:00 2025-11-27 19:00"),
        ("昨晚12点|昨天晚上十二点|yesterday evening at 12|ayer a las 12 de la noche", "2026-11-25 2026-11-25 01:00"),
        ("am gestrigen Abend", "2026-11-24 18:00 2026-11-25"),
        ("am gestrigen Tag|der gestrige Tag", "2026-11-24 2026-11-25"),
        ("am heutigen Tag", "2026-11-25 2026-11-26"),
    ],
)
def test_hours_and_days_as_they_are_written(texts: str, span: str) -> None:
    for text in texts.split("|"):
        assert read(text) == span, text


@pytest.mark.parametrize("unit", ["horas", "hs", "hrs"])
def test_hours_before_a_day_are_a_length_unless_a_word_says_at(unit: str) -> None:
    assert read(f"trabajé 3 {unit} ayer") == "2026-11-24 2026-11-25"
    assert read(f"nos vimos a las 3 {unit} ayer") == "2026-11-24 03:00 2026-11-24 04:00"
    assert read(f"vimo-nos às 3 {unit} ontem") == "2026-11-24 03:00 2026-11-24 04:00"


@pytest.mark.parametrize(
    ("texts", "span"),
    [
        ("去年中秋|去年的中秋节|去年中秋節", "2025-10-06 2025-10-07"),
        ("去年中|2025年中", "2025-05-01 2025-09-01"),
        ("mid-autumn festival 2025|the mid autumn festival of 2025", "2025-10-06 2025-10-07"),
    ],
)
def test_a_festival_is_no_middle_of_a_year_or_season(texts: str, span: str) -> None:
    for text in texts.split("|"):
        assert read(text) == span, text


def test_days_that_portugal_has_at_another_date() -> None:
    assert read("dia dos namorados", "Europe/Lisbon") == "2026-02-14 2026-02-15"
    assert read("dia da criança", "Europe/Lisbon") == "2026-06-01 2026-06-02"
