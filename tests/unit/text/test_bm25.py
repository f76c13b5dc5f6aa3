"""Ranking by a memory's own words: stems, rarity, and what counts as all of a query."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from infinite_memory.loop_watchdog import MAX_HELD_S, LoopWatchdog, run_watched
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.text.bm25 import match_words, searched_stems

NOW = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)


def make_memory(text: str, title: str | None = None, number: int = 0) -> MemoryRecord:
    at = NOW + dt.timedelta(minutes=number)
    return MemoryRecord(MemoryId(f"{number:024x}"), ScopeId("0" * 24), text, "test", at, at, at, title=title)


def found(query: str, *texts: str) -> list[str]:
    memories = [make_memory(text, number=number) for number, text in enumerate(texts)]
    return [one.memory.text for one in asyncio.run(match_words(query, memories))]


@pytest.mark.parametrize(
    ("query", "text", "matches"),
    [
        ("deploy", "All deployments must pass", True),
        ("DEPLOY", "we deployed it", True),
        ("Nunez", "Señor Núñez", True),
        ("ERR_RESET", "it said ERR_RESET twice", True),
        ("Zorblax", "the office closes", False),
        ("test", "a contest", False),
        ("lighthuose", "the lighthouse keeper", False),
        ("the office", "the cat", False),  # an article is no match
        ("the", "the cat", True),  # unless there is nothing else
        ("東京", "東京タワー", True),
        ("", "anything", False),
        ("!?", "anything!?", False),
    ],
)
def test_words_match_by_their_stems_and_nothing_else(query: str, text: str, matches: bool) -> None:
    assert found(query, text) == ([text] if matches else [])


async def test_a_title_counts_more_than_the_text() -> None:
    titled = make_memory("something else entirely here", title="Ferry", number=1)
    plain = make_memory("ferry and something else", number=2)
    assert [one.memory for one in await match_words("ferry", [plain, titled])] == [titled, plain]


def test_rare_words_weigh_more_and_equal_scores_come_newest_first() -> None:
    texts = ("red boat", "red car", "red bus", "blue zeppelin")
    assert found("red zeppelin", *texts) == ["blue zeppelin", "red bus", "red car", "red boat"]


async def test_coverage_tells_how_much_of_a_query_is_there() -> None:
    [whole, half] = await match_words("tea cups", [make_memory("tea in cups"), make_memory("tea alone", number=1)])
    assert (whole.has_all, half.has_all) == (True, False)
    assert whole.coverage == pytest.approx(1)
    assert 0 < half.coverage < 1
    assert 1 >= whole.confidence(whole.score) > half.confidence(whole.score) > 0


def test_the_words_of_many_texts_are_counted_in_a_thread() -> None:
    many = [make_memory(f"ferry {number} harbour " * 600, number=number) for number in range(100)]
    watchdog = LoopWatchdog()
    assert len(run_watched(match_words("ferry", many), watchdog)) == len(many)
    assert watchdog.longest_s < 2 * MAX_HELD_S


def test_the_stems_of_a_query_leave_out_what_says_nothing() -> None:
    assert searched_stems("What are the deployments of the server?") == ["deploy", "server"]
    assert searched_stems("the of and") == []
