"""Where the time words of a language come from: Unicode's CLDR (`cldr.json`, made by scripts/make_time_locales.py), and what
``dateparser`` adds.

The data modules of ``dateparser`` are read from their files: importing the package itself would cost a third of a second, and its
own parser finds times in everyday words.
"""

from __future__ import annotations

import enum
import importlib.util
import json
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from infinite_memory.time_expressions.languages import CODES
from infinite_memory.time_expressions.lexicon import Unit
from infinite_memory.time_expressions.locales.words import split_words

Json = dict[str, Any]

OURS = frozenset({*CODES, "zh-hans", "zh-hant", "yue"})
"""Languages that have a table; their locales are not asked again."""

NUMBER = "#"
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october")
MONTHS = (*_MONTHS, "november", "december")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS = {
    "minute": Unit.MINUTE,
    "hour": Unit.HOUR,
    "day": Unit.DAY,
    "week": Unit.WEEK,
    "month": Unit.MONTH,
    "quarter": Unit.QUARTER,
    "year": Unit.YEAR,
}
NUMBER_GROUP = "(\\d++[.,]?\\d*+)"
_MAX_ENTRY = 80


class Kind(enum.Enum):
    """What an entry of a locale means."""

    RELATIVE = enum.auto()  # (units from now, Unit): "yesterday"
    COUNTED = enum.auto()  # (sign, Unit, number or 0): "3 days ago"
    RELATIVE_WEEKDAY = enum.auto()  # (weeks from now, weekday, whether the week itself is named): "last Monday"
    MONTH = enum.auto()  # 1..12
    WEEKDAY = enum.auto()  # 0 is Monday
    UNIT = enum.auto()


class Entry(NamedTuple):
    """Words and what they mean; *short* are abbreviations, which count only beside a number."""

    words: tuple[str, ...]
    kind: Kind
    value: Any
    short: bool = False


@dataclass(frozen=True, slots=True)
class Locale:
    """A language's entries by their first word, longest first; ``numbers`` and ``patterns`` read number words.

    ``counted`` holds the entries that begin with a number, by the word behind it. ``numbers`` are the spellings of numbers
    by their first word, longest first. ``pieces`` are all words, where the script puts no blanks between them.
    """

    code: str
    language: str
    entries: dict[str, list[Entry]]
    counted: dict[str, list[Entry]] = field(default_factory=dict)
    numbers: dict[str, list[tuple[tuple[str, ...], int]]] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], int]] = field(default_factory=list)
    pieces: frozenset[str] = frozenset()


def _folder() -> Path | None:
    spec = importlib.util.find_spec("dateparser")
    return Path(spec.origin).parent / "data" / "date_translation_data" if spec and spec.origin else None


@lru_cache(maxsize=1)
def codes() -> tuple[str, ...]:
    """Return the codes of all locales that the data has, without those of our own tables."""
    folder = _folder()
    if folder is None or not folder.is_dir():
        return ()
    names = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"} | set(cldr())
    return tuple(sorted(name for name in names if name.lower() not in OURS))


@lru_cache(maxsize=1)
def cldr() -> Json:
    """Return the facts of CLDR by language."""
    text = Path(__file__).with_name("cldr.json").read_text(encoding="utf-8")
    languages: Json = json.loads(text)["languages"]
    return languages


@lru_cache(maxsize=1)
def forms() -> Json:
    """Return the inflected forms that CLDR lacks, by language."""
    text = Path(__file__).with_name("forms.json").read_text(encoding="utf-8")
    languages: Json = json.loads(text)["languages"]
    return languages


@cache
def raw(code: str) -> dict[str, Any]:
    """Return a locale's data as it stands in its file."""
    folder = _folder()
    if folder is None or not (folder / f"{code}.py").is_file():
        return {}
    spec = importlib.util.spec_from_file_location(f"_locale_{code}", folder / f"{code}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    info: dict[str, Any] = module.info
    return info


def words_of(phrase: str) -> tuple[str, ...]:
    """Return a phrase of the data as folded words, a number's place as `NUMBER`; empty if it has signs."""
    words = []
    for word in split_words(phrase.replace(NUMBER_GROUP, f" {NUMBER} "), _MAX_ENTRY):
        if word.folded in ("'", ".", "-", ","):
            continue
        words.append(word.folded)
    if any(word != NUMBER and not word[0].isalnum() for word in words):
        return ()
    return tuple(words)
