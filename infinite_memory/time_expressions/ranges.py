"""Ranges between two times ("from A to B", "yesterday and today"), and around one."""

from __future__ import annotations

from dataclasses import replace

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Date, Span, between, first_day, shift


def around(reader: Reader, position: int) -> Found | None:
    """Read "around Christmas": three more days on each side of a day, one more unit on each side of a longer span."""
    if not reader.has(position, Tag.AROUND):
        return None
    result = reader.period(position + 1) or reader.period(reader.skip(position + 1, Tag.THE, limit=1))
    if result is None:
        return None
    span = reader.settled(result)
    if span is None or span.start is None or span.end is None:
        return None
    if not result.strong and not isinstance(result.node, Date):
        return None
    widths = {
        Unit.DAY: (Unit.DAY, 3),
        Unit.WEEK: (Unit.WEEK, 1),
        Unit.MONTH: (Unit.DAY, 10),
        Unit.YEAR: (Unit.MONTH, 3),
    }
    unit, count = widths.get(span.grain, (Unit.HOUR, 1) if span.grain <= Unit.HOUR else (Unit.MONTH, 1))
    strong = result.strong or reader.has(position + 1, Tag.HOLIDAY, Tag.MONTH)
    return Found(Span(shift(span.start, unit, -count), shift(span.end, unit, count), span.grain), result.after, strong)


def from_to(reader: Reader, position: int) -> Found | None:
    """Read "from A to B", "between A and B", "A - B", "A through B": both ends are included."""
    opened = reader.has(position, Tag.FROM, Tag.BETWEEN, Tag.SINCE)
    between_words = reader.has(position, Tag.BETWEEN)
    index = reader.skip(position, Tag.FROM, Tag.BETWEEN, Tag.SINCE, Tag.OF, limit=3) if opened else position
    first = _end(reader, index, number=True)
    if first is None:
        return None
    joined = _joined(reader, first.after, between_words=between_words)
    if joined == first.after:
        return None
    last = _end(reader, joined, number=True)
    if last is None:
        return None
    first, last = _with_year_behind(reader, first, last)
    if reader.has(joined, Tag.NOW) and not reader.has(joined, Tag.DAY):
        last = Found(Span(reader.instant, reader.instant), last.after)
    if _is_clock_only(last) and not _is_clock_only(first):
        return None  # the end is a time on the first end's day
    if not opened and not _match(reader, first, last):
        return None
    if (
        is_bare(first)
        and isinstance(last.node, Span)
        and last.node.grain <= Unit.HOUR
        and last.node.start != reader.instant
    ):
        return None  # "from 9 to 5 on Tuesday"
    if is_bare(first) and is_bare(last) and not opened and not (is_ordinal(reader, index) and reader.lone):
        return None  # "30-12"
    if is_bare(first) and is_bare(last) and not is_ordinal(reader, index):
        return None  # "from 2 to 4", but not "from the 2nd to the 4th"
    span = between(first.node, last.node, reader.now)
    if span is None:
        return None
    return Found(span, reader.skip(last.after, Tag.BETWEEN_CLOSES, limit=1))


def _with_year_behind(reader: Reader, first: Found, last: Found) -> tuple[Found, Found]:
    """Return both ends of "Nov 3 - 5, 2025" with the year after them."""
    node = first.node
    if not (is_bare(last) and isinstance(node, Date) and node.month is not None and node.year is None):
        return first, last
    year = reader.year(reader.skip(reader.skip_sign(last.after), Tag.OF, limit=1))
    if year is None:
        return first, last
    return replace(first, node=replace(node, year=year[0])), replace(last, after=year[1])


def within_week(reader: Reader, position: int) -> Found | None:
    """Read "last week between Tuesday and Thursday": two weekdays in the preceding week."""
    week = reader.day(position)
    if week is None or not isinstance(week.node, Span) or week.node.grain is not Unit.WEEK:
        return None
    index = reader.skip_sign(week.after)
    if not reader.has(index, Tag.FROM, Tag.BETWEEN) or week.node.start is None:
        return None
    first = reader.skip(index + 1, Tag.OF, Tag.THE, limit=2)
    days = from_to(reader, index) if reader.has(first, Tag.WEEKDAY) else None
    span = days.node if days else None
    if days is None or not isinstance(span, Span) or span.start is None or span.end is None:
        return None
    others = (reader.at(word_index) for word_index in range(first, days.after))
    if any(word.digits or word.has(Tag.MONTH, Tag.RELATIVE, Tag.DAY) for word in others) or span.grain is not Unit.DAY:
        return None
    start = shift(week.node.start, Unit.DAY, span.start.weekday())
    return Found(Span(start, start + (span.end - span.start), Unit.DAY), days.after)


def neighbours(reader: Reader, position: int) -> Found | None:
    """Read "yesterday and today", "January or February", "Monday and Tuesday of last week": two adjacent spans are merged."""
    first = reader.period(position)
    if first is None or not first.strong or not reader.has(first.after, Tag.AND, Tag.OR):
        return None
    last = reader.period(reader.skip(first.after + 1, Tag.THE, limit=1))
    spans = [reader.settled(result) for result in (first, last) if result and result.strong]
    if len(spans) == 2 and isinstance(first.node, Date) and last is not None and isinstance(last.node, Span):
        spans[0] = first_day(first.node, spans[0], spans[1], reader.now)
    if last is None or len(spans) < 2 or any(span is None or not span.start or not span.end for span in spans):
        return None
    early, late = sorted((span for span in spans if span and span.start and span.end), key=lambda span: str(span.start))
    if early.end != late.start:
        return None
    return Found(Span(early.start, late.end, late.grain), last.after)


def _is_clock_only(result: Found) -> bool:
    return not result.strong and isinstance(result.node, Span) and result.node.grain <= Unit.HOUR


def is_ordinal(reader: Reader, position: int) -> bool:
    """True if a number is marked as a day: "the 5th", "5日"."""
    number = reader.number(reader.skip(position, Tag.THE, Tag.FROM, limit=2))
    return number is not None and (number.ordinal or reader.has(number.after, Tag.DAY_MARK))


def _joined(reader: Reader, position: int, *, between_words: bool) -> int:
    index = reader.skip_sign(position)
    if reader.is_dash(index):
        return index + 1
    if reader.has(index, Tag.TO, Tag.UNTIL):
        return reader.skip(index, Tag.TO, Tag.UNTIL, Tag.OF, limit=2)
    if (between_words or reader.language.scriptless) and reader.has(index, Tag.AND):
        return index + 1
    return position


def _end(reader: Reader, position: int, *, number: bool) -> Found | None:
    """Read one end of a range: a span, "now", or a bare day or year that the other end completes."""
    index = reader.skip(position, Tag.FROM, Tag.SINCE, limit=1)
    result = reader.period(index)
    if result is None:
        index = reader.skip(index, Tag.THE, Tag.ON, limit=3)
        result = reader.period(index)
    if result is None and reader.has(index, Tag.NOW):
        return Found(Span(reader.instant, reader.instant), index + 1)
    bare = _bare_number(reader, index) if number else None
    return bare if bare and (result is None or bare.after > result.after) else result


def _bare_number(reader: Reader, position: int) -> Found | None:
    number = reader.number(position)
    if number is None:
        return None
    if number.ordinal or number.digits <= 2:
        after = number.after
        if reader.at(after).get(Tag.UNIT) is Unit.DAY and reader.language.scriptless:
            after += 1
        return Found(Date(day=number.value), after, False) if 1 <= number.value <= 31 else None
    return Found(Date(number.value), number.after, False) if 1900 <= number.value <= 2100 else None


def is_bare(result: Found) -> bool:
    return (
        isinstance(result.node, Date)
        and not result.strong
        and result.node.month is None
        and result.node.day is not None
    )


def _match(reader: Reader, first: Found, last: Found) -> bool:
    """True if two ends without "from" belong together: of one grain, or one completes the other."""
    if isinstance(last.node, Span) and last.node.start == reader.instant:
        return first.strong or reader.lone
    if isinstance(first.node, Date) and isinstance(last.node, Date):
        if reader.lone:
            return True
        if not first.strong and not last.strong:
            both_dated = first.node.month is not None and first.node.day is not None and last.node.month is not None
            return both_dated
        if is_bare(first) or is_bare(last):
            dated = last.node if is_bare(first) else first.node
            return dated.month is not None and dated.day is not None
        return first.node.grain == last.node.grain and (first.strong or last.strong)
    if isinstance(last.node, Date) and last.node.weekday is not None and reader.has(first.after - 1, Tag.WEEKDAY):
        return first.strong  # "na semana passada de segunda a quarta": as strong as the weekday before it
    return first.strong and last.strong
