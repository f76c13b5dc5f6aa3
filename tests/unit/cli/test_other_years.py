"""`recall last march`: the words name a month without its year, and which one is meant is not the same for everybody."""

from __future__ import annotations

import datetime as dt
from typing import Any

from infinite_memory.cli.memories import name_other_years

YEAR = dt.datetime.now(dt.UTC).year
SOMETHING = [{"text": "tea"}]


def later(words: str, start: str | None, end: str | None, results: Any = SOMETHING) -> list[str]:
    """Return what is offered where *words* were read as that stretch of time."""
    reply: dict[str, Any] = {"time_frame": {"from": start, "to": end}, "results": results}
    return list(name_other_years(words, reply, (1,) if results else (1, -1)))


def test_the_same_month_of_the_year_after_is_named_where_it_is_over() -> None:
    march = (f"{YEAR - 2}-03-01T00:00:00+01:00", f"{YEAR - 2}-04-01T00:00:00+02:00")
    assert later("last march", *march) == [f"March {YEAR - 1}"]
    assert later(f"march {YEAR - 2}", *march) == []
    assert later("next month", f"{YEAR}-03-01T00:00:00+00:00", f"{YEAR}-04-01T00:00:00+00:00") == []
    assert later("then", f"{YEAR - 2}-03-01T00:00:00+00:00", f"{YEAR - 2}-03-08T00:00:00+00:00") == []
    assert later("at three on the first", f"{YEAR - 2}-03-01T15:00:00+00:00", f"{YEAR - 2}-03-01T15:01:00+00:00") == []
    assert later("until then", None, march[1]) == []
    assert list(name_other_years("tea", {"results": SOMETHING}, (1,))) == []


def test_where_nothing_was_found_the_years_beside_it_are_named() -> None:
    march = (f"{YEAR - 2}-03-01T00:00:00+01:00", f"{YEAR - 2}-04-01T00:00:00+02:00")
    assert later("last march", *march, results=[]) == [f"March {YEAR - 1}", f"March {YEAR - 3}"]
    day = ("2023-07-14T00:00:00+02:00", "2023-07-15T00:00:00+02:00")
    assert later("july 14", *day, results=[]) == ["2024-07-14", "2022-07-14"]
    leap = ("2024-02-29T00:00:00+00:00", "2024-03-01T00:00:00+00:00")
    assert later("leap day", *leap, results=[]) == []
