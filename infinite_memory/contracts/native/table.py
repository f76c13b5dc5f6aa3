"""The table of the native contract, and what its rows share: the session, the call, fields that stand in several commands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from infinite_memory.config import LaravelSettings, LimitsSettings
from infinite_memory.contracts.base import Table
from infinite_memory.contracts.fields import Checking, Field, Fields, Json
from infinite_memory.contracts.kinds import (
    ChoiceField,
    InstantField,
    IntegerField,
    NameField,
    NumberField,
    TagsField,
    TextField,
    TimeRangeField,
)
from infinite_memory.engine import Engine
from infinite_memory.engine.parts import Progress, Where
from infinite_memory.engine.scopes import GLOBAL, is_all
from infinite_memory.errors import InvalidRequestError, shown
from infinite_memory.models import Filter, MemoryId, TagsMode, TimeRange, fold, tag_key
from infinite_memory.time_phrases import EXAMPLES, Anchor, FoundTime, find_time

SCOPE_ABOUT = "Name of a scope, or ALL; without it the active scope and Global are searched"


def untold(done: int, total: int) -> None:
    """Take progress that nobody asked for."""


@dataclass(slots=True)
class Session:
    """What belongs to one client: its active scope and the settings that travel with its connection.

    ``ignored`` names settings of the client that the daemon does not follow; ``tell`` hands the session's state to the client's
    pipe, which keeps it for a later daemon.
    """

    active_scope: str
    zone: ZoneInfo
    limits: LimitsSettings
    auto_create: bool = True
    mcp_tools: str = "all"
    laravel: LaravelSettings = field(default_factory=LaravelSettings)
    ignored: list[str] = field(default_factory=list)
    tell: Callable[[dict[str, str]], Awaitable[None]] | None = None
    progress: Progress = untold  # where requests bring none of their own


@dataclass(slots=True)
class Call:
    """One request on its way: who asks, what was checked, what is to be told beside the reply.

    ``engine`` is None only for commands that are marked ``offline``.
    """

    _engine: Engine | None
    session: Session
    fields: Fields
    checking: Checking
    clock: Callable[[], dt.datetime]
    progress: Progress = untold

    @property
    def engine(self) -> Engine:
        """The engine behind the command."""
        assert self._engine is not None, "an offline command asks for nothing"
        return self._engine

    def now(self) -> dt.datetime:
        """The instant from which words of time are read: the request's ``now``, else the clock."""
        given = self.fields.find_instant("now") if "now" in self.fields else None
        return given or self.clock()


TABLE: Table[Call] = Table()


class ZoneField(Field):
    """An IANA time zone name."""

    def parse(self, value: Any, path: str, checking: Checking) -> ZoneInfo:
        try:
            if isinstance(value, str):
                return ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            pass
        raise InvalidRequestError.wrong(path, value, "an IANA time zone name such as Europe/Berlin")

    def schema(self) -> Json:
        return {"type": "string", "examples": ["Europe/Berlin"]}


class IdField(Field):
    """A memory's id: 24 hexadecimal digits. Another text is no error, it names nothing."""

    def parse(self, value: Any, path: str, checking: Checking) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidRequestError.wrong(path, value, "a memory's id")
        return value.strip().lower()

    def schema(self) -> Json:
        return {"type": "string", "minLength": 1}


def read_scope(about: str = SCOPE_ABOUT) -> Field:
    """The scope to read from."""
    return NameField(name="scope", about=about)


def tags(about: str) -> Field:
    """Tags, in any of their three forms."""
    return TagsField(name="tags", about=about)


def query(*, required: bool) -> Field:
    """Text to look for; where it is optional, a blank one counts as not given."""
    about = "What to look for, by meaning"
    return TextField(name="query", about=about, required=required, blank_is_absent=not required, limit="query_chars")


def limit(default: int) -> Field:
    """How many entries a listing gives at most."""
    return IntegerField(
        name="limit", about="Most results", default=default, low=1, high=1000, limit="top_k"
    )  # fmt: skip


CURSOR = TextField(name="cursor", about="Where to go on: `next_cursor` of the reply before")
NOW = InstantField(name="now", about="Instant from which words of time are read; default: the clock")
TIMEZONE = ZoneField(name="timezone", about="IANA zone in which words of time and dates are read; default: the user's")

FILTER_FIELDS = (
    read_scope(),
    tags("Only memories with these tags"),
    ChoiceField(
        name="tags_mode", about="Whether all or any of the tags are needed", choices=TagsMode, default=TagsMode.ALL
    ),
    TimeRangeField(name="time_range", about="Only memories of this stretch of time; both ends inside"),
    TextField(
        name="time_query", about="A stretch of time in words (last week); `time_range` wins", limit="query_chars"
    ),
    TextField(name="source", about="Only memories of this source"),
    TextField(name="type", about="Only memories of this type"),
    TextField(name="speaker", about="Only what this person said"),
    TextField(name="conversation_id", about="Only memories of this conversation"),
    NumberField(name="min_importance", about="Only memories at least this important", low=0, high=10),
    NumberField(name="min_confidence", about="Only memories stored with at least this `confidence`", low=0, high=1),
)


def scopes_of(call: Call, scope: str | None, *, everywhere: bool = False) -> tuple[str, ...] | None:
    """Name the scopes to read: ALL is None, no scope the active one and Global, or with *everywhere* None as well."""
    if scope is not None:
        return None if is_all(scope) else (scope,)
    return None if everywhere else tuple(dict.fromkeys((call.session.active_scope, GLOBAL)))


async def where_of(call: Call, fields: Fields) -> Where:
    """Turn checked filter fields into a filter. The scope may also stand beside the filter.

    Raises:
        InvalidRequestError: two scopes are named, or there is no time in the words of ``time_query``.
    """
    wanted, scope = fields["tags"] or (), fields.find_text("scope")
    beside = call.fields.find_text("scope")
    if scope is not None and beside is not None and fold(scope) != fold(beside):
        raise InvalidRequestError(
            "scope", f"{beside!r} here and {scope!r} in {fields.at('scope')} differ; give it once"
        )
    scope = beside if scope is None else scope
    return Where(
        scopes_of(call, scope),
        lenient=scope is None,
        rest=Filter(
            tag_keys=frozenset(map(tag_key, wanted)),
            tags_mode=fields["tags_mode"],
            time=(await time_of(call, fields))[0],
            source=fields.find_text("source"),
            type=fields.find_text("type"),
            speaker=fields.find_text("speaker"),
            conversation_id=fields.find_text("conversation_id"),
            min_importance=fields.find_number("min_importance"),
            min_stored_confidence=fields.find_number("min_confidence"),
        ),
    )


async def time_of(call: Call, fields: Fields, name: str = "time_range") -> tuple[TimeRange | None, str]:
    """Give the stretch of time that a request names by *name* or by ``time_query``; an explicit range beats words.

    Returns:
        The stretch, None where none is named; and what the words say beside the time, which may be nothing.

    Raises:
        InvalidRequestError: there is no time in the words.
    """
    span: TimeRange | None = fields[name]
    words = fields.find_text("time_query")
    if span is not None or words is None:
        return span, ""
    found = span_of_words(call, words, fields.at("time_query"))
    if found.anchor is Anchor.LAST_CONVERSATION:
        return TimeRange(await call.engine.last_conversation_start(before=call.now()), found.span.end), found.rest
    return found.span, found.rest


def span_of_words(call: Call, words: str, field: str) -> FoundTime:
    """Find the stretch of time that *words* mean.

    Raises:
        InvalidRequestError: there is none in them; never all of time instead.
    """
    found = find_time(words, call.now(), call.session.zone)
    if found is None:
        examples = ", ".join(f'"{one}"' for one in EXAMPLES)
        raise InvalidRequestError(field, f"there is no time in {shown(words)}; try for example {examples}, or a range")
    return found


def memory_id(fields: Fields) -> MemoryId:
    """Give the memory id that a request names."""
    return MemoryId(fields.text("memory_id"))
