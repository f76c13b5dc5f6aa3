"""Text that is meant to be slow or strange: the work stays bounded and nothing is raised.

Time is not asserted; what bounds it is: how many lexemes are looked at, and how often a rule runs.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time
from infinite_memory.time_expressions.tokens import EXAMINED, tokenize

NOW = dt.datetime(2026, 11, 25, 14, 20, tzinfo=dt.UTC)
UTC = ZoneInfo("UTC")
LANGUAGES = Path(__file__).parents[2] / "data" / "time" / "languages.json"
LENGTH = 10_000
CALLS_PER_CHARACTER = 200  # about 0.15 microseconds each: 30 ms for the thousand characters that are looked at

REPEATED = [
    "last ",
    "1 ",
    "1",
    "1-",
    "1/1/1 ",
    "1.1.",
    "between ",
    "from monday to ",
    "the day before ",
    "3 days before ",
    "may 1 ",
    "two hundred and ",
    "twenty ",
    "the first of ",
    "end of the ",
    "last 3 months and 2 weeks and ",
    "20 min past ",
    "week of ",
    "Q1 to ",
    "(",
    "'",
    "://",
    "昨",
    "1年",
    "上个",
    "の",
    "a\u0301",
    "\ud800",
    "½ ",
    "٣ ",
    "²",
    "𝟗 ",
    "ﷺ",
]


def count_calls(text: str) -> int:
    """Count how many functions of ours run while *text* is read."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        find_time(text, NOW, UTC)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("unit", REPEATED, ids=ascii)
def test_work_grows_with_the_text_and_no_faster(unit: str) -> None:
    text = (unit * LENGTH)[:LENGTH]
    for loaded in (
        "yesterday",
        "昨日の",
        "昨天",
        "wat hebben we gisteren besproken",
    ):  # tables, words and model are loaded once
        find_time(loaded, NOW, UTC)

    assert count_calls(text) < CALLS_PER_CHARACTER * EXAMINED


@pytest.mark.parametrize("seed", range(4))
def test_work_is_bounded_on_words_and_digits_in_disorder(seed: int) -> None:
    chance = random.Random(seed)
    languages = json.loads(LANGUAGES.read_text(encoding="utf-8"))["languages"]
    phrases = [[text for text, _, _ in entry["cases"]] for entry in languages]
    one = chance.choice(phrases)
    texts = [
        "".join(chance.choice("0123456789 ./-:,h") for _ in range(EXAMINED)),
        " ".join(chance.choice(chance.choice(phrases)) for _ in range(EXAMINED // 4)),
        " ".join(word for _ in range(EXAMINED // 4) for word in chance.choice(one).split()),
        " ".join(str(chance.randrange(10_000)) for _ in range(EXAMINED // 2)),
    ]
    for text in ("yesterday", "昨日の", "昨天", "wat hebben we gisteren besproken", *texts):  # loaded once
        find_time(text, NOW, UTC)

    assert [ascii(text[:40]) for text in texts if count_calls(text[:EXAMINED]) >= CALLS_PER_CHARACTER * EXAMINED] == []


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    text = "word " * LENGTH + "yesterday"

    assert tokenize(text)[-1].end <= EXAMINED
    assert find_time(text, NOW, UTC) is None


def test_the_time_at_the_start_of_a_long_text_is_found() -> None:
    found = find_time("yesterday " + "word " * LENGTH, NOW, UTC)

    assert found is not None and found.words == "yesterday"


@pytest.mark.parametrize(
    "text",
    [
        "99999999999 days ago",
        "9999 years ago",
        "100000 decades ago",
        "the last 9999 years",
        "February 30",
        "the 31st of February 2020",
        "2020-13-45",
        "0000-00-00",
        "week 54",
        "year 0",
        "9999-12-31",
        "since 9999",
        "25:99 yesterday",
        "from 2020 to 2010",
    ],
)
def test_impossible_times_raise_nothing(text: str) -> None:
    found = find_time(text, NOW, UTC)

    assert found is None or found.span.start is None or found.span.end is None or found.span.start < found.span.end


def test_the_ends_of_the_calendar_raise_nothing() -> None:
    for now in (dt.datetime(1, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 12, tzinfo=dt.UTC)):
        for text in ("yesterday", "tomorrow", "last year", "this week", "since Monday", "in the 90s", "Easter"):
            find_time(text, now, ZoneInfo("Pacific/Kiritimati"))


@pytest.mark.parametrize("text", ["40000 days ago", "99999999999 days ago", "0000000000000001 weeks ago"])
def test_a_count_beyond_counting_is_no_time(text: str) -> None:
    """Found by a new user: the digits were skipped and "days ago" read as a few of them."""
    assert find_time(text, dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC), ZoneInfo("UTC")) is None
