"""Once a day by the user's clock, in every night of the year."""

from __future__ import annotations

import datetime as dt
import itertools
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.jobs.schedule import last_due, next_due, parse_time

BERLIN, UTC, LORD_HOWE, SANTIAGO = map(ZoneInfo, ("Europe/Berlin", "UTC", "Australia/Lord_Howe", "America/Santiago"))


def at(text: str) -> dt.datetime:
    """Read an instant."""
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


@pytest.mark.parametrize(
    ("now", "time", "zone", "last", "following"),
    [
        ("2026-11-25T02:50:00Z", "03:00", UTC, "2026-11-24T03:00:00Z", "2026-11-25T03:00:00Z"),
        ("2026-11-25T03:00:00Z", "03:00", UTC, "2026-11-25T03:00:00Z", "2026-11-26T03:00:00Z"),
        # the night in which 02:30 is not shown
        ("2027-03-28T12:00:00+02:00", "02:30", BERLIN, "2027-03-28T03:30:00+02:00", "2027-03-29T02:30:00+02:00"),
        ("2027-03-28T01:59:59+01:00", "02:30", BERLIN, "2027-03-27T02:30:00+01:00", "2027-03-28T03:30:00+02:00"),
        # the night in which it is shown twice
        ("2027-10-31T02:29:30+02:00", "02:30", BERLIN, "2027-10-30T02:30:00+02:00", "2027-10-31T02:30:00+02:00"),
        ("2027-10-31T02:29:30+01:00", "02:30", BERLIN, "2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T02:30:30+01:00", "02:30", BERLIN, "2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"),
        # half an hour of change, and a day that begins at one
        ("2026-04-05T03:00:00+10:30", "01:45", LORD_HOWE, "2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"),
        ("2026-09-06T12:00:00-03:00", "00:30", SANTIAGO, "2026-09-06T01:30:00-03:00", "2026-09-07T00:30:00-03:00"),
    ],
)
def test_the_runs_around_an_instant(now: str, time: str, zone: ZoneInfo, last: str, following: str) -> None:
    assert last_due(at(now), parse_time(time), zone) == at(last)
    assert next_due(at(now), parse_time(time), zone) == at(following)


@pytest.mark.parametrize("zone", [BERLIN, LORD_HOWE, SANTIAGO, ZoneInfo("Africa/Casablanca")])
@pytest.mark.parametrize("time", ["00:00", "00:30", "01:45", "02:30", "03:00", "23:59"])
def test_each_day_of_two_years_has_one_run(zone: ZoneInfo, time: str) -> None:
    instant, days = at("2026-01-01T12:00:00Z"), []
    for _ in range(730):
        following = next_due(instant, parse_time(time), zone)
        assert last_due(following, parse_time(time), zone) == following
        days.append(following.astimezone(zone).date())
        instant = following
    assert [(later - day).days for day, later in itertools.pairwise(days)] == [1] * 729
