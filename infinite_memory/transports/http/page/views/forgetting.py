"""Forgetting: one memory, or those with a tag or certain words; undo, and the list of forgotten memories that can be restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, format_count
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.sessions import Undo
from infinite_memory.transports.http.page.views.memory import address, read_memory, restore_version

Json = dict[str, Any]

FORGOTTEN = "/page/forgotten"
SCOPES = "/page/scopes"
NEWEST = 50  # memories whose tags are offered
SHOWN = 200  # memories whose texts are shown before they are forgotten
MAX_DIGITS = 12  # of the number of memories
SCOPES_SHOWN = 5  # archived scopes named in a message
NOTHING = "nothing matches; nothing was changed"
STEP = 50  # forgotten memories on one page


async def show_forget(visit: Visit) -> Response:
    """Show which memories would be forgotten."""
    reply = await read_memory(visit)
    memory = reply["memory"]
    revisions = len(reply["revisions"]) + reply.get("older_revisions", 0)
    links = await visit.queries.find_links(memory["memory_id"])
    return visit.render("forget.html", memory=memory, revisions=revisions, links=len(links))


page("GET", "/page/memories/{memory_id}/forget", audience=Audience.ANY, writes=True)(show_forget)


@page("POST", "/page/memories/{memory_id}/forget", audience=Audience.ANY, retry_view=show_forget)
async def forget(visit: Visit) -> Response:
    """Forget a memory, softly unless the form says for good."""
    memory = (await read_memory(visit))["memory"]
    hard = visit.text("mode") == "hard"
    if hard and visit.text("sure") != "yes":
        raise InvalidRequestError("sure", "tick the box: what is removed for good cannot be brought back")
    target = {"memory_id": memory["memory_id"]}
    await visit.queries.run("delete_memory", {"target": target, "forget_mode": "hard" if hard else "soft"})
    if not hard:
        visit.session.offer_undo(Undo("1 memory", memory_ids=(memory["memory_id"],)))
    return visit.go("/", "The memory was removed for good." if hard else "The memory is forgotten.")


async def show_forget_many(visit: Visit) -> Response:
    """Show which memories a tag, a scope or words would forget."""
    target = {name: visit.text(name) for name in ("tag", "scope", "query") if visit.text(name)}
    preview: Json | None = None
    if visit.problem is None and target and set(target) != {"scope"}:
        try:
            request = {"target": target, "dry_run": True}
            preview = await visit.queries.run("delete_memory", request, max_texts=SHOWN)
        except InfiniteMemoryError as exc:
            visit.problem = exc
    if set(target) == {"scope"}:
        visit.problem = InvalidRequestError("scope", "names a whole scope: give a tag or words too, or use Scopes")
    scopes = await visit.queries.scope_names()
    newest: list[Json] = []
    if preview is None:  # no tag is chosen yet
        newest = (await visit.queries.run("list_memories", {"scope": "ALL", "limit": NEWEST}))["results"]
    tags = dict.fromkeys(tag for memory in newest for tag in memory["tags"])
    form = {"tag": "", "scope": "", "query": ""} | target
    return visit.render(
        "forget_many.html", scopes=scopes, tags=tags, asked=form, found=preview, status=200 if not visit.form else None
    )


page("GET", "/page/forget", audience=Audience.ANY, writes=True)(show_forget_many)


@page("POST", "/page/forget", audience=Audience.ANY, retry_view=show_forget_many)
async def forget_many(visit: Visit) -> Response:
    """Forget softly the very memories that were shown, or all of a tag that were counted.

    Raises:
        InvalidRequestError: none is named, or more would go than were counted.
    """
    tag, counted = visit.text("tag"), visit.text("counted")
    if (
        tag
        and counted.isdecimal()
        and len(counted) < MAX_DIGITS
        and not visit.text("query")
        and not visit.queries.is_narrow
    ):
        result = await visit.queries.forget_tagged(tag, visit.text("scope") or None, int(counted))
        if not result.memory_ids:
            raise InvalidRequestError("tag", result.note or NOTHING)
        count = format_count(len(result.memory_ids), "memory")
        visit.session.offer_undo(Undo(count, hidden_at=result.hidden_at))
        return visit.go("/", f"{count} are forgotten.")
    named = [line for line in visit.form.get("memory_id", "").split("\n") if line]
    if not named:
        raise InvalidRequestError("tag", NOTHING)
    forgotten_ids: list[str] = []
    for memory_id in named:
        forgotten_ids += (await visit.queries.run("delete_memory", {"target": {"memory_id": memory_id}}))["memory_ids"]
    count = format_count(len(forgotten_ids), "memory")
    visit.session.offer_undo(Undo(count, memory_ids=tuple(forgotten_ids)))
    return visit.go("/", f"{count} {'is' if len(forgotten_ids) == 1 else 'are'} forgotten.")


@page("POST", "/page/undo", audience=Audience.ANY)
async def undo(visit: Visit) -> Response:
    """Bring back what one click forgot, moved or changed.

    Raises:
        InvalidRequestError: it was brought back already, or is another login's.
    """
    entry = visit.session.undo.pop(visit.text("key"), None)
    if entry is None:
        raise InvalidRequestError("", "this was undone already")
    try:
        if entry.scope is not None and entry.hidden_at is not None:
            _, count = await (await visit.queries.engine()).scopes.restore(entry.scope, entry.hidden_at)
            return visit.go(SCOPES, f"Brought back: {entry.text}, {format_count(count, 'memory')}.")
        if entry.scope is not None:
            scope, _ = await (await visit.queries.engine()).scopes.restore(entry.scope, only_archived=True)
            return visit.go(SCOPES, f"The scope {scope.name} is back.")
        if entry.hidden_at is not None:
            count, archived = await visit.queries.bring_back(entry.hidden_at)
            return _go_restored(visit, "/", format_count(count, "memory"), archived)
        for memory_id in entry.memory_ids:
            if entry.revision is not None:
                await restore_version(visit, memory_id, str(entry.revision), last=True)
                return visit.go(address(memory_id), "It says again what it said before.")
            if entry.back_to is not None:
                moved = await visit.queries.move_back(memory_id, entry.back_to)
                return visit.go(address(memory_id), f"It is in {moved.scope.name} again.")
        archived = await visit.queries.restore(entry.memory_ids)
    except InfiniteMemoryError:
        visit.session.undo[visit.text("key")] = entry
        raise
    only = entry.memory_ids[0] if len(entry.memory_ids) == 1 else None
    return _go_restored(visit, "/" if only is None else address(only), entry.text, archived)


async def show_forgotten(visit: Visit) -> Response:
    """List forgotten memories, latest first, whoever forgot them."""
    cursor = {"cursor": visit.text("cursor")} if visit.text("cursor") else {}
    listed = await visit.queries.run("list_memories", {"scope": "ALL", "forgotten": True, "limit": STEP} | cursor)
    next_cursor = listed["next_cursor"]
    return visit.render(
        "forgotten.html", rows=listed["results"], total=listed["total"], zone=visit.queries.zone,
        more=next_cursor and f"{FORGOTTEN}?cursor={next_cursor}",
    )  # fmt: skip


page("GET", FORGOTTEN, audience=Audience.ANY)(show_forgotten)


@page("POST", "/page/forgotten/restore", audience=Audience.ANY, retry_view=show_forgotten)
async def bring_back(visit: Visit) -> Response:
    """Bring back one forgotten memory, those that are ticked, or all that were shown; what is live stays as it is.

    Raises:
        InvalidRequestError: none is named.
    """
    named = [line for line in visit.text("shown" if visit.text("all") else "memory_id").split("\n") if line]
    if not named:
        raise InvalidRequestError("", "Nothing is ticked.")
    archived = await visit.queries.restore(named)
    destination = FORGOTTEN if len(named) > 1 else address(named[0])
    return _go_restored(visit, destination, format_count(len(named), "memory"), archived)


def _go_restored(visit: Visit, destination: str, text: str, archived: Sequence[str]) -> Response:
    """Report what was brought back. If some of it is in archived scopes, and so not seen yet, go where they are brought back."""
    if not archived:
        return visit.go(destination, f"Brought back: {text}.")
    several = len(archived) > 1
    names = ", ".join(archived[:SCOPES_SHOWN]) + (", …" if len(archived) > SCOPES_SHOWN else "")
    seen = (
        f"The scope{'s' if several else ''} {names} {'are' if several else 'is'} archived:"
        f" what is in {'them' if several else 'it'} is seen once you bring {'them' if several else 'it'} back here."
    )
    return visit.go(SCOPES, f"Brought back: {text}. {seen}")
