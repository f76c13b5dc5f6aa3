"""Holidays of one name that fall on other days in other countries: the user's time zone tells which is meant."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.time_expressions import find_time
from infinite_memory.time_expressions.countries import _COUNTRY_OF, LOCAL_HOLIDAYS, get_country
from infinite_memory.time_expressions.holidays import holiday


@pytest.mark.parametrize(
    ("text", "zone", "day"),
    [
        # Canada and the United States: the first Monday of September; New Zealand: the fourth of October
        ("fête du travail", "America/Toronto", "2026-09-07"),
        ("la fête du travail 2024", "America/Montreal", "2024-09-02"),
        ("fête du travail", "Europe/Paris", "2026-05-01"),
        ("fête du travail", "UTC", "2026-05-01"),
        ("ce que nous avons dit à la fête du travail", "Canada/Eastern", "2026-09-07"),
        ("día del trabajo", "America/Chicago", "2026-09-07"),
        ("día del trabajo", "America/Mexico_City", "2026-05-01"),
        ("dia do trabalho", "America/Sao_Paulo", "2026-05-01"),
        ("Tag der Arbeit", "America/Toronto", "2026-05-01"),  # the German name is of the German day
        ("may day", "America/New_York", "2026-05-01"),
        ("labour day", "America/Vancouver", "2026-09-07"),
        ("labour day", "Pacific/Auckland", "2026-10-26"),
        ("thanksgiving", "America/Toronto", "2026-10-12"),
        ("thanksgiving 2025", "America/Halifax", "2025-10-13"),
        ("thanksgiving 2025", "America/New_York", "2025-11-27"),
        ("action de grâce", "America/Montreal", "2026-10-12"),
        ("感恩节 2025", "America/Vancouver", "2025-10-13"),
        ("mother's day", "Europe/London", "2026-03-15"),
        ("mother's day", "Europe/Dublin", "2026-03-15"),
        ("mother's day", "America/New_York", "2026-05-10"),
        ("fête des mères", "Europe/Paris", "2026-05-31"),
        ("fête des mères 2023", "Europe/Paris", "2023-06-04"),  # the last Sunday of May was Pentecost
        ("fête des mères", "America/Toronto", "2026-05-10"),
        ("fête des mères", "Europe/Brussels", "2026-05-10"),
        ("father's day", "Australia/Sydney", "2026-09-06"),
        ("father's day", "Europe/London", "2026-06-21"),
        ("母の日", "Asia/Tokyo", "2026-05-10"),
        ("black friday", "America/Toronto", "2025-11-28"),  # the day after the American Thanksgiving, there as well
    ],
)
def test_a_holiday_is_the_one_of_the_country_that_the_time_zone_tells(text: str, zone: str, day: str) -> None:
    tz = ZoneInfo(zone)
    found = find_time(text, dt.datetime(2026, 11, 25, 15, 20, tzinfo=tz), tz)

    assert found is not None and found.span.start is not None and found.span.end is not None
    start, end = (at.astimezone(tz).replace(tzinfo=None) for at in (found.span.start, found.span.end))
    assert str(start) == f"{day} 00:00:00"
    assert end - start == dt.timedelta(days=1)


def test_every_zone_of_the_table_exists_and_every_local_day_is_known() -> None:
    assert _COUNTRY_OF.keys() <= zoneinfo.available_timezones()
    assert all(holiday(key, 2026) for key in LOCAL_HOLIDAYS.values())
    assert all(holiday(key, 2026) != holiday(local, 2026) for (key, _), local in LOCAL_HOLIDAYS.items())


def test_a_zone_that_tells_no_country_changes_nothing() -> None:
    assert [get_country(zone) for zone in ("UTC", "Etc/GMT+5", "Europe/Paris", None)] == [None] * 4
