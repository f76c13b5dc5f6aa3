"""Write tests/data/time/languages.json: phrases of many languages and the ranges they mean.

The phrases are facts of Unicode's CLDR (infinite_memory/time_expressions/locales/cldr.json), the ranges are worked out here from
what CLDR says a phrase means, by calendar arithmetic of this script alone: nothing of the product is asked.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FACTS = ROOT / "infinite_memory" / "time_expressions" / "locales" / "cldr.json"
TARGET = ROOT / "tests" / "data" / "time" / "languages.json"
NOW = dt.datetime(2026, 11, 25, 15, 20)
ZONE = "Europe/Berlin"
NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bangla", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "el": "Greek", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fil": "Filipino",
    "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian",
    "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer",
    "kn": "Kannada", "ko": "Korean", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam",
    "mr": "Marathi", "ms": "Malay", "my": "Burmese", "nb": "Norwegian", "ne": "Nepali", "nl": "Dutch", "pa": "Punjabi",
    "pl": "Polish", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zu": "Zulu",
}  # fmt: skip
DAY = dt.timedelta(days=1)
OTHERWISE = {"ma", "leo"}
"""Today in Hungarian and Swahili; alone they are words of many languages, and a name."""


def month_start(day: dt.date, months: int) -> dt.date:
    """Return the first day of the month that is *months* from the one of *day*."""
    count = day.year * 12 + day.month - 1 + months
    return dt.date(count // 12, count % 12 + 1, 1)


def unit_range(unit: str, distance: int) -> tuple[dt.date, dt.date]:
    """Return the calendar unit that lies *distance* from the one of today."""
    today = NOW.date()
    if unit == "day":
        return today + distance * DAY, today + (distance + 1) * DAY
    if unit == "week":
        monday = today - today.weekday() * DAY + 7 * distance * DAY
        return monday, monday + 7 * DAY
    if unit == "month":
        return month_start(today, distance), month_start(today, distance + 1)
    return dt.date(today.year + distance, 1, 1), dt.date(today.year + distance + 1, 1, 1)


def last_weekday(weekday: int) -> tuple[dt.date, dt.date]:
    """Return the latest such weekday before today."""
    day = NOW.date() - DAY
    while day.weekday() != weekday:
        day -= DAY
    return day, day + DAY


def holding(day: dt.date, unit: str) -> tuple[dt.date, dt.date]:
    """Return the week or the day that holds *day*."""
    monday = day - day.weekday() * DAY
    return (monday, monday + 7 * DAY) if unit == "week" else (day, day + DAY)


def phrases(facts: dict[str, Any]) -> list[tuple[str, tuple[dt.date, dt.date]]]:
    """Return the phrases of a language with the ranges they mean."""
    found: list[tuple[str, tuple[dt.date, dt.date]]] = []
    for unit, distances in (("day", "-2 -1 0"), ("week", "-1 0"), ("month", "-1 0"), ("year", "-1 0")):
        for distance in distances.split():
            if text := facts["relative"][unit].get(distance):
                found.append((text, unit_range(unit, int(distance))))
    for weekday in (0, 4):
        found.append((facts["weekdays"][weekday][0], last_weekday(weekday)))
    for unit, count in (("day", 5), ("week", 5)):
        for text, number, *_ in facts["past"][unit]:
            if not number:
                day = NOW.date() - count * (7 * DAY if unit == "week" else DAY)
                found.append((text.replace("{0}", str(count)), holding(day, unit)))
    month = facts["months"][2][0]
    found.append((f"12 {month} 2025", (dt.date(2025, 3, 12), dt.date(2025, 3, 13))))
    return [(text, meaning) for text, meaning in found if text.casefold() not in OTHERWISE]


def main() -> None:
    """Write the file."""
    table = json.loads(FACTS.read_text(encoding="utf-8"))
    languages = [
        {
            "code": code,
            "language": name,
            "cases": [[text, str(start), str(end)] for text, (start, end) in phrases(table["languages"][code])],
        }
        for code, name in sorted(NAMES.items(), key=lambda item: item[1])
        if code in table["languages"]
    ]
    source = {"source": table["source"], "commit": table["commit"], "licence": table["licence"]}
    written = {**source, "now": NOW.isoformat(timespec="minutes"), "zone": ZONE, "languages": languages}
    TARGET.write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
