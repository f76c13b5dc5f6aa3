"""`recall last march`: the words name a month without its year, and which one is meant is not the same for everybody."""

from __future__ import annotations

import datetime as dt
from typing import Any

from infinite_memory.cli.memories import find_later_month

YEAR = dt.datetime.now(dt.UTC).year


def later(words: str, start: str | None, end: str | None) -> str | None:
    """Return what is offered where *words* were read as that stretch of time."""
    reply: dict[str, Any] = {"time_frame": {"from": start, "to": end}}
    return find_later_month({"time_query": words}, reply)


def test_the_same_month_of_the_year_after_is_named_where_it_is_over() -> None:
    march = (f"{YEAR - 2}-03-01T00:00:00+01:00", f"{YEAR - 2}-04-01T00:00:00+02:00")
    assert later("last march", *march) == f"March {YEAR - 1}"
    assert later(f"march {YEAR - 2}", *march) is None
    assert later("last march", f"{YEAR}-03-01T00:00:00+00:00", f"{YEAR}-04-01T00:00:00+00:00") is None
    assert later("then", f"{YEAR - 2}-03-01T00:00:00+00:00", f"{YEAR - 2}-03-08T00:00:00+00:00") is None
    assert (
        later("at three on the first", f"{YEAR - 2}-03-01T15:00:00+00:00", f"{YEAR - 2}-03-01T15:01:00+00:00") is None
    )
    assert later("until then", None, march[1]) is None
    assert find_later_month({"time_query": "tea"}, {}) is None
