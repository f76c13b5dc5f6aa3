"""The inflected forms that CLDR leaves out (`forms.json`), held against what CLDR, dateparser and moment.js print of each language."""

from __future__ import annotations

import datetime as dt
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time
from infinite_memory.time_expressions.locales import data
from infinite_memory.time_expressions.locales.words import split_words

DATA = Path(__file__).parents[2] / "data" / "time"
PRINTED: dict[str, Any] = json.loads((DATA / "printed.json").read_text(encoding="utf-8"))["languages"]
ZONE = ZoneInfo("Europe/Berlin")
NOW = dt.datetime(2026, 11, 25, 15, 20, tzinfo=ZONE)

KINDS = {"weekdays": 7, "last weekdays": 7, "months": 12}
UNDECIDED = {("el", "Γενάρη"), ("el", "Φλεβάρη"), ("el", "Μάη"), ("ru", "в мае")}
"""Everyday names of months that no table prints, and one of three letters that is as like to March as to May."""

TWO_MEANINGS = {
    "id": {"Minggu lalu pukul 12.00"},  # last Sunday, or last week
    "sr": {"прошле недеље у 12:00"},  # the same
    "hy": {"անցած շաբաթ օրը ժամը 12:00"},  # last Saturday, or last week
    "ko": {"지난주 월요일 오후 12:00", "지난주 화요일 오후 12:00"},  # last week's, where moment means the last
    "vi": {"thứ hai tuần trước lúc 12:00", "thứ ba tuần trước lúc 12:00"},  # the same
}
"""Phrases that moment prints for a last weekday, and that say something else as well."""


def plain_words(text: str) -> set[str]:
    """Return the words of *text* in small letters, without marks of Latin letters: "sambata" is written for "sâmbăta"."""
    folded = (word.folded for word in split_words(text, 200) if word.is_letters)
    return {"".join(c for c in unicodedata.normalize("NFD", word) if not "\u0300" <= c <= "\u036f") for word in folded}


def without_shared(rows: Sequence[set[str]]) -> list[set[str]]:
    """Leave out the words that stand in more than one row: "last", the word for day."""
    counts = Counter(word for row in rows for word in row)
    return [{word for word in row if counts[word] == 1} for row in rows]


def printed_names(code: str, kind: str) -> list[set[str]]:
    """Return for each weekday or month the words that the tables print for it alone."""
    raw, cldr, moment = data.raw(code), data.cldr().get(code, {}), PRINTED.get(code, {})
    if kind == "months":
        keys, tables = data.MONTHS, [cldr.get("months", ()), moment.get("months", ())]
    else:
        keys = data.WEEKDAYS
        tables = [cldr.get("weekdays", ()), moment.get("last", ()), moment.get("next", ())]
        tables += [[[phrase] for phrase in phrases] for phrases in cldr.get("weekday_phrases", {}).values()]
        tables.append([[name] for name in moment.get("weekdays", ())])
    rows = []
    for number, key in enumerate(keys):
        phrases = [*raw.get(key, ()), *(phrase for table in tables if table for phrase in table[number])]
        rows.append({word for phrase in phrases for word in plain_words(phrase)})
    return without_shared(rows)


def likeness(form: str, printed: set[str]) -> float:
    """Return how much of the longer word the beginning is that a form shares with the likest printed word, 0.0 to 1.0."""
    best = 0.0
    for own in plain_words(form):
        for word in printed:
            shared = next((at for at, pair in enumerate(zip(own, word, strict=False)) if pair[0] != pair[1]), None)
            shared = min(len(own), len(word)) if shared is None else shared
            best = max(best, shared / max(len(own), len(word)))
    return best


def own_forms(code: str, kind: str) -> Iterator[tuple[int, str]]:
    for number, forms in enumerate(data.forms()[code].get(kind, ())):
        for form in forms.split("|"):
            if (code, form) not in UNDECIDED:
                yield number, form


def likest(form: str, rows: Sequence[set[str]]) -> list[int]:
    """Return the numbers of the printed names that a form is likest to."""
    likenesses = [likeness(form, row) for row in rows]
    return [number for number, value in enumerate(likenesses) if value == max(likenesses) > 0]


def test_every_inflected_name_is_likest_to_the_printed_names_of_its_own_day_or_month() -> None:
    checked, wrong = 0, []
    for code in data.forms():
        for kind in KINDS:
            rows = printed_names(code, kind)
            for number, form in own_forms(code, kind):
                checked += 1
                if likest(form, rows) != [number]:
                    wrong.append((code, kind, number, form, likest(form, rows)))

    assert wrong == []
    assert checked > 450


def test_a_name_in_another_ones_place_is_noticed() -> None:
    """The check above can fail: each name that is put one place further is likest to its neighbour."""
    for code in data.forms():
        for kind, size in KINDS.items():
            rows = printed_names(code, kind)
            for number, form in own_forms(code, kind):
                assert likest(form, rows) != [(number + 1) % size], (code, form)


@pytest.mark.parametrize("code", data.forms())
def test_no_form_says_what_cldr_says_of_something_else(code: str) -> None:
    table, cldr = data.forms()[code], data.cldr().get(code, {})
    printed = {
        data.words_of(phrase): f"{unit} {distance}"
        for unit, phrases in cldr.get("relative", {}).items()
        for distance, phrase in phrases.items()
        if data.words_of(phrase)
    }
    own = [(phrase, key) for key, phrases in table.get("phrases", {}).items() for phrase in phrases.split("|")]
    for distance in (-1, 0):
        for template in table.get(f"step {distance}", ()):
            for unit, words in table["units"].items():
                own += [(template.replace("{0}", word), f"{unit} {distance}") for word in words.split("|")]
    assert [(phrase, key) for phrase, key in own if printed.get(data.words_of(phrase), key) != key] == []

    numbers = {data.words_of(name): value for value, names in cldr.get("numbers", {}).items() for name in names}
    own = [(name, value) for value, names in table.get("numbers", {}).items() for name in names.split("|")]
    assert [(name, value) for name, value in own if numbers.get(data.words_of(name), value) != value] == []


@pytest.mark.parametrize("code", [code for code in data.forms() if code in PRINTED])
def test_no_unit_is_the_word_that_a_table_prints_for_another(code: str) -> None:
    cldr, raw = data.cldr().get(code, {}), data.raw(code)
    units = ("week", "month", "year")
    rows = []
    for unit in units:
        phrases = [row[0].replace("{0}", " ") for row in cldr.get("past", {}).get(unit, ())]
        phrases += [*cldr.get("relative", {}).get(unit, {}).values(), *raw.get(unit, ())]
        rows.append({word for phrase in phrases for word in plain_words(phrase)})
    printed = dict(zip(units, without_shared(rows), strict=True))
    for unit, words in data.forms()[code].get("units", {}).items():
        for word in words.split("|"):
            assert not [other for other in units if other != unit and plain_words(word) <= printed[other]], (unit, word)


@pytest.mark.parametrize("code", [code for code in data.forms() if code in PRINTED])
def test_a_last_weekday_as_moment_prints_it_is_no_other_day(code: str) -> None:
    for weekday, phrases in enumerate(PRINTED[code]["last"]):
        for phrase in phrases:
            found = find_time(phrase, NOW, ZONE)
            if phrase in TWO_MEANINGS.get(code, ()) or found is None or found.span.start is None:
                continue
            start = found.span.start.astimezone(ZONE)
            is_clock_alone = code == "ca" and found.words.startswith("a les")  # Spanish knows these words
            is_week_alone = code == "ta" and start.date() == dt.date(2026, 11, 16)  # "of last week", of whatever day
            assert start.weekday() == weekday or is_clock_alone or is_week_alone, (phrase, found.words)


def test_a_last_weekday_as_moment_prints_it_is_read_in_most_languages() -> None:
    read = [
        code
        for code, printed in PRINTED.items()
        if all(find_time(phrase, NOW, ZONE) for phrases in printed["last"] for phrase in phrases)
    ]

    assert len(read) >= 45
