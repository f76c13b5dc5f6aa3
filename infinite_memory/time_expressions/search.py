"""Search for the time in a text: its language, its words, and the range in UTC."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from infinite_memory.models import TimeRange
from infinite_memory.normalization import normalize
from infinite_memory.time_expressions.clock_zones import written_zone
from infinite_memory.time_expressions.countries import get_country, get_local_holiday
from infinite_memory.time_expressions.grammar import Grammar
from infinite_memory.time_expressions.holidays import is_unsettled
from infinite_memory.time_expressions.languages import CODES, lexicon
from infinite_memory.time_expressions.lexemes import Lexeme, read_lexemes
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.ordinal_endings import ANY_ENDING
from infinite_memory.time_expressions.parser import Found
from infinite_memory.time_expressions.spans import Span
from infinite_memory.time_expressions.tokens import EXAMINED, Token, is_unspaced, tokenize
from infinite_memory.time_expressions.unread import unread_parts

if TYPE_CHECKING:
    from infinite_memory.time_expressions.locales import LocaleHit

_MAX_LONE = 24  # lexemes of a text that may be a time as a whole
_MAX_STARTS = 40  # start positions that are tried; bounds the work on hostile text
_MAX_STRANGE = 3  # lexemes of a time that may be a word or two of another language
_MAX_STRANGE_LENGTH = 5  # letters
_MIN_OTHERS = 2
_KNOWN_SHARE = {False: 0.6, True: 0.3}
"""Share of the letters around a time that identify its language, by whether that is English, which is easier to identify."""
_LIKELY = 0.75  # share of the best language's score above which another is tried
_PROSE = 20  # characters of a text for each letter of its known words, above which it is in none of the languages
_MAX_GUESSES = 2  # languages tried for such a text
_LEADING = (Tag.IN, Tag.ON, Tag.OF, Tag.THE, Tag.FROM, Tag.AND)
_STARTS_NOTHING = {Tag.COMMON, Tag.WEAK, Tag.LABEL, Tag.AND, Tag.OR, Tag.OF, Tag.COUNTER}
_BOUNDS = (Tag.UNTIL, Tag.BEFORE, Tag.AFTER, Tag.SINCE)
_LAST_HOUR = 24
_JOINTS = ",;:-"
_KANA = ("\u3041", "\u30ff")
_JAPAN = ("Asia/Tokyo", "Japan")  # zones
_MAX_FISCAL = 6  # tokens
_FISCAL_YEAR = re.compile(r"\d{2,4}年度(?:末|前半|後半|[上下]期)?\W*")


class Result(NamedTuple):
    """The range, the words of the expression, and the text without them."""

    span: TimeRange
    words: str
    rest: str
    anchored: bool
    unread: tuple[str, ...] = ()


class _Hit(NamedTuple):
    span: Span
    first: int
    after: int
    anchored: bool = False
    others: tuple[tuple[int, int], ...] = ()  # lexemes of other times in the text


def search(text: str, now: dt.datetime, zone: ZoneInfo, language: str | None, *, whole: bool = False) -> Result | None:
    """Find the time in *text*; see `find_time`."""
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    if language is not None and language not in CODES:
        raise ValueError(f"{language!r} is not one of the languages {', '.join(CODES)}")
    text = text if text.isascii() else normalize("NFC", text)
    tokens = tokenize(text)
    if not tokens:
        return None
    best: Result | None = None
    for code in (language,) if language else likely_languages(tokens, zone):
        lexemes = read_lexemes(tokens, lexicon(code))
        try:
            hit = _find(lexemes, code, now, zone)
            if hit and _is_bounded(lexemes, hit):
                return None
            if hit and language is None and _is_stranger(text, lexemes, hit, code):
                continue
            results = _result(text, lexemes, hit, zone) if hit else None
        except (OverflowError, ValueError):  # outside the years 1 to 9999: no memory is there
            continue
        if results and (best is None or len(results.words) > len(best.words)):
            best = results
        if best and not best.rest:
            break
    if best is None and language is None:
        best = _search_locales(text, now, zone)
        if whole and (best is None or best.rest):
            return _read_phrase(text, now, zone) or best
    return best


def _is_bounded(lexemes: list[Lexeme], hit: _Hit) -> bool:
    """True if a bare number beside a day is a bound of the range: "until 5 yesterday" is not all of yesterday."""
    if hit.span.grain < Unit.DAY or hit.span.start is None:
        return False
    for opener, number, edge in (
        (hit.first - 2, hit.first - 1, hit.first - 3),
        (hit.after, hit.after + 1, hit.after + 2),
    ):
        if opener < 0 or number >= len(lexemes) or not lexemes[opener].has(*_BOUNDS):
            continue
        is_over = number < hit.first or edge >= len(lexemes) or not lexemes[edge].folded.isalnum()
        value = lexemes[number].value
        if is_over and value is not None and value <= _LAST_HOUR:
            return True
    return False


def _is_stranger(text: str, lexemes: list[Lexeme], hit: _Hit, code: str) -> bool:
    """True if a short time is in a text of another language: "mai" is May in German, and "more" in Romanian.

    The language is detected only if few words of the text are known, so that questions in our languages need no model.
    """
    if hit.after - hit.first > (1 if code == "en" else _MAX_STRANGE) or lexicon(code).language.scriptless:
        return False
    if max(len(lexeme.folded) for lexeme in lexemes[hit.first : hit.after]) > _MAX_STRANGE_LENGTH:
        return False  # "gestern" is not a word of any other language
    others = [
        lexeme for index, lexeme in enumerate(lexemes) if not hit.first <= index < hit.after and lexeme.folded.isalpha()
    ]
    existing = sum(len(lexeme.folded) for lexeme in others if lexeme.meanings)
    if len(others) < _MIN_OTHERS or existing >= _KNOWN_SHARE[code == "en"] * sum(
        len(lexeme.folded) for lexeme in others
    ):
        return False
    from infinite_memory.time_expressions.locales.detection import likelihood

    return likelihood(text[:EXAMINED], code) is None


def _search_locales(text: str, now: dt.datetime, zone: ZoneInfo) -> Result | None:
    from infinite_memory.time_expressions.locales import search_locales  # a megabyte of words, which few texts need

    return _located(search_locales, text, now, zone)


def _read_phrase(text: str, now: dt.datetime, zone: ZoneInfo) -> Result | None:
    from infinite_memory.time_expressions.locales import read_phrase  # a second of processor time, which few texts need

    return _located(read_phrase, text.strip(" ?!.,"), now, zone)


def _located(
    find: Callable[[str, dt.datetime, dt.datetime], LocaleHit | None], text: str, now: dt.datetime, zone: ZoneInfo
) -> Result | None:
    """Return the result of *find* for *text*, in UTC."""
    try:
        hit = find(text, now.astimezone(zone).replace(tzinfo=None), now.astimezone(dt.UTC))
        span = _range(hit.span, zone) if hit else None
    except (OverflowError, ValueError):
        return None
    if hit is None or span is None:
        return None
    rest = _tidy(text[: hit.start], text[hit.end :])
    return Result(span, text[hit.start : hit.end], rest, False, hit.unread + written_zone(text, hit.end))


def find_unsettled(text: str, zone: ZoneInfo) -> tuple[str, ...]:
    """Return the holidays in *text* whose date is unknown because it depends on the place."""
    text = text if text.isascii() else normalize("NFC", text)
    tokens = tokenize(text)
    country = get_country(zone.key)
    for code in likely_languages(tokens, zone) if tokens else ():
        named = [lexeme for lexeme in read_lexemes(tokens, lexicon(code)) if lexeme.has(Tag.HOLIDAY)]
        if names := [
            text[lexeme.start : lexeme.end]
            for lexeme in named
            if is_unsettled(get_local_holiday(lexeme.get(Tag.HOLIDAY), country))
        ]:
            return tuple(dict.fromkeys(names))
    return ()


def likely_languages(tokens: list[Token], zone: ZoneInfo | None = None) -> list[str]:
    """Order the languages to try, by script and by how many words of the text each knows.

    Without kana a text may be in either of two; Japanese comes first in Japan, and if the text is only a fiscal year.
    """
    signs = {character for token in tokens for character in token.folded if not character.isascii()}
    if any(_KANA[0] <= sign <= _KANA[1] for sign in signs):
        return ["ja"]
    if any(is_unspaced(sign) for sign in signs):
        is_japanese = (zone is not None and zone.key in _JAPAN) or _is_fiscal_year(tokens)
        return ["ja", "zh"] if is_japanese else ["zh", "ja"]
    scores: list[tuple[int, int, str]] = []
    folded = [token.folded for token in tokens[:200]]
    endings = {  # of ordinals: the "er" of "1er mai" is not a German word
        index
        for index, token in enumerate(tokens[:200])
        if token.glued and token.folded in ANY_ENDING and tokens[index - 1].folded.isdecimal()
    }
    for order, code in enumerate(code for code in CODES if code not in ("zh", "ja")):
        existing = lexicon(code)
        score = sum(
            len(word)
            for index, word in enumerate(folded)
            if word.isalpha() and index not in endings and existing.knows(folded, index)
        )
        scores.append((-score, order, code))
    scores.sort()
    if len(scores) > 1 and scores[0][0] == scores[1][0] < 0:
        scores.sort(key=lambda score: (score[0], -_count_weekdays(folded, score[2]), score[1]))
    if not scores[0][0]:
        return ["en", "de"]  # no known word: digits, month first or day first
    best_score = -scores[0][0]
    likely = [code for score, _, code in scores if -score >= best_score * _LIKELY]
    is_prose = best_score * _PROSE >= tokens[-1].end
    return likely if is_prose else likely[:_MAX_GUESSES]


def _is_fiscal_year(tokens: list[Token]) -> bool:
    """True if the text consists of "2024年度" or a part of it."""
    if len(tokens) > _MAX_FISCAL:
        return False
    return _FISCAL_YEAR.fullmatch("".join([token.folded for token in tokens])) is not None


def _count_weekdays(folded: list[str], code: str) -> int:
    """Count the names of weekdays: "de segunda a sexta" is Monday to Friday in Portuguese, and rarely days of a month in Spanish."""
    existing = lexicon(code)
    return sum(Tag.WEEKDAY in existing.match(folded, index)[1] for index in range(len(folded)))


def _find(lexemes: list[Lexeme], code: str, now: dt.datetime, zone: ZoneInfo) -> _Hit | None:
    language = lexicon(code).language
    country = get_country(zone.key)
    wall, instant = now.astimezone(zone).replace(tzinfo=None), now.astimezone(dt.UTC)
    if len(lexemes) <= _MAX_LONE and (
        hit := _find_lone(Grammar(lexemes, language, wall, instant, is_alone=True, country=country, zone=zone))
    ):
        return hit
    return _find_inside(Grammar(lexemes, language, wall, instant, country=country, zone=zone))


def _find_lone(grammar: Grammar) -> _Hit | None:
    """Parse the whole text as a time; punctuation around it and a leading preposition are ignored."""
    start = 0
    while (
        start < len(grammar.lexemes) and not grammar.at(start).folded[:1].isalnum() and grammar.at(start).folded != "'"
    ):
        start += 1
    for _ in range(3):
        result = grammar.range(start)
        if result and grammar.language.scriptless:
            result = replace(result, after=grammar.skip(result.after, Tag.IN, Tag.ON, limit=1))
        if result and grammar.is_over(result.after) and not _is_number(grammar, start, result):
            if not result.strong and _is_thing(grammar, start):
                return None
            span = grammar.settled(result)
            return _Hit(span, start, result.after) if span else None
        if not grammar.has(start, *_LEADING):
            return None
        start += 1
    return None


def _is_thing(grammar: Grammar, start: int) -> bool:
    """True if an article makes a possible time a thing: "the sun", "the march"."""
    index = start if grammar.has(start, Tag.THE) else start - 1
    word = grammar.at(index + 1)
    return grammar.has(index, Tag.THE) and word.has(Tag.WEAK) and word.has(Tag.WEEKDAY, Tag.MONTH)


def _is_number(grammar: Grammar, start: int, result: Found) -> bool:
    """True if only a day of the month was found, in digits or words: "12" is not a time, "the 12th" is one."""
    number = grammar.number(start)
    return (
        number is not None
        and not number.ordinal
        and number.after == result.after
        and number.digits < 4
        and number.value < 100
    )


def _is_counted(grammar: Grammar, index: int) -> bool:
    """True if a unit belongs to digits that were not parsed as its count: "40000000 days ago" is not "days ago"."""
    return grammar.has(index, Tag.UNIT) and grammar.at(index - 1).folded.isdigit()


def _find_inside(grammar: Grammar) -> _Hit | None:
    """Find the time inside a sentence: the longest that needs no support or has it, the first one on a tie."""
    best: _Hit | None = None
    places: list[tuple[int, int]] = []
    index = 0
    starts = 0
    while index < len(grammar.lexemes) and starts < _MAX_STARTS:
        lexeme = grammar.at(index)
        if (lexeme.value is None and lexeme.meanings.keys() <= _STARTS_NOTHING) or _is_counted(grammar, index):
            index += 1
            continue
        if lexeme.has(Tag.ANCHOR):
            start = index - 1 if grammar.has(index - 1, Tag.SINCE, Tag.FROM) else index
            return _Hit(Span(None, grammar.instant), start, index + 1, True)
        starts += 1
        result = grammar.range(index)
        if (
            result is None
            or not (result.strong or grammar.is_supported(index))
            or (span := grammar.settled(result)) is None
        ):
            index += 1
            continue
        places.append((index, result.after))
        if best is None or result.after - index > best.after - best.first:
            best = _Hit(span, index, result.after)
        index = result.after
    return best._replace(others=tuple(places)) if best else None


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
        _range(hit.span, zone),
        text[start:end],
        _tidy(text[:start], text[lexemes[hit.after - 1].end :]),
        hit.anchored,
        unread_parts(text, lexemes, first, hit.after, dict(hit.others)),
    )


def _range(span: Span, zone: ZoneInfo) -> TimeRange:
    return TimeRange(_in_utc(span.start, zone), _in_utc(span.end, zone))


def _in_utc(instant: dt.datetime | None, zone: ZoneInfo) -> dt.datetime | None:
    """Convert local wall time to UTC; a wall time that the clock skips is the moment of the change."""
    if instant is None:
        return None
    return (instant if instant.tzinfo else instant.replace(tzinfo=zone)).astimezone(dt.UTC)


def _tidy(before: str, after: str) -> str:
    """Join the text around the time words, without double spaces or orphaned punctuation."""
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
