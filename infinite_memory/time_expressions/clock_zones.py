"""The time zone after a clock time: "10:00Z", "10:00:00+05:30", "5pm EST", "17h GMT+2".

Abbreviations are supported if they mean a single offset: those of RFC 5322 in English, and those that the tz database assigns to one
place. "IST" and "BST" are ambiguous, so they are reported as unread.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinite_memory.time_expressions.lexemes import Lexeme
    from infinite_memory.time_expressions.parser import Reader

_UNIVERSAL = ("utc", "gmt", "ut", "z")
_ENGLISH = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
_HOURS = {
    **{"cet": 1, "cest": 2, "mez": 1, "mesz": 2, "eet": 2, "eest": 3, "msk": 3, "sast": 2},
    **{"hkt": 8, "sgt": 8, "awst": 8, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13},
    **{"akst": -9, "akdt": -8, "hst": -10},
}
AMBIGUOUS = frozenset({"ist", "bst", "ast", "adt", "sst", "gst", "wst", *_ENGLISH})
"""Abbreviations that are ambiguous between time zones, in one language or another."""

_NAMES = "|".join(sorted(name.upper() for name in {*_HOURS, *AMBIGUOUS}))
_WRITTEN = re.compile(
    rf"\s?((?:UTC|GMT)(?:[+-]\d{{1,2}}(?::?\d{{2}})?)?|[+-]\d{{2}}:?\d{{2}}|Z|{_NAMES})(?![^\W_])", re.ASCII
)
_MAX_HOURS = 14  # of an offset; the maximum is Kiribati's


def zone_behind(reader: Reader, position: int) -> tuple[dt.tzinfo, int] | None:
    """Read the time zone after a clock time, and the position after it."""
    word = reader.at(position)
    if word.folded in _UNIVERSAL and (word.folded != "z" or word.glued):
        offset = _offset(reader, position + 1) if word.folded != "z" else None
        return offset or (dt.UTC, position + 1)
    hours = _HOURS.get(word.folded, _ENGLISH.get(word.folded) if reader.language.code == "en" else None)
    if hours is not None and word.capital:
        return dt.timezone(dt.timedelta(hours=hours)), position + 1
    return _offset(reader, position) if _may_be_offset(reader, position) else None


def _may_be_offset(reader: Reader, sign: int) -> bool:
    """Distinguish an offset from a range: "10:00-11:00" is a range, "10:00:00-05:00", "T10:00-05:00" and "10:00:00 -0500" have offsets."""
    if not reader.at(sign).glued and reader.at(sign + 1).digits != 4:
        return False
    if reader.at(sign).folded == "+":
        return True
    has_seconds = reader.at(sign - 2).folded in (":", ".") and reader.at(sign - 4).folded == ":"
    return has_seconds or reader.at(sign - 4).folded == "t"


def _offset(reader: Reader, position: int) -> tuple[dt.tzinfo, int] | None:
    """Read "+05:30", "-0500", "+2"."""
    sign, hours = reader.at(position), reader.at(position + 1)
    if sign.folded not in ("+", "-") or not hours.glued or not hours.folded.isdecimal():
        return None
    after, minutes = position + 2, "0"
    digits = hours.folded
    if len(digits) == 4:
        digits, minutes = digits[:2], digits[2:]
    elif reader.at(after).folded == ":" and reader.at(after + 1).digits == 2 and reader.at(after + 1).glued:
        minutes, after = reader.at(after + 1).folded, after + 2
    if len(digits) > 2 or int(digits) > _MAX_HOURS or int(minutes) > 59:
        return None
    delta = dt.timedelta(hours=int(digits), minutes=int(minutes))
    return dt.timezone(-delta if sign.folded == "-" else delta), after


def closes_clock(lexemes: list[Lexeme], index: int) -> bool:
    """True if the digits at *index* end a clock time with a time zone attached: the "00" of "10:00Z" and "10:00+05:30"."""
    number, zone = lexemes[index], lexemes[index + 1] if index + 1 < len(lexemes) else None
    if index < 2 or number.digits != 2 or zone is None or zone.folded not in (*_UNIVERSAL, "+"):
        return False
    sign, hour = lexemes[index - 1], lexemes[index - 2]
    return sign.folded == ":" and sign.glued and number.glued and 0 < hour.digits <= 2


def written_zone(text: str, position: int) -> tuple[str, ...]:
    """Return the time zone in *text* after the digits that end at *position*, for languages without zone support."""
    match = _WRITTEN.match(text, position) if text[position - 1 : position].isdigit() else None
    return (match[1],) if match else ()


def is_zone_name(lexeme: Lexeme) -> bool:
    """True if *lexeme* looks like the name of a time zone."""
    return lexeme.folded in AMBIGUOUS and lexeme.capital
