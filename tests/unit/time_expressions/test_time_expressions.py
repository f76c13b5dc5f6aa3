"""Phrases and what they mean, from the shared table; and what `find_time` promises beside the range."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest
from phrase_table import Phrase, load_phrases, load_timeless

from infinite_memory.time_expressions import EXAMPLES, Anchor, find_time

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")
NOW = dt.datetime(2026, 11, 25, 14, 20, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


@pytest.mark.parametrize("phrase", load_phrases(), ids=lambda phrase: f"{phrase.section}: {phrase.text}")
def test_a_phrase_means_its_range(phrase: Phrase) -> None:
    found = find_time(phrase.text, phrase.now, phrase.zone)

    assert found is not None
    assert found.span.start == phrase.start
    assert found.span.end == phrase.end


@pytest.mark.parametrize("text", load_timeless())
def test_a_text_without_time_finds_none(text: str) -> None:
    assert find_time(text, NOW, UTC) is None


def test_ranges_are_aware_and_in_utc() -> None:
    found = find_time("last week", NOW, BERLIN)

    assert found is not None and found.span.start is not None and found.span.end is not None
    assert found.span.start.utcoffset() == found.span.end.utcoffset() == dt.timedelta(0)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        ("2026-03-29", "Europe/Berlin", 23),
        ("2026-10-25", "Europe/Berlin", 25),
        ("2026-03-08", "America/New_York", 23),
        ("2026-11-01", "America/New_York", 25),
        ("2026-09-06", "America/Santiago", 23),  # the day begins at one: there is no midnight
        ("2026-04-04", "America/Santiago", 25),  # the hour before midnight comes twice
        ("2026-10-04", "Australia/Lord_Howe", 23.5),
    ],
)
def test_a_day_is_as_long_as_the_clocks_make_it(day: str, zone: str, hours: float) -> None:
    noon = dt.datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone))
    found = find_time("today", noon, ZoneInfo(zone))

    assert found is not None and found.span.start is not None and found.span.end is not None
    assert found.span.end - found.span.start == dt.timedelta(hours=hours)


def test_hours_are_counted_in_real_time_over_a_clock_change() -> None:
    now = dt.datetime(2026, 10, 25, 12, 0, tzinfo=BERLIN)
    found = find_time("in the last 24 hours", now, BERLIN)

    assert found is not None and found.span.start is not None and found.span.end is not None
    assert found.span.end - found.span.start == dt.timedelta(hours=24)
    assert found.span.start.astimezone(BERLIN).hour == 13


def test_days_are_counted_in_wall_time_over_a_clock_change() -> None:
    now = dt.datetime(2026, 3, 30, 12, 0, tzinfo=BERLIN)
    found = find_time("the last 2 days", now, BERLIN)

    assert found is not None
    assert found.span.start == dt.datetime(2026, 3, 28, 0, 0, tzinfo=BERLIN)


def test_the_zone_decides_the_day_and_not_the_offset_of_now() -> None:
    now = dt.datetime(2026, 11, 25, 23, 10, tzinfo=dt.UTC)
    tokyo = ZoneInfo("Asia/Tokyo")
    found = find_time("yesterday", now, tokyo)

    assert found is not None
    assert found.span.start == dt.datetime(2026, 11, 25, tzinfo=tokyo)


@pytest.mark.parametrize(
    ("text", "words", "rest"),
    [
        ("what did we decide about the budget two weeks ago?", "two weeks ago", "what did we decide about the budget?"),
        ("yesterday", "yesterday", ""),
        ("last Monday's meeting with Ada", "last Monday", "meeting with Ada"),
        ("notes, from last week, about tea", "from last week", "notes, about tea"),
        ("In March we moved", "In March", "we moved"),
        ("上周我们讨论了什么", "上周", "我们讨论了什么"),
    ],
)
def test_the_time_words_are_cut_out_of_the_text(text: str, words: str, rest: str) -> None:
    found = find_time(text, NOW, UTC)

    assert found is not None
    assert (found.words, found.rest) == (words, rest)


@pytest.mark.parametrize("text", ["what changed since we last spoke", "since our last conversation"])
def test_the_last_conversation_is_left_to_the_caller(text: str) -> None:
    found = find_time(text, NOW, UTC)

    assert found is not None
    assert found.anchor is Anchor.LAST_CONVERSATION
    assert (found.span.start, found.span.end) == (None, NOW)


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_is_understood(text: str) -> None:
    assert find_time(text, NOW, UTC) is not None


def test_a_named_language_is_read_alone() -> None:
    assert find_time("letzte Woche", NOW, UTC, "de") is not None
    assert find_time("letzte Woche", NOW, UTC, "en") is None


def test_day_and_month_are_ordered_as_the_language_does() -> None:
    english, german = find_time("03/04/2020", NOW, UTC, "en"), find_time("03/04/2020", NOW, UTC, "de")

    assert english is not None and english.span.start == dt.datetime(2020, 3, 4, tzinfo=dt.UTC)
    assert german is not None and german.span.start == dt.datetime(2020, 4, 3, tzinfo=dt.UTC)


def test_a_naive_now_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        find_time("yesterday", dt.datetime(2026, 1, 1), UTC)


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match="not one of the languages"):
        find_time("yesterday", NOW, UTC, "tlh")


def test_importing_loads_neither_dateparser_nor_the_grammar() -> None:
    heavy = ("dateparser", "infinite_memory.time_expressions.grammar", "infinite_memory.time_expressions.languages")
    code = f"import sys, infinite_memory.time_expressions; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_questions_in_our_languages_load_no_model() -> None:
    code = (
        "import sys, datetime as dt, zoneinfo\n"
        "from infinite_memory.time_expressions import find_time\n"
        "now = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)\n"
        "for text in ('what did we decide about the budget last week', 'nginx rollout yesterday', 'Kubernetes Rollout gestern',\n"
        "             'nginx ingress rollout last week', '昨天我们讨论了什么'):\n"
        "    assert find_time(text, now, zoneinfo.ZoneInfo('UTC'))\n"
        "print([name for name in ('dateparser', 'py3langid', 'infinite_memory.time_expressions.locales') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_phrases_of_the_tables_need_no_dateparser() -> None:
    code = (
        "import sys, datetime as dt, zoneinfo\n"
        "from infinite_memory.time_expressions import find_time\n"
        "now = dt.datetime(2026, 11, 25, tzinfo=dt.UTC)\n"
        "for text in ('last week', 'from 5 May 2019 to 3 June 2020', 'il y a deux jours', 'nothing at all'):\n"
        "    find_time(text, now, zoneinfo.ZoneInfo('UTC'))\n"
        "print('dateparser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
