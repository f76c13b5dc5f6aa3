"""Search for the time in a text of any language, with the words of `data` only.

The language need not be known if the whole text is a time and all languages that can parse it agree. Inside a
sentence the language must be among the likeliest for that sentence.
"""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from infinite_memory.time_expressions.locales import data, entries
from infinite_memory.time_expressions.locales.ambiguous import (
    AMBIGUOUS,
    NOT_ALONE,
    ORDINAL_WEEKDAYS,
    is_edge,
    is_halved,
)
from infinite_memory.time_expressions.locales.detection import likeliest, likelihood
from infinite_memory.time_expressions.locales.reader import Hit, LocaleReader
from infinite_memory.time_expressions.locales.whole_phrase import MAX_LENGTH, read_whole
from infinite_memory.time_expressions.locales.words import Word, is_unspaced, split_words
from infinite_memory.time_expressions.spans import Span
from infinite_memory.time_expressions.tokens import EXAMINED

_MAX_UNREAD = 3
_MAX_LONE = 8  # words of a text that may be a time as a whole
_MAX_PHRASE = 16  # words and punctuation of a text that is passed to dateparser
_MAX_LOCALES = 24
_MIN_LONE = 3  # letters of a single word in plain Latin letters: shorter ones are words of other languages
_HANGUL = ("\uac00", "\ud7a3")
_PREFIXED = (("\u0590", "\u05ff"), ("\u0600", "\u06ff"))
_SCRIPTS = {
    "th": ("\u0e00", "\u0e7f"),
    "lo": ("\u0e80", "\u0eff"),
    "my": ("\u1000", "\u109f"),
    "km": ("\u1780", "\u17ff"),
}


class LocaleHit(NamedTuple):
    """A time: its span, ``text[start:end]``, and the language."""

    span: Span
    start: int
    end: int
    language: str
    unread: tuple[str, ...] = ()


def search_locales(text: str, now: dt.datetime, instant: dt.datetime) -> LocaleHit | None:
    """Find the time in *text*, which should be in NFC; *now* is naive local wall time, *instant* the same moment in UTC."""
    words = split_words(text, EXAMINED)
    hits: list[tuple[str, Hit]] = []
    is_long = len(words) > _MAX_LONE
    for code in _candidates(words):
        if is_long and hits and likelihood(text[:EXAMINED], code.split("-")[0]) is None:
            continue  # only the likely languages are used below
        hit = LocaleReader(entries.locale(code), words, now, instant).best()
        if hit is not None:
            hits.append((code, hit))
    if not hits:
        return None
    lone = [(code, hit) for code, hit in hits if hit.covers_all]
    if lone and not is_long:
        return _agreed(lone)
    ranked = []
    for code, hit in hits:
        language = code.split("-")[0]
        behind = likelihood(text[:EXAMINED], language)
        ambiguous = AMBIGUOUS.get(language, frozenset())
        sure = hit.is_sure(ambiguous, now, ordinal_weekdays=language in ORDINAL_WEEKDAYS)
        if (
            behind is not None
            and sure
            and not any(is_edge(hit, each) or is_halved(hit, each) for each in {language, *likeliest(text[:EXAMINED])})
            and not _is_rest_of_number(hit, words, text)
        ):
            ranked.append((behind, -(hit.end - hit.start), code, hit))
    if not ranked:
        return None
    _, _, code, hit = min(ranked, key=lambda row: row[:3])
    unread = tuple(text[start:end] for start, end in hit.others[:_MAX_UNREAD])
    return LocaleHit(hit.span, hit.start, hit.end, code, unread)


def _is_rest_of_number(hit: Hit, words: list[Word], text: str) -> bool:
    """True if the time is preceded by a number in words: a language related to the text's knows only the last part of it."""
    index = next((index for index, word in enumerate(words) if word.start >= hit.start), 0)
    if not index:
        return False
    likely = [entries.locale(code).numbers for code in likeliest(text[:EXAMINED]) if code in data.codes()]
    return any(words[index - 1].folded in numbers and words[index].folded in numbers for numbers in likely)


def read_phrase(text: str, now: dt.datetime, instant: dt.datetime) -> LocaleHit | None:
    """Parse all of *text*, which the caller says is a time, with dateparser's own parser; see `whole_phrase`."""
    if len(text) > MAX_LENGTH:
        return None
    words = split_words(text, EXAMINED)
    existing = _candidates(words)
    if not existing or len(words) > _MAX_PHRASE or likeliest(text)[:1] in {(code,) for code in data.OURS}:
        return None
    likely = {code: likelihood(text, code.split("-", maxsplit=1)[0]) for code in existing}
    codes = sorted((code for code in existing if likely[code] is not None), key=lambda code: (likely[code], code))
    reading = read_whole(text, now, instant, codes)
    return LocaleHit(reading.span, 0, len(text), reading.code) if reading else None


def _agreed(hits: list[tuple[str, Hit]]) -> LocaleHit | None:
    """Return the time of the whole text if all languages that CLDR covers well, or else all others, agree."""
    hits = [(code, hit) for code, hit in hits if _may_be_alone(hit)]
    existing = [(code, hit) for code, hit in hits if code in data.cldr()] or hits
    if len({(hit.span.start, hit.span.end) for _, hit in existing}) != 1:
        return None
    code, hit = existing[0]
    return LocaleHit(hit.span, hit.start, hit.end, code)


def _may_be_alone(hit: Hit) -> bool:
    word = hit.words[0]
    if len(hit.words) > 1 or not word.isascii():
        return True
    return len(word) >= _MIN_LONE and word not in NOT_ALONE


def _candidates(words: list[Word]) -> list[str]:
    """Return the locales with a time word in the text, those with most of them first."""
    index = entries.index()
    counts: dict[str, int] = {}
    for word in words:
        if not word.folded:
            continue
        forms = {word.folded}
        if _HANGUL[0] <= word.folded[0] <= _HANGUL[1]:
            forms |= {word.folded[:size] for size in range(1, len(word.folded))}
        elif any(first <= word.folded[0] <= last for first, last in _PREFIXED):
            forms |= {word.folded[1:], "\u05d4" + word.folded[1:]}
        elif is_unspaced(word.folded):
            for code, (first, last) in _SCRIPTS.items():
                if first <= word.folded[0] <= last:
                    counts[code] = counts.get(code, 0) + 1
        for form in forms:
            for code in index.get(form, ()):
                counts[code] = counts.get(code, 0) + 1
    return sorted(counts, key=lambda code: (-counts[code], code))[:_MAX_LOCALES]
