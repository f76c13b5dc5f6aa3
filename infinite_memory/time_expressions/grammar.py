"""The grammar: single stretches of time, and the ranges, beginnings and ends that are built of them.

A recursive descent over lexemes with hand-written rules, the same for every language: what differs is in the tables. It
nests at most three deep, every stretch is read once for each place, and nothing backtracks over text.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_expressions.amounts import duration
from infinite_memory.time_expressions.clocks import clock_then_day, narrow, part_of_day
from infinite_memory.time_expressions.dates import longest
from infinite_memory.time_expressions.durations import since
from infinite_memory.time_expressions.edges import edge, edge_span, rest
from infinite_memory.time_expressions.lexemes import Lexeme
from infinite_memory.time_expressions.lexicon import Language, Tag, Unit
from infinite_memory.time_expressions.ordinals import nth_behind
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.periods import DATE_RULES
from infinite_memory.time_expressions.relative import RELATIVE_RULES
from infinite_memory.time_expressions.spans import Date, Span, between, settle, shift

_SUPPORT = (Tag.IN, Tag.ON, Tag.SINCE, Tag.FROM, Tag.BEFORE, Tag.AFTER, Tag.UNTIL, Tag.BETWEEN, Tag.AROUND, Tag.OF)


class Grammar(Reader):
    """Reads times out of the lexemes it was made with."""

    def __init__(
        self,
        lexemes: list[Lexeme],
        language: Language,
        now: dt.datetime,
        instant: dt.datetime,
        *,
        lone: bool = False,
        country: str | None = None,
    ) -> None:
        super().__init__(lexemes, language, now, instant, lone=lone, country=country)
        self._days: dict[int, Found | None] = {}
        self._periods: dict[int, Found | None] = {}

    def day(self, place: int) -> Found | None:
        """Read a stretch of the calendar at *place*, without a time of the day."""
        if place not in self._days:
            self._days[place] = None  # a rule that comes back here finds nothing, and recursion ends
            self._days[place] = self._read_day(place)
        return self._days[place]

    def _read_day(self, place: int) -> Found | None:
        if not self.at(place).folded:
            return None
        dated = longest(self, place, DATE_RULES)
        counted = longest(self, place, RELATIVE_RULES)
        if counted and (
            dated is None or counted.after > dated.after or (counted.after == dated.after and not dated.strong)
        ):
            dated = counted
        if dated and self.language.scriptless:
            dated = self._edge_behind(nth_behind(self, dated))
        edged = edge(self, place)
        return edged if edged and (dated is None or edged.after > dated.after) else dated

    def _edge_behind(self, found: Found) -> Found:
        """Cut a period by the word behind it: "今月下旬"."""
        at = self.skip(found.after, Tag.OF, limit=1)
        span = self.settled(found) if self.has(at, Tag.EDGE) else None
        if span is None or span.start is None or span.end is None or span.start.tzinfo or span.grain < Unit.WEEK:
            return found
        return Found(edge_span(span, self.at(at).get(Tag.EDGE)), at + 1)

    def period(self, place: int) -> Found | None:
        """Read a stretch at *place*, narrowed by a time of the day if there is one."""
        if place not in self._periods:
            self._periods[place] = None
            self._periods[place] = self._read_period(place)
        return self._periods[place]

    def _read_period(self, place: int) -> Found | None:
        best = self.day(place)
        if best:
            best = narrow(self, best)
        for rule in (part_of_day, clock_then_day):
            found = rule(self, place)
            if found and (best is None or found.after > best.after):
                best = found
        return best

    def range(self, place: int) -> Found | None:
        """Read the longest time at *place*: a range, an open range, or a single stretch."""
        best: Found | None = None
        for rule in (_from_to, _neighbours, _beyond, _open_start, _open_end, _around, rest, _single):
            found = rule(self, place)
            if found and (best is None or found.after > best.after):
                best = found
        return best

    def settled(self, found: Found) -> Span | None:
        """Give the stretch that *found* means."""
        return found.node if isinstance(found.node, Span) else settle(found.node, self.now)

    def is_supported(self, place: int) -> bool:
        """Tell whether the word before *place* says that a time follows."""
        before = place - 1
        the = self.has(before, Tag.THE) and not self.has(before, *_SUPPORT)
        if self.has(before, Tag.THE) and self.has(place, Tag.WEEKDAY) and self.has(place, Tag.WEAK):
            return False  # "a segunda vez"
        if the and not (self.has(place, Tag.SEASON, Tag.ORDINAL) or self.at(place).digits):
            return False
        return self.has(before - 1 if the else before, *_SUPPORT) and not self.at(before).mute


def _single(reader: Grammar, place: int) -> Found | None:
    """Read one stretch, and the words behind it that open it: "2016 and later", "2015年から", "まで"."""
    found = reader.period(place)
    length = duration(reader, place) if reader.language.scriptless else None
    if length and reader.has(length[1], Tag.SINCE_CLOSES) and (found is None or found.after < length[1]):
        return Found(since(reader, length[0]), length[1] + 1)  # "一个半小时以来"
    if found is None:
        return None
    opened = reader.skip(found.after, Tag.OR, limit=1)
    if opened > found.after and reader.has(opened, Tag.LATER):
        return _since(reader, found, opened + 1)
    if opened > found.after and reader.has(opened, Tag.EARLIER, Tag.BEFORE):
        span = reader.settled(found)  # "2015 or earlier"
        return Found(Span(None, span.end, span.grain), opened + 1) if span else None
    if reader.has(found.after, Tag.SINCE_CLOSES):
        return _since(reader, found, found.after + 1)
    if reader.has(found.after, Tag.AFTER_CLOSES):
        return _after(reader, found, found.after + 1)
    if reader.has(found.after, Tag.UNTIL_CLOSES):
        span = reader.settled(found)
        return Found(Span(None, span.end, span.grain), found.after + 1) if span else None
    if reader.has(found.after, Tag.BEFORE_CLOSES) and not _is_ago_only(reader, found):
        return _before(reader, found, found.after + 1)
    if reader.has(found.after, Tag.BETWEEN_CLOSES) and reader.language.scriptless:
        return replace(found, after=found.after + 1)
    return found


def _is_ago_only(reader: Grammar, found: Found) -> bool:
    span = reader.settled(found)
    return span is None or span.start is None or span.grain < Unit.DAY


def _since(reader: Grammar, found: Found, after: int) -> Found | None:
    span = reader.settled(found)
    if span is None or span.start is None:
        return None
    return Found(Span(span.start, _now_after(reader, span.start), span.grain), after)


def _now_after(reader: Grammar, start: dt.datetime) -> dt.datetime | None:
    """Give now as an end, or an open end where the start is still to come."""
    wall = reader.instant if start.tzinfo else reader.now
    return reader.instant if start < wall else None


def _before(reader: Grammar, found: Found, after: int) -> Found | None:
    span = reader.settled(found)
    if span is None or span.start is None:
        return None
    return Found(Span(None, span.start, span.grain), after)


def _open_start(reader: Grammar, place: int) -> Found | None:
    """Read "since August", "after 2016", "year greater than 2012", "starting on January 7th"."""
    at = place
    if reader.at(at).get(Tag.UNIT) is Unit.YEAR and reader.has(
        reader.skip(at + 1, Tag.COMMON, limit=1), Tag.AFTER, Tag.BEFORE
    ):
        at = reader.skip(at + 1, Tag.COMMON, limit=1)
    since, after = reader.has(at, Tag.SINCE), reader.has(at, Tag.AFTER)
    if not since and not after:
        return None
    if after and reader.has(at + 1, Tag.OR_EQUAL):
        since, at = True, at + 1
    elif after and _is_with_it(reader, at):
        since, at = True, at + 2
    behind = reader.skip(at + 1, Tag.SINCE, Tag.ON, Tag.OF, limit=2)
    if since and (length := _since_length(reader, at + 1)):
        return length
    found = reader.period(behind) or reader.period(reader.skip(behind, Tag.THE, limit=1))
    if found is None:
        return None
    is_clock = isinstance(found.node, Span) and found.node.grain <= Unit.HOUR
    if since and reader.has(at, Tag.FROM) and is_clock and _holds_joint(reader, behind, found.after + 1):
        return None  # "from five to six" on a day, not since then
    if _is_bare(found) and not _is_ordinal(reader, behind):
        return None  # "since 5"
    if since:
        return _since(reader, found, reader.skip(found.after, Tag.SINCE_CLOSES, limit=1))
    return _after(reader, found, found.after)


def _is_with_it(reader: Grammar, place: int) -> bool:
    """True if the day named is inside: "before or on 3 May", "avant ou le 3 mai"."""
    return reader.has(place + 1, Tag.OR) and reader.has(place + 2, Tag.ON, Tag.THE, Tag.AT, Tag.IN)


def _holds_joint(reader: Grammar, place: int, after: int) -> bool:
    """Tell whether a dash or "to" stands in what was read, or right behind it."""
    return any(reader.is_dash(at) or reader.has(at, Tag.TO, Tag.UNTIL, Tag.AND) for at in range(place, after))


def _since_length(reader: Grammar, place: int) -> Found | None:
    """Read the rest of "seit zwei Wochen", "depuis une heure et demie", "desde hace dos años": a length until now."""
    opened = reader.skip(place, Tag.AGO_OPENS, limit=1)
    read = duration(reader, opened)
    if read is None or reader.has(read[1], Tag.AGO, Tag.BEFORE, Tag.AFTER):
        return None
    return Found(since(reader, read[0]), read[1])


def _after(reader: Grammar, found: Found, after: int) -> Found | None:
    """Open a range at the end of what was named: "after 2016" starts in 2017; after a clock time, there."""
    span = reader.settled(found)
    if span is None or span.end is None:
        return None
    start = span.start if span.grain <= Unit.HOUR and span.start is not None else span.end
    return Found(Span(start, _now_after(reader, start), span.grain), after)


def _beyond(reader: Grammar, place: int) -> Found | None:
    """Read "more than two weeks ago", "older than 3 months", "less than an hour ago"; a mere length is no time."""
    word = reader.at(place)
    older = word.has(Tag.OLDER)
    if not older and not word.has(Tag.YOUNGER):
        return None
    read = duration(reader, place + 1)
    if read is None or not (reader.has(read[1], Tag.AGO) or (reader.lone and not word.has(Tag.WEAK))):
        return None
    after = reader.skip(read[1], Tag.AGO, limit=1)
    edge_at = since(reader, read[0]).start
    return Found(Span(None, edge_at) if older else Span(edge_at, reader.instant), after)


def _open_end(reader: Grammar, place: int) -> Found | None:
    """Read "before 2000" (without it) and "until April 27th", "by Friday" (with it)."""
    before, until, opened = reader.has(place, Tag.BEFORE), reader.has(place, Tag.UNTIL), place
    if reader.has(place, Tag.BEFORE, Tag.YOUNGER) and reader.has(place + 1, Tag.OR_EQUAL):
        before, until, place = False, True, place + 1
    elif before and _is_with_it(reader, place):
        before, until, place = False, True, place + 2
    if not before and not until:
        return None
    behind = reader.skip(place + 1, Tag.OF, Tag.TO, limit=1)
    found = reader.period(behind) or reader.period(reader.skip(behind, Tag.THE, limit=1))
    if found is None:
        return None
    span = reader.settled(found)
    if span is None or span.start is None:
        return None
    if _is_bare(found) and not _is_ordinal(reader, behind):
        return None  # "by 8"
    whole = reader.period(opened) if reader.language.before_day_is_day else None
    if whole and whole.after >= found.after:
        return None  # "avant hier" is a day
    return Found(Span(None, span.start if before else span.end, span.grain), found.after)


def _around(reader: Grammar, place: int) -> Found | None:
    """Read "around Christmas": three days more on each side of a day, one unit more on each side of a longer stretch."""
    if not reader.has(place, Tag.AROUND):
        return None
    found = reader.period(place + 1) or reader.period(reader.skip(place + 1, Tag.THE, limit=1))
    if found is None:
        return None
    span = reader.settled(found)
    if span is None or span.start is None or span.end is None:
        return None
    if not found.strong and not isinstance(found.node, Date):
        return None
    widths = {
        Unit.DAY: (Unit.DAY, 3),
        Unit.WEEK: (Unit.WEEK, 1),
        Unit.MONTH: (Unit.DAY, 10),
        Unit.YEAR: (Unit.MONTH, 3),
    }
    unit, count = widths.get(span.grain, (Unit.HOUR, 1) if span.grain <= Unit.HOUR else (Unit.MONTH, 1))
    strong = found.strong or reader.has(place + 1, Tag.HOLIDAY, Tag.MONTH)
    return Found(Span(shift(span.start, unit, -count), shift(span.end, unit, count), span.grain), found.after, strong)


def _from_to(reader: Grammar, place: int) -> Found | None:
    """Read "from A to B", "between A and B", "A - B", "A through B": both named ends are inside."""
    opened = reader.has(place, Tag.FROM, Tag.BETWEEN, Tag.SINCE)
    between_words = reader.has(place, Tag.BETWEEN)
    at = reader.skip(place, Tag.FROM, Tag.BETWEEN, Tag.SINCE, Tag.OF, limit=3) if opened else place
    first = _end(reader, at, number=True)
    if first is None:
        return None
    joined = _joined(reader, first.after, between_words=between_words)
    if joined == first.after:
        return None
    last = _end(reader, joined, number=True)
    if last is None:
        return None
    if reader.has(joined, Tag.NOW) and not reader.has(joined, Tag.DAY):
        last = Found(Span(reader.instant, reader.instant), last.after)
    if _is_clock_only(last) and not _is_clock_only(first):
        return None  # the end is a time on the first one's day
    if not opened and not _match(reader, first, last):
        return None
    if (
        _is_bare(first)
        and isinstance(last.node, Span)
        and last.node.grain <= Unit.HOUR
        and last.node.start != reader.instant
    ):
        return None  # "from 9 to 5 on Tuesday"
    if _is_bare(first) and _is_bare(last) and not opened and not (_is_ordinal(reader, at) and reader.lone):
        return None  # "30-12"
    if _is_bare(first) and _is_bare(last) and not _is_ordinal(reader, at):
        return None  # "from 2 to 4", but not "from the 2nd to the 4th"
    span = between(first.node, last.node, reader.now)
    if span is None:
        return None
    return Found(span, reader.skip(last.after, Tag.BETWEEN_CLOSES, limit=1))


def _neighbours(reader: Grammar, place: int) -> Found | None:
    """Read "yesterday and today", "January and February": two stretches that touch are one."""
    first = reader.period(place)
    if first is None or not first.strong or not reader.has(first.after, Tag.AND):
        return None
    last = reader.period(first.after + 1)
    spans = [reader.settled(found) for found in (first, last) if found and found.strong]
    if last is None or len(spans) < 2 or any(span is None or not span.start or not span.end for span in spans):
        return None
    early, late = sorted((span for span in spans if span and span.start and span.end), key=lambda span: str(span.start))
    if early.end != late.start:
        return None
    return Found(Span(early.start, late.end, late.grain), last.after)


def _is_clock_only(found: Found) -> bool:
    return not found.strong and isinstance(found.node, Span) and found.node.grain <= Unit.HOUR


def _is_ordinal(reader: Grammar, place: int) -> bool:
    """Tell whether a number is marked as a day: "the 5th", "5日"."""
    number = reader.number(reader.skip(place, Tag.THE, Tag.FROM, limit=2))
    return number is not None and (number.ordinal or reader.has(number.after, Tag.DAY_MARK))


def _joined(reader: Grammar, place: int, *, between_words: bool) -> int:
    at = reader.skip_sign(place)
    if reader.is_dash(at):
        return at + 1
    if reader.has(at, Tag.TO, Tag.UNTIL):
        return reader.skip(at, Tag.TO, Tag.UNTIL, Tag.OF, limit=2)
    if (between_words or reader.language.scriptless) and reader.has(at, Tag.AND):
        return at + 1
    return place


def _end(reader: Grammar, place: int, *, number: bool) -> Found | None:
    """Read one end of a range: a stretch, "now", or a bare day or year that the other end completes."""
    at = reader.skip(place, Tag.FROM, Tag.SINCE, limit=1)
    found = reader.period(at)
    if found is None:
        at = reader.skip(at, Tag.THE, Tag.ON, limit=3)
        found = reader.period(at)
    if found is None and reader.has(at, Tag.NOW):
        return Found(Span(reader.instant, reader.instant), at + 1)
    bare = _bare_number(reader, at) if number else None
    return bare if bare and (found is None or bare.after > found.after) else found


def _bare_number(reader: Grammar, place: int) -> Found | None:
    number = reader.number(place)
    if number is None:
        return None
    if number.ordinal or number.digits <= 2:
        after = number.after
        if reader.at(after).get(Tag.UNIT) is Unit.DAY and reader.language.scriptless:
            after += 1
        return Found(Date(day=number.value), after, False) if 1 <= number.value <= 31 else None
    return Found(Date(number.value), number.after, False) if 1900 <= number.value <= 2100 else None


def _is_bare(found: Found) -> bool:
    return isinstance(found.node, Date) and not found.strong and found.node.month is None and found.node.day is not None


def _match(reader: Grammar, first: Found, last: Found) -> bool:
    """Tell whether two ends without "from" go together: of one grain, or one that lends the other what it lacks."""
    if isinstance(last.node, Span) and last.node.start == reader.instant:
        return first.strong or reader.lone
    if isinstance(first.node, Date) and isinstance(last.node, Date):
        if reader.lone:
            return True
        if not first.strong and not last.strong:
            both_dated = first.node.month is not None and first.node.day is not None and last.node.month is not None
            return both_dated
        if _is_bare(first) or _is_bare(last):
            dated = last.node if _is_bare(first) else first.node
            return dated.month is not None and dated.day is not None
        return first.node.grain == last.node.grain and (first.strong or last.strong)
    return first.strong and last.strong
