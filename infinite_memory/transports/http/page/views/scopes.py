"""Scopes: listed with their contents, created, renamed, merged, archived and deleted, each after a preview."""

from __future__ import annotations

import dataclasses
import sys
import urllib.parse
from typing import Any

from starlette.responses import Response

from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.types import ForgetMode, ForgetTarget
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, format_count
from infinite_memory.models import ScopeId
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.sessions import Undo

Json = dict[str, Any]

LIST = "/page/scopes"
SHOWN = 10  # memories in the preview of a move
ALWAYS_THERE = "Global"


async def show_scopes(visit: Visit) -> Response:
    """List the scopes."""
    rows = await visit.queries.list_scopes()
    may_change = visit.grant.sees_all and visit.may_write
    return visit.render(
        "scopes.html", rows=rows, may_change=may_change, always_there=ALWAYS_THERE, zone=visit.queries.zone
    )


page("GET", LIST, audience=Audience.ANY)(show_scopes)


@page("POST", LIST, retry_view=show_scopes)
async def create(visit: Visit) -> Response:
    """Make a scope."""
    fields = {"scope_name": visit.text("scope_name"), "description": visit.text("description")}
    scope = await visit.queries.run("create_memory_scope", fields)
    return visit.go(LIST, f"The scope {scope['scope_name']} is there.")


async def show_scope(visit: Visit) -> Response:
    """Show the forms that change one scope, with previews of merging and deleting."""
    name = visit.text("name")
    rows = await visit.queries.list_scopes()
    row = next((row for row in rows if row["scope_name"] == name), None)
    if row is None:
        raise InvalidRequestError("", "there is no such scope")
    into, others = visit.text("into"), [item["scope_name"] for item in rows if item is not row and not item["archived"]]
    merging, moving = None, []
    if visit.problem is None and into:
        try:
            merging = await visit.queries.run("merge_memory_scopes", {"scope": name, "into": into, "dry_run": True})
            moving = (await visit.queries.run("list_memories", {"scope": name, "limit": SHOWN}))["results"]
        except InfiniteMemoryError as exc:
            visit.problem = exc
    deleting, scope_id = await visit.queries.count_scope(name), await visit.queries.scope_id(name)
    into_id = await visit.queries.scope_id(into) if merging else ""
    return visit.render(
        "scope.html", row=row, others=others, into=into, merging=merging, moving=moving, deleting=deleting,
        scope_id=scope_id, into_id=into_id,
        status=None if visit.form else 200,
        is_always_there=name == ALWAYS_THERE,
    )  # fmt: skip


page("GET", "/page/scope")(show_scope)


@page("POST", "/page/scope/change", retry_view=show_scope)
async def change(visit: Visit) -> Response:
    """Change the name or the description of a scope."""
    name, new_name = visit.text("name"), visit.text("new_name")
    fields: Json = {"scope": name, "description": visit.text("description")}
    if new_name != name:
        fields["new_name"] = new_name
    changed = await visit.queries.run("change_memory_scope", fields, agreement=_shown(visit))
    return visit.go(LIST, f"The scope is called {changed['scope_name']}." if new_name != name else "Saved.")


@page("POST", "/page/scope/merge", retry_view=show_scope)
async def merge(visit: Visit) -> Response:
    """Move everything of a scope into another, and remove the emptied one."""
    fields = {"scope": visit.text("name"), "into": visit.text("into")}
    merged = await visit.queries.run("merge_memory_scopes", fields, agreement=_shown(visit, "scope_id", "into_id"))
    return visit.go(
        LIST, f"{format_count(merged['moved'], 'memory')} moved from {merged['scope']} into {merged['into']}."
    )


@page("POST", "/page/scope/archive", retry_view=show_scope)
async def archive(visit: Visit) -> Response:
    """Archive a scope; that can be undone."""
    name = visit.text("name")
    if name != ALWAYS_THERE:
        agreement = dataclasses.replace(
            _shown(visit), max_count=sys.maxsize
        )  # more of them do no harm: it can be undone
        await visit.queries.run("delete_memory", {"target": {"scope": name}}, agreement=agreement)
        visit.session.offer_undo(Undo(f"the scope {name}", scope=name))
        return visit.go(LIST, f"{name} is archived.")
    result = await (await visit.queries.engine()).forget.matching(ForgetTarget(scope=name), ForgetMode.SOFT)
    visit.session.offer_undo(Undo(f"what was in {name}", scope=name, hidden_at=result.hidden_at))
    return visit.go(LIST, f"What was in {name} is forgotten.")


@page("POST", "/page/scope/restore")
async def restore(visit: Visit) -> Response:
    """Take an archived scope out again."""
    name = visit.text("name")
    await visit.queries.run("restore_memory", {"scope": name})
    return visit.go(LIST, f"{name} is back.")


@page("POST", "/page/scope/delete", retry_view=show_scope)
async def delete(visit: Visit) -> Response:
    """Remove a scope for good.

    Raises:
        InvalidRequestError: its name was not typed.
    """
    name = visit.text("name")
    if visit.text("typed") != name:
        raise InvalidRequestError("typed", "type the scope's name: what is removed for good cannot be brought back")
    try:
        max_count = int(visit.text("most"))
    except ValueError as exc:
        raise InvalidRequestError("", "how many memories were shown is not told; open the scope again") from exc
    agreement = (
        Agreement(max_count=max_count)
        if name == ALWAYS_THERE
        else dataclasses.replace(_shown(visit), max_count=max_count)
    )
    fields = {"target": {"scope": name}, "forget_mode": "hard"}
    result = await visit.queries.run("delete_memory", fields, agreement=agreement)
    return visit.go(LIST, f"{name} and {format_count(result['deleted_count'], 'memory')} are removed for good.")


def _shown(visit: Visit, *names: str) -> Agreement:
    """Return the ids of the scopes that the page showed, whatever has their names by now."""
    return Agreement(scopes=tuple(ScopeId(visit.text(name)) for name in names or ("scope_id",)))


def address(name: str) -> str:
    """Return the URL of a scope's forms."""
    return f"/page/scope?{urllib.parse.urlencode({'name': name})}"
