"""Fractions, dates in figures and in words, and numbers that are no dates: read as a whole, or not at all."""

from __future__ import annotations

import datetime as dt
import string
import unicodedata
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.time_expressions import find_time

UTC = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC)
FORM = "%Y-%m-%d %H:%M"


def ends(text: str) -> tuple[str | None, str | None] | None:
    """Return both ends of what was read, to the minute."""
    found = find_time(text, NOW, UTC)
    if found is None:
        return None
    start, end = found.span.start, found.span.end
    return start.strftime(FORM) if start else None, end.strftime(FORM) if end else None


@pytest.mark.parametrize(
    ("minutes", "texts"),
    [
        (30, "half an hour ago|vor einer halben Stunde|il y a une demi-heure|hace media hora|há meia hora|半小时前"
             "|meia hora atrás|½ hour ago"),
        (90, "an hour and a half ago|vor anderthalb Stunden|il y a une heure et demie|hace una hora y media|há uma hora e meia"
             "|一个半小时前|1時間半前|1.5 hours ago|vor 1,5 Stunden|1½ hours ago|1 1/2 hours ago"),
        (150, "2.5 hours ago|vor zweieinhalb Stunden|il y a 2,5 heures|hace 2,5 horas|há 2,5 horas|2.5小时前|2時間半前"
              "|two and a half hours ago"),
        (15, "a quarter of an hour ago|vor einer Viertelstunde|il y a un quart d'heure|hace un cuarto de hora|há um quarto de hora"
             "|一刻钟前"),
        (45, "three quarters of an hour ago|vor drei Viertelstunden|il y a trois quarts d'heure|hace tres cuartos de hora"
             "|三刻钟前"),
    ],
)  # fmt: skip
def test_a_fraction_of_an_hour_is_read_in_every_language(minutes: int, texts: str) -> None:
    moment = NOW - dt.timedelta(minutes=minutes)
    for text in texts.split("|"):
        found = find_time(text, NOW, UTC)
        assert found is not None and found.words == text and found.span.start and found.span.end, text
        assert found.span.start + (found.span.end - found.span.start) / 2 == moment, text
        assert found.span.end - found.span.start in (dt.timedelta(minutes=15), dt.timedelta(minutes=30)), text


@pytest.mark.parametrize("text", ["a year and a half ago", "vor anderthalb Jahren", "il y a un an et demi", "hace un año y medio",
                                  "há um ano e meio", "一年半前"])  # fmt: skip
def test_a_year_and_a_half_is_eighteen_months(text: str) -> None:
    assert ends(text) == ("2025-02-25 00:00", "2025-08-26 00:00")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("05.11.2026", "2026-11-05 00:00", "2026-11-06 00:00"),
        ("11.05.2026", "2026-05-11 00:00", "2026-05-12 00:00"),
        ("5.11.26", "2026-11-05 00:00", "2026-11-06 00:00"),
        ("05/11/2026", "2026-05-11 00:00", "2026-05-12 00:00"),
        ("after or equal to 1/1/2016", "2016-01-01 00:00", "2026-11-25 15:20"),
        ("later than or equal to 1/1/2016", "2016-01-01 00:00", "2026-11-25 15:20"),
        ("earlier than or equal to 1/1/2016", None, "2016-01-02 00:00"),
        ("April of 87", "1987-04-01 00:00", "1987-05-01 00:00"),
        ("2000年之前", None, "2000-01-01 00:00"),
        ("dreißigster Dezember", "2025-12-30 00:00", "2025-12-31 00:00"),
        ("einunddreißigster Oktober", "2026-10-31 00:00", "2026-11-01 00:00"),
        ("October 10, 1582", "1582-10-10 00:00", "1582-10-11 00:00"),
        ("2026-W45", "2026-11-02 00:00", "2026-11-09 00:00"),
        ("2026W45", "2026-11-02 00:00", "2026-11-09 00:00"),
        ("2026-W45-3", "2026-11-04 00:00", "2026-11-05 00:00"),
        ("what happened in W45?", "2026-11-02 00:00", "2026-11-09 00:00"),
        ("KW 45/2026", "2026-11-02 00:00", "2026-11-09 00:00"),
        ("between 7 and 9 last night", "2026-11-24 19:00", "2026-11-24 21:00"),
        ("zwischen 7 und 9 gestern Abend", "2026-11-24 19:00", "2026-11-24 21:00"),
        ("entre 7 e 9 ontem à noite", "2026-11-24 19:00", "2026-11-24 21:00"),
        ("昨夜7時から9時まで", "2026-11-24 19:00", "2026-11-24 21:00"),
        ("last night at 2", "2026-11-25 02:00", "2026-11-25 03:00"),
        ("seit zwei Wochen", "2026-11-11 00:00", "2026-11-25 15:20"),
        ("depuis une heure et demie", "2026-11-25 13:50", "2026-11-25 15:20"),
        ("ab gestern 15 Uhr", "2026-11-24 15:00", "2026-11-25 15:20"),
    ],
)
def test_what_was_said_is_read_whole(text: str, start: str | None, end: str | None) -> None:
    assert ends(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    ["yesterday at 24:00", "gestern um 24 Uhr", "gestern um 24:00 Uhr", "hier à 24h", "ayer a las 24", "ayer a las 24 horas",
     "ontem às 24h", "昨天24点", "昨日の24時"],
)  # fmt: skip
def test_hour_24_is_the_midnight_at_the_end_of_its_day(text: str) -> None:
    found = ends(text)

    assert found is not None and found[0] == "2026-11-25 00:00"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("8h10", "2026-11-25 08:10", "2026-11-25 08:11"),
        ("8:10 Uhr", "2026-11-25 08:10", "2026-11-25 08:11"),
        ("le dernier trimestre", "2026-07-01 00:00", "2026-10-01 00:00"),
        ("el último trimestre", "2026-07-01 00:00", "2026-10-01 00:00"),
        ("el tercer cuatrimestre de 2016", "2016-09-01 00:00", "2017-01-01 00:00"),
        ("el cuatrimestre pasado", "2026-05-01 00:00", "2026-09-01 00:00"),
        ("o segundo quadrimestre de 2016", "2016-05-01 00:00", "2016-09-01 00:00"),
        ("im zweiten Tertial 2024", "2024-05-01 00:00", "2024-09-01 00:00"),
        ("fete du travail", "2026-05-01 00:00", "2026-05-02 00:00"),
    ],
)
def test_quarters_terms_of_four_months_and_times_of_today(text: str, start: str, end: str) -> None:
    assert ends(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "31 June", "June 31", "30 February 2020", "29.02.2023", "on the 31st of April", "April 31st", "31 juin", "6月31日",
        "am 31. Juni", "4 days before", "troponin 30/4.85", "blood pressure 120/80", "3/4 of the votes", "192.168.1.1", "v2.3.4",
        "1,500 days ago", "2026-W54", "2026-300", "March 3, 3500",
        "31st of September", "on 31st of September we met", "31st November", "31th November", "32nd August", "31st April",
        "32nd of January", "32 January", "0 May",
        "00/01/2025", "1/0/2025", "0.1.2025", "2025-00-10", "2025-10-00",
    ],
)  # fmt: skip
def test_what_is_no_time_or_does_not_exist_is_not_read_in_part(text: str) -> None:
    assert ends(text) is None


@pytest.mark.parametrize("text", ["issue 45 May 2020", "volume 99 May 2020"])
def test_a_number_that_can_be_no_day_hides_no_month(text: str) -> None:
    assert ends(text) == ("2020-05-01 00:00", "2020-06-01 00:00")


@pytest.mark.parametrize("text", ["until 5 yesterday", "yesterday before 5", "bis 5 gestern", "after 5 yesterday"])
def test_a_bare_number_that_bounds_a_day_is_not_read_as_the_whole_day(text: str) -> None:
    assert find_time(text, NOW, UTC) is None


@pytest.mark.parametrize(
    "text",
    [
        "before or on 3 May 2024", "up to and including 3 May 2024", "vor oder am 3. Mai 2024", "bis einschließlich 3. Mai 2024",
        "spätestens am 3. Mai 2024", "avant ou le 3 mai 2024", "au plus tard le 3 mai 2024", "antes o el 3 de mayo de 2024",
        "a más tardar el 3 de mayo de 2024", "em ou antes de 3 de maio de 2024", "2024年5月3日或之前",
    ],
)  # fmt: skip
def test_a_day_that_is_named_as_the_last_is_inside(text: str) -> None:
    found = find_time(text, NOW, UTC)

    assert found is not None and found.rest == ""
    assert (found.span.start, found.span.end) == (None, dt.datetime(2024, 5, 4, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("5 few days ago", ("5",)),
        ("a dozen dozen days ago", ("a dozen",)),
        ("two hundred dozen years ago", ("two hundred",)),
        ("1.5 dozen days ago", ("1.5",)),
        ("a few hundred years ago", ("a few",)),
        ("13th month of 2025", ("13th month",)),
        ("week 60 of 2025", ("week 60",)),
        ("Woche 60 von 2025", ("Woche 60",)),
        ("yesterday at half past", ("at half past",)),
        ("what did we say yesterday at 25:00", ("at 25:00",)),
        ("notes from last week and from 3 days ago", ("from last week",)),
        ("sold 3 yesterday", ()),
        ("what was the release of version 2.3 last month", ()),
        ("two days ago and in the spring", ("in the spring",)),
        ("yesterday and in 2019 too", ("in 2019",)),
        ("last week or in March", ("in March",)),
        ("yesterday at noon and on 3 May 2024", ("on 3 May 2024",)),
        ("gestern und im Frühling", ("im Frühling",)),
        ("la semaine dernière ou en mars", ("en mars",)),
        ("ontem ou em 2019", ("em 2019",)),
        ("yesterday at 25 o'clock", ("at 25 o'clock",)),
        ("yesterday we sat in the sun", ()),
        ("yesterday she may have left", ()),
    ],
)
def test_what_looks_like_a_time_and_was_not_read_is_named(text: str, unread: tuple[str, ...]) -> None:
    found = find_time(text, NOW, UTC)

    assert found is not None and found.unread == unread
    assert all(part in text for part in found.unread)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("hace hora y media", "an hour and a half ago"),
        ("hora y media atrás", "an hour and a half ago"),
        ("há hora e meia", "an hour and a half ago"),
        ("hour and a half ago", "an hour and a half ago"),
        ("hace año y medio", "a year and a half ago"),
        ("hace mes y medio", "a month and a half ago"),
        ("há dia e meio", "a day and a half ago"),
        ("week ago", "a week ago"),
        ("hace semana", "hace una semana"),
        ("vor Woche", "vor einer Woche"),
    ],
)
def test_a_unit_without_a_number_is_one_and_takes_its_half(text: str, same: str) -> None:
    found, expected = find_time(text, NOW, UTC), find_time(same, NOW, UTC)

    assert found is not None and expected is not None
    assert (found.span, found.words) == (expected.span, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half a dozen days ago", ("2026-11-18 00:00", "2026-11-21 00:00")),
        ("a dozen weeks ago", ("2026-08-26 00:00", "2026-09-10 00:00")),
        ("two dozen days ago", ("2026-10-31 00:00", "2026-11-03 00:00")),
        ("dozens of weeks ago", None),
        ("hundreds of years ago", None),
    ],
)
def test_how_many_is_read_with_its_unit_or_not_at_all(text: str, expected: tuple[str, str] | None) -> None:
    assert ends(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "před hodinou a půl", "acum un an și jumătate", "преди час и половина", "prije sat i pol", "fa una hora i mitja",
        "hai unha hora e media", "לפני שעה וחצי", "anderhalve dag geleden", "mezz'ora fa",
    ],
)  # fmt: skip
def test_a_count_whose_half_is_not_read_is_no_time(text: str) -> None:
    assert find_time(text, NOW, UTC, whole=True) is None


@pytest.mark.parametrize(
    "text", ["un'ora fa", "před hodinou", "ieri ho mangiato mezza mela", "acum un an", "we spent it a year ago"]
)
def test_a_half_that_is_not_said_or_of_something_else_takes_no_time_away(text: str) -> None:
    assert find_time(text, NOW, UTC) is not None


_WORDS = ["half", "an", "hour", "ago", "last", "week", "vor", "zwei", "et", "demie", "年", "半", "前", "gisteren", "вчера", "12", "2026",
          "/", ".", ":", "½", "between", "and", "night", "31", "June", "W45", "เมื่อวาน", "أمس", "어제", "\u0301", "'"]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join),
        st.lists(st.sampled_from(_WORDS), max_size=12).map("".join),
        st.text(max_size=40),
        st.text(alphabet=string.printable, max_size=40),
    )
)
def test_any_text_is_read_the_same_twice_and_its_words_stand_in_it(text: str) -> None:
    first, second = find_time(text, NOW, UTC), find_time(text, NOW, UTC)

    assert first == second
    if first is not None:
        assert stands_in(first.words, text)
        assert first.span.start is None or first.span.end is None or first.span.start < first.span.end


def stands_in(words: str, text: str) -> bool:
    """Tell whether *words* stand in *text* in its own spelling or in the composed one."""
    return words in text or words in unicodedata.normalize("NFC", text)
