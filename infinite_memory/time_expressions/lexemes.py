"""Conversion of tokens to lexemes: each with its possible meanings in one language, numbers with their values.

Numbers that are clearly not times (prices, versions, rooms, decimals, parts of addresses) are muted here, once, so that no
rule of the grammar has to handle them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.time_expressions.clock_zones import closes_clock
from infinite_memory.time_expressions.lexicon import Lexicon, Meanings, Tag
from infinite_memory.time_expressions.tokens import Token, is_unspaced

_MAX_NUMBER_DIGITS = 4  # longer numbers are not part of a date
_MAX_ISO_TOKENS = 7
_ISO_WEEK = re.compile(r"([12]\d{3})-?w(\d{2})(?:-?([1-7]))?|[kc]?w(\d{1,2})", re.ASCII)
_ISO_STARTS = frozenset("12ckw")
_MONEY = frozenset("$€£¥#%°§&=*@\\^+")
_GLUE_BEFORE = (Tag.HOUR_MARK, Tag.MONTH, Tag.WEEKDAY, Tag.QUARTER_MARK, Tag.HALF_MARK)
_GLUE_AFTER = (
    Tag.UNIT,
    Tag.ORDINAL_MARK,
    Tag.MERIDIEM,
    Tag.MONTH,
    Tag.HOUR_MARK,
    Tag.DECADE_CLOSES,
    Tag.QUARTER_MARK,
    Tag.HALF_MARK,
)


_SECONDS_OF: dict[Tag | None, tuple[Tag, ...]] = {
    Tag.WEEKDAY: (Tag.PART,),
    Tag.MONTH: (Tag.HALF_OF, Tag.EDGE, Tag.UNIT, Tag.PARTS_OF),
    Tag.UNIT: (Tag.HALF_OF, Tag.EDGE, Tag.PARTS_OF),
    None: (),
}
"""The possible meanings of a compound's second part, by that of its first."""


@dataclass(slots=True)
class Lexeme:
    """One word or punctuation character: ``text[start:end]``; *glued* if no space precedes it; *value* if it is digits."""

    folded: str
    start: int
    end: int
    glued: bool
    meanings: Meanings = field(default_factory=dict)
    value: int | None = None
    digits: int = 0
    mute: bool = False
    capital: bool = False

    def has(self, *tags: Tag) -> bool:
        """True if it can mean one of *tags*."""
        meanings = self.meanings
        if not meanings:
            return False
        for tag in tags:  # noqa: SIM110 - a generator costs twice as much, and nothing is asked more often
            if tag in meanings:
                return True
        return False

    def get(self, tag: Tag) -> Any:
        """Return its value for *tag*, or None."""
        return self.meanings.get(tag)


def read_lexemes(tokens: list[Token], lexicon: Lexicon) -> list[Lexeme]:
    """Look the tokens up, longest entries first, and mute numbers that are not times."""
    folded = [token.folded for token in tokens]
    results: list[Lexeme] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if iso := _iso_week(folded, tokens, index):
            last = tokens[index + iso[0] - 1]
            meanings = {Tag.ISO_WEEK: iso[1]}
            results.append(
                Lexeme("".join(folded[index : index + iso[0]]), token.start, last.end, token.glued, meanings)
            )
            index += iso[0]
            continue
        if token.folded.isdigit():
            digits = len(token.folded)
            short = digits <= _MAX_NUMBER_DIGITS and token.folded.isascii()
            value = int(token.folded) if short else None
            results.append(Lexeme(token.folded, token.start, token.end, token.glued, {}, value, digits, not short))
            index += 1
            continue
        size, meanings = lexicon.match(folded, index)
        if size > 1 and lexicon.language.scriptless:
            size, meanings = _without_holiday(lexicon, folded, index, size, meanings)
        if not size and lexicon.language.joined_parts:
            results.extend(_split_compound(token, lexicon))
        else:
            last = tokens[index + max(size, 1) - 1]
            word = folded[index] if size <= 1 else "".join(folded[index : index + size])
            results.append(Lexeme(word, token.start, last.end, token.glued, meanings, capital=token.capital))
        index += max(size, 1)
    _mute_chunks(results)
    _mute_numbers(results)
    return results


def _without_holiday(
    lexicon: Lexicon, folded: list[str], index: int, size: int, meanings: Meanings
) -> tuple[int, Meanings]:
    """Return a shorter entry if the last character of the longest one begins a holiday: "去年中秋" is not the middle of a year."""
    last = index + size - 1
    holiday_size, holiday = lexicon.match(folded, last)
    if holiday_size < 2 or Tag.HOLIDAY not in holiday or Tag.HOLIDAY in meanings:
        return size, meanings
    shorter = lexicon.match(folded[:last], index)
    return shorter if shorter[0] == size - 1 else (size, meanings)


def _iso_week(
    folded: list[str], tokens: list[Token], index: int
) -> tuple[int, tuple[int | None, int, int | None]] | None:
    """Read "2026-W45", "2026W45", "2026-W45-3", "W45", "KW45": the number of tokens, and the year, week and weekday."""
    if folded[index][0] not in _ISO_STARTS:
        return None
    size = 1
    while index + size < len(tokens) and tokens[index + size].glued and size < _MAX_ISO_TOKENS:
        size += 1
    if size < 2 or (index and tokens[index].glued):
        return None
    while size > 2 and not folded[index + size - 1].isalnum():
        size -= 1  # punctuation at the end of the sentence
    if index + size < len(tokens) and tokens[index + size].glued and folded[index + size].isalnum():
        return None
    match = _ISO_WEEK.fullmatch("".join(folded[index : index + size]))
    if match is None:
        return None
    year, week, day, bare = match.groups()
    if not 1 <= int(week or bare) <= 53:
        return None
    return size, (int(year) if year else None, int(week or bare), int(day) if day else None)


def _split_compound(token: Token, lexicon: Lexicon) -> list[Lexeme]:
    """Split "dienstagabend" into weekday and part of the day, "oktoberhälfte" and "jahresende" into period and part."""
    word = token.folded
    for cut in range(len(word) - 3, 4, -1):
        size, first = lexicon.match([word[:cut]], 0)
        seconds = _SECONDS_OF[next((tag for tag in _SECONDS_OF if tag in first), None)] if size else ()
        if seconds:
            size, second = lexicon.match([word[cut:]], 0)
            if size and any(tag in second for tag in seconds):
                middle = token.start + cut
                return [
                    Lexeme(word[:cut], token.start, middle, token.glued, first),
                    Lexeme(word[cut:], middle, token.end, True, second),
                ]
    return [Lexeme(word, token.start, token.end, token.glued, capital=token.capital)]


def _mute(lexeme: Lexeme) -> None:
    lexeme.mute, lexeme.meanings, lexeme.value = True, {}, None


def _mute_chunks(lexemes: list[Lexeme]) -> None:
    """Mute addresses: text without spaces around ``://``, ``@`` or ``_``."""
    start = 0
    for stop in range(1, len(lexemes) + 1):
        if stop < len(lexemes) and lexemes[stop].glued:
            continue
        if stop - start > 1:
            signs = "".join(lexeme.folded for lexeme in lexemes[start:stop] if not lexeme.folded.isalnum())
            if "://" in signs or "@" in signs or "_" in signs or lexemes[start].folded == "www":
                for lexeme in lexemes[start:stop]:
                    _mute(lexeme)
        start = stop


def _mute_numbers(lexemes: list[Lexeme]) -> None:
    for index, lexeme in enumerate(lexemes):
        before = lexemes[index - 1] if index else None
        after = lexemes[index + 1] if index + 1 < len(lexemes) else None
        if lexeme.digits:
            if not lexeme.mute and _is_no_time(lexemes, index, before, after):
                _mute(lexeme)
        elif lexeme.meanings and before is not None and lexeme.glued:
            if before.folded in _MONEY and before.folded != "+":
                _mute(lexeme)
        if len(lexeme.folded) == 1 and lexeme.folded.isascii() and lexeme.folded.isalpha():
            _check_letter(lexeme, before, after)


def _check_letter(lexeme: Lexeme, before: Lexeme | None, after: Lexeme | None) -> None:
    """Keep "d" as days only in "3d", and "q" as quarter only in "q3" or "q 3"."""
    closed = lexeme.glued or (after is not None and after.has(Tag.AGO))  # "3d", "3 d ago"
    glued_to_number = before is not None and before.digits > 0 and closed
    if Tag.UNIT in lexeme.meanings and not glued_to_number:
        lexeme.meanings = {tag: value for tag, value in lexeme.meanings.items() if tag is not Tag.UNIT}


def _is_no_time(lexemes: list[Lexeme], index: int, before: Lexeme | None, after: Lexeme | None) -> bool:
    if before is not None:
        if before.folded in _MONEY:
            return True
        if lexemes[index].glued and before.folded.isalpha():
            unspaced = is_unspaced(before.folded[-1])
            if not unspaced and not before.has(*_GLUE_BEFORE) and not _is_iso_hour(lexemes, index):
                return True
        label = before
        if before.folded == "." and index > 1:
            label = lexemes[index - 2]
        if label.has(Tag.LABEL) and not label.has(Tag.MONTH, Tag.WEEKDAY):
            return True
    if after is not None and after.glued and not closes_clock(lexemes, index):
        if after.folded in _MONEY:
            return True
        if after.folded.isalpha() and not is_unspaced(after.folded[0]) and not after.has(*_GLUE_AFTER):
            return not _is_iso_hour(lexemes, index + 2)
    return False


def _is_iso_hour(lexemes: list[Lexeme], index: int) -> bool:
    """True if the number at *index* follows the T of "2018-08-05T10:00"."""
    return (
        1 < index < len(lexemes)
        and lexemes[index - 1].folded == "t"
        and lexemes[index - 2].digits > 0
        and lexemes[index].digits == 2
    )
