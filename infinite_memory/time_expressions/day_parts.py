"""Single days, and the hours of the parts of a day."""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_expressions.lexicon import Unit
from infinite_memory.time_expressions.parser import Reader
from infinite_memory.time_expressions.spans import Date, Span, settle

PARTS: dict[str, tuple[int, int]] = {
    # hours from midnight of the day; above 24 is the next day
    "dawn": (5, 9),
    "morning": (6, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (18, 30),
}
"""The hours of the parts of a day. "Night" starts with the evening: "last night" often means nine o'clock."""


def day_start(reader: Reader, node: Date | Span) -> dt.datetime | None:
    """Return the midnight of the single day of *node*; None if it is not a single day."""
    if isinstance(node, Date) and node.grain is not Unit.DAY:
        return None
    span = settle(node, reader.now) if isinstance(node, Date) else node
    if span is None or span.start is None or span.grain is not Unit.DAY or span.start.tzinfo is not None:
        return None
    if span.end is None or span.end.tzinfo is not None or span.end - span.start != dt.timedelta(days=1):
        return None
    return span.start


def part_span(start: dt.datetime, part: str) -> Span:
    """Return a part of the day that starts at *start*."""
    begin, end = PARTS[part]
    return Span(start + dt.timedelta(hours=begin), start + dt.timedelta(hours=end), Unit.DAY)
