"""The table of the native contract, and what its rows share: the call and common fields."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.field_types import (
    ChoiceField,
    InstantField,
    IntegerField,
    NameField,
    NumberField,
    TagsField,
    TextField,
    TimeRangeField,
)
from infinite_memory.contracts.fields import Field, Fields, Json, ValidationContext
from infinite_memory.contracts.large_requests import in_thread
from infinite_memory.contracts.session import ClientSession, OpenAdministration, no_progress
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import Progress, ScopedFilter
from infinite_memory.errors import ForbiddenError, InvalidRequestError, LimitExceededError, truncated_repr
from infinite_memory.jobs.administration import Administration
from infinite_memory.models import (
    FILTERED_NUMBERS,
    FILTERED_TEXTS,
    Filter,
    MemoryId,
    TagsMode,
    TimeRange,
    fold,
    tag_key,
)
from infinite_memory.store.scope_cache import GLOBAL, is_all
from infinite_memory.time_expressions import EXAMPLES, Anchor, FoundTime, find_time, find_unsettled

MAX_TIME_CHARS = 1000  # of a time expression; parsing a thousand takes a core 50 ms at worst
MAX_QUESTION_CHARS = 200  # of a question that is searched for a time expression while it is typed
SCOPE_ABOUT = "Name of a scope, or ALL; without it the active scope and Global are searched"


@dataclass(slots=True)
class CommandContext:
    """A running request: its session, its validated fields, its warnings.

    ``engine`` is None only for commands marked ``offline``.
    """

    _engine: Engine | None
    session: ClientSession
    fields: Fields
    checking: ValidationContext
    clock: Callable[[], dt.datetime]
    progress: Progress = no_progress
    time_read: FoundTime | None = None  # the parsed time expression
    open_administration: OpenAdministration | None = None
    agreement: Agreement | None = None  # what the user agreed to before; the command is limited to it

    @property
    def engine(self) -> Engine:
        """The engine."""
        assert self._engine is not None, "an offline command asks for nothing"
        return self._engine

    @property
    def has_administration(self) -> bool:
        """Whether the caller may administer the whole memory."""
        return self.open_administration is not None

    async def administration(self) -> Administration:
        """Return the administration of the whole memory.

        Raises:
            ForbiddenError: the caller's visibility is restricted.
        """
        if self.open_administration is None:
            raise ForbiddenError("this is for who sees the whole memory")
        return await self.open_administration()

    def now(self) -> dt.datetime:
        """The instant to which time expressions are relative: the request's ``now``, else the clock."""
        provided = self.fields.find_instant("now") if "now" in self.fields else None
        return provided or self.clock()


TABLE: Table[CommandContext] = Table()

LONG = frozenset({"backup_memory", "restore_backup", "verify_backup", "export_memory", "import_memory", "optimize_memory",
                  "reindex"})  # fmt: skip
"""Commands that may take minutes; they report progress, and can be stopped at safe points."""


class ZoneField(Field):
    """An IANA time zone name."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> ZoneInfo:
        try:
            if isinstance(value, str):
                return ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            pass
        raise InvalidRequestError.invalid_value(path, value, "an IANA time zone name such as Europe/Berlin")

    def schema(self) -> Json:
        return {"type": "string", "examples": ["Europe/Berlin"]}


class IdField(Field):
    """A memory's id: 24 hexadecimal digits, compared exactly. Any other text is not an error, it matches nothing."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidRequestError.invalid_value(path, value, "a memory's id")
        return value

    def schema(self) -> Json:
        return {"type": "string", "minLength": 1}


def read_scope(about: str = SCOPE_ABOUT) -> Field:
    """Return the field of the scope to read from."""
    return NameField(name="scope", about=about)


def tags(about: str) -> Field:
    """Return the field of tags, in any of their three forms."""
    return TagsField(name="tags", about=about)


def query(*, required: bool) -> Field:
    """Return the field of the text to search for; if it is optional, a blank one counts as missing."""
    about = "What to look for, by meaning"
    return TextField(name="query", about=about, required=required, blank_is_absent=not required, limit="query_chars")


def limit(default: int) -> Field:
    """Return the field of the maximum number of entries in a listing."""
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
        name="time_query",
        about="A stretch of time in words (last week); instants or dates beside it win",
        limit="query_chars",
    ),
    TextField(name="source", about="Only memories of this source"),
    TextField(name="type", about="Only memories of this type"),
    TextField(name="speaker", about="Only what this person said"),
    TextField(name="conversation_id", about="Only memories of this conversation"),
    NumberField(name="min_importance", about="Only memories at least this important", low=0, high=10),
    NumberField(name="min_confidence", about="Only memories stored with at least this `confidence`", low=0, high=1),
)


def get_scopes(call: CommandContext, scope: str | None, *, everywhere: bool = False) -> tuple[str, ...] | None:
    """Return the names of the scopes to read: None for ALL, the active one and Global for no scope, or None as well with *everywhere*."""
    if scope is not None:
        return None if is_all(scope) else (scope,)
    return None if everywhere else tuple(dict.fromkeys((call.session.active_scope, GLOBAL)))


async def make_filter(call: CommandContext, fields: Fields) -> ScopedFilter:
    """Convert validated filter fields to a filter. The scope may also be given beside the filter.

    Raises:
        InvalidRequestError: two scopes are named, or ``time_query`` contains no time.
    """
    tag_names, scope = fields["tags"] or (), fields.find_text("scope")
    beside = call.fields.find_text("scope")
    if scope is not None and beside is not None and fold(scope) != fold(beside):
        raise InvalidRequestError(
            "scope", f"{beside!r} here and {scope!r} in {fields.at('scope')} differ; give it once"
        )
    scope = beside if scope is None else scope
    return ScopedFilter(
        get_scopes(call, scope),
        lenient=scope is None,
        rest=Filter(
            tag_keys=frozenset(map(tag_key, tag_names)),
            tags_mode=fields["tags_mode"],
            time=(await get_time_range(call, fields))[0],
            **_get_values(fields),
        ),
    )


def _get_values(fields: Fields) -> dict[str, Any]:
    """Return the parts of a filter that compare a field of a memory with a value."""
    texts = {by.part: fields.find_text(by.request_name) for by in FILTERED_TEXTS.values() if by.request_name in fields}
    return texts | {
        by.part: fields.find_number(by.request_name) for by in FILTERED_NUMBERS.values() if by.request_name in fields
    }


async def get_time_range(
    call: CommandContext, fields: Fields, name: str = "time_range"
) -> tuple[TimeRange | None, str]:
    """Return the time range that a request gives as *name* or as ``time_query``; an explicit range takes precedence.

    Returns:
        The range, None if there is none; and the rest of the words without the time, which may be empty.

    Raises:
        InvalidRequestError: the words contain no time.
    """
    span: TimeRange | None = fields[name]
    words = fields.find_text("time_query")
    if span is not None or words is None:
        return span, ""
    time_read = await span_of_words(call, words, fields.at("time_query"))
    if time_read.anchor is Anchor.LAST_CONVERSATION:
        start = await call.engine.memories.last_conversation_start(before=call.now())
        time_read = replace(time_read, span=TimeRange(start, time_read.span.end))
    call.time_read = time_read
    return time_read.span, time_read.rest


async def span_of_words(call: CommandContext, words: str, field: str) -> FoundTime:
    """Parse the time range of *words*, in a thread: the first text in a rare language takes a second.

    Raises:
        InvalidRequestError: they contain none; never falls back to all time.
        LimitExceededError: they are too long for a question about a time.
    """
    if len(words) > MAX_TIME_CHARS:
        raise LimitExceededError(field, len(words), MAX_TIME_CHARS, "characters")
    time_read = await in_thread(lambda: find_time(words, call.now(), call.session.zone, whole=True))
    if time_read is None:
        examples = ", ".join(f'"{example}"' for example in EXAMPLES)
        unsettled = await in_thread(lambda: find_unsettled(words, call.session.zone))
        reason = (
            f" ({truncated_repr(unsettled[0])} is another day from place to place: name its date)" if unsettled else ""
        )
        raise InvalidRequestError(
            field, f"there is no time in {truncated_repr(words)}{reason}; try for example {examples}, or a range"
        )
    return time_read


class TimeWords(NamedTuple):
    """The time expression in a question, its range, and the rest of the question."""

    words: str
    span: TimeRange
    rest: str


async def find_time_words(question: str, now: dt.datetime, zone: ZoneInfo) -> TimeWords | None:
    """Return the time expression in a question; None if there is none, or the question is too long."""
    if len(question) > MAX_QUESTION_CHARS:
        return None
    time_read = await in_thread(lambda: find_time(question, now, zone))
    return None if time_read is None else TimeWords(time_read.words, time_read.span, time_read.rest)


def memory_id(fields: Fields) -> MemoryId:
    """Return the memory id of a request."""
    return MemoryId(fields.text("memory_id"))
