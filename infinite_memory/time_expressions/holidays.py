"""The date of a holiday in a year.

Fixed dates, "nth weekday of a month" and days relative to Easter (Gregorian, by the anonymous algorithm) are computed. Lunar
holidays are in a table of published dates, and unknown outside it.

A table may list holidays whose dates differ by country, state or school (a bank holiday, spring break) with the key `UNSETTLED`: it has
no date, and is reported as unread.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

UNSETTLED = "unsettled"
_BY_COUNTRY = "_hispanic"  # suffix of keys whose date depends on the country (`countries`)

_FIXED: dict[str, tuple[int, int]] = {
    "new_year": (1, 1),
    "new_year_three_days": (1, 1),
    "epiphany": (1, 6),
    "groundhog": (2, 2),
    "foundation_japan": (2, 11),
    "valentine": (2, 14),
    "girls_festival": (3, 3),
    "girls_day": (3, 7),
    "womens_day": (3, 8),
    "arbor_day": (3, 12),
    "white_day": (3, 14),
    "patrick": (3, 17),
    "saint_joseph": (3, 19),
    "april_fools": (4, 1),
    "earth_day": (4, 22),
    "tiradentes": (4, 21),
    "golden_week": (4, 29),
    "showa": (4, 29),
    "labour_may": (5, 1),
    "labour_days_china": (5, 1),
    "constitution_japan": (5, 3),
    "greenery": (5, 4),
    "labour_day": (5, 1),
    "star_wars": (5, 4),
    "youth_day": (5, 4),
    "cinco_de_mayo": (5, 5),
    "mothers_day_mexico": (5, 10),
    "childrens_day_japan": (5, 5),
    "childrens_day": (6, 1),
    "juneteenth": (6, 19),
    "lovers_day_brazil": (6, 12),
    "saint_john": (6, 24),
    "independence": (7, 4),
    "star_festival": (7, 7),
    "bastille": (7, 14),
    "mountain_day": (8, 11),
    "bon": (8, 13),
    "assumption": (8, 15),
    "teachers_day": (9, 10),
    "independence_brazil": (9, 7),
    "independence_mexico": (9, 16),
    "national_day_china": (10, 1),
    "national_days_china": (10, 1),
    "german_unity": (10, 3),
    "hispanic_day": (10, 12),
    "childrens_day_brazil": (10, 12),
    "reformation": (10, 31),
    "halloween": (10, 31),
    "all_saints": (11, 1),
    "all_souls": (11, 2),
    "guy_fawkes": (11, 5),
    "culture_day": (11, 3),
    "veterans": (11, 11),
    "singles_day": (11, 11),
    "proclamation_brazil": (11, 15),
    "seven_five_three": (11, 15),
    "labour_thanksgiving": (11, 23),
    "saint_nicholas": (12, 6),
    "constitution_spain": (12, 6),
    "christmas_eve": (12, 24),
    "christmas": (12, 25),
    "boxing_day": (12, 26),
    "new_year_eve": (12, 31),
}

_NTH_WEEKDAY: dict[str, tuple[int, int, int]] = {
    # month, weekday (0 is Monday), which (-1 is the last)
    "martin_luther_king": (1, 0, 3),
    "coming_of_age": (1, 0, 2),
    "presidents": (2, 0, 3),
    "mothers_day": (5, 6, 2),
    "mothers_day_spain": (5, 6, 1),
    "mothers_day_argentina": (10, 6, 3),
    "fathers_day_brazil": (8, 6, 2),
    "memorial_day": (5, 0, -1),
    "marine_day": (7, 0, 3),
    "respect_for_the_aged": (9, 0, 3),
    "sports_day": (10, 0, 2),
    "fathers_day": (6, 6, 3),
    "labor_day": (9, 0, 1),
    "fathers_day_september": (9, 6, 1),
    "thanksgiving_canada": (10, 0, 2),
    "labour_day_new_zealand": (10, 0, 4),
    "columbus": (10, 0, 2),
    "thanksgiving": (11, 3, 4),
}

_FROM_EASTER: dict[str, int] = {
    "womens_carnival": -52,
    "rose_monday": -48,
    "mardi_gras": -47,
    "ash_wednesday": -46,
    "mothering_sunday": -21,
    "palm_sunday": -7,
    "holy_week": -7,
    "maundy_thursday": -3,
    "good_friday": -2,
    "easter": 0,
    "easter_monday": 1,
    "ascension": 39,
    "pentecost": 49,
    "whit_monday": 50,
    "corpus_christi": 60,
}

_AFTER: dict[str, tuple[str, int]] = {
    "black_friday": ("thanksgiving", 1),
    "cyber_monday": ("thanksgiving", 4),
    "lunar_new_year_eve": ("lunar_new_year", -1),
    "lunar_new_year_days": ("lunar_new_year", -1),
    "lantern": ("lunar_new_year", 14),
    "tomb_sweeping_days": ("tomb_sweeping", -2),
    "dragon_boat_days": ("dragon_boat", -2),
    "mid_autumn_days": ("mid_autumn", -2),
    "new_year_days": ("new_year", -2),
    "new_year_days_japan": ("new_year", -3),
    "silver_week": ("respect_for_the_aged", -2),
}

# Lengths in days of multi-day holidays. Single-day Chinese ones get three days off, which are set each year and
# lie within two days of the date.
_LENGTHS: dict[str, int] = {
    "golden_week": 7,
    "bon": 4,
    "new_year_three_days": 3,
    "labour_days_china": 5,
    "national_days_china": 7,
    "lunar_new_year_days": 8,
    "holy_week": 8,
    "new_year_days_japan": 6,
    **dict.fromkeys(("tomb_sweeping_days", "dragon_boat_days", "mid_autumn_days", "new_year_days"), 5),
}

_MOVED: dict[tuple[str, int], tuple[int, int]] = {
    # for the Olympic Games of Tokyo
    ("marine_day", 2020): (7, 23), ("sports_day", 2020): (7, 24), ("mountain_day", 2020): (8, 10),
    ("marine_day", 2021): (7, 22), ("sports_day", 2021): (7, 23), ("mountain_day", 2021): (8, 8),
}  # fmt: skip

_BY_THE_SUN: dict[str, tuple[int, float]] = {
    # month, and the day in 1980 (National Astronomical Observatory of Japan; of the Chinese one, the solar term), good for 1980 to 2099
    "vernal_equinox": (3, 20.8431),
    "tomb_sweeping": (4, 4.8438),
    "autumnal_equinox": (9, 23.2488),
}
_SUNDAY = 6
_YEAR_OF_SUN = 0.242194  # days above 365

_LUNAR: dict[str, tuple[int, str]] = {
    # first year, then month and day of each year (Hong Kong Observatory, Gregorian-Lunar Calendar Conversion Tables)
    "lunar_new_year": (
        2000,
        "02-05 01-24 02-12 02-01 01-22 02-09 01-29 02-18 02-07 01-26 02-14 02-03 01-23 02-10 01-31 02-19 02-08 01-28 02-16 "
        "02-05 01-25 02-12 02-01 01-22 02-10 01-29 02-17 02-06 01-26 02-13 02-03",
    ),
    "mid_autumn": (
        2000,
        "09-12 10-01 09-21 09-11 09-28 09-18 10-06 09-25 09-14 10-03 09-22 09-12 09-30 09-19 09-08 09-27 09-15 10-04 09-24 "
        "09-13 10-01 09-21 09-10 09-29 09-17 10-06 09-25 09-15 10-03 09-22 09-12",
    ),
    "dragon_boat": (
        2000,
        "06-06 06-25 06-15 06-04 06-22 06-11 05-31 06-19 06-08 05-28 06-16 06-06 06-23 06-12 06-02 06-20 06-09 05-30 06-18 "
        "06-07 06-25 06-14 06-03 06-22 06-10 05-31 06-19 06-09 05-28 06-16 06-05",
    ),
}


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> dt.date | None:
    """Return the *nth* (from 1; -1 is the last) *weekday* of a month; None if there is no such day."""
    first = dt.date(year, month, 1)
    if nth < 0:
        after = dt.date(year + month // 12, month % 12 + 1, 1)
        last = after - dt.timedelta(days=1)
        return last - dt.timedelta(days=(last.weekday() - weekday) % 7 + 7 * (-nth - 1))
    result = first + dt.timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1))
    return result if result.month == month else None


@lru_cache(maxsize=256)
def easter(year: int) -> dt.date:
    """Return Easter Sunday of a Gregorian *year* (anonymous Gregorian algorithm, Meeus)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return dt.date(year, month, day + 1)


def is_unsettled(key: str) -> bool:
    """True if the date of the holiday *key* depends on the place, and the place is unknown."""
    return key == UNSETTLED or key.endswith(_BY_COUNTRY)


def count_days(key: str, year: int) -> int:
    """Return the length in days of the holiday *key* that begins in *year*."""
    first = holiday(key, year) if key == "silver_week" else None
    last = holiday("autumnal_equinox", year)
    if first and last:  # to the last day off: a holiday on a Sunday moves to Monday
        return (last - first).days + (2 if last.weekday() == _SUNDAY else 1)
    return _LENGTHS.get(key, 1)


def holiday(key: str, year: int) -> dt.date | None:
    """Return the date of the holiday *key* in *year*; None if it is unknown."""
    if (key, year) in _MOVED:
        return dt.date(year, *_MOVED[key, year])
    if key in _BY_THE_SUN:
        month, first = _BY_THE_SUN[key]
        return (
            dt.date(year, month, int(first + _YEAR_OF_SUN * (year - 1980)) - (year - 1980) // 4)
            if 1980 <= year < 2100
            else None
        )
    if key == "repentance":  # the Wednesday before 23 November
        before = dt.date(year, 11, 22)
        return before - dt.timedelta(days=(before.weekday() - 2) % 7)
    if key in _FIXED:
        return dt.date(year, *_FIXED[key])
    if key in _NTH_WEEKDAY:
        month, weekday, nth = _NTH_WEEKDAY[key]
        return nth_weekday(year, month, weekday, nth)
    if key == "mothers_day_france":  # the last Sunday of May, or a week later if that is Pentecost
        last = nth_weekday(year, 5, 6, -1)
        is_pentecost = last == holiday("pentecost", year)
        return last + dt.timedelta(days=7) if last and is_pentecost else last
    if key in _FROM_EASTER:
        return easter(year) + dt.timedelta(days=_FROM_EASTER[key])
    if key in _AFTER:
        base_key, days = _AFTER[key]
        base = holiday(base_key, year)
        return base + dt.timedelta(days=days) if base else None
    if key in _LUNAR:
        first, days_of = _LUNAR[key]
        dates = days_of.split()
        if 0 <= year - first < len(dates):
            return dt.date.fromisoformat(f"{year:04}-{dates[year - first]}")
    return None
