"""Parts of a text that look like a time and were not parsed: they are reported, so that a partial result is not taken for the whole."""

from __future__ import annotations

from collections.abc import Mapping

from infinite_memory.time_expressions.clock_zones import is_zone_name
from infinite_memory.time_expressions.lexemes import Lexeme
from infinite_memory.time_expressions.lexicon import Tag

_MAX_PARTS = 3
_MAX_LENGTH = 60
_NAMES = (
    Tag.MONTH,
    Tag.WEEKDAY,
    Tag.DAY,
    Tag.DAY_PART,
    Tag.CLOCK,
    Tag.DECADE,
    Tag.YEAR_WORD,
    Tag.HOLIDAY,
    Tag.ISO_WEEK,
)
_OPENERS = (
    Tag.AT,
    Tag.ON,
    Tag.IN,
    Tag.SINCE,
    Tag.UNTIL,
    Tag.BEFORE,
    Tag.AFTER,
    Tag.FROM,
    Tag.TO,
    Tag.BETWEEN,
    Tag.AROUND,
)
_LEFT = (
    *_OPENERS,
    Tag.THE,
    Tag.RELATIVE,
    Tag.HALF,
    Tag.QUARTER_OF,
    Tag.NUMBER,
    Tag.ORDINAL,
    Tag.ORDINAL_MARK,
    Tag.ROUGHLY,
    Tag.AGO_OPENS,
)
_RIGHT = (
    Tag.AGO,
    Tag.MERIDIEM,
    Tag.PAST_HOUR,
    Tag.HOUR_MARK,
    Tag.NUMBER,
    Tag.ORDINAL,
    Tag.UNIT,
    Tag.MONTH,
    Tag.WEEKDAY,
)
_QUANTITIES = (Tag.NUMBER, Tag.VAGUE, Tag.RELATIVE, Tag.HALF)


def unread_parts(text: str, lexemes: list[Lexeme], first: int, after: int, times: Mapping[int, int]) -> tuple[str, ...]:
    """Return the parts of *text* that look like a time outside the lexemes from *first* to before *after*, a few at most.

    *times* maps the positions at which the grammar reads a time to the positions after them.
    """
    parts: list[str] = []
    index = 0
    while index < len(lexemes) and len(parts) < _MAX_PARTS:
        if first <= index < after or not (
            index in times
            or _is_time(lexemes, index, first, after)
            or _is_other_count(lexemes, index, first)
            or _is_missing_part(lexemes, index, first)
        ):
            index += 1
            continue
        start, stop = index, times.get(index, index + 1)
        low = after if index >= after else 0
        high = first if index < first else len(lexemes)
        while start > low and (
            lexemes[start - 1].has(*_LEFT) or lexemes[start - 1].digits or _joins_digits(lexemes, start - 1)
        ):
            start -= 1
        while stop < high and (lexemes[stop].has(*_RIGHT) or lexemes[stop].digits or _joins_digits(lexemes, stop)):
            stop += 1
        parts.append(text[lexemes[start].start : lexemes[stop - 1].end][:_MAX_LENGTH])
        index = stop
    return tuple(parts)


def _is_other_count(lexemes: list[Lexeme], index: int, first: int) -> bool:
    """True for a quantity before a vague one that does not go with it: the "5" of "5 few days ago"."""
    if index + 1 != first:
        return False
    count, word = lexemes[first], lexemes[index]
    is_vague = count.has(Tag.VAGUE) and count.get(Tag.VAGUE) > 1 and " " not in count.folded  # "a few" begins anew
    return (is_vague or count.has(Tag.SCALE)) and (word.digits > 0 or word.has(Tag.NUMBER, Tag.SCALE, Tag.VAGUE))


def _is_missing_part(lexemes: list[Lexeme], index: int, first: int) -> bool:
    """True for the unit of a part that the time behind it does not have: "13th month of 2025", "week 60 of 2025"."""
    if not lexemes[index].has(Tag.UNIT) or lexemes[index].has(Tag.WEAK) or index + 1 >= first:
        return False
    following = lexemes[index + 1]
    is_numbered = following.digits > 0 or following.has(Tag.NUMBER)
    between = lexemes[index + 1 + is_numbered : first]
    return (is_numbered or (index > 0 and lexemes[index - 1].has(Tag.ORDINAL, Tag.ORDINAL_MARK))) and all(
        lexeme.has(Tag.OF, Tag.THE) for lexeme in between
    )


def _joins_digits(lexemes: list[Lexeme], index: int) -> bool:
    joined = lexemes[index].folded in (":", ".", "/", "-") and lexemes[index].glued
    return joined and index + 1 < len(lexemes) and lexemes[index + 1].glued and lexemes[index + 1].digits > 0


def _is_time(lexemes: list[Lexeme], index: int, first: int, after: int) -> bool:
    word = lexemes[index]
    before = lexemes[index - 1] if index else None
    behind = lexemes[index + 1] if index + 1 < len(lexemes) else None
    if word.mute:
        return False
    if before is not None and (before.digits or before.has(Tag.MERIDIEM)) and is_zone_name(word):
        return True
    if word.digits:
        return _is_time_number(lexemes, index, first, after)
    if word.has(*_NAMES):
        return not word.has(Tag.WEAK)
    if word.has(Tag.HALF, Tag.QUARTER_OF):
        return behind is not None and behind.has(Tag.PAST_HOUR)
    if word.has(Tag.UNIT) and not word.has(Tag.WEAK):
        counted = before is not None and (before.has(*_QUANTITIES) or before.digits > 0)
        return counted and (
            (before is not None and before.has(Tag.RELATIVE)) or (behind is not None and behind.has(Tag.AGO))
        )
    return False


def _is_time_number(lexemes: list[Lexeme], index: int, first: int, after: int) -> bool:
    """True if digits look like a clock time, a date, or a number that belongs to the time beside them."""
    word = lexemes[index]
    before = lexemes[index - 1] if index else None
    if index + 1 < len(lexemes) and lexemes[index + 1].has(Tag.MERIDIEM, Tag.HOUR_MARK):
        return True
    if index + 2 < len(lexemes) and _joins_digits(lexemes, index + 1):
        following = lexemes[index + 2]
        if lexemes[index + 1].folded == ":":
            return word.digits <= 2 and following.digits == 2
        return (
            index + 4 < len(lexemes)
            and _joins_digits(lexemes, index + 3)
            and max(word.digits, lexemes[index + 4].digits) == 4
        )
    if before is None or not before.has(*_OPENERS) or before.folded in (",", "."):
        return False
    return index + 1 == first or index - 1 == after
