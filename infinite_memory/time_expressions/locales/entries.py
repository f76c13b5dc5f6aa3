"""Compiles the data of a language to entries: words, and the span that they mean."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from infinite_memory.time_expressions.lexicon import Unit
from infinite_memory.time_expressions.locales.data import (
    MONTHS,
    NUMBER,
    NUMBER_GROUP,
    UNITS,
    WEEKDAYS,
    Entry,
    Json,
    Kind,
    Locale,
    cldr,
    codes,
    forms,
    raw,
    words_of,
)
from infinite_memory.time_expressions.locales.words import is_unspaced

_RELATIVE = re.compile(r"(in )?(\d+) (day|week|month|year)( ago)?")
_COUNTED = re.compile(r"(in )?\\1 (minute|hour|day|week|month|year)( ago)?")
_LITERAL = re.compile(r"[^\\()\[\]|?*+.^$]+")
_MIN_UNCOUNTED = 2  # words of "# week ago" beyond which it is a time even without its number
_MAX_ABBREVIATION = 4  # letters of a month abbreviation in Thai and similar scripts


def form_entries(code: str, entries: list[Entry]) -> list[Entry]:
    """Return the entries of `forms`: the words for last and this with the units and the weekdays, and whole phrases."""
    table = forms().get(code)
    if table is None:
        return []
    added: list[Entry] = []
    for kind, names in (("weekdays", Kind.WEEKDAY), ("months", Kind.MONTH)):
        for number, words in enumerate(table.get(kind, ()), start=0 if names is Kind.WEEKDAY else 1):
            added += [Entry(words_of(word), names, number) for word in words.split("|") if word]
    weekdays = [] if "units only" in table else _full_weekdays(code, [*entries, *added])
    for distance in (-1, 0):
        for template in table.get(f"step {distance}", ()):
            for unit in ("week", "month", "year"):
                for word in table["units"].get(unit, "").split("|"):
                    phrase = words_of(template.replace("{0}", word))
                    added.append(Entry(phrase, Kind.RELATIVE, (distance, UNITS[unit])))
            for entry in weekdays:
                phrase = words_of(template.replace("{0}", " ".join(entry.words)))
                added.append(Entry(phrase, Kind.RELATIVE_WEEKDAY, (distance, entry.value, False)))
    for key, phrases in table.get("phrases", {}).items():
        unit, distance = key.split()
        added += [Entry(words_of(text), Kind.RELATIVE, (int(distance), UNITS[unit])) for text in phrases.split("|")]
    for number, words in enumerate(table.get("last weekdays", ())):
        added += [Entry(words_of(word), Kind.RELATIVE_WEEKDAY, (-1, number, False)) for word in words.split("|")]
    for unit, shapes in table.get("ago", {}).items():
        for shape in shapes.split("|"):
            words = words_of(shape.replace("{0}", NUMBER_GROUP))
            fixed = 0 if NUMBER in words else 1
            added.append(Entry(words, Kind.COUNTED, (-1, UNITS[unit], fixed)))
    return added


def _full_weekdays(code: str, entries: list[Entry]) -> list[Entry]:
    """Return the weekdays that are not abbreviations: "last" before "일" is not Sunday, but the last event."""
    names = {words_of(name) for row in cldr().get(code, {}).get("weekdays", ()) for name in row}
    return [
        entry
        for entry in entries
        if entry.kind is Kind.WEEKDAY
        and not entry.short
        and (entry.words in names or len("".join(entry.words)) > _MAX_ABBREVIATION)
    ]


def relative_entries(info: dict[str, Any]) -> list[Entry]:
    """Return "yesterday", "last week" and so on; the past reading first if there are two."""
    entries: list[Entry] = []
    for key, phrases in info.get("relative-type", {}).items():
        match = _RELATIVE.fullmatch(key)
        if match is None:
            continue
        count = int(match[2]) if match[1] else -int(match[2])
        longest = max(phrases, key=len, default="")
        for phrase in phrases:
            words = words_of(phrase)
            short = phrase != longest and _is_shortened(words, words_of(longest))
            entries.append(Entry(words, Kind.RELATIVE, (count, UNITS[match[3]]), short))
    return sorted(entries, key=lambda entry: entry.value[0] > 0)


def _is_shortened(words: tuple[str, ...], full: tuple[str, ...]) -> bool:
    """True if a word of *words* is a prefix of one of *full*: "w zeszłym tyg" of "w zeszłym tygodniu"."""
    return any(
        full_word != word and full_word.startswith(word) and len(word) < len(full_word) - 1
        for word in words
        for full_word in full
    ) and len(words) == len(full)


def _names(info: dict[str, Any], key: str, kind: Kind, value: Any) -> list[Entry]:
    names = [words_of(name) for name in info.get(key, ())]
    full = max((len("".join(name)) for name in names), default=0)
    entries = []
    for name in names:
        size = len("".join(name))
        short = size < full and any(
            len(other_name) == len(name)
            and other_name != name
            and "".join(other_name).startswith("".join(name))
            and len("".join(other_name)) > size + 2
            for other_name in names
        )
        abbreviated = (size == 1 < full) or (size <= 3 and name != () and name[0].isascii() and full > 3)
        if is_unspaced("".join(name)) and (kind is Kind.WEEKDAY or size <= _MAX_ABBREVIATION):
            continue  # "จันทร์" is also the moon, and "มค" occurs inside other words
        entries.append(Entry(name, kind, value, short or abbreviated))
    return entries


def _counted_entries(info: dict[str, Any]) -> list[Entry]:
    """Return "# days ago" with every word for the unit substituted."""
    units = {unit: [words_of(name) for name in info.get(key, ())] for key, unit in UNITS.items()}
    entries: list[Entry] = []
    shapes: set[tuple[tuple[str, ...], tuple[str, ...], int]] = set()
    for key, phrases in info.get("relative-type-regex", {}).items():
        match = _COUNTED.fullmatch(key)
        if match is None:
            continue
        sign = 1 if match[1] else -1
        for phrase in phrases:
            words = words_of(phrase)
            if words.count(NUMBER) != 1 or len(words) < 2:
                continue
            position = words.index(NUMBER)
            prefix, unit, suffix = words[:position], words[position + 1 : position + 2], words[position + 2 :]
            if unit and (prefix or suffix):
                entries.append(Entry(words, Kind.COUNTED, (sign, UNITS[match[2]], 0)))
                if unit in units[UNITS[match[2]]]:
                    shapes.add((prefix, suffix, sign))
            elif (prefix and not suffix and not unit) or (unit and unit not in units[UNITS[match[2]]]):
                entries.append(Entry(words, Kind.COUNTED, (sign, UNITS[match[2]], 0)))
    shapes |= _spoken_shapes(info, shapes)
    for prefix, suffix, sign in sorted(shapes):
        for each, names in units.items():
            entries += [
                Entry((*prefix, NUMBER, *name, *suffix), Kind.COUNTED, (sign, each, 0)) for name in names if name
            ]
    return entries


def _spoken_shapes(
    info: dict[str, Any], shapes: set[tuple[tuple[str, ...], tuple[str, ...], int]]
) -> set[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """Return the patterns of the other words for "ago", on the language's side of the number."""
    past = [(prefix, suffix) for prefix, suffix, sign in shapes if sign < 0]
    words = [ago for word in info.get("ago", ()) if (ago := words_of(word))]
    if past and all(prefix and not suffix for prefix, suffix in past):
        return {(ago, (), -1) for ago in words}
    if past and all(suffix and not prefix for prefix, suffix in past):
        return {((), ago, -1) for ago in words}
    return set()


def _simplified(info: dict[str, Any], existing: dict[tuple[str, ...], Entry]) -> list[Entry]:
    """Return the entries that the data defines as rewritings: "przedwczoraj" is "2 dnia temu"."""
    units = {words_of(name): unit for key, unit in UNITS.items() for name in info.get(key, ())}
    future = {words_of(word) for word in info.get("in", ())}
    entries: list[Entry] = []
    for rewriting in info.get("simplifications") or ():
        for phrase, meaning in rewriting.items():
            if not _LITERAL.fullmatch(phrase) or not isinstance(meaning, str):
                continue
            words, meaning_words = words_of(phrase), words_of(meaning)
            if meaning_words in existing:
                entries.append(existing[meaning_words]._replace(words=words))
                continue
            numbers = [position for position, word in enumerate(meaning_words) if word.isdigit()]
            if len(numbers) != 1 or (unit := units.get(meaning_words[numbers[0] + 1 : numbers[0] + 2])) is None:
                continue
            count = int(meaning_words[numbers[0]])
            if unit >= Unit.DAY and len(meaning_words) <= 3:
                sign = 1 if meaning_words[:1] in future else -1
                entries.append(Entry(words, Kind.RELATIVE, (sign * count, unit)))
    return entries


def _number_patterns(info: dict[str, Any]) -> list[tuple[re.Pattern[str], int]]:
    patterns = []
    for rewriting in info.get("simplifications") or ():
        for pattern, value in rewriting.items():
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 2:
                try:
                    patterns.append((re.compile(pattern), int(value)))
                except re.error:  # not a valid pattern for `re`
                    continue
    return patterns


def _cldr_entries(facts: Json) -> list[Entry]:
    """Return the entries of CLDR: the past reading first if there are two."""
    entries: list[Entry] = []
    for unit, phrases in facts["relative"].items():
        for distance, phrase in phrases.items():
            entries.append(Entry(words_of(phrase), Kind.RELATIVE, (int(distance), UNITS[unit])))
    entries.sort(key=lambda entry: entry.value[0] > 0)
    for tense, sign in (("past", -1), ("future", 1)):
        for unit, templates in facts[tense].items():
            for text, number, *singular in templates:
                words = words_of(text.replace("{0}", NUMBER_GROUP))
                if len(words) > (1 if number else 0) and (number or words.count(NUMBER) == 1):
                    entries.append(Entry(words, Kind.COUNTED, (sign, UNITS[unit], number)))
                if singular and len(words) > _MIN_UNCOUNTED:  # "a week ago" is "week ago" in many languages
                    bare = tuple(word for word in words if word != NUMBER)
                    entries.append(Entry(bare, Kind.COUNTED, (sign, UNITS[unit], 1)))
    for number, names in enumerate(facts["months"], start=1):
        entries += [Entry(words_of(name), Kind.MONTH, number) for name in names]
    return entries + _weekday_entries(facts)


def _weekday_entries(facts: Json) -> list[Entry]:
    """Return the weekdays, including the forms in "last Monday" and "this Monday", and those phrases."""
    entries = [
        Entry(words_of(name), Kind.WEEKDAY, day) for day, names in enumerate(facts["weekdays"]) for name in names
    ]
    plain = {entry.words for entry in entries}
    for distance, phrases in facts["weekday_phrases"].items():
        week = words_of(facts["relative"]["week"].get(distance, "")) or ("",)
        all_words = [words_of(phrase) for phrase in phrases]
        for day, words in enumerate(all_words):
            if not words or words in plain:
                continue
            names_week = any(words[index : index + len(week)] == week for index in range(len(words)))
            entries.append(Entry(words, Kind.RELATIVE_WEEKDAY, (int(distance), day, names_week)))
            others = {word for other_day, row in enumerate(all_words) if other_day != day for word in row}
            own = [word for word in words if word not in others]
            if len(own) == 1 and len(own[0]) > 3:
                entries.append(Entry((own[0],), Kind.WEEKDAY, day))
    return entries


@cache
def locale(code: str) -> Locale:
    """Return the compiled locale *code*; all two hundred take 12 MB."""
    info = raw(code)
    facts = cldr().get(code)
    entries = _cldr_entries(facts) if facts else []
    entries += relative_entries(info)
    existing = {entry.words: entry for entry in entries if entry.kind is Kind.RELATIVE}
    entries += _simplified(info, existing) + _counted_entries(info)
    for number, key in enumerate(MONTHS, start=1):
        entries += _names(info, key, Kind.MONTH, number)
    for number, key in enumerate(WEEKDAYS):
        entries += _names(info, key, Kind.WEEKDAY, number)
    for key, unit in UNITS.items():
        entries += [Entry(words_of(name), Kind.UNIT, unit) for name in info.get(key, ())]
    entries += form_entries(code, entries)
    by_first: dict[str, list[Entry]] = {}
    counted: dict[str, list[Entry]] = {}
    seen: set[tuple[tuple[str, ...], Kind]] = set()
    for entry in entries:
        if not entry.words or (entry.words, entry.kind) in seen:
            continue
        seen.add((entry.words, entry.kind))
        by_first.setdefault(entry.words[0], []).append(entry)
        if entry.words[0] == NUMBER and len(entry.words) > 1:
            counted.setdefault(entry.words[1], []).append(entry)
    for rows in (*by_first.values(), *counted.values()):
        rows.sort(key=lambda entry: -len(entry.words))
    pieces = frozenset(piece for rows in by_first.values() for entry in rows for piece in entry.words)
    language = code.split("-", maxsplit=1)[0]
    return Locale(code, language, by_first, counted, _spellings(facts, code), _number_patterns(info), pieces)


def _spellings(facts: Json | None, code: str) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Return the spellings of numbers by their first word, longest first."""
    rows = {
        (words_of(name), int(value)) for value, names in (facts["numbers"].items() if facts else ()) for name in names
    }
    added = forms().get(code, {}).get("numbers", {})
    rows |= {(words_of(name), int(value)) for value, names in added.items() for name in names.split("|")}
    by_first: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for words, value in sorted(rows, key=lambda row: (-len(row[0]), row)):
        if words:
            by_first.setdefault(words[0], []).append((words, value))
    return by_first


@lru_cache(maxsize=1)
def index() -> dict[str, frozenset[str]]:
    """Return the codes of the locales that have each first word of a time phrase."""
    by_word: dict[str, set[str]] = {}
    for code in codes():
        for entries in locale(code).entries.values():
            for entry in entries:
                words = [word for word in entry.words if word != NUMBER]
                if entry.kind is not Kind.UNIT and words:
                    by_word.setdefault(words[0], set()).add(code)
    return {word: frozenset(result) for word, result in by_word.items()}
