"""Duplicates: groups of memories with the same text, side by side; one is kept and the others are forgotten, which can be undone."""

from __future__ import annotations

import asyncio
import sys

from starlette.responses import Response

from infinite_memory.engine.types import Progress
from infinite_memory.errors import InvalidRequestError, format_count
from infinite_memory.transports.http.page import work
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.sessions import Session, Undo

LIST = "/page/duplicates"
KINDS = {"deduplicate": "equal texts", "merge_similar": "nearly the same words"}
GROUPS = 10  # on one page
MAX_SHOWN = 20  # memories of a group; the others follow once these are dealt with
SOON_S = 1.0  # a scan that is done by then shows no progress first


async def show_duplicates(visit: Visit) -> Response:
    """Show a page of the groups that the last scan found, if they still exist."""
    duplicates = visit.session.duplicates
    kind, every = duplicates if duplicates is not None else ("deduplicate", [])
    offset = _get_offset(visit, len(every))
    groups = [
        {"number": number, "memories": group, "hidden": max(0, len(ids) - MAX_SHOWN)}
        for number, ids in enumerate(every[offset : offset + GROUPS], offset + 1)
        if len(group := await visit.queries.read_all(ids[:MAX_SHOWN])) > 1
    ]
    return visit.render(
        "duplicates.html", groups=groups, kinds=KINDS, kind=kind, looked=duplicates is not None, total=len(every), offset=offset,
        last=min(offset + GROUPS, len(every)), before=_address(offset - GROUPS) if offset else None,
        following=_address(offset + GROUPS) if offset + GROUPS < len(every) else None, zone=visit.queries.zone,
    )  # fmt: skip


page("GET", LIST)(show_duplicates)


def _get_offset(visit: Visit, total: int) -> int:
    """Return the offset of the requested page: a whole page, and not after the last."""
    text = visit.text("offset")
    offset = int(text) if text.isdecimal() and text.isascii() and len(text) < 9 else 0
    return min(offset, max(0, total - 1)) // GROUPS * GROUPS


def _address(offset: int) -> str:
    return f"{LIST}?offset={offset}" if offset > 0 else LIST


@page("POST", "/page/duplicates/look", writes=False, retry_view=show_duplicates)
async def look(visit: Visit) -> Response:
    """Look for duplicates, which reads every memory: of a large memory that is long work."""
    kind = visit.text("kind") if visit.text("kind") in KINDS else "deduplicate"
    session = visit.session

    async def run(progress: Progress) -> str:
        groups = await visit.queries.find_duplicates(kind)
        session.duplicates = kind, groups
        return f"Found: {format_count(len(groups), 'group')}."

    view = work.begin(session, visit.app.finishing, f"Looking for {KINDS[kind]}", LIST, run)
    under_way = session.tasks[view.rpartition("/")[2]]
    await asyncio.wait({under_way.task}, timeout=SOON_S)
    return visit.go(LIST if under_way.says is not None else view)


@page("POST", LIST, retry_view=show_duplicates)
async def keep_one(visit: Visit) -> Response:
    """Keep one memory of a group and forget the others softly; with *merge* the tags of all are first put on the one that stays.

    Raises:
        InvalidRequestError: it is not said which one stays, or another of them is gone.
    """
    keep_id = visit.text("keep")
    named = [line for line in visit.form.get("memory_id", "").split("\n") if line]
    if keep_id not in named or len(named) < 2:
        raise InvalidRequestError("keep", "choose the one that stays")
    group = await visit.queries.read_all(named)
    if len(group) < len(named):
        raise InvalidRequestError("keep", "one of them is gone meanwhile; look again")
    survivor = next(memory for memory in group if memory["memory_id"] == keep_id)
    tags = list(dict.fromkeys([*survivor["tags"], *(tag for memory in group for tag in memory["tags"])]))
    if visit.text("merge") == "yes" and tags != list(survivor["tags"]):
        await visit.queries.run("update_memory", {"memory_id": keep_id, "tags": tags})
    others = [memory_id for memory_id in named if memory_id != keep_id]
    for memory_id in others:
        await visit.queries.run("delete_memory", {"target": {"memory_id": memory_id}})
    visit.session.offer_undo(Undo(format_count(len(others), "memory"), memory_ids=tuple(others)))
    _remove_from_groups(visit.session, set(others))
    return visit.go(_address(_get_offset(visit, sys.maxsize)), f"One is kept, {len(others)} forgotten.")


def _remove_from_groups(session: Session, removed: set[str]) -> None:
    """Remove memories from the groups that are shown, and groups with one memory left."""
    if session.duplicates is not None:
        kind, groups = session.duplicates
        rest = (
            [memory_id for memory_id in group if memory_id not in removed] if not removed.isdisjoint(group) else group
            for group in groups
        )
        session.duplicates = kind, [group for group in rest if len(group) > 1]
