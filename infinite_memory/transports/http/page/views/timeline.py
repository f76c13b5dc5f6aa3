"""Timeline: the number of memories in each year, month and day; for a month, week or day also the memories, with conversations as threads.

All counts take one pass over the index (`Engine.count_by_time`). The bars are drawn here as SVG, and every bar is a
link with its number in words: a chart library draws on a canvas, which is not accessible to keyboards or screen readers.
"""

from __future__ import annotations

import calendar
import datetime as dt
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import Visit, page

Json = dict[str, Any]

ADDRESS = "/page/timeline"
MAX_YEARS = 60
FIRST_YEAR, LAST_YEAR = 1900, 2200
LIMIT = 50
WEEK = 7
WIDTH, HEIGHT, HEADROOM, LABELS = 960, 180, 30, 34
"""Dimensions of the chart: its bars, with space for numbers above and names below."""
MIN_STEP = 30  # units between bars from which on each has its number
MIN_PHONE_STEP = 60  # the same if letters are large: a phone shows the chart at a third of its width


@dataclass(frozen=True, slots=True)
class Period:
    """The time range of one bar: from its first day up to the first day of the next."""

    first: dt.date
    label: str
    title: str
    name: str


@page("GET", ADDRESS, audience=Audience.ANY)
async def show_timeline(visit: Visit) -> Response:
    """Show the counts of what is named by ``at``: nothing for all years, else YYYY, YYYY-MM, YYYY-Www or YYYY-MM-DD."""
    named, scope = visit.text("at"), visit.text("scope")
    scopes = await visit.queries.scope_names()
    span = parse_span(named)
    periods, listed = await _find_periods(visit, named, scope or None, span)
    bars: list[Json] = []
    if periods:
        edges = [_instant(period.first, visit.queries.zone) for period in periods]
        edges.append(_instant(_after(periods[-1], named), visit.queries.zone))
        bars = _bars(visit, periods, await visit.queries.count_by_time(scope or None, edges), scope)
    threads = _to_threads(listed["results"]) if listed else []
    more_address = _address(named, scope, listed["next_cursor"]) if listed and listed["next_cursor"] else None
    return visit.render(
        "timeline.html", bars=bars, threads=threads, more=more_address, scopes=scopes, scope=scope, at=named, width=WIDTH,
        base=HEADROOM + HEIGHT, height=HEADROOM + HEIGHT + LABELS, total=sum(bar["count"] for bar in bars), listed=listed,
        trail=_trail(named, scope), beside=[_name_shifted(named, span, way, scope) for way in (-1, 1)] if span else [],
    )  # fmt: skip


def parse_span(period_name: str) -> tuple[dt.date, dt.date] | None:
    """Return the first day of a named period, and the first day after it; None for all time.

    Raises:
        InvalidRequestError: it has none of the formats.
    """
    if not period_name:
        return None
    try:
        if "W" in period_name:
            first = dt.datetime.strptime(f"{period_name}-1", "%G-W%V-%u").date()
            last = first + dt.timedelta(days=7)
        elif len(period_name) == 4:
            first, last = dt.date(int(period_name), 1, 1), dt.date(int(period_name) + 1, 1, 1)
        elif len(period_name) == 7:
            first = dt.date(int(period_name[:4]), int(period_name[5:]), 1)
            last = first + dt.timedelta(days=calendar.monthrange(first.year, first.month)[1])
        else:
            first = dt.date.fromisoformat(period_name)
            last = first + dt.timedelta(days=1)
    except (ValueError, OverflowError) as exc:
        raise InvalidRequestError(
            "at", "is no year, month, week or day as 2025, 2025-03, 2025-W11 or 2025-03-14"
        ) from exc
    if not FIRST_YEAR <= first.year < LAST_YEAR:
        raise InvalidRequestError("at", f"is not between {FIRST_YEAR} and {LAST_YEAR}")
    return first, last


async def _find_periods(
    visit: Visit, period_name: str, scope: str | None, span: tuple[dt.date, dt.date] | None
) -> tuple[list[Period], Json | None]:
    """Return the periods of the bars; for a month, a week or a day also the memories."""
    if span is None:
        years = await visit.queries.find_years(scope)
        if years is None:
            return [], None
        newest = min(years[1], LAST_YEAR - 1)
        oldest = max(FIRST_YEAR, years[0], newest - MAX_YEARS + 1)
        return [
            Period(dt.date(year, 1, 1), str(year), str(year), str(year)) for year in range(oldest, newest + 1)
        ], None
    first, last = span
    if len(period_name) == 4:
        months = [dt.date(first.year, month, 1) for month in range(1, 13)]
        return [Period(month, f"{month:%b}", f"{month:%B %Y}", f"{month:%Y-%m}") for month in months], None
    count = (last - first).days
    zone, cursor = visit.queries.zone, visit.text("cursor") or None
    listed = await visit.queries.list_between(scope, _instant(first, zone), _instant(last, zone), LIMIT, cursor)
    days = [first + dt.timedelta(days=number) for number in range(count)] if count > 1 else []
    return [_to_period(day, with_weekday=count == WEEK) for day in days], listed


def _to_period(day: dt.date, *, with_weekday: bool) -> Period:
    label = f"{day:%a} {day.day}" if with_weekday else str(day.day)
    return Period(day, label, f"{day:%A} {day.day} {day:%B %Y}", day.isoformat())


def _instant(day: dt.date, zone: ZoneInfo) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), zone).astimezone(dt.UTC)


def _after(period: Period, period_name: str) -> dt.date:
    """Return the first day after the last period."""
    span = parse_span(period_name)
    return dt.date(period.first.year + 1, 1, 1) if span is None else span[1]


def _bars(visit: Visit, periods: Sequence[Period], counts: Sequence[int], scope: str) -> list[Json]:
    max_count, step = max([*counts, 1]), WIDTH / len(periods)
    every, every_on_phone = max(1, round(40 / step)), max(1, round(2 * MIN_PHONE_STEP / step))
    bars = []
    for number, (period, count) in enumerate(zip(periods, counts, strict=True)):
        tall = max(round(count / max_count * HEIGHT, 1), 2) if count else 0
        bars.append({
            "count": count, "label": period.label if number % every == 0 else "", "title": period.title,
            "number": f"{count:,}" if count and step >= MIN_STEP else "", "is_narrow": step < MIN_PHONE_STEP,
            "on_phone": number % every_on_phone == 0 or step >= MIN_PHONE_STEP,
            "address": _address(period.name, scope), "x": round(number * step + step * 0.1, 1), "width": round(step * 0.8, 1),
            "height": tall, "y": round(HEADROOM + HEIGHT - tall, 1), "middle": round(number * step + step / 2, 1),
        })  # fmt: skip
    return bars


def _address(period_name: str, scope: str, cursor: str | None = None) -> str:
    fields = {"at": period_name, "scope": scope, "cursor": cursor}
    return f"{ADDRESS}?{urllib.parse.urlencode({name: value for name, value in fields.items() if value})}"


def _shift(period_name: str, span: tuple[dt.date, dt.date], way: int) -> str:
    """Return the name of the next or previous period of the same length."""
    day = span[1] if way > 0 else span[0] - dt.timedelta(days=1)
    if "W" in period_name:
        return f"{day:%G-W%V}"
    return {4: f"{day:%Y}", 7: f"{day:%Y-%m}"}.get(len(period_name), day.isoformat())


def _name_shifted(period_name: str, span: tuple[dt.date, dt.date], way: int, scope: str) -> tuple[str, str]:
    """Return the title of the adjacent period, and its URL."""
    shifted = _shift(period_name, span, way)
    day = (parse_span(shifted) or span)[0]
    if "W" in shifted:
        return f"Week {day:%V}", _address(shifted, scope)
    words = {4: f"{day:%Y}", 7: f"{day:%B %Y}"}.get(len(shifted), f"{day:%A} {day.day} {day:%B}")
    return words, _address(shifted, scope)


def _trail(period_name: str, scope: str) -> list[tuple[str, str]]:
    """Return the periods that contain one, widest first."""
    span = parse_span(period_name)
    trail = [("All years", _address("", scope))]
    if span is None:
        return trail
    day = span[0]
    trail.append((f"{day:%Y}", _address(f"{day:%Y}", scope)))
    if len(period_name) > 4:
        trail.append((f"{day:%B}", _address(f"{day:%Y-%m}", scope)))
    if len(period_name) == 10 or "W" in period_name:
        trail.append((f"week {day:%V}", _address(f"{day:%G-W%V}", scope)))
    if len(period_name) == 10:
        trail.append((f"{day:%A} {day.day}", _address(period_name, scope)))
    return trail


def _to_threads(results: Sequence[Json]) -> list[list[Json]]:
    """Group consecutive memories of one conversation."""
    threads: list[list[Json]] = [[result] for result in results[:1]]
    for before, current in pairwise(results):
        talk = current.get("conversation_id")
        if talk is not None and talk == before.get("conversation_id") and current["scope"] == before["scope"]:
            threads[-1].append(current)
        else:
            threads.append([current])
    return threads
