"""Search: by meaning and words with any filter, while the question is typed; the newest memories if there is no question."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from infinite_memory.contracts.other_years import name_days, name_in_other_year
from infinite_memory.contracts.timestamps import on_clock
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.models import TimeRange
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import Visit, page

Json = dict[str, Any]
Segment = tuple[str, bool]

MODES = {
    "hybrid": "meaning and words",
    "semantic": "meaning alone",
    "text": "words alone",
    "fuzzy": "words, misspelt too",
}
NARROWED_BY = {
    "scope": "in",
    "tags": "tagged",
    "speaker": "said by",
    "source": "from",
    "mode": "found by",
    "min_confidence": "confidence from",
}
"""Filters other than the time, with their labels."""
STEP = 20  # results on one page
MAX_RESULTS = 200
CANDIDATES = 5  # memories among which one is picked by its words
MAX_CHARS = 40_000  # of all texts on a page
PARTS = (
    ("meaning", "meaning"),
    ("words", "words"),
    ("tag", "tag"),
    ("exact_phrase", "exact phrase"),
    ("conversation", "conversation"),
)


_SAYS = {
    "meaning": "it is near in meaning",
    "words": "it has words of the question",
    "tag": "the question names one of its tags",
    "exact_phrase": "it says the question letter for letter",
    "conversation": "its conversation is about the question",
}
"""Labels of the parts of a score that are not zero."""


@page("GET", "/", audience=Audience.ANY)
async def show_search(visit: Visit) -> Response:
    """Show the form and what it finds."""
    scopes = await visit.queries.scope_names()
    return visit.render(
        "search.html", scopes=scopes, modes=list(MODES), mode_names=MODES, asked=_asked(visit), **await find(visit), status=200
    )  # fmt: skip


@page("GET", "/page/search", audience=Audience.ANY)
async def show_results(visit: Visit) -> Response:
    """Show the results alone, for who types."""
    return visit.render("results.html", asked=_asked(visit), **await find(visit), status=200)


@page("GET", "/page/why", audience=Audience.ANY)
async def show_why(visit: Visit) -> Response:
    """Show where one memory stands in a search, and what kept it out."""
    request = _request(visit) | {"query": visit.text("q"), "top_k": STEP, "explain": True}
    explained, above, candidates, problem = None, [], [], None
    if visit.text("id") and visit.text("q"):
        try:
            reply = await visit.queries.run("retrieve_memory", request | {"explain_id": visit.text("id")})
            explained = reply["explained"]
            above = [hit for hit in reply["results"] if hit["memory_id"] in explained.get("above", ())]
        except InfiniteMemoryError as exc:
            problem = exc
    elif visit.text("which") and visit.text("q"):
        recall_request = {"query": visit.text("which"), "filter": {"scope": "ALL"}, "top_k": CANDIDATES}
        candidates = [
            hit | {"address": _address(visit, "/page/why", {"id": hit["memory_id"], "which": ""})}
            for hit in (await visit.queries.run("retrieve_memory", recall_request))["results"]
        ]
    visit.problem = problem
    parts = to_parts(explained["explain"]) if explained and "explain" in explained else None
    scopes = await visit.queries.scope_names()
    return visit.render(
        "why.html", scopes=scopes, modes=list(MODES), mode_names=MODES, asked=_asked(visit), explained=explained,
        parts_of=parts, above=above, candidates=candidates, status=200,
    )  # fmt: skip


async def find(visit: Visit) -> Json:
    """Return the results of a form, or its error, for a template."""
    visit.session.searched = _address(visit, "/", {})
    listing: Json = {"results": [], "note": None, "time_frame": None, "scopes_searched": [], "total": None, "more": None,
                   "timed": None, "other_year": None, "narrowed": _name_filter(visit)}  # fmt: skip
    try:
        if visit.text("q"):
            listing |= await _recall(visit)
        else:
            listing |= await _list(visit)
        if not listing["results"]:
            listing["other_year"] = await _find_other_year(visit, visit.text("time"), listing["time_frame"], (1, -1))
    except InfiniteMemoryError as exc:
        visit.problem = exc
    return listing


async def _recall(visit: Visit) -> Json:
    limit = _count(visit)
    request = _request(visit) | {"query": visit.text("q"), "top_k": limit, "explain": True, "max_chars": MAX_CHARS}
    reply, timed = await asyncio.gather(
        visit.queries.run("retrieve_memory", request, counts_use=visit.text("sent") == "yes"), _find_time(visit)
    )
    results = [_with_parts(result) for result in reply["results"]]
    more_address = (
        _address(visit, "/", {"n": str(min(limit + STEP, MAX_RESULTS))})
        if len(results) == limit < MAX_RESULTS
        else None
    )
    return _common(reply) | {"results": results, "more": more_address, "timed": timed}


async def _find_time(visit: Visit) -> Json | None:
    """Return the time expression in the question, and the URL that filters by it; None if the time is set.

    Memories of that time are counted, and the same days of another year are offered if those may be meant: "last
    March" said in November is in this year for some people and in the last for others.
    """
    if visit.text("time") or (expression := await visit.queries.find_time_words(visit.text("q"))) is None:
        return None
    count = await _count_at(visit, expression.words)
    frame = {
        "from": expression.span.start and expression.span.start.isoformat(),
        "to": expression.span.end and expression.span.end.isoformat(),
    }
    other_year = await _find_other_year(
        visit, expression.words, frame, (1,) if count else (1, -1), {"q": expression.rest}
    )
    return {
        "words": expression.words, "days": _name_days(expression.span, visit.queries.zone), "count": count, "other_year": other_year,
        "address": _address(visit, "/", {"time": expression.words, "q": expression.rest}),
    }  # fmt: skip


async def _count_at(visit: Visit, time_words: str) -> int:
    """Count the memories that match the form's filter and a time expression."""
    filter_ = _request(visit)["filter"] | {"time_query": time_words}
    return int((await visit.queries.run("list_memories", {"filter": filter_, "limit": 1}))["total"])


def _name_days(span: TimeRange, zone: ZoneInfo) -> str | None:
    """Return words that parse to the same time range: a month, a day, or the first day and the last; None if it is open-ended."""
    if span.start is None or span.end is None:
        return None
    return name_days(on_clock(span.start, zone), on_clock(span.end, zone))


async def _find_other_year(
    visit: Visit, words: str, frame: Json | None, ways: Iterable[int], changes: Json | None = None
) -> Json | None:
    """Return the same days in the first of the years *ways*, counted from the one that was read, that has memories.

    None if *words* name the year, those days have no memories either, or no time was read.
    """
    if frame is None:
        return None
    start, end = (
        frame[name] and on_clock(dt.datetime.fromisoformat(frame[name]), visit.queries.zone) for name in ("from", "to")
    )
    for years in ways:
        days = name_in_other_year(words, start, end, years)
        if days and (count := await _count_at(visit, days)):
            return {"days": days, "count": count, "address": _address(visit, "/", (changes or {}) | {"time": days})}
    return None


async def _list(visit: Visit) -> Json:
    request = _request(visit) | {"limit": STEP}
    request.pop("mode", None)
    request.pop("min_confidence", None)
    if visit.text("cursor"):
        request["cursor"] = visit.text("cursor")
    reply = await visit.queries.run("list_memories", request)
    cursor = reply["next_cursor"]
    more_address = _address(visit, "/", {"cursor": cursor}) if cursor else None
    results = [result | {"segments": [(result["text"], False)], "parts": None} for result in reply["results"]]
    return _common(reply) | {"results": results, "total": reply["total"], "more": more_address}


def _common(reply: Json) -> Json:
    return {
        "note": reply.get("note"),
        "time_frame": reply.get("time_frame"),
        "scopes_searched": reply["scopes_searched"],
    }


def _request(visit: Visit) -> Json:
    """Return the form as the fields of a command; without a scope everything visible is searched."""
    filter_: Json = {"scope": visit.text("scope") or "ALL"}
    for name, field in (("tags", "tags"), ("time", "time_query"), ("speaker", "speaker"), ("source", "source")):
        if value := visit.text(name):
            filter_[field] = value
    request: Json = {"filter": filter_}
    if visit.text("mode") in MODES:
        request["mode"] = visit.text("mode")
    if least := visit.text("min_confidence"):
        request["min_confidence"] = least
    return request


def _name_filter(visit: Visit) -> list[tuple[str, str]]:
    """Return the active filters, as labels and values for the line above the results."""
    mode = visit.text("mode")
    values = {name: visit.text(name) for name in NARROWED_BY} | {
        "mode": MODES.get(mode, "") if mode != "hybrid" else ""
    }
    return [(label, values[name]) for name, label in NARROWED_BY.items() if values[name]]


def _asked(visit: Visit) -> Json:
    names = ("q", "scope", "tags", "time", "speaker", "source", "mode", "min_confidence", "id", "which", "cursor")
    return {name: visit.text(name) for name in names}


def _count(visit: Visit) -> int:
    text = visit.text("n")
    return min(MAX_RESULTS, max(STEP, int(text))) if text.isdecimal() and len(text) < 5 else STEP


def _address(visit: Visit, path: str, changes: Json) -> str:
    named = {name: value for name, value in visit.query.items() if value and name not in ("cursor", "sent")} | changes
    return f"{path}?{urllib.parse.urlencode(named)}"


def to_parts(explain: Json) -> Json:
    """Return an explanation as rows of a table, and the text beside them."""
    rows = [(label, explain[name]) for name, label in PARTS]
    words = sorted(explain.get("by_word", {}).items(), key=lambda pair: -pair[1])
    figures = [
        (name.replace("_", " "), explain[name]) for name in ("rank", "cosine", "rerank_score") if name in explain
    ]
    named = ", ".join(f"\u2068{word}\u2069" for word, _ in words)  # each is isolated in its own writing direction
    says = [
        says + (f" ({named})" if name == "words" and named else "")
        for name, says in _SAYS.items()
        if explain.get(name, 0) > 0
    ]
    return {"score": explain["score"], "rows": rows, "words": words, "beside": figures, "says": says}


def _with_parts(result: Json) -> Json:
    explain = result.get("explain")
    words = explain.get("by_word", {}) if explain else {}
    parts = to_parts(explain) if explain else None
    return result | {"segments": mark(result["text"], result.get("excerpt", ""), words), "parts": parts}


def mark(text: str, excerpt: str, words: Iterable[str]) -> list[Segment]:
    """Split a text into segments, with the matching ones marked: the words, else the nearest passage."""
    named = [re.escape(word) for word in words if word]
    if named:
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(named, key=len, reverse=True))})(?!\w)", re.IGNORECASE)
        segments: list[Segment] = []
        end = 0
        for match in pattern.finditer(text):
            segments += [(text[end : match.start()], False), (match[0], True)]
            end = match.end()
        if end:
            return [segment for segment in [*segments, (text[end:], False)] if segment[0]]
    start = text.find(excerpt) if excerpt and excerpt != text else -1
    if start < 0:
        return [(text, False)]
    stretches = [(text[:start], False), (excerpt, True), (text[start + len(excerpt) :], False)]
    return [segment for segment in stretches if segment[0]]
