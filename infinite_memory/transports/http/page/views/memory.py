"""One memory: its text and versions, its links and facts, and the forms that change and move it."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from infinite_memory.contracts.earlier_versions import FIELDS, build_changes, find_version
from infinite_memory.errors import InvalidRequestError, MemoryChangedError
from infinite_memory.transports.http.api.routes import Audience
from infinite_memory.transports.http.page.routing import Visit, page
from infinite_memory.transports.http.page.sessions import Undo

Json = dict[str, Any]

MAX_COMPARED = 300  # words or lines that are compared with as many: takes a second at most, in a thread
BESIDE_CHANGES = frozenset(
    {"text", "revision", "number", "updated_at", "created_at", "moved_at", "memory_id", "occurrences", "says_otherwise"}
)
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


def address(memory_id: str, label: str = "") -> str:
    """Return the URL of a memory's view, or of a page below it."""
    return f"/page/memories/{urllib.parse.quote(memory_id, safe='')}{label}"


@page("GET", "/page/memories/{memory_id}", audience=Audience.ANY)
async def show_memory(visit: Visit) -> Response:
    """Show a memory with its history and what is around it."""
    reply = await read_memory(visit)
    memory, versions = reply["memory"], reply["revisions"]
    older = reply.get("older_revisions", 0)
    if "before" not in visit.query:
        versions = [*versions, memory]
    # Users count the versions that they see; a revision also counts internal changes, such as a vector that was added later.
    versions = [
        version | {"number": older + index, "says_otherwise": bool(build_changes(version, memory))}
        for index, version in enumerate(versions, 1)
    ]
    queries = visit.queries
    before, after = await queries.find_neighbours(memory)
    links = await queries.find_links(memory["memory_id"])
    subjects = [*memory["tags"], *(memory[name] for name in ("speaker", "title") if memory.get(name))]
    facts = await queries.find_facts(memory["scope"], subjects)
    return visit.render(
        "memory.html", memory=memory, versions=await _compare(versions), older=older,
        before=before, after=after, links=links,
        facts=facts, use=await queries.find_use(memory["memory_id"]), zone=queries.zone,
    )  # fmt: skip


async def show_edit(visit: Visit) -> Response:
    """Show the form that changes a memory; after an error it keeps what was typed."""
    memory = (await read_memory(visit))["memory"]
    fields = {name: memory.get(name) for name in FIELDS}
    values = {"content": memory["text"], "tags": ", ".join(memory["tags"])} | {
        name: "" if value is None else str(value) for name, value in fields.items()
    }
    return visit.render("edit.html", memory=memory, values=values | visit.form)


page("GET", "/page/memories/{memory_id}/edit", audience=Audience.ANY, writes=True)(show_edit)


@page("POST", "/page/memories/{memory_id}/edit", audience=Audience.ANY, retry_view=show_edit)
async def edit(visit: Visit) -> Response:
    """Change a memory, as far as the form differs from it; where somebody else changed it meanwhile nothing is overwritten.

    Raises:
        InvalidRequestError: a field is wrong, or it was changed meanwhile.
    """
    memory = (await read_memory(visit))["memory"]
    if visit.form.get("revision") != str(memory["revision"]):
        raise _changed_meanwhile(visit, memory)
    changes: Json = {}
    if (content := visit.form.get("content", "")) != _sent_by_area(memory["text"]):
        changes["content"] = content
    if visit.text("tags") != _sent_by_line(", ".join(memory["tags"])):
        changes["tags"] = [tag.strip() for tag in visit.text("tags").split(",") if tag.strip()]
    metadata = _changed_metadata(visit, memory)
    if metadata:
        changes["metadata"] = metadata
    if changes:
        changes["memory_id"] = memory["memory_id"]
        try:
            reply = await visit.queries.run("update_memory", changes, expected_revision=memory["revision"])
        except MemoryChangedError:  # between the reading above and now
            raise _changed_meanwhile(visit, (await read_memory(visit))["memory"]) from None
        if reply["outcome"] != "unchanged":
            visit.session.offer_undo(Undo("", memory_ids=(memory["memory_id"],), revision=memory["revision"]))
            return visit.go(address(memory["memory_id"]), "Saved.")
    return visit.go(address(memory["memory_id"]), "Nothing was changed.")


@page("POST", "/page/memories/{memory_id}/version", audience=Audience.ANY)
async def bring_back_version(visit: Visit) -> Response:
    """Make a memory say again what an earlier version said; that is a change like any other, and can be undone as well.

    Raises:
        InvalidRequestError: there is no such version.
        MemoryChangedError: it was changed at this very moment.
    """
    memory_id, number = visit.params["memory_id"], visit.text("number") or visit.text("revision")
    former = await restore_version(visit, memory_id, visit.text("revision"))
    if former is None:
        return visit.go(address(memory_id), "It says that already; nothing was changed.")
    visit.session.offer_undo(Undo("", memory_ids=(memory_id,), revision=former))
    return visit.go(address(memory_id), f"It says what version {number} said.")


async def restore_version(visit: Visit, memory_id: str, number: str, *, last: bool = False) -> int | None:
    """Restore text, tags and fields of an earlier version of a memory; its scope stays.

    Args:
        last: Require the version to be the last but one: the memory was not changed since.

    Returns:
        The memory's revision before; None if nothing differs.

    Raises:
        InvalidRequestError: there is no such version, or it is not the last but one.
        MemoryChangedError: it was changed concurrently.
    """
    if not number.isdecimal() or len(number) > 9:
        raise InvalidRequestError("revision", "is the number of no version")
    reply = await visit.queries.run("get_memory", {"memory_id": memory_id, "before_revision": int(number) + 1})
    memory, old = reply["memory"], find_version(reply, int(number))
    if old is None:
        raise InvalidRequestError("revision", f"there is no version {number} of it")
    if last and memory["revision"] != old["revision"] + 1:
        raise InvalidRequestError("", "it was changed again since; its history has every version to bring back")
    changes = build_changes(old, memory)
    if not changes:
        return None
    await visit.queries.run("update_memory", {"memory_id": memory_id} | changes, expected_revision=memory["revision"])
    return int(memory["revision"])


def _changed_meanwhile(visit: Visit, memory: Json) -> InvalidRequestError:
    """Return the message for a concurrent change; submitting the form again overwrites it."""
    visit.form["revision"] = str(memory["revision"])
    message = f"was changed meanwhile; it now says {memory['text']!r}. Save again to replace that by what stands here"
    return InvalidRequestError("content", message)


def _changed_metadata(visit: Visit, memory: Json) -> Json:
    """Return the metadata fields that the form changes.

    Raises:
        InvalidRequestError: a field was emptied that cannot be removed.
    """
    changes: Json = {}
    for name in FIELDS:
        value, old = visit.text(name), memory.get(name)
        if value == ("" if old is None else _sent_by_line(str(old))):
            continue
        if not value:
            raise InvalidRequestError(name, "cannot be emptied, only changed")
        changes[name] = value
    return changes


def _sent_by_area(text: str) -> str:
    """Return what a browser sends for an untouched text area, as `app` reads it: line ends are line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _sent_by_line(value: str) -> str:
    """Return what a browser sends for an untouched single-line input, as `Visit.text` reads it: without line breaks, stripped."""
    return value.replace("\r", "").replace("\n", "").strip()


async def show_move(visit: Visit) -> Response:
    """Show the scopes that a memory can be moved to."""
    memory = (await read_memory(visit))["memory"]
    scopes = [name for name in await visit.queries.scope_names() if name != memory["scope"]]
    return visit.render("move.html", memory=memory, scopes=scopes)


page("GET", "/page/memories/{memory_id}/move", audience=Audience.ANY, writes=True)(show_move)


@page("POST", "/page/memories/{memory_id}/move", audience=Audience.ANY, retry_view=show_move)
async def move(visit: Visit) -> Response:
    """Move a memory to another scope; that can be undone.

    Raises:
        InvalidRequestError: no scope is named.
    """
    memory_id, scope = visit.params["memory_id"], visit.text("scope")
    if not scope:
        raise InvalidRequestError("scope", "is required: where it goes")
    if scope not in await visit.queries.scope_names():
        raise InvalidRequestError("scope", "is none of the scopes")
    moved = await visit.queries.move(memory_id, scope)
    if not moved.is_moved:
        return visit.go(address(memory_id), f"It was in {moved.scope.name} already; nothing was changed.")
    visit.session.offer_undo(Undo(f"to {moved.former.name}", memory_ids=(memory_id,), back_to=moved.former.scope_id))
    note = f" {moved.scope.name} has the same text already; see Duplicates." if moved.same_text else ""
    return visit.go(address(memory_id), f"Moved to {moved.scope.name}.{note}")


async def read_memory(visit: Visit) -> Json:
    """Return the memory named by the path, with its earlier versions.

    Raises:
        MemoryNotFoundError: it does not exist, or is not visible.
    """
    page = {"before_revision": before} if (before := visit.text("before")) else {}
    return await visit.queries.run("get_memory", {"memory_id": visit.params["memory_id"]} | page)


async def _compare(versions: list[Json]) -> list[Json]:
    """Return versions of a memory, newest first, each with its differences from the previous one."""
    if not versions:
        return []
    return await asyncio.to_thread(
        lambda: (
            [
                version
                | {"diff": diff(old["text"], version["text"]), "changes": _changes(old, version)}
                | {"is_move": old["scope"] != version["scope"] and old["updated_at"] == version["updated_at"]}
                | {"came_at": old.get("moved_at")}
                for old, version in reversed(list(itertools.pairwise(versions)))
            ]
            + [versions[0] | {"diff": [("same", versions[0]["text"])], "changes": []}]
        )
    )


def _changes(old: Json, new: Json) -> list[str]:
    """Return the changes of other fields than the text, one line each."""
    names = sorted((old.keys() | new.keys()) - BESIDE_CHANGES)
    return [
        f"{name}: {_said(old.get(name))} → {_said(new.get(name))}" for name in names if old.get(name) != new.get(name)
    ]


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)


def diff(old: str, new: str) -> list[tuple[str, str]]:
    """Return *new* and the removed parts of *old* as segments: ``same``, ``del`` or ``ins``.

    Compared by words between the first difference and the last, if these are at most `MAX_COMPARED` words; else by lines, within
    the same bound; else that part is shown as replaced. Without a bound a hostile text takes hours: the time grows with the cube.
    """
    for split in (_WORDS.findall, _split_lines):
        before, after = split(old), split(new)
        start = _count_equal(before, after)
        end = _count_equal(before[start:][::-1], after[start:][::-1])
        changed_before, changed_after = before[start : len(before) - end], after[start : len(after) - end]
        if max(len(changed_before), len(changed_after)) <= MAX_COMPARED:
            matcher = difflib.SequenceMatcher(None, changed_before, changed_after, autojunk=False)
            changes = matcher.get_opcodes()
            break
    else:
        changes = [("replace", 0, len(changed_before), 0, len(changed_after))]
    stretches = [("same", "".join(after[:start]))]
    for kind, i1, i2, j1, j2 in changes:
        removed, added = "".join(changed_before[i1:i2]), "".join(changed_after[j1:j2])
        stretches += [("same", added)] if kind == "equal" else [("del", removed), ("ins", added)]
    stretches.append(("same", "".join(after[len(after) - end :])))
    return [(kind, text) for kind, text in stretches if text]


def _split_lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _count_equal(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    return next(
        (index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(len(before), len(after)),
    )
