"""Write docs/time.md from the table of phrases that the tests run (tests/data/time/phrases.json).

``python scripts/make_time_docs.py`` writes the page; with ``--check`` it only tells, by its exit code, whether it is current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "time" / "phrases.json"
PAGE = ROOT / "docs" / "time.md"

HEAD = """# Time in words

`recall_memory_by_time` and `filter.time_query` take time as people say it. This page is made by `scripts/make_time_docs.py` from
the table that the tests run (`tests/data/time/phrases.json`); edit that one.

- A range is half open: its start is inside, its end is not. All times on this page are wall time in the zone that is named.
- Words are read from `now` (the clock, or `now` in the request) in the user's zone (`time.zone`, or `timezone` in the request).
  A day has 23 or 25 hours where the clocks change.
- **Past first.** What can be read as past or future is read as past: a bare weekday, month or date is its latest that has begun.
- Seven languages have a table of words (English, German, French, Spanish, Portuguese, Chinese, Japanese); which one a text is
  in is told from its words. In 03/04 English reads the month first, the others the day.
- Only the first 4,000 characters of a text are looked at.
- "Since we last spoke" starts at the last conversation in the memory.
- Quarters are calendar quarters; seasons are whole months of the northern year (spring is March to May).
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
    return "\n".join(parts)


def main() -> int:
    """Write the page, or check it."""
    written = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == written else 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
