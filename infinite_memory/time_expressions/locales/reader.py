"""Parses times with one locale: its phrases, dates with month names, weekdays, and their meaning."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from infinite_memory.time_expressions.durations import ago_span
from infinite_memory.time_expressions.lexicon import Unit
from infinite_memory.time_expressions.locales.ambiguous import DASHES, EDGES
from infinite_memory.time_expressions.locales.counts import CountReader
from infinite_memory.time_expressions.locales.data import Kind, Locale
from infinite_memory.time_expressions.locales.matching import forms_of
from infinite_memory.time_expressions.locales.words import Word, is_unspaced
from infinite_memory.time_expressions.ordinal_endings import ANY_ENDING, ORDINAL_ENDINGS
from infinite_memory.time_expressions.spans import Date, Span, settle, unit_span, weekday_of_week

_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_BUDDHIST = {"th": 543, "lo": 543, "km": 544}  # years between the calendars; dates of the modern era only
_BUDDHIST_YEARS = (2443, 2643)
_LINKS = frozenset({"de", "di", "of", "do", "da", "del", "ta'", "dne", "den", "d'", ".", ",", "'", "-", "/", "an", "a"})
_MAX_STARTS = 40  # start positions that are tried; bounds the work on hostile text
_MAX_CLOCK_GAP = 2  # words between a day and its time: "klo", "alle ore"
_MAX_CLOCK_WORD = 5  # letters of such a word
_LAST_HOUR, _LAST_MINUTE = 24, 59
_MAX_GAP = 3  # words between the ends of a range
_MAX_ENDING_WORDS = 2  # punctuation and letters, after the digits of an ordinal
_MIN_NAME = 4  # letters of a month or weekday that counts without a number
_MIN_OTHER_NAME = 2  # the same in scripts other than plain Latin; "수" is Wednesday and many other words


class Hit(NamedTuple):
    """A parsed time: ``text[start:end]``, its words, and the words around it."""

    span: Span
    start: int
    end: int
    words: tuple[str, ...]
    before: str
    after: str
    covers_all: bool
    is_name: bool
    is_weekday: bool
    others: tuple[tuple[int, int], ...] = ()
    is_inside: bool = False  # inside a longer run of letters, in a script without spaces

    def is_sure(self, ambiguous: frozenset[str], now: dt.datetime, *, ordinal_weekdays: bool) -> bool:
        """True if it is also a time inside a sentence: not in the future, and not a name with another common meaning."""
        phrase = " ".join(self.words)
        if ambiguous & {phrase, f"{self.before.split(' ')[-1]} {phrase}"} or (self.is_weekday and ordinal_weekdays):
            return False
        if self.span.start is not None and self.span.start.tzinfo is None and self.span.start > now:
            return False
        if not self.is_name:
            return True
        return not self.is_inside and len(phrase) >= (_MIN_NAME if phrase.isascii() else _MIN_OTHER_NAME)


class _Read(NamedTuple):
    span: Span
    after: int
    is_name: bool = False  # only a month or weekday
    is_weekday: bool = False


class LocaleReader(CountReader):
    """A locale's view of the words; every rule takes a position and returns the position after what it read."""

    def __init__(self, locale: Locale, words: list[Word], now: dt.datetime, instant: dt.datetime) -> None:
        super().__init__(locale, words)
        self.now = now
        self.instant = instant
        self.size = sum(word.is_letters or word.value is not None for word in self.words)

    def best(self) -> Hit | None:
        """Return the longest time in the words, the first one on a tie."""
        best: Hit | None = None
        hits: list[Hit] = []
        index = starts = 0
        while index < len(self.words) and starts < _MAX_STARTS:
            starts += self._may_start(index)
            read = self._read(index) if self._all_entries(index) or self._spelled(index) is not None else None
            if read is None:
                index += 1
                continue
            read, begin = self._with_clock(read, index)
            hit = self._hit(read, begin)
            if best is None or (best.is_name, -len(best.words)) > (hit.is_name, -len(hit.words)):
                best = hit
            if hits and (joined := self._joined(hits[-1], hit)):
                hit = hits[-1] = joined
                best = hit if best is None or len(hit.words) > len(best.words) else best
            else:
                hits.append(hit)
            index = read.after
        if best is None:
            return None
        return best._replace(others=tuple((hit.start, hit.end) for hit in hits if hit is not best and not hit.is_name))

    def _may_start(self, index: int) -> bool:
        """True if an entry or a number can start at *index*."""
        word = self.words[index]
        return word.value is not None or any(form in self.locale.entries for form in forms_of(word.folded))

    def _joined(self, first: Hit, last: Hit) -> Hit | None:
        """Return the range from one date to another: "dal 12 gennaio 2016 al 3 marzo 2017", both days included."""
        gap = [word for word in self.words if first.end <= word.start < last.start]
        opened = first.before.split(" ")[-1] in EDGES.get(self.locale.language, frozenset())
        if not 0 < len(gap) <= _MAX_GAP or not (opened or any(word.folded in DASHES for word in gap)):
            return None
        start, end = first.span, last.span
        if start.start and end.start and start.start > end.start and start.grain is Unit.DAY:
            shifted = settle(Date(end.start.year, start.start.month, start.start.day), self.now)
            start = shifted or start  # "от 3 мая до 5 мая 2025": the year is given once
        dated = all(
            span.grain is Unit.DAY and span.start and span.end and not span.start.tzinfo for span in (start, end)
        )
        if not dated or start.start is None or end.end is None or start.start >= end.end:
            return None
        words = (*first.words, *(word.folded for word in gap), *last.words)
        return last._replace(span=Span(start.start, end.end), start=first.start, words=words, before="", is_name=False)

    def _hit(self, match: _Read, index: int) -> Hit:
        inside = self.words[index : match.after]
        counted = sum(word.is_letters or word.value is not None for word in inside)
        return Hit(
            match.span,
            inside[0].start,
            inside[-1].end,
            tuple(word.folded for word in inside),
            " ".join(word.folded for word in self.words[max(0, index - 2) : index] if word.is_letters),
            " ".join(word.folded for word in self.words[match.after : match.after + 2] if word.is_letters),
            counted == self.size,
            match.is_name,
            match.is_weekday,
            is_inside=self._is_inside(index, match.after),
        )

    def _is_inside(self, index: int, after: int) -> bool:
        """True if the words are part of a longer run in a script without spaces, and do not start with the word for day."""
        first, before, behind = self.words[index], self._word(index - 1), self._word(after)
        if not is_unspaced(first.folded):
            return False
        joined = (before is not None and before.is_letters and first.glued) or (
            behind is not None and behind.is_letters and behind.glued
        )
        return joined and not any(
            first.folded.startswith(entry.words[0])
            for rows in self.locale.entries.values()
            for entry in rows
            if entry.kind is Kind.UNIT and entry.value is Unit.DAY
        )

    def _read(self, index: int) -> _Read | None:
        best: _Read | None = None
        for rule in (self._date, self._phrase, self._weekday):
            read = rule(index)
            if read and (best is None or read.after > best.after):
                best = read
        return best

    def _phrase(self, index: int) -> _Read | None:
        """Read "yesterday", "last week", "3 days ago", "last Monday" and so on."""
        kinds = (Kind.RELATIVE, Kind.COUNTED, Kind.RELATIVE_WEEKDAY)
        if (joined := self._joined_counts(index)) and (span := ago_span(self.now, self.instant, joined[0])):
            return _Read(span, joined[1])
        for entry, behind, number in self._entries(index, *kinds):
            after, result = behind, None
            if entry.short:
                continue
            if entry.kind is Kind.RELATIVE:
                return self._with_weekday(unit_span(self.now, entry.value[1], entry.value[0]), entry.value, after)
            if entry.kind is Kind.RELATIVE_WEEKDAY:
                result = self._relative_weekday(*entry.value)
            else:
                part = self._part(entry, number)
                if part is None or self._continues_count(index, entry):
                    continue
                parts, after = self._smaller_parts(part, entry, after)
                result = ago_span(self.now, self.instant, parts)
            if result is not None:
                return _Read(result, after)
        return None

    def _with_clock(self, match: _Read, index: int) -> tuple[_Read, int]:
        """Narrow a day by the time after it, like "15:30" or, after a word, "14.30"; return its start position too."""
        start = match.span.start
        if match.is_name and not match.is_weekday:
            return match, index
        if start is None or start.tzinfo is not None or match.span.grain is not Unit.DAY:
            return match, index
        position = match.after
        for gap in range(_MAX_CLOCK_GAP + 1):
            if clock := self._clock(position, spoken=gap > 0):
                begin = start + dt.timedelta(hours=clock[0], minutes=clock[1])
                return _Read(Span(begin, begin + dt.timedelta(minutes=1), Unit.MINUTE), clock[2]), index
            word = self._word(position)
            if word is None or not self._leads_to_clock(word):
                break
            position += 1
        return match, index

    def _leads_to_clock(self, word: Word) -> bool:
        """True if *word* may be between a day and its time; "before" and "after" make it a range."""
        if word.folded in EDGES.get(self.locale.language, frozenset()):
            return False
        return word.folded in (".", ",") or (word.is_letters and len(word.folded) <= _MAX_CLOCK_WORD)

    def _clock(self, index: int, *, spoken: bool) -> tuple[int, int, int] | None:
        """Return the hour, the minute and the position after "15:30"; with a word before it (*spoken*) also of "15.30"."""
        hour, sign, minute = (self._word(index + step) for step in range(3))
        if hour is None or sign is None or minute is None or hour.value is None or minute.value is None:
            return None
        if not sign.glued or not minute.glued or len(hour.folded) > 2 or len(minute.folded) != 2:
            return None
        if sign.folded != ":" and not (spoken and sign.folded == "."):
            return None
        behind, digits = self._word(index + 3), self._word(index + 4)
        if behind and digits and behind.glued and digits.glued and digits.value is not None and behind.folded in ".:":
            return None  # seconds, or a date
        if minute.value > _LAST_MINUTE or hour.value > _LAST_HOUR or (hour.value == _LAST_HOUR and minute.value):
            return None
        return hour.value, minute.value, index + 3

    def _relative_weekday(self, weeks: int, weekday: int, names_week: bool) -> Span | None:
        if names_week or weeks > 0:
            return weekday_of_week(self.now, weekday, weeks)
        if weeks == 0:
            this = weekday_of_week(self.now, weekday, 0)
            if this.start is not None and this.start <= self.now:
                return this
        return settle(Date(weekday=weekday), self.now)

    def _with_weekday(self, span: Span, value: tuple[int, Unit], after: int) -> _Read:
        """Narrow a week by the weekday after it."""
        if value[1] is Unit.WEEK:
            for entry, behind, _ in self._entries(after, Kind.WEEKDAY):
                if not entry.short:
                    return _Read(weekday_of_week(self.now, entry.value, value[0]), behind)
        return _Read(span, after)

    def _weekday(self, index: int) -> _Read | None:
        for entry, after, _ in self._entries(index, Kind.WEEKDAY):
            position = self._over(after, 1)
            if dated := self._date(position) or self._date(after):
                if not dated.is_name:
                    return dated
            if entry.short:
                continue
            for relative, behind, _ in self._entries(after, Kind.RELATIVE):
                if relative.value[1] is Unit.WEEK and not relative.short:
                    return _Read(weekday_of_week(self.now, entry.value, relative.value[0]), behind)
            span = settle(Date(weekday=entry.value), self.now)
            return _Read(span, after, is_name=True, is_weekday=True) if span else None
        return None

    def _over(self, index: int, limit: int = 2) -> int:
        """Skip what may be between the parts of a date: punctuation, "de", a word for year or day."""
        while limit:
            word = self._word(index)
            if word is None or (word.folded not in _LINKS and not self._is_unit(index)):
                break
            index, limit = index + 1, limit - 1
        return index

    def _is_unit(self, index: int) -> bool:
        return any(entry.value in (Unit.YEAR, Unit.DAY) for entry, _, _ in self._entries(index, Kind.UNIT))

    def _date(self, index: int) -> _Read | None:
        """Read "12 november 2025", "november 12", "2025. november 12.", "november 2025", and a full month's name alone."""
        year = self._year(index)
        if year:
            month = self._month(self._over(year[1]))
            if month is None:
                return None
            day = self._day(self._over(month[1]))
            return self._dated(year[0], month[0], day[0] if day else None, day[1] if day else month[1])
        position = index
        if (word := self._word(index)) is not None and self._is_unit(index) and not word.value:
            position = index + 1  # "ngày 12 tháng 11"
        day = self._day(position)
        if day:
            month = self._month(self._over(day[1]))
            if month is None:
                return None
            year = self._year(self._over(month[1]))
            return self._dated(year[0] if year else None, month[0], day[0], year[1] if year else month[1])
        month = self._month(index)
        if month is None:
            return None
        day = self._day(self._over(month[1]))
        if day:
            year = self._year(self._over(day[1]))
            return self._dated(year[0] if year else None, month[0], day[0], year[1] if year else day[1])
        year = self._year(self._over(month[1]))
        if year:
            return self._dated(year[0], month[0], None, year[1])
        if (
            self._misses_its_day(index)
            or month[2]
            or any(char.isdigit() for word in self.words[index : month[1]] for char in word.folded)
        ):
            return None
        result = self._dated(None, month[0], None, month[1])
        return result._replace(is_name=True) if result else None

    def _misses_its_day(self, index: int) -> bool:
        """True if the month is preceded by a number that is not one of its days: "31. juni" is not a date, and not June."""
        before = index - 1
        while before > 0 and index - before < 3 and self.words[before].folded in (*_LINKS, "of"):
            before -= 1
        return before >= 0 and (self._day(before) is not None or self._is_ordinal(before))

    def _over_ending(self, index: int, endings: frozenset[str]) -> int:
        """Return the position after the ending of an ordinal that follows the digits before *index* directly: "5de", "5:e", "5-го"."""
        written = ""
        for position in range(index, index + _MAX_ENDING_WORDS):
            word = self._word(position)
            if word is None or not word.glued or word.value is not None:
                break
            written += word.folded
            if written in endings:
                behind = self._word(position + 1)
                return position + 1 if behind is None or not (behind.glued and behind.folded.isalnum()) else index
        return index

    def _is_ordinal(self, index: int) -> bool:
        """True if the word at *index* is the ending of a number of one or two digits: "31st", "2nd", "31:e"."""
        for position in range(max(0, index - _MAX_ENDING_WORDS), index):
            word = self.words[position]
            if (
                word.value is not None
                and len(word.folded) <= 2
                and self._over_ending(position + 1, ANY_ENDING) == index + 1
            ):
                return True
        number, ending = self._word(index - 1) if index else None, self._word(index)
        if number is None or ending is None or number.value is None or len(number.folded) > 2:
            return False
        return ending.glued and ending.is_letters and len(ending.folded) <= 2

    def _dated(self, year: int | None, month: int, day: int | None, after: int) -> _Read | None:
        if year == 0:
            return None
        date = Date(year, month, day)
        try:
            dt.date(year or 2000, month, day or 1)
        except ValueError:
            return None
        if self._word(after) and self._word(after - 1) and (word := self.words[after]).value and word.value > 31:
            return None  # a year that was not parsed
        span = settle(date, self.now)
        if span is None:
            return None
        if day and (behind := self._word(after)) and behind.glued and (behind.folded == "." or self._is_unit(after)):
            after += 1
        return _Read(span, after)

    def _month(self, index: int) -> tuple[int, int, bool] | None:
        """Return the month at *index*, the position after it, and whether it is an abbreviation."""
        for entry, after, _ in self._entries(index, Kind.MONTH):
            return entry.value, after, entry.short
        return None

    def _day(self, index: int) -> tuple[int, int] | None:
        word = self._word(index)
        number = self._number(index) if word is not None and word.value is not None else None
        if number is None or word is None or not 1 <= number <= 31 or len(word.folded) > 2:
            return None
        if self._month(index):
            return None  # "11월" is a month
        return number, self._over_ending(index + 1, ORDINAL_ENDINGS.get(self.locale.language, frozenset()))

    def _year(self, index: int) -> tuple[int, int] | None:
        """Return the four-digit year at *index* and the position after it; 0 for one of another calendar."""
        word = self._word(index)
        if word is None or word.value is None or len(word.folded) != 4 or self._number(index) is None:
            return None
        year, after = word.value, index + 1
        if _BUDDHIST_YEARS[0] <= year <= _BUDDHIST_YEARS[1] and self.locale.language in _BUDDHIST:
            year -= _BUDDHIST[self.locale.language]
        elif not _FIRST_YEAR <= year <= _LAST_YEAR:
            return 0, after
        behind = self._word(after)
        if behind is not None and self._is_unit(after):
            after += 1
        return year, after
