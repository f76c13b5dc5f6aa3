"""What looks like a time in a text and was not read: it is told, so that nobody takes a part for the whole."""

from __future__ import annotations

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


def unread_parts(text: str, lexemes: list[Lexeme], first: int, after: int) -> tuple[str, ...]:
    """Return what looks like a time in *text* outside the lexemes from *first* to before *after*, a few parts at most."""
    parts: list[str] = []
    at = 0
    while at < len(lexemes) and len(parts) < _MAX_PARTS:
        if first <= at < after or not _is_time(lexemes, at, first, after):
            at += 1
            continue
        start, stop = at, at + 1
        low = after if at >= after else 0
        high = first if at < first else len(lexemes)
        while start > low and (lexemes[start - 1].has(*_LEFT) or lexemes[start - 1].digits):
            start -= 1
        while stop < high and (lexemes[stop].has(*_RIGHT) or lexemes[stop].digits or _joins_digits(lexemes, stop)):
            stop += 1
        parts.append(text[lexemes[start].start : lexemes[stop - 1].end][:_MAX_LENGTH])
        at = stop
    return tuple(parts)


def _joins_digits(lexemes: list[Lexeme], at: int) -> bool:
    joined = lexemes[at].folded in (":", ".", "/", "-") and lexemes[at].glued
    return joined and at + 1 < len(lexemes) and lexemes[at + 1].glued and lexemes[at + 1].digits > 0


def _is_time(lexemes: list[Lexeme], at: int, first: int, after: int) -> bool:
    word = lexemes[at]
    before = lexemes[at - 1] if at else None
    behind = lexemes[at + 1] if at + 1 < len(lexemes) else None
    if word.mute:
        return False
    if word.digits:
        return _is_time_number(lexemes, at, first, after)
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


def _is_time_number(lexemes: list[Lexeme], at: int, first: int, after: int) -> bool:
    """Tell whether digits look like a clock time, a date, or a number that belongs to the time beside them."""
    word = lexemes[at]
    before = lexemes[at - 1] if at else None
    if at + 1 < len(lexemes) and lexemes[at + 1].has(Tag.MERIDIEM):
        return True
    if at + 2 < len(lexemes) and _joins_digits(lexemes, at + 1):
        other = lexemes[at + 2]
        if lexemes[at + 1].folded == ":":
            return word.digits <= 2 and other.digits == 2
        return (
            at + 4 < len(lexemes) and _joins_digits(lexemes, at + 3) and max(word.digits, lexemes[at + 4].digits) == 4
        )
    if before is None or not before.has(*_OPENERS) or before.folded in (",", "."):
        return False
    return at + 1 == first or at - 1 == after
