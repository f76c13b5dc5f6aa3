"""Ranges with a single named bound: "since August", "before 2000", "older than 3 months", "vor höchstens zwei Wochen"."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_expressions.amounts import Duration, duration
from infinite_memory.time_expressions.approximations import with_more
from infinite_memory.time_expressions.durations import since
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.ranges import is_bare, is_ordinal
from infinite_memory.time_expressions.spans import Span


def single(reader: Reader, position: int) -> Found | None:
    """Read one span, and words after it that make it open: "2016 and later", "2015年から", "まで"."""
    result = reader.period(position)
    length = duration(reader, position) if reader.language.scriptless else None
    if length and reader.has(length[1], Tag.SINCE_CLOSES) and (result is None or result.after < length[1]):
        return Found(since(reader, length[0]), length[1] + 1)  # "一个半小时以来"
    if result is None:
        return None
    if reader.has(result.after, Tag.OLDER, Tag.YOUNGER) and (bounded := _bounded_behind(reader, position, result)):
        return bounded
    opened = reader.skip(result.after, Tag.OR, limit=1)
    if opened > result.after and reader.has(opened, Tag.LATER):
        return _since(reader, result, opened + 1)
    if opened > result.after and reader.has(opened, Tag.EARLIER, Tag.BEFORE):
        span = reader.settled(result)  # "2015 or earlier"
        return Found(Span(None, span.end, span.grain), opened + 1) if span else None
    if reader.has(result.after, Tag.SINCE_CLOSES):
        return _since(reader, result, result.after + 1)
    if reader.has(result.after, Tag.AFTER_CLOSES):
        return _after(reader, result, result.after + 1)
    if reader.has(result.after, Tag.UNTIL_CLOSES):
        span = reader.settled(result)
        return Found(Span(None, span.end, span.grain), result.after + 1) if span else None
    if reader.has(result.after, Tag.BEFORE_CLOSES) and not _is_ago_only(reader, result):
        return _before(reader, result, result.after + 1)
    if reader.has(result.after, Tag.BETWEEN_CLOSES) and reader.language.scriptless:
        return replace(result, after=result.after + 1)
    if reader.has(result.after, Tag.ROUGHLY) and reader.language.scriptless and not reader.number(result.after + 1):
        return replace(result, after=result.after + 1)  # "三点左右"
    return result


def _is_ago_only(reader: Reader, result: Found) -> bool:
    span = reader.settled(result)
    return span is None or span.start is None or span.grain < Unit.DAY


def _since(reader: Reader, result: Found, after: int) -> Found | None:
    span = reader.settled(result)
    if span is None or span.start is None:
        return None
    return Found(Span(span.start, _now_after(reader, span.start), span.grain), after)


def _now_after(reader: Reader, start: dt.datetime) -> dt.datetime | None:
    """Return now as the end, or an open end if the start is in the future."""
    wall = reader.instant if start.tzinfo else reader.now
    return reader.instant if start < wall else None


def _before(reader: Reader, result: Found, after: int) -> Found | None:
    span = reader.settled(result)
    if span is None or span.start is None:
        return None
    return Found(Span(None, span.start, span.grain), after)


def open_start(reader: Reader, position: int) -> Found | None:
    """Read "since August", "after 2016", "year greater than 2012", "starting on January 7th"."""
    index = position
    if reader.at(index).get(Tag.UNIT) is Unit.YEAR and reader.has(
        reader.skip(index + 1, Tag.COMMON, limit=1), Tag.AFTER, Tag.BEFORE
    ):
        index = reader.skip(index + 1, Tag.COMMON, limit=1)
    since, after = reader.has(index, Tag.SINCE), reader.has(index, Tag.AFTER)
    if not since and not after:
        return None
    if after and reader.has(index + 1, Tag.OR_EQUAL):
        since, index = True, index + 1
    elif after and _is_with_it(reader, index):
        since, index = True, index + 2
    behind = reader.skip(index + 1, Tag.SINCE, Tag.ON, Tag.OF, limit=2)
    if since and (length := _since_length(reader, index + 1)):
        return length
    result = reader.period(behind) or reader.period(reader.skip(behind, Tag.THE, limit=1))
    if result is None:
        return None
    is_clock = isinstance(result.node, Span) and result.node.grain <= Unit.HOUR
    if since and reader.has(index, Tag.FROM) and is_clock and _holds_joint(reader, behind, result.after + 1):
        return None  # "from five to six" on a day, not since then
    if is_bare(result) and not is_ordinal(reader, behind):
        return None  # "since 5"
    if since:
        return _since(reader, result, reader.skip(result.after, Tag.SINCE_CLOSES, limit=1))
    return _after(reader, result, result.after)


def _is_with_it(reader: Reader, position: int) -> bool:
    """True if the named day is included: "before or on 3 May", "avant ou le 3 mai"."""
    return reader.has(position + 1, Tag.OR) and reader.has(position + 2, Tag.ON, Tag.THE, Tag.AT, Tag.IN)


def _holds_joint(reader: Reader, position: int, after: int) -> bool:
    """True if the text that was read has a dash or "to" in it, or directly after it."""
    return any(
        reader.is_dash(index) or reader.has(index, Tag.TO, Tag.UNTIL, Tag.AND) for index in range(position, after)
    )


def _since_length(reader: Reader, position: int) -> Found | None:
    """Read the rest of "seit zwei Wochen", "depuis une heure et demie", "desde hace dos años": a length until now."""
    opened = reader.skip(position, Tag.AGO_OPENS, Tag.OLDER, Tag.YOUNGER, limit=2)
    read = duration(reader, opened)
    read = with_more(reader, read) if read else None
    if read is None or reader.has(read[1], Tag.AGO, Tag.BEFORE, Tag.AFTER, Tag.SOME_MORE):
        return None
    return Found(since(reader, read[0]), read[1])


def _after(reader: Reader, result: Found, after: int) -> Found | None:
    """Open a range at the end of the named span: "after 2016" starts in 2017; after a clock time, at that time."""
    span = reader.settled(result)
    if span is None or span.end is None:
        return None
    start = span.start if span.grain <= Unit.HOUR and span.start is not None else span.end
    return Found(Span(start, _now_after(reader, start), span.grain), after)


def beyond(reader: Reader, position: int) -> Found | None:
    """Read "more than two weeks ago", "vor höchstens zwei Wochen", "older than 3 months"; a mere length is not a time."""
    opened = reader.has(position, Tag.AGO_OPENS)
    index = position + 1 if opened else position
    word = reader.at(index)
    if not word.has(Tag.OLDER, Tag.YOUNGER):
        return _length_beyond(reader, position) if reader.language.scriptless else None
    index = reader.skip(index + 1, Tag.ROUGHLY, limit=1)
    if not opened and reader.has(index, Tag.AGO_OPENS):  # "höchstens vor zwei Wochen"
        opened, index = True, index + 1
    read = duration(reader, index)
    read = (read[0], reader.skip(read[1], Tag.SOME_MORE, limit=1)) if read else None
    if read is None or not (opened or reader.has(read[1], Tag.AGO) or (reader.lone and not word.has(Tag.WEAK))):
        return None
    return _beyond(reader, read[0], reader.skip(read[1], Tag.AGO, limit=1), older=word.has(Tag.OLDER))


def _beyond(reader: Reader, length: Duration, after: int, *, older: bool) -> Found:
    """Return everything before the moment *length* ago, or everything since then."""
    edge_at = since(reader, length).start
    return Found(Span(None, edge_at) if older else Span(edge_at, reader.instant), after)


def _length_beyond(reader: Reader, position: int) -> Found | None:
    """Read "两周以上前", "2週間以内", with the bound after the length."""
    read = duration(reader, position)
    if read is None or not reader.has(read[1], Tag.OLDER, Tag.YOUNGER):
        return None
    older = reader.has(read[1], Tag.OLDER)
    behind = reader.skip(read[1] + 1, Tag.OF, limit=1)
    if reader.has(behind, Tag.AGO):
        return _beyond(reader, read[0], behind + 1, older=older)
    return _beyond(reader, read[0], read[1] + 1, older=False) if not older and reader.lone else None


def _bounded_behind(reader: Reader, position: int, result: Found) -> Found | None:
    """Read the bound in "two weeks ago at most", "il y a deux semaines au plus", at the end of the phrase."""
    word, end = reader.at(result.after), reader.at(result.after + 1)
    if end.folded.isalnum() or not (reader.has(position, Tag.AGO_OPENS) or reader.has(result.after - 1, Tag.AGO)):
        return None
    read = duration(reader, reader.skip(position, Tag.AGO_OPENS, Tag.ROUGHLY, limit=2))
    if read is None or reader.skip(read[1], Tag.AGO, limit=1) != result.after:
        return None
    return _beyond(reader, read[0], result.after + 1, older=word.has(Tag.OLDER))


def open_end(reader: Reader, position: int) -> Found | None:
    """Read "before 2000" (excluding it) and "until April 27th", "by Friday" (including it)."""
    before, until, opened = reader.has(position, Tag.BEFORE), reader.has(position, Tag.UNTIL), position
    if reader.has(position, Tag.BEFORE, Tag.YOUNGER) and reader.has(position + 1, Tag.OR_EQUAL):
        before, until, position = False, True, position + 1
    elif before and _is_with_it(reader, position):
        before, until, position = False, True, position + 2
    if not before and not until:
        return None
    behind = reader.skip(position + 1, Tag.OF, Tag.TO, limit=1)
    result = reader.period(behind) or reader.period(reader.skip(behind, Tag.THE, limit=1))
    if result is None:
        return None
    span = reader.settled(result)
    if span is None or span.start is None:
        return None
    if is_bare(result) and not is_ordinal(reader, behind):
        return None  # "by 8"
    whole = reader.period(opened) if reader.language.before_day_is_day else None
    if whole and whole.after >= result.after:
        return None  # "avant hier" is a day
    return Found(Span(None, span.start if before else span.end, span.grain), result.after)
