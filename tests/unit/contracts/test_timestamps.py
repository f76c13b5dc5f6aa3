"""The date in words, on the user's clock."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.contracts.timestamps import format_relative

NOW = dt.datetime(2023, 11, 28, 12, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("instant", "written"),
    [
        ("2023-11-28T09:05:00Z", "today, Tue 28 Nov 2023, 10:05"),
        ("2023-11-26T23:30:00Z", "yesterday, Mon 27 Nov 2023, 00:30"),
        ("2023-11-20T12:00:00Z", "8 days ago, Mon 20 Nov 2023, 13:00"),
        ("2023-11-07T13:05:00Z", "3 weeks ago, Tue 7 Nov 2023, 14:05"),
        ("2023-05-08T13:56:00Z", "6 months ago, Mon 8 May 2023, 15:56"),
        ("2020-11-27T12:00:00Z", "3 years ago, Fri 27 Nov 2020, 13:00"),
        ("2023-11-29T12:00:00Z", "tomorrow, Wed 29 Nov 2023, 13:00"),
        ("2023-12-08T12:00:00Z", "in 10 days, Fri 8 Dec 2023, 13:00"),
    ],
)
def test_an_instant_is_told_as_a_reader_would_say_it(instant: str, written: str) -> None:
    assert format_relative(dt.datetime.fromisoformat(instant), NOW, ZoneInfo("Europe/Berlin")) == written
