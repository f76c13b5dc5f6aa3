"""How the page writes times: days by their names, and a stretch of whole days by its first and its last."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from infinite_memory.transports.http.page.rendering import format_frame, format_local


@pytest.mark.parametrize(
    ("start", "end", "written"),
    [
        ("2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00", "Sun 1 Mar 2026 to Tue 31 Mar 2026"),
        ("2026-03-14T00:00:00+01:00", "2026-03-15T00:00:00+01:00", "Sat 14 Mar 2026"),
        ("2026-03-14T10:00:00+01:00", "2026-03-14T12:30:00+01:00", "Sat 14 Mar 2026, 10:00 to Sat 14 Mar 2026, 12:30"),
        ("2026-03-14T00:00:00+01:00", None, "Sat 14 Mar 2026 to now"),
        (None, "2026-03-14T00:00:00+01:00", "the beginning to Fri 13 Mar 2026"),
    ],
)
def test_whole_days_end_with_the_last_of_them(start: str | None, end: str | None, written: str) -> None:
    assert format_frame({"from": start, "to": end}) == written


def test_an_instant_is_written_on_the_clock_of_the_zone() -> None:
    assert format_local("2026-03-14T23:30:00.000Z", ZoneInfo("Europe/Vienna")) == "Sun 15 Mar 2026, 00:30"
    assert format_local(None, ZoneInfo("UTC")) == ""
