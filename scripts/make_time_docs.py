"""Write docs/time.md from the table of phrases that the tests run (tests/data/time/phrases.json).

``python scripts/make_time_docs.py`` writes the page; with ``--check`` it only tells, by its exit code, whether it is current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "time" / "phrases.json"
INFLECTED = ROOT / "tests" / "data" / "time" / "inflected.json"
DECLARATION = ROOT / "tests" / "data" / "time" / "declaration.json"
LANGUAGES = ROOT / "tests" / "data" / "time" / "languages.json"
PAGE = ROOT / "docs" / "time.md"

OWN = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "pt": "Portuguese",
    "zh": "Chinese",
    "ja": "Japanese",
}

HEAD = """# Time in words

`recall_memory_by_time` and `filter.time_query` take time as people say it. This page is made by `scripts/make_time_docs.py` from
the tables that the tests run (`tests/data/time`); edit those.

- A range is half open: its start is inside, its end is not. All times on this page are wall time in the zone that is named.
- Words are read from `now` (the clock, or `now` in the request) in the user's zone (`time.zone`, or `timezone` in the request).
  A day has 23 or 25 hours where the clocks change.
- **Past first.** What can be read as past or future is read as past: a bare weekday, month or date is its latest that has begun.
- Seven languages have a table of words (English, German, French, Spanish, Portuguese, Chinese, Japanese); which one a text is
  in is told from its words. In 03/04 English reads the month first, the others the day.
- Some two hundred other languages are read by their words for days, weeks, months and years, from Unicode's CLDR, the locale
  data of dateparser and, for fifty of them, the inflected forms that both leave out ("múlt héten", "i måndags", "в марте"); the
  tables at the end show what is tested. Numbers may be words there ("двадцать один день назад"), a count may have several
  parts ("1 час 20 минут назад"), and a day a time ("ieri alle 14:30"). Inside a sentence the language is found out first, and
  words that are times only in some other language are none.
- **The last resort.** A `time_query` that nothing of this reads, or not to its end, is put to dateparser's own parser if it is no
  longer than 60 characters and in none of the seven languages: by at most four locales that are likely for the text, every word
  known to the locale, and only a count that ends in the word for ago, a date with its year, or a day with its time, all of
  them past. The range is as wide as the smallest unit said: the day, week, month or year. "4 days" is no time.
- Dotted dates are day first everywhere (05.11.2026). `2026-W45` is a week of ISO 8601, and so are `W45`, `KW 45`, `week 45`. A day
  that does not exist (31 June) is no time, and neither is a date of another calendar, save Thai, Lao and Khmer dates with the name of
  the month in the Buddhist era (12 พฤศจิกายน 2569 is in 2026).
- **How wide.** N days ago is that day; N weeks, months or years ago the calendar week, month or year that holds it. N hours or
  minutes ago is the moment with one hour or minute on either side. A fraction (half an hour, a year and a half, 2.5 days) is as
  wide as the fraction, with the moment in its middle: half an hour ago is from 45 to 15 minutes ago.
- Replies tell what was read: `time_frame.words` are the words as they stood in the text, and `note` names what looks like a time
  and was not read. What begins or ends at a time in a language without a table ("sinds gisteren") is an error, not that day.
- Only the first 1,000 characters of a text are looked at, which takes at most 50 ms of processor time (usually below one), and once a
  second or two to load the words of the other languages and the model that tells languages apart.
- Hour 24 is the midnight at the end of its day ("ayer a las 24"). A time without a day is today's, or yesterday's if it is to come.
- "Since we last spoke" starts at the last conversation in the memory.
- Quarters are calendar quarters; terms of four months (cuatrimestre, quadrimestre, Tertial) begin in January, May and September;
  seasons are whole months of the northern year (spring is March to May).
- The beginning, middle and end of a period are its thirds: in days, or in months from a quarter up.
- "Last September" is that of last year, as "last Christmas" is the latest one that has begun.
- Where there is no time in the text, nothing is guessed: the answer is an error that shows examples.
"""


def page() -> str:
    """Build the page's text."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    parts = [HEAD]
    for section in table["sections"]:
        parts.append(f"## {section['title']}\n")
        if section["note"]:
            parts.append(f"{section['note']}\n")
        parts.append(f"Said at {section['now'].replace('T', ' ')}, zone {section['zone']}.\n")
        rows = [f"| {text} | {start or 'no start'} | {end} |" for text, start, end in section["cases"]]
        parts.append("\n".join(["| words | from | to |", "| --- | --- | --- |", *rows]) + "\n")
    shown = ", ".join(f"`{text}`" for text in table["none"] if text.strip())
    parts.append(f"## No time\n\nIn these no time is found: {shown}.\n")
    parts.append(languages())
    return "\n".join(parts)


def languages() -> str:
    """Build the table of the other languages."""
    table = json.loads(LANGUAGES.read_text(encoding="utf-8"))
    count = len(table["languages"])
    head = (
        f"## Other languages\n\n{count} languages without a table of their own are tested, each with these phrases. They are facts of "
        f"{table['source']} ({table['licence']}); the ranges follow from what CLDR says they mean.\n"
    )
    rows = [
        f"| {entry['language']} | {' · '.join(text for text, _, _ in entry['cases'])} |" for entry in table["languages"]
    ]
    table_rows = "\n".join([head, "| language | phrases |", "| --- | --- |", *rows])
    names = {entry["code"]: entry["language"] for entry in table["languages"]}
    return "\n\n".join([table_rows, inflected(names), timeless(names)]) + "\n"


def inflected(names: dict[str, str]) -> str:
    """Build the table of the inflected forms."""
    table = json.loads(INFLECTED.read_text(encoding="utf-8"))
    rows = [
        f"| {names[code]} | {' · '.join(text for text, _, _ in cases)} |"
        for code, cases in sorted(table["languages"].items(), key=lambda item: names[item[0]])
    ]
    head = f"## Inflected forms\n\n{table['source']}\n"
    return "\n".join([head, "| language | phrases |", "| --- | --- |", *rows])


def timeless(names: dict[str, str]) -> str:
    """Build the list of the languages in which a public text without a time is tested to stay without one."""
    table = json.loads(DECLARATION.read_text(encoding="utf-8"))
    shown = ", ".join(sorted(names.get(code, OWN.get(code, code)) for code in table["languages"]))
    articles = ", ".join(str(number) for number in table["articles"])
    return (
        f"## Public texts without a time\n\nIn articles {articles} of the {table['source']}, no time is found, neither in the "
        f"sentences nor in pieces of them that are given as a time, in {len(table['languages'])} languages: {shown}."
    )


def main() -> int:
    """Write the page, or check it."""
    written = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == written else 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
