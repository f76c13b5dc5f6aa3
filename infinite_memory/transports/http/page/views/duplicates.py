"""Duplicates: groups of memories that say the same, side by side; one is kept and the others are forgotten, which can be undone."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from infinite_memory.engine.types import Progress
from infinite_memory.errors import InvalidRequestError, NotFoundError
from infinite_memory.transports.http.page import work
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.sessions import Undo

Json = dict[str, Any]

LIST = "/page/duplicates"
KINDS = {"deduplicate": "equal texts", "merge_similar": "nearly the same words"}
GROUPS = 10  # of a page
SOON_S = 1.0  # a look that is done by then shows no progress first


async def show_duplicates(visit: Visit) -> Response:
    """Show the groups that the last look found, as far as they are still there."""
    found = visit.session.duplicates
    kind, details = found if found is not None else ("deduplicate", [])
    offset = int(visit.text("offset")) if visit.text("offset").isdecimal() and len(visit.text("offset")) < 7 else 0
    groups = [
        group
        for detail in details[offset : offset + GROUPS]
        if len(group := await _read(visit, [detail["kept"], *detail["merged"]])) > 1
    ]
    return visit.render(
        "duplicates.html", groups=groups, kinds=KINDS, kind=kind, looked=found is not None, total=len(details),
        following=offset + GROUPS if offset + GROUPS < len(details) else None, zone=visit.queries.zone,
    )  # fmt: skip


page("GET", LIST)(show_duplicates)


@page("POST", "/page/duplicates/look", writes=False, again=show_duplicates)
async def look(visit: Visit) -> Response:
    """Look for duplicates by a dry run, which reads every memory: of a large memory that is long work."""
    kind = visit.text("kind") if visit.text("kind") in KINDS else "deduplicate"
    session = visit.session

    async def run(progress: Progress) -> str:
        found = await visit.queries.run("optimize_memory", {"operations": [kind], "dry_run": True}, progress)
        details = found.get("details", {}).get(kind, [])
        session.duplicates = kind, details
        return f"{len(details):,} groups were found."

    shown = work.begin(session, visit.app.finishing, f"Looking for {KINDS[kind]}", LIST, run)
    under_way = session.tasks[shown.rpartition("/")[2]]
    await asyncio.wait({under_way.task}, timeout=SOON_S)
    return visit.go(LIST if under_way.says is not None else shown)


@page("POST", LIST, again=show_duplicates)
async def keep_one(visit: Visit) -> Response:
    """Keep one memory of a group and forget the others softly; with *merge* the tags of all are first put on the one that stays.

    Raises:
        InvalidRequestError: it is not said which one stays, or another of them is gone.
    """
    kept = visit.text("keep")
    named = [line for line in visit.form.get("memory_id", "").split("\n") if line]
    if kept not in named or len(named) < 2:
        raise InvalidRequestError("keep", "choose the one that stays")
    group = await _read(visit, named)
    if len(group) < len(named):
        raise InvalidRequestError("keep", "one of them is gone meanwhile; look again")
    one = next(memory for memory in group if memory["memory_id"] == kept)
    tags = list(dict.fromkeys([*one["tags"], *(tag for memory in group for tag in memory["tags"])]))
    if visit.text("merge") == "yes" and tags != list(one["tags"]):
        await visit.queries.run("update_memory", {"memory_id": kept, "tags": tags})
    others = [memory_id for memory_id in named if memory_id != kept]
    for memory_id in others:
        await visit.queries.run("delete_memory", {"target": {"memory_id": memory_id}})
    visit.session.offer_undo(Undo(f"{len(others)} memories", memory_ids=tuple(others)))
    return visit.go(LIST, f"One is kept, {len(others)} forgotten.")


async def _read(visit: Visit, memory_ids: list[str]) -> list[Json]:
    memories = []
    for memory_id in memory_ids:
        try:
            memories.append((await visit.queries.run("get_memory", {"memory_id": memory_id}))["memory"])
        except NotFoundError:  # forgotten meanwhile
            continue
    return memories
