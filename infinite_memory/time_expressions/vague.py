"""Ranges of vague expressions: "recently", "the other day", "a while ago", "over the holidays"."""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span, add_months, unit_start


def feeling(reader: Reader, position: int) -> Found | None:
    """Read a vague expression: "recently", "the other day". `feeling_span` defines their ranges."""
    opened = reader.has(position, Tag.AGO_OPENS) and reader.has(position + 1, Tag.FEELING)
    position = position + 1 if opened else position
    word = reader.at(position)
    if not word.has(Tag.FEELING) or (word.has(Tag.WEAK) and not opened):
        return None  # "un moment" is a time only in "il y a un moment"
    span = feeling_span(word.get(Tag.FEELING), reader.now, reader.instant)
    return Found(span, position + 1) if span else None


def feeling_span(key: str, local_time: dt.datetime, instant: dt.datetime) -> Span | None:
    """Return the span of a vague word: too wide rather than too narrow, as results are ranked."""
    today = unit_start(local_time, Unit.DAY)
    week = dt.timedelta(days=7)
    if key == "just_now":
        return Span(instant - dt.timedelta(hours=1), instant, Unit.HOUR)
    if key == "so_far_today":
        return Span(today, instant, Unit.DAY)
    if key == "holidays":
        return _holidays(today)
    ends: dict[str, tuple[dt.datetime, dt.datetime]] = {
        "recently": (today - 2 * week, instant),
        "lately": (add_months(today, -1), instant),
        "recent_months": (add_months(today, -6), instant),
        "recent_years": (add_months(today, -60), instant),
        "other_day": (today - week, today),
        "other_week": (unit_start(today, Unit.WEEK) - 4 * week, unit_start(today, Unit.WEEK)),
        "other_night": (today - week, today + dt.timedelta(hours=6)),
        "while_ago": (add_months(today, -12), today - 2 * week),
        "long_ago": (add_months(today, -120), add_months(today, -12)),
    }
    return Span(*ends[key], Unit.DAY) if key in ends else None


def _holidays(today: dt.datetime) -> Span:
    """Return the days around the turn of the year, 20 December to 6 January inclusive, the latest that have begun."""
    year = today.year if (today.month, today.day) >= (12, 20) else today.year - 1
    return Span(dt.datetime(year, 12, 20), dt.datetime(year + 1, 1, 7), Unit.DAY)
