"""Write docs/time.md and the tables of docs/time/ from the phrases that the tests run (tests/data/time).

``python scripts/make_time_docs.py`` writes the pages; with ``--check`` it only tells, by its exit code, whether they are current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "time" / "phrases.json"
INFLECTED = ROOT / "tests" / "data" / "time" / "inflected.json"
DECLARATION = ROOT / "tests" / "data" / "time" / "declaration.json"
LANGUAGES = ROOT / "tests" / "data" / "time" / "languages.json"
DOCS = ROOT / "docs"
LETTERS = ("AE", "FK", "LQ", "RZ")
"""Pages of the other languages, by the first letter of a language's name: one page would be too long to read."""

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

The rules by which words of time become a range, and where the tables of phrases are.

`recall_memory_by_time` and `filter.time_query` take time as people say it. This page and its tables are made by
`scripts/make_time_docs.py` from what the tests run (`tests/data/time`); edit that.

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
  minutes ago is the moment with one hour or minute on either side. A fraction (half an hour, two thirds of a year, 2.5 days) is as
  wide as its part (a half, a third, a half), with the moment in its middle: half an hour ago is from 45 to 15 minutes ago. The week before
  or after a day is the seven days beside it and the calendar week next to its own, for it may mean either. In languages without a table
  a count with a half ("před hodinou a půl") is an error, and not the whole hours.
- Replies tell what was read: `time_frame.words` are the words as they stood in the text, and `note` names what looks like a time
  and was not read, a second time in the text too. What begins or ends at a time in a language without a table ("sinds gisteren") is
  an error, not that day.
- A `time_query` has 1,000 characters at most; reading it takes at most 50 ms of processor time (usually below one), and once a
  second or two to load the words of the other languages and the model that tells languages apart.
- Hour 24 is the midnight at the end of its day ("ayer a las 24"). A time without a day is today's, or yesterday's if it is to come.
- A zone behind a time is read: "Z", "+05:30", "UTC", "GMT+2", in English "EST" and the others of RFC 5322, and names that mean one offset
  ("CET", "JST"). One that means several ("BST"), and any in a language without a table, is named in `note` and not read.
- "Since we last spoke" starts at the last conversation in the memory.
- Quarters are calendar quarters; terms of four months (cuatrimestre, quadrimestre, Tertial) begin in January, May and September;
  seasons are whole months of the northern year (spring is March to May).
- A count by its tens is as wide as it says ("十几天前", "há dez e poucos dias": 11 to 19 days ago; "几十天前": 20 to 90).
- "Ten or so days ago" has a unit more on either side, and "a week or two ago" is both. "Two years and a bit ago", "just over two years
  ago" and "两年多前" are between three and two years ago, "just under" between two and one, "ten-odd days ago" is 11 to 19.
- A holiday that is another day in each country or school (a bank holiday, spring break, feriado) is not guessed:
  beside a time `note` names it, alone an error does. "Día de la madre" and "día del padre" are read where
  the zone tells the country.
- A holiday has all its days: ゴールデンウィーク is 29 April to 5 May, お盆 13 to 16 August, 国庆假期 the first week of October,
  シルバーウィーク from the Saturday before 敬老の日 to 秋分の日. Which three days a Chinese break of one holiday has is settled each year
  anew: 端午节假期 is that day with two on either side.
- The beginning, middle and end of a period are its thirds, in days, or in months from a quarter up, and so are "the final third of
  October" and "the last days of October"; "the first half" is a half of it.
- "The last two Mondays", "the last two summers" and "the last three Christmases" are from the first of them to the end of the last; a
  season or month that goes on still is none of them. "In den letzten Tagen" and other plurals without a number are as wide as the
  words without edges: two weeks for days, a month for weeks, half a year for months, five years for years.
- "Yesterday after 3pm" ends with that day, "yesterday since 3pm" now.
- "Last September" is that of last year, as "last Christmas" is the latest one that has begun.
- A Japanese 年度 begins in April: 2024年度 is April 2024 to March 2025, its 第1四半期 April to June, its 3月 that of 2025. A Chinese one is
  the calendar year. Without kana it is Japanese in Asia/Tokyo and where it is all that is said (2024年度, 2024年度末), else Chinese.
- "This time last year" is a fortnight on either side of that day a year ago; some months from now it is three days, some weeks from now
  a day, and some days from now ("gestern um diese Zeit") an hour. "On this day last year" is that day.
- "At most two weeks ago" is from then until now, "at least two weeks ago" all before; "seit über zwei Wochen" begins two weeks ago.
- Where there is no time in the text, nothing is guessed: the answer is an error that shows examples.
"""


PAGES = {
    "days": ("Days, weeks, months", "days, weeks, months and dates", 0, 6),
    "ranges": ("Ranges and times of the day", "ranges, times of the day, holidays and sentences", 6, 12),
    "languages": (
        "Seven languages, and the edges of the calendar",
        "six more languages, and the edges of the calendar",
        12,
        None,
    ),
}
"""File, title, what it shows, and which sections of the table of phrases stand in it."""


def pages() -> dict[str, str]:
    """Build the text of every page, by its path below ``docs``."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    made = {"time.md": HEAD + overview(table)}
    for name, (title, shows, first, last) in PAGES.items():
        parts = [
            f"# {title}\n",
            f"How {shows} are read; each line is run by the tests. The rules are in [Time in words](../time.md).\n",
        ]
        made[f"time/{name}.md"] = "\n".join(parts + [section(one) for one in table["sections"][first:last]])
    return made | languages()


def overview(table: dict[str, Any]) -> str:
    """Build the end of the first page: where the tables are, and in what no time is found."""
    links = [f"- [{title}](time/{name}.md)" for name, (title, *_) in PAGES.items()]
    links += [f"- [{letters_title(letters)}](time/languages-{letters.lower()}.md)" for letters in LETTERS]
    links.append("- [Inflected forms, and texts without a time](time/inflected.md)")
    shown = ", ".join(f"`{text}`" for text in table["none"] if text.strip())
    return "\n".join(["\n## Tables\n", *links, "\n## No time\n", f"In these no time is found: {shown}.\n"])


def section(one: dict[str, Any]) -> str:
    """Build one section of phrases with their ranges."""
    rows = [f"| {text} | {start or 'no start'} | {end} |" for text, start, end in one["cases"]]
    note = [f"{one['note']}\n"] if one["note"] else []
    said = f"Said at {one['now'].replace('T', ' ')}, zone {one['zone']}.\n"
    table = "\n".join(["| words | from | to |", "| --- | --- | --- |", *rows]) + "\n"
    return "\n".join([f"## {one['title']}\n", *note, said, table])


def letters_title(letters: str) -> str:
    """Return the title of a page of other languages."""
    return f"Other languages, {letters[0]} to {letters[1]}"


def languages() -> dict[str, str]:
    """Build the pages of the other languages."""
    table = json.loads(LANGUAGES.read_text(encoding="utf-8"))
    entries = table["languages"]
    head = (
        f"{len(entries)} languages without a table of their own are tested, each with these phrases. They are facts of "
        f"{table['source']} ({table['licence']}); the ranges follow from what CLDR says they mean.\n"
    )
    made = {}
    for letters in LETTERS:
        rows = [
            f"| {entry['language']} | {' · '.join(text for text, _, _ in entry['cases'])} |"
            for entry in entries
            if letters[0] <= entry["language"][0] <= letters[1]
        ]
        purpose = f"Words of time in languages from {letters[0]} to {letters[1]}, each phrase run by the tests.\n"
        lines = [f"# {letters_title(letters)}\n", purpose, head, "| language | phrases |", "| --- | --- |", *rows]
        made[f"time/languages-{letters.lower()}.md"] = "\n".join(lines) + "\n"
    names = {entry["code"]: entry["language"] for entry in entries}
    title = "# Inflected forms, and texts without a time"
    purpose = "What is tested of languages that inflect their words of time, and of texts that hold none."
    made["time/inflected.md"] = "\n\n".join([title, purpose, inflected(names), timeless(names)]) + "\n"
    return made


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
    """Write the pages, or check them."""
    made = {DOCS / name: text for name, text in pages().items()}
    if "--check" in sys.argv[1:]:
        return int(any(not page.exists() or page.read_text(encoding="utf-8") != text for page, text in made.items()))
    for page, text in made.items():
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
