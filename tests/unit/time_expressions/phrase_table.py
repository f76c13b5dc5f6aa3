"""The table of phrases that the tests and docs/time.md share: tests/data/time/phrases.json."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

TABLE = Path(__file__).parents[2] / "data" / "time" / "phrases.json"


class Phrase(NamedTuple):
    """A phrase, the instant and zone in which it is said, and the range it means (aware; None is an open end)."""

    section: str
    text: str
    now: dt.datetime
    zone: ZoneInfo
    start: dt.datetime | None
    end: dt.datetime | None


def load_phrases() -> list[Phrase]:
    """Load every phrase that means a range."""
    phrases = []
    for section in json.loads(TABLE.read_text(encoding="utf-8"))["sections"]:
        zone = ZoneInfo(section["zone"])
        now = _local(section["now"], zone)
        assert now is not None
        for text, start, end in section["cases"]:
            phrases.append(Phrase(section["title"], text, now, zone, _local(start, zone), _local(end, zone)))
    return phrases


def load_timeless() -> list[str]:
    """Load the texts that speak of no time."""
    return list(json.loads(TABLE.read_text(encoding="utf-8"))["none"])


def _local(written: str | None, zone: ZoneInfo) -> dt.datetime | None:
    if written is None:
        return None
    at = dt.datetime.fromisoformat(written)
    return at if at.tzinfo else at.replace(tzinfo=zone)
