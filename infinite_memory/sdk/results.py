"""Return types of the SDK: frozen values with aware datetimes, parsed from the JSON that docs/http-routes.md describes."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

Json = dict[str, Any]
ItemT = TypeVar("ItemT", bound="MemoryItem")

_INSTANTS = frozenset({"timestamp", "created_at", "updated_at"})
_INSTANT_LISTS = frozenset({"also_at", "occurrences"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem:
    """One memory. ``timestamp`` is when it happened; ``confidence`` (0 to 1) and ``excerpt`` are set on search results only, ``when``
    (the date in words) on those and in listings, ``created_at``, ``updated_at`` and ``revision`` only where one memory was asked for."""

    memory_id: str
    content: str
    scope: str
    timestamp: dt.datetime
    tags: tuple[str, ...] = ()
    source: str | None = None
    title: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None
    importance: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    org_id: str | None = None
    scope_type: str | None = None
    memory_type: str | None = None
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    revision: int | None = None
    confidence: float | None = None
    when: str | None = None
    excerpt: str | None = None
    also_at: tuple[dt.datetime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory(MemoryItem):
    """A memory that was stored, changed or brought back. ``outcome`` tells what happened (``stored``, ``duplicate``, ``updated``, ...);
    ``facts``, ``superseded`` (ids of older memories) and ``superseded_by`` (the id of a newer one) are what a language model made of
    it, where one is configured."""

    outcome: str = ""
    note: str | None = None
    facts: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    superseded_by: str | None = None
    generated: bool = False
    model_error: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMemory(MemoryItem):
    """A memory that was moved from ``former_scope``. ``outcome`` is ``moved``, or ``unchanged`` where it was there already; ``note`` says
    where the scope has the same text already."""

    former_scope: str
    outcome: str = ""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class TimeFrame:
    """A stretch of time, its end outside; None is an open end. ``words`` are the words of time that were read as it."""

    start: dt.datetime | None
    end: dt.datetime | None
    timezone: str
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories(Sequence[MemoryItem]):
    """Memories in the order in which they were asked for. ``next_cursor`` goes on where more match; ``total`` counts all that do in a
    listing, and what was found in a search. ``time_frame`` is the stretch that words of time were read as."""

    items: tuple[MemoryItem, ...] = ()
    total: int = 0
    next_cursor: str | None = None
    scopes_searched: tuple[str, ...] = ()
    time_frame: TimeFrame | None = None
    note: str | None = None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> MemoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[MemoryItem]: ...
    def __getitem__(self, index: int | slice) -> MemoryItem | Sequence[MemoryItem]:
        return self.items[index]

    def __iter__(self) -> Iterator[MemoryItem]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class History:
    """A memory as it is, and as it was before each change, oldest first.

    A long history is paginated: ``older`` counts the revisions before ``revisions[0]``; pass its revision as *before_revision* for more.
    """

    memory: MemoryItem
    revisions: tuple[MemoryItem, ...]
    older: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What was forgotten, or would be (``dry_run``). ``count`` is of all; ``memory_ids`` names the first thousand."""

    memory_ids: tuple[str, ...] = ()
    count: int = 0
    hard: bool = False
    dry_run: bool = False
    note: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeItem:
    """One scope."""

    scope_name: str
    description: str = ""
    scope_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What a chat answers. ``generated`` tells whether a language model wrote it; else it is made of the memories themselves."""

    response: str
    generated: bool
    memory_ids: tuple[str, ...] = ()
    model: str | None = None
    note: str | None = None


def read_item(kind: type[ItemT], form: Mapping[str, Any]) -> ItemT:
    """Return a memory from its JSON; unknown keys of a newer server are ignored."""
    names = {described.name for described in dataclasses.fields(kind)}
    return kind(**{name: _value(name, form[name]) for name in names & form.keys() if form[name] is not None})


def read_stored(form: Mapping[str, Any]) -> StoredMemory:
    """Parse the reply to storing, changing or restoring."""
    return read_item(StoredMemory, form)


def read_moved(form: Mapping[str, Any]) -> MovedMemory:
    """Parse the reply to moving."""
    return read_item(MovedMemory, form)


def read_memory(form: Mapping[str, Any]) -> MemoryItem:
    """Parse one memory."""
    return read_item(MemoryItem, form)


def _frame(frame: Mapping[str, Any]) -> TimeFrame:
    return TimeFrame(_instant(frame["from"]), _instant(frame["to"]), frame["timezone"], frame.get("words"))


def read_memories(body: Mapping[str, Any]) -> Memories:
    """Parse a listing or search results."""
    forms = body["results"] if "results" in body else body["memories"]
    frame = body.get("time_frame")
    return Memories(
        items=tuple(map(read_memory, forms)),
        total=body.get("total", len(forms)),
        next_cursor=body.get("next_cursor"),
        scopes_searched=tuple(body.get("scopes_searched", ())),
        time_frame=_frame(frame) if frame else None,
        note=body.get("note"),
        warnings=tuple(body.get("warnings", ())),
    )


def read_history(body: Mapping[str, Any]) -> History:
    """Parse a memory's history."""
    revisions = tuple(map(read_memory, body["revisions"]))
    return History(read_memory(body["memory"]), revisions, body.get("older_revisions", 0))


def read_deleted(body: Mapping[str, Any]) -> Deleted:
    """Parse the reply to forgetting."""
    would = "would_delete" in body
    ids = [memory["memory_id"] for memory in body.get("memories", ())] if would else body.get("memory_ids", ())
    return Deleted(
        memory_ids=tuple(ids),
        count=body["would_delete"] if would else body.get("deleted_count", len(ids)),
        hard=body.get("forget_mode") == "hard",
        dry_run=would,
        note=body.get("note"),
        warnings=tuple(body.get("warnings", ())),
    )


def read_scopes(body: Mapping[str, Any]) -> list[ScopeItem]:
    """Parse the list of scopes."""
    return [
        ScopeItem(
            scope_name=scope["scope_name"], description=scope.get("description") or "", scope_id=scope.get("scope_id")
        )
        for scope in body["scopes"]
    ]


def read_answer(body: Mapping[str, Any]) -> ChatAnswer:
    """Parse the answer of a chat."""
    return ChatAnswer(
        response=body["response"],
        generated=body["generated"],
        memory_ids=tuple(memory["memory_id"] for memory in body["memories_used"]),
        model=body.get("model"),
        note=body.get("note"),
    )


def _value(name: str, value: Any) -> Any:
    if name in _INSTANTS:
        return _instant(value)
    if name in _INSTANT_LISTS:
        return tuple(map(_instant, value))
    return tuple(value) if isinstance(value, list) else value


def _instant(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)
