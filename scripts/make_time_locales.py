"""Write the time words of languages without a table of their own from Unicode's CLDR.

``python scripts/make_time_locales.py CLDR_JSON`` takes a clone of unicode-org/cldr-json (a bare repository will do) and writes
infinite_memory/time_expressions/locales/cldr.json: only facts, one entry a language whose coverage CLDR calls modern.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from infinite_memory.time_expressions.languages import CODES

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "infinite_memory" / "time_expressions" / "locales" / "cldr.json"
OURS = {*CODES, "yue", "und", "pcm", "no"}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UNITS = ("day", "week", "month", "quarter", "year")
COUNTED = ("minute", "hour", "day", "week", "month", "year")
MAX_NUMBER = 31
MAX_DEPTH = 8
NUMBERS_OF_FORMS = {"one": 1, "two": 2}  # of plural forms
SOURCE = "Unicode CLDR, unicode-org/cldr-json, cldr-dates-full and cldr-rbnf"
LICENCE = "Unicode License v3, Copyright © 1991-2025 Unicode, Inc., https://www.unicode.org/license.txt"


class Cldr:
    """Reads files of the newest commit of a repository."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.commit = self._git("rev-parse", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.repository), *arguments], capture_output=True, check=True)
        return done.stdout.decode()

    def read(self, path: str) -> Any:
        """Return a file's JSON; an empty object where there is none."""
        try:
            return json.loads(self._git("show", f"HEAD:cldr-json/{path}"))
        except subprocess.CalledProcessError:
            return {}


def relatives(fields: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return "yesterday", "last week" by unit and distance."""
    prefix = "relative-type-"
    return {
        unit: {key.removeprefix(prefix): text for key, text in fields[unit].items() if key.startswith(prefix)}
        for unit in UNITS
    }


def counted(fields: dict[str, Any], tense: str) -> dict[str, list[list[Any]]]:
    """Return "{0} days ago" by unit, each form once, with its number where it is in the words ("two days ago"); else 0.

    A third value, 1, marks the form for one where there are others: "{0} day ago" without its number is one day ago.
    """
    forms: dict[str, list[list[Any]]] = {}
    for unit in COUNTED:
        seen: dict[str, list[int]] = {}
        phrases = fields[unit].get(f"relativeTime-type-{tense}", {})
        several = {text for key, text in phrases.items() if not key.endswith("-one")}
        one = {text for key, text in phrases.items() if key.endswith("-one") and several} - several
        for key, text in phrases.items():
            number = NUMBERS_OF_FORMS.get(key.rpartition("-")[2], 0)
            if "{0}" in text or number:
                number = 0 if "{0}" in text else number
                seen.setdefault(text, [number, *([1] if text in one and not number else [])])
        forms[unit] = [[text, *numbers] for text, numbers in sorted(seen.items())]
    return forms


def weekday_phrases(fields: dict[str, Any]) -> dict[str, list[str]]:
    """Return "last Monday" and its like, Monday first, by distance in weeks."""
    return {str(step): [fields[day].get(f"relative-type-{step}", "") for day in DAYS] for step in (-1, 0, 1)}


def names(calendar: dict[str, Any], what: str, keys: tuple[str, ...]) -> list[list[str]]:
    """Return the full names of months or weekdays, as they stand in a date and alone."""
    forms = [calendar[what][context]["wide"] for context in ("format", "stand-alone")]
    return [sorted({form[key] for form in forms}) for key in keys]


class Spelling:
    """Spells whole numbers by the rules of CLDR (UTS #35 part 3, rule-based number format), as far as cardinals need them."""

    def __init__(self, rules: dict[str, list[list[str]]]) -> None:
        self.rules = rules

    def spell(self, name: str, number: int, depth: int = 0) -> str | None:
        """Return *number* by the rule set *name*; None where a rule is of a kind that is not known here."""
        rows = [(int(key), text.rstrip(";")) for key, text in self.rules.get(name, ()) if key.isdigit()]
        rows = [row for row in rows if row[0] <= number]
        if not rows or depth > MAX_DEPTH:
            return None
        base, text = max(rows, key=lambda row: row[0])
        divisor = 10 ** (len(str(base)) - 1) if base else 1
        rest, whole = number % divisor, number // divisor
        text = re.sub(r"\[([^\]]*)\]", r"\1" if rest else "", text.removeprefix("'"))
        parts: list[str] = []
        for part in re.split(r"(→[^→]*→|←[^←]*←|=[^=]*=)", text):
            if not part or part[0] not in "→←=":
                parts.append(part)
                continue
            value = {"→": rest, "←": whole, "=": number}[part[0]]
            spelled = self.spell(part[1:-1] or name, value, depth + 1)
            if spelled is None:
                return None
            parts.append(spelled)
        word = "".join(parts).replace("\u00ad", "")
        return None if not word or any(sign in word for sign in "→←=<>#$[]()") else word


def number_words(rules: dict[str, Any]) -> dict[str, list[str]]:
    """Return the words for one to thirty-one and the tens to a hundred, in every gender and case that is spelled out."""
    sets = rules.get("SpelloutRules", {})
    spelling = Spelling(sets)
    words: dict[str, list[str]] = {}
    for number in (*range(1, MAX_NUMBER + 1), *range(40, 101, 10)):
        names = [name for name in sets if name.startswith("%spellout-cardinal") or name == "%spellout-numbering"]
        if spelled := {word for name in names if (word := spelling.spell(name, number))}:
            words[str(number)] = sorted(spelled)
    return words


def language(cldr: Cldr, code: str) -> dict[str, Any] | None:
    """Return the entry of one language; None where CLDR has no word for yesterday."""
    main = f"cldr-dates-full/main/{code}"
    dates = cldr.read(f"{main}/dateFields.json")
    if not dates:
        return None
    fields = dates["main"][code]["dates"]["fields"]
    calendar = cldr.read(f"{main}/ca-gregorian.json")["main"][code]["dates"]["calendars"]["gregorian"]
    if fields["day"].get("relative-type--1", "").casefold() in ("", "yesterday"):
        return None
    rules = cldr.read(f"cldr-rbnf/rbnf/{code}.json")
    return {
        "relative": relatives(fields),
        "past": counted(fields, "past"),
        "future": counted(fields, "future"),
        "weekday_phrases": weekday_phrases(fields),
        "weekdays": names(calendar, "days", DAYS),
        "months": names(calendar, "months", tuple(str(month) for month in range(1, 13))),
        "numbers": number_words(rules["rbnf"]["rbnf"]) if rules else {},
        "date": calendar["dateFormats"]["long"],
    }


def main() -> int:
    """Write the file."""
    cldr = Cldr(Path(sys.argv[1]))
    levels = cldr.read("cldr-core/coverageLevels.json")
    coverage = levels.get("effectiveCoverageLevels", levels.get("coverageLevels", levels))
    codes = sorted(
        code for code, level in coverage.items() if level == "modern" and "-" not in code and code not in OURS
    )
    languages = {code: entry for code in codes if (entry := language(cldr, code))}
    written = {"source": SOURCE, "commit": cldr.commit, "licence": LICENCE, "languages": languages}
    lines = json.dumps(written, ensure_ascii=False, separators=(",", ":")).replace('},"', '},\n"')
    TARGET.write_text(lines + "\n", encoding="utf-8")
    print(f"{len(languages)} languages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
