"""Languages without a table: what CLDR says a phrase means is what is read, inside sentences too, and nothing is invented."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time

DATA = Path(__file__).parents[2] / "data" / "time"
TABLE: dict[str, Any] = json.loads((DATA / "languages.json").read_text(encoding="utf-8"))
TIMELESS: dict[str, list[str]] = json.loads((DATA / "timeless.json").read_text(encoding="utf-8"))["sentences"]
DECLARATION: dict[str, list[str]] = json.loads((DATA / "declaration.json").read_text(encoding="utf-8"))["languages"]
INFLECTED: dict[str, list[list[str]]] = json.loads((DATA / "inflected.json").read_text(encoding="utf-8"))["languages"]
ZONE = ZoneInfo(TABLE["zone"])
NOW = dt.datetime.fromisoformat(TABLE["now"]).replace(tzinfo=ZONE)


def days(text: str) -> tuple[str, str] | None:
    """Return the first day of what was read, and the day behind it."""
    found = find_time(text, NOW, ZONE)
    if found is None or found.span.start is None or found.span.end is None:
        return None
    return str(found.span.start.astimezone(ZONE).date()), str(found.span.end.astimezone(ZONE).date())


def test_at_least_twenty_five_languages_have_ten_phrases() -> None:
    assert sum(len(entry["cases"]) >= 10 for entry in TABLE["languages"]) >= 25


@pytest.mark.parametrize("entry", TABLE["languages"], ids=lambda entry: str(entry["code"]))
def test_a_phrase_of_another_language_means_what_cldr_says(entry: dict[str, Any]) -> None:
    read = {text: days(text) for text, _, _ in entry["cases"]}

    assert read == {text: (start, end) for text, start, end in entry["cases"]}


@pytest.mark.parametrize(
    ("text", "words", "start", "end"),
    [
        ("о чём мы говорили вчера?", "вчера", "2026-11-24", "2026-11-25"),
        ("co robiliśmy w zeszłym tygodniu", "w zeszłym tygodniu", "2026-11-16", "2026-11-23"),
        ("wat hebben we gisteren besproken?", "gisteren", "2026-11-24", "2026-11-25"),
        ("wat zeiden we twee weken geleden over het budget", "twee weken geleden", "2026-11-09", "2026-11-16"),
        ("di cosa abbiamo parlato ieri", "ieri", "2026-11-24", "2026-11-25"),
        ("mit beszéltünk tegnap", "tegnap", "2026-11-24", "2026-11-25"),
        ("dün ne konuştuk", "dün", "2026-11-24", "2026-11-25"),
        ("지난주에 무슨 얘기를 했지", "지난주에", "2026-11-16", "2026-11-23"),
        ("เมื่อวานเราคุยอะไรกัน", "เมื่อวาน", "2026-11-24", "2026-11-25"),
        ("על מה דיברנו אתמול?", "אתמול", "2026-11-24", "2026-11-25"),
        ("ماذا قلنا بالأمس", "بالأمس", "2026-11-24", "2026-11-25"),
        ("apa yang kita bicarakan kemarin", "kemarin", "2026-11-24", "2026-11-25"),
        ("hôm qua chúng ta nói gì", "hôm qua", "2026-11-24", "2026-11-25"),
        ("vorige week maandag", "vorige week maandag", "2026-11-16", "2026-11-17"),
        ("dal 12 gennaio 2016 al 3 marzo 2017", "12 gennaio 2016 al 3 marzo 2017", "2016-01-12", "2017-03-04"),
    ],
)
def test_the_time_inside_a_sentence_of_another_language_is_read(text: str, words: str, start: str, end: str) -> None:
    found = find_time(text, NOW, ZONE)

    assert found is not None and found.words == words
    assert days(text) == (start, end)


@pytest.mark.parametrize("language", INFLECTED)
def test_inflected_forms_are_read_whole(language: str) -> None:
    read = {text: days(text) for text, _, _ in INFLECTED[language]}

    assert read == {text: (start, end) for text, start, end in INFLECTED[language]}
    assert [text for text in read if (found := find_time(text, NOW, ZONE)) is None or found.rest] == []


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("вчера в 15:00", "2026-11-24 15:00", "2026-11-24 15:01"),
        ("что мы решили вчера в 15:00", "2026-11-24 15:00", "2026-11-24 15:01"),
        ("wczoraj o 15:00", "2026-11-24 15:00", "2026-11-24 15:01"),
        ("i går kl. 14.30", "2026-11-24 14:30", "2026-11-24 14:31"),
        ("ieri alle 14:30", "2026-11-24 14:30", "2026-11-24 14:31"),
        ("1 час 20 минут назад", "2026-11-25 13:59", "2026-11-25 14:01"),
        ("1 час и 20 минут назад", "2026-11-25 13:59", "2026-11-25 14:01"),
        ("2 tuntia ja 5 minuuttia sitten", "2026-11-25 13:14", "2026-11-25 13:16"),
        ("pred 2 urama i 5 minuta", "2026-11-25 13:14", "2026-11-25 13:16"),
        ("двадцать один день назад", "2026-11-04 00:00", "2026-11-05 00:00"),
        ("kolmekymmentä päivää sitten", "2026-10-26 00:00", "2026-10-27 00:00"),
    ],
)
def test_a_time_of_the_day_and_a_count_in_several_parts_are_read_whole(text: str, start: str, end: str) -> None:
    found = find_time(text, NOW, ZONE)

    assert found is not None and found.span.start is not None and found.span.end is not None
    assert f"{found.span.start.astimezone(ZONE):%Y-%m-%d %H:%M}" == start
    assert f"{found.span.end.astimezone(ZONE):%Y-%m-%d %H:%M}" == end


@pytest.mark.parametrize(
    "text", ["сто двадцать один день назад", "40000 дней назад", "99999999 день назад", "вчера до 15:00", "пред 2 дня"]
)
def test_the_rest_of_a_number_is_not_a_number(text: str) -> None:
    assert find_time(text, NOW, ZONE) is None


@pytest.mark.parametrize("text", ["قبل ٣ أيام", "۳ روز پیش"])
def test_digits_of_other_scripts_count(text: str) -> None:
    assert days(text) == ("2026-11-22", "2026-11-23")


def test_a_year_of_the_buddhist_era_is_not_taken_for_one_of_ours() -> None:
    assert days("12 พฤศจิกายน 2569") == days("12 พฤศจิกายน 2026") == ("2026-11-12", "2026-11-13")
    assert days("05/11/2569") is None


@pytest.mark.parametrize("text", ["sinds gisteren", "wat deden we sinds gisteren", "что было до вчера"])
def test_half_of_what_was_said_is_not_read_as_the_whole(text: str) -> None:
    assert find_time(text, NOW, ZONE) is None


@pytest.mark.parametrize(
    ("text", "words", "start", "end"),
    [
        ("5de november", "5de november", "2026-11-05", "2026-11-06"),
        ("5e november", "5e november", "2026-11-05", "2026-11-06"),
        ("op 5de november", "5de november", "2026-11-05", "2026-11-06"),
        ("3e mei", "3e mei", "2026-05-03", "2026-05-04"),
        ("wat hebben we op 3e mei besproken", "3e mei", "2026-05-03", "2026-05-04"),
        ("vrijdag 3e mei", "vrijdag 3e mei", "2026-05-03", "2026-05-04"),
        ("21ste maart 2024", "21ste maart 2024", "2024-03-21", "2024-03-22"),
        ("1ste april", "1ste april", "2026-04-01", "2026-04-02"),
        ("5:e november", "5:e november", "2026-11-05", "2026-11-06"),
        ("den 5:e november", "5:e november", "2026-11-05", "2026-11-06"),
        ("1:a maj", "1:a maj", "2026-05-01", "2026-05-02"),
        ("что мы решили 5-го мая", "5-го мая", "2026-05-05", "2026-05-06"),
        ("5-го ноября 2024", "5-го ноября 2024", "2024-11-05", "2024-11-06"),
        ("1η Μαΐου", "1η Μαΐου", "2026-05-01", "2026-05-02"),
        ("1º maggio", "1º maggio", "2026-05-01", "2026-05-02"),
        ("3-go maja", "3-go maja", "2026-05-03", "2026-05-04"),
        ("1er mai", "1er mai", "2026-05-01", "2026-05-02"),
        ("2e mai", "2e mai", "2026-05-02", "2026-05-03"),
    ],
)
def test_an_ordinal_before_a_month_is_its_day(text: str, words: str, start: str, end: str) -> None:
    """ "5de november" was all of November, for English spells the month alike; "3e mei" was no time."""
    found = find_time(text, NOW, ZONE)

    assert found is not None and found.words == words
    assert days(text) == (start, end)


@pytest.mark.parametrize(
    "text", ["31ste juni", "31e april", "den 31:e juni", "31-го июня", "3e", "de 3e keer dat we", "5de"]
)
def test_an_ordinal_that_is_no_day_of_the_month_is_no_time(text: str) -> None:
    assert find_time(text, NOW, ZONE) is None


@pytest.mark.parametrize("language", TIMELESS)
def test_no_time_is_invented_in_any_language(language: str) -> None:
    found = {text: find_time(text, NOW, ZONE) for text in TIMELESS[language]}

    assert {text: time.words for text, time in found.items() if time} == {}


def test_the_declaration_is_there_in_at_least_sixty_languages() -> None:
    assert sum(len(paragraphs) >= 10 for paragraphs in DECLARATION.values()) >= 60


@pytest.mark.parametrize("language", DECLARATION)
def test_a_public_text_without_a_time_stays_without_one(language: str) -> None:
    found = {text: find_time(text, NOW, ZONE) for text in DECLARATION[language]}

    assert {text: time.words for text, time in found.items() if time} == {}


@pytest.mark.parametrize("language", DECLARATION)
def test_no_phrase_of_such_a_text_is_a_time_though_the_caller_says_so(language: str) -> None:
    words = " ".join(DECLARATION[language][:3]).split()[:40]
    phrases = [" ".join(words[at : at + size]) for size in (2, 4, 6) for at in range(0, len(words), size)]
    found = {phrase: find_time(phrase, NOW, ZONE, whole=True) for phrase in phrases}

    assert {phrase: time.words for phrase, time in found.items() if time} == {}


@pytest.mark.parametrize("text", ["3 วันที่แล้ว", "منذ 3 أيام"])
def test_the_other_words_for_ago_are_read_too(text: str) -> None:
    found = find_time(text, dt.datetime(2026, 11, 25, 15, 20, tzinfo=dt.UTC), ZoneInfo("UTC"))

    assert found is not None and found.rest == ""
    assert found.span.start == dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    assert found.span.end == dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
