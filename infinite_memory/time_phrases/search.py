"""From a text to the one time it speaks of: which language, which words, and the range in UTC."""

from __future__ import annotations

import datetime as dt
import unicodedata
from dataclasses import replace
from typing import NamedTuple
from zoneinfo import ZoneInfo

from infinite_memory.models import TimeRange
from infinite_memory.time_phrases.grammar import Grammar
from infinite_memory.time_phrases.languages import CODES, lexicon
from infinite_memory.time_phrases.lexemes import Lexeme, read_lexemes
from infinite_memory.time_phrases.reader import Found
from infinite_memory.time_phrases.single_dates import written_dates
from infinite_memory.time_phrases.spans import Span
from infinite_memory.time_phrases.table import Tag
from infinite_memory.time_phrases.tokens import Token, is_unspaced, tokenize

_MOST_LONE = 24  # lexemes of a text that may be a time as a whole
_MOST_STARTS = 500  # places where a time may begin; bounds the work on hostile text
_LIKELY = 0.75  # share of the best language's score that makes another worth trying
_LEADING = (Tag.IN, Tag.ON, Tag.OF, Tag.THE, Tag.FROM, Tag.AND)
_JOINTS = ",;:-"
_KANA = ("\u3041", "\u30ff")


class Result(NamedTuple):
    """The range, the words that named it, and the text without them."""

    span: TimeRange
    words: str
    rest: str
    anchored: bool


class _Hit(NamedTuple):
    span: Span
    first: int
    after: int
    anchored: bool = False


def search(text: str, now: dt.datetime, zone: ZoneInfo, language: str | None) -> Result | None:
    """Find the time in *text*; see `find_time`."""
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    if language is not None and language not in CODES:
        raise ValueError(f"{language!r} is not one of the languages {', '.join(CODES)}")
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    tokens = tokenize(text)
    if not tokens:
        return None
    best: Result | None = None
    for code in (language,) if language else likely_languages(tokens):
        lexemes = read_lexemes(tokens, lexicon(code))
        try:
            hit = _find(lexemes, code, now, zone)
            found = _result(text, lexemes, hit, zone) if hit else None
        except (OverflowError, ValueError):  # beyond the years 1 to 9999: no memory lies there
            continue
        if found and (best is None or len(found.words) > len(best.words)):
            best = found
        if best and not best.rest:
            break
    if language is None and (dated := written_dates(text, tokens, best.words if best else "")):
        span, first, after = dated
        start, end = tokens[first].start, tokens[after - 1].end
        return Result(_range(span, zone), text[start:end], _tidy(text[:start], text[end:]), False)
    return best


def likely_languages(tokens: list[Token]) -> list[str]:
    """Order the languages worth trying, by script and by how many words of the text each knows."""
    signs = {character for token in tokens for character in token.folded if not character.isascii()}
    if any(_KANA[0] <= sign <= _KANA[1] for sign in signs):
        return ["ja"]
    if any(is_unspaced(sign) for sign in signs):
        return ["zh", "ja"]
    scores: list[tuple[int, int, str]] = []
    folded = [token.folded for token in tokens[:200]]
    for order, code in enumerate(code for code in CODES if code not in ("zh", "ja")):
        known = lexicon(code)
        score = sum(len(word) for at, word in enumerate(folded) if word.isalpha() and known.knows(folded, at))
        scores.append((-score, order, code))
    scores.sort()
    if not scores[0][0]:
        return ["en", "de"]  # no word is known: figures, month first or day first
    best = -scores[0][0]
    return [code for score, _, code in scores if -score >= best * _LIKELY]


def _find(lexemes: list[Lexeme], code: str, now: dt.datetime, zone: ZoneInfo) -> _Hit | None:
    language = lexicon(code).language
    wall, instant = now.astimezone(zone).replace(tzinfo=None), now.astimezone(dt.UTC)
    if len(lexemes) <= _MOST_LONE and (hit := _find_lone(Grammar(lexemes, language, wall, instant, lone=True))):
        return hit
    return _find_inside(Grammar(lexemes, language, wall, instant))


def _find_lone(grammar: Grammar) -> _Hit | None:
    """Take the whole text to be a time; signs around it and a leading preposition do not count."""
    start = 0
    while (
        start < len(grammar.lexemes) and not grammar.at(start).folded[:1].isalnum() and grammar.at(start).folded != "'"
    ):
        start += 1
    for _ in range(3):
        found = grammar.range(start)
        if found and grammar.language.scriptless:
            found = replace(found, after=grammar.skip(found.after, Tag.IN, Tag.ON, limit=1))
        if found and grammar.is_over(found.after) and not _is_number(grammar, start, found):
            if not found.strong and _is_thing(grammar, start):
                return None
            span = grammar.settled(found)
            return _Hit(span, start, found.after) if span else None
        if not grammar.has(start, *_LEADING):
            return None
        start += 1
    return None


def _is_thing(grammar: Grammar, start: int) -> bool:
    """Tell whether an article makes a thing of a word that may be a time: "the sun", "the march"."""
    at = start if grammar.has(start, Tag.THE) else start - 1
    word = grammar.at(at + 1)
    return grammar.has(at, Tag.THE) and word.has(Tag.WEAK) and word.has(Tag.WEEKDAY, Tag.MONTH)


def _is_number(grammar: Grammar, start: int, found: Found) -> bool:
    """Tell whether a day of the month is all that was found, in digits or words: "12" is no time, "the 12th" is one."""
    number = grammar.number(start)
    return (
        number is not None
        and not number.ordinal
        and number.after == found.after
        and number.digits < 4
        and number.value < 100
    )


def _is_counted(grammar: Grammar, at: int) -> bool:
    """Tell whether a unit belongs to digits that were no count of it: "40000000 days ago" is not "days ago"."""
    return grammar.has(at, Tag.UNIT) and grammar.at(at - 1).folded.isdigit()


def _find_inside(grammar: Grammar) -> _Hit | None:
    """Look for the time inside a sentence: the longest that needs no support or has it, the first of equals."""
    best: _Hit | None = None
    at = 0
    starts = 0
    while at < len(grammar.lexemes) and starts < _MOST_STARTS:
        lexeme = grammar.at(at)
        if (not lexeme.meanings and lexeme.value is None) or _is_counted(grammar, at):
            at += 1
            continue
        if lexeme.has(Tag.ANCHOR):
            start = at - 1 if grammar.has(at - 1, Tag.SINCE, Tag.FROM) else at
            return _Hit(Span(None, grammar.instant), start, at + 1, True)
        starts += 1
        found = grammar.range(at)
        if found is None or not (found.strong or grammar.is_supported(at)) or (span := grammar.settled(found)) is None:
            at += 1
            continue
        if best is None or found.after - at > best.after - best.first:
            best = _Hit(span, at, found.after)
        at = found.after
    return best


def _result(text: str, lexemes: list[Lexeme], hit: _Hit, zone: ZoneInfo) -> Result:
    first = hit.first
    for _ in range(2):
        before = lexemes[first - 1]
        if first and (before.has(Tag.IN, Tag.ON, Tag.THE, Tag.FROM) or before.get(Tag.RELATIVE) == 0):
            first -= 1
    start, end = lexemes[first].start, lexemes[hit.after - 1].end
    if hit.after < len(lexemes) and lexemes[hit.after].folded == "'s" and lexemes[hit.after].glued:
        hit = hit._replace(after=hit.after + 1)
    return Result(
        _range(hit.span, zone), text[start:end], _tidy(text[:start], text[lexemes[hit.after - 1].end :]), hit.anchored
    )


def _range(span: Span, zone: ZoneInfo) -> TimeRange:
    return TimeRange(_in_utc(span.start, zone), _in_utc(span.end, zone))


def _in_utc(at: dt.datetime | None, zone: ZoneInfo) -> dt.datetime | None:
    """Turn local wall time to UTC; a wall time that the clock skips is the moment of the change."""
    if at is None:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(dt.UTC)


def _tidy(before: str, after: str) -> str:
    """Join what stood around the time words, without doubled blanks or signs left alone."""
    before, after = before.strip(), after.strip()
    if not before or before[-1] in _JOINTS:
        after = after.lstrip(_JOINTS + " ")
    words = f"{before} {after}".split()
    rest = ""
    for word in words:
        glue = "" if not rest or not any(character.isalnum() for character in word) else " "
        rest += glue + word
    return rest.strip(" ,;:-")


__all__ = ["Result", "likely_languages", "search"]
