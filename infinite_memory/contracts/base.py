"""What a contract's table is made of: fields that check themselves, and commands that own their fields.

The table is the only description of a command: requests are checked by it, and help, JSON Schemas, the README's table and the
MCP tools are read from it. Rules that all contracts share live here (null means "not given", "5" is 5, unknown fields are named
in a warning); what only one contract says lives in its own file.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import enum
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

from infinite_memory.config import LimitsSettings
from infinite_memory.errors import InvalidRequestError, LimitExceededError, shown
from infinite_memory.models import MILLISECOND, TimeRange, fold
from infinite_memory.time_phrases.instants import is_day, parse_day_or_instant, parse_instant

LAST_DAY = "9999-12-31"  # no day follows it; as the end of a range it means that there is none

Json = dict[str, Any]
Reply = dict[str, Any]
CallT = TypeVar("CallT")


@dataclass(slots=True)
class Checking:
    """What checking a request needs to know, and the warnings it gathers."""

    limits: LimitsSettings
    zone: ZoneInfo
    warnings: list[str] = dataclasses.field(default_factory=list)


class Fields:
    """The checked fields of one object of a request; a field that was not given has its default."""

    def __init__(self, path: str, values: Mapping[str, Any], free: Mapping[str, Any]) -> None:
        self.path, self._values, self.free = path, values, free

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def given(self) -> Iterator[str]:
        """Give the names of the fields that have a value."""
        return (name for name, value in self._values.items() if value is not None)

    def at(self, name: str) -> str:
        """Write the path of a field as the client sees it."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str) -> str:
        """Give a text that is there (required, or with a default)."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def find_text(self, name: str) -> str | None:
        """Give a text, or None when it was not given."""
        return self.text(name) if name in self else None

    def integer(self, name: str) -> int:
        """Give a whole number that is there."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def find_number(self, name: str) -> float | None:
        """Give a number, or None when it was not given."""
        return float(self._values[name]) if name in self else None

    def flag(self, name: str) -> bool:
        """Give a truth value; False when it has no default and was not given."""
        return bool(self._values[name])

    def find_instant(self, name: str) -> dt.datetime | None:
        """Give an instant in UTC, or None when it was not given."""
        value = self._values[name]
        assert value is None or isinstance(value, dt.datetime), name
        return value

    def inner(self, name: str) -> Fields:
        """Give the fields of an object; an object that was not given has none of them."""
        value = self._values[name]
        assert isinstance(value, Fields), name
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a request: how it is called, what it is for, and how its value is checked."""

    name: str
    about: str
    required: bool = False
    default: Any = None

    def parse(self, value: Any, path: str, checking: Checking) -> Any:
        """Check *value*, which is not null, and bring it to its own type.

        Raises:
            InvalidRequestError: it is not what the field takes.
        """
        raise NotImplementedError

    def takes(self, value: Any) -> bool:
        """Tell whether *value* is meant for this field, where an object also keeps free keys; else it is a free key of that name."""
        return True

    def schema(self) -> Json:
        """Describe the field as JSON Schema."""
        raise NotImplementedError

    def absent(self, path: str, checking: Checking) -> Any:
        """Give what stands for a field that was not given."""
        if self.required:
            raise InvalidRequestError(path, f"is required: {self.about[0].lower()}{self.about[1:]}")
        return self.default

    def described(self) -> Json:
        """Give the schema with description and default."""
        default = {} if self.default is None else {"default": _plain(self.default)}
        return self.schema() | {"description": self.about} | default


@dataclass(frozen=True, slots=True, kw_only=True)
class TextField(Field):
    """Text as it came. ``limit`` names the setting under ``limits`` that bounds it; ``blank`` allows nothing but blanks.

    With ``blank_is_absent`` a blank text counts as not given.
    """

    limit: str | None = None
    blank: bool = False
    blank_is_absent: bool = False

    def parse(self, value: Any, path: str, checking: Checking) -> str | None:
        if not isinstance(value, str):
            raise InvalidRequestError.wrong(path, value, "a text")
        if not value.strip() and not self.blank:
            if self.blank_is_absent:
                return None
            raise InvalidRequestError(path, "is blank; a text with at least one visible character was expected")
        if self.limit is not None:
            check_limit(self.limit, value, path, checking.limits)
        return value

    def schema(self) -> Json:
        return {"type": "string"} if self.blank or self.blank_is_absent else {"type": "string", "minLength": 1}


def check_limit(limit: str, value: str, path: str, limits: LimitsSettings) -> None:
    """Refuse a text above ``limits.<limit>``, whose name tells whether bytes or characters count.

    Raises:
        LimitExceededError: it is longer.
    """
    size, unit = (len(value.encode("utf-8")), "bytes") if limit.endswith("_bytes") else (len(value), "characters")
    if size > (allowed := getattr(limits, limit)):
        raise LimitExceededError(path, size, allowed, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameField(Field):
    """A name of 1 to ``max_chars`` characters after trimming: a scope's, say."""

    max_chars: int = 256

    def parse(self, value: Any, path: str, checking: Checking) -> str:
        if not isinstance(value, str):
            raise InvalidRequestError.wrong(path, value, "a text")
        name = value.strip()
        if not name:
            raise InvalidRequestError(path, f"is blank; a name of 1 to {self.max_chars} characters was expected")
        if len(name) > self.max_chars:
            raise LimitExceededError(path, len(name), self.max_chars, "characters")
        return name

    def schema(self) -> Json:
        return {"type": "string", "minLength": 1, "maxLength": self.max_chars}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerField(Field):
    """A whole number from ``low`` to ``high``; "5" and 5.0 are 5. ``limit`` names a setting that lowers ``high``."""

    low: int
    high: int
    limit: str | None = None

    def parse(self, value: Any, path: str, checking: Checking) -> int:
        high = min(self.high, getattr(checking.limits, self.limit)) if self.limit else self.high
        expected = f"a whole number from {self.low:,} to {high:,}"
        number = _number(value)
        if number is None or number != int(number) or not self.low <= number <= high:
            raise InvalidRequestError.wrong(path, value, expected)
        return int(number)

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberField(Field):
    """A number from ``low`` to ``high``; "0.5" is 0.5."""

    low: float
    high: float

    def parse(self, value: Any, path: str, checking: Checking) -> float:
        number = _number(value)
        if number is None or not self.low <= number <= self.high:
            raise InvalidRequestError.wrong(path, value, f"a number from {self.low:g} to {self.high:g}")
        return number

    def schema(self) -> Json:
        return {"type": "number", "minimum": self.low, "maximum": self.high}


def _number(value: Any) -> float | int | None:
    if isinstance(value, str):
        text = value.strip()
        try:
            value = int(text) if text.lstrip("+-").isdecimal() and len(text) <= 20 else float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**63:
        return None
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagField(Field):
    """True or false."""

    def parse(self, value: Any, path: str, checking: Checking) -> bool:
        if not isinstance(value, bool):
            raise InvalidRequestError.wrong(path, value, "true or false")
        return value

    def schema(self) -> Json:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceField(Field):
    """One member of an enum, by its value, letter for letter."""

    choices: type[enum.Enum]

    def parse(self, value: Any, path: str, checking: Checking) -> enum.Enum:
        for member in self.choices:
            if isinstance(value, str) and member.value == value:
                return member
        raise InvalidRequestError.wrong(path, value, f"one of {', '.join(repr(one.value) for one in self.choices)}")

    def schema(self) -> Json:
        return {"type": "string", "enum": [one.value for one in self.choices]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesField(Field):
    """A list of members of an enum."""

    choices: type[enum.Enum]

    def parse(self, value: Any, path: str, checking: Checking) -> list[enum.Enum]:
        if not isinstance(value, list):
            raise InvalidRequestError.wrong(path, value, "a list")
        one = ChoiceField(name=self.name, about=self.about, choices=self.choices)
        return list(dict.fromkeys(one.parse(item, f"{path}[{at}]", checking) for at, item in enumerate(value)))

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string", "enum": [one.value for one in self.choices]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsField(Field):
    """Tags: a list, a comma-separated text, or a JSON list in a text; trimmed, without blanks and repetitions."""

    def parse(self, value: Any, path: str, checking: Checking) -> tuple[str, ...]:
        listed = _tag_list(value)
        if not isinstance(listed, list):
            raise InvalidRequestError.wrong(path, value, "a list of texts, or one text with commas between the tags")
        tags: dict[str, str] = {}
        for at, tag in enumerate(listed):
            if not isinstance(tag, str):
                raise InvalidRequestError.wrong(f"{path}[{at}]", tag, "a text")
            if any("\ud800" <= one <= "\udfff" for one in tag):  # JSON in a text may bring one in
                raise InvalidRequestError.wrong(f"{path}[{at}]", tag, "a text: it holds an unpaired surrogate")
            check_limit("tag_chars", tag.strip(), f"{path}[{at}]", checking.limits)
            if tag.strip():
                tags.setdefault(fold(tag), tag.strip())
        if len(tags) > checking.limits.tags:
            raise LimitExceededError(path, len(tags), checking.limits.tags, "tags")
        return tuple(tags.values())

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string"}}


def _tag_list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.strip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # a tag may begin with a bracket
    return value.split(",")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantField(Field):
    """An instant, RFC 3339; without an offset it is read in the user's zone, a date alone is its midnight there."""

    def parse(self, value: Any, path: str, checking: Checking) -> dt.datetime:
        if not isinstance(value, str):
            raise InvalidRequestError.wrong(path, value, "an instant (2026-11-28T14:05:00Z) or a date (2026-11-28)")
        try:
            return parse_instant(value, checking.zone)
        except ValueError as problem:
            raise InvalidRequestError(path, str(problem)) from None

    def schema(self) -> Json:
        return {"type": "string", "examples": ["2026-11-28T14:05:00Z", "2026-11-28"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRangeField(Field):
    """``{"from": ..., "to": ...}``, either end may lack; both ends are inside, a date alone is the whole day."""

    def parse(self, value: Any, path: str, checking: Checking) -> TimeRange | None:
        if not isinstance(value, dict):
            raise InvalidRequestError.wrong(path, value, 'an object {"from": ..., "to": ...}')
        for name in sorted(set(value) - {"from", "to"}):
            checking.warnings.append(f"{path}.{name} is not known and was ignored; known: from, to")
        start = self._end(value.get("from"), f"{path}.from", checking, upper=False)
        end = self._end(value.get("to"), f"{path}.to", checking, upper=True)
        if start is not None and end is not None and start >= end:
            raise InvalidRequestError(path, f"from {shown(value['from'])} is after to {shown(value['to'])}")
        return None if value.get("from") is None and value.get("to") is None else TimeRange(start, end)

    def _end(self, value: Any, path: str, checking: Checking, *, upper: bool) -> dt.datetime | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise InvalidRequestError.wrong(path, value, "an instant (2026-11-28T14:05:00Z) or a date (2026-11-28)")
        if upper and value.strip() == LAST_DAY:
            return None
        try:
            instant = parse_day_or_instant(value, checking.zone, upper=upper)
        except ValueError as problem:
            raise InvalidRequestError(path, str(problem)) from None
        try:
            return instant + MILLISECOND if upper and not is_day(value) else instant
        except OverflowError:  # the last instant there is
            return None

    def schema(self) -> Json:
        end = {"type": "string", "description": "Instant (RFC 3339) or date; a date as `to` includes that day"}
        return {"type": "object", "properties": {"from": end, "to": end}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyField(Field):
    """Any JSON value, kept as it is."""

    def parse(self, value: Any, path: str, checking: Checking) -> Any:
        return value

    def schema(self) -> Json:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectField(Field):
    """An object with fields of its own; with ``free`` other keys are kept, else named in a warning."""

    fields: tuple[Field, ...]
    free: bool = False

    def parse(self, value: Any, path: str, checking: Checking) -> Fields:
        if not isinstance(value, dict):
            raise InvalidRequestError.wrong(path, value, "an object")
        return parse_fields(self.fields, value, path, checking, free=self.free)

    def absent(self, path: str, checking: Checking) -> Fields:
        if self.required:
            raise InvalidRequestError(path, f"is required: {self.about[0].lower()}{self.about[1:]}")
        return parse_fields(self.fields, {}, path, checking, free=self.free)

    def schema(self) -> Json:
        return object_schema(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListField(Field):
    """A list of raw values, 1 to ``most`` of them; each is checked by whoever reads it, so that one bad entry spoils no other."""

    item: tuple[Field, ...]
    most: int

    def parse(self, value: Any, path: str, checking: Checking) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise InvalidRequestError.wrong(path, value, "a list with at least one entry")
        if len(value) > self.most:
            raise LimitExceededError(path, len(value), self.most, "entries")
        return value

    def schema(self) -> Json:
        return {"type": "array", "minItems": 1, "maxItems": self.most, "items": object_schema(self.item)}


def parse_fields(
    fields: Sequence[Field], values: Mapping[str, Any], path: str, checking: Checking, *, free: bool = False
) -> Fields:
    """Check an object of a request against its fields.

    Unknown keys become ``Fields.free`` where they are allowed, and a warning elsewhere: a misspelt ``tag`` must not pass
    silently.

    Raises:
        InvalidRequestError: a field is missing or wrong.
    """
    prefix = f"{path}." if path else ""
    known = {field.name: field for field in fields}
    others = {
        name: value for name, value in values.items() if name not in known or (free and not known[name].takes(value))
    }
    if not free:
        for name in others:
            hint = unknown_field(name, list(known))
            checking.warnings.append(f"{prefix}{shown(name)[1:-1]} is not known and was ignored; {hint}")
    parsed = {}
    for name, field in known.items():
        value = None if name in others else values.get(name)
        at = prefix + name
        parsed[name] = field.absent(at, checking) if value is None else field.parse(value, at, checking)
        if parsed[name] is None and value is not None:
            parsed[name] = field.absent(at, checking)
    return Fields(path, parsed, others if free else {})


def unknown_field(name: str, known: Sequence[str]) -> str:
    """Say which field may be meant by a name that is none, or which there are."""
    near = difflib.get_close_matches(name, known, n=1) if len(name) < 100 else []
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"


def object_schema(fields: Sequence[Field]) -> Json:
    """Describe an object with *fields* as JSON Schema; other keys are no error (ignored with a warning, or kept)."""
    schema: Json = {"type": "object", "properties": {field.name: field.described() for field in fields}}
    if required := [field.name for field in fields if field.required]:
        schema["required"] = required
    return schema


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[CallT]):
    """One row of a contract's table. ``run`` gets the call and answers with the reply's fields.

    The hints mean what MCP's annotations mean: ``read_only`` changes nothing, ``destructive`` may remove what is there,
    ``idempotent`` has no further effect when repeated with the same fields. An ``offline`` command needs no engine.
    """

    name: str
    title: str
    about: str
    fields: tuple[Field, ...]
    run: Callable[[CallT], Awaitable[Reply]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    offline: bool = False

    def schema(self) -> Json:
        """Describe the command's fields as JSON Schema."""
        return object_schema(self.fields)


class Table(Generic[CallT]):
    """The commands of one contract, by name."""

    def __init__(self) -> None:
        self._commands: dict[str, Command[CallT]] = {}

    def __iter__(self) -> Iterator[Command[CallT]]:
        return iter(self._commands.values())

    def find(self, name: str) -> Command[CallT] | None:
        """Give the command of that name, letter for letter, or None."""
        return self._commands.get(name)

    def nearest(self, name: str) -> list[str]:
        """List the names that *name* may have been meant for."""
        return difflib.get_close_matches(name[:100], list(self._commands), n=2)

    def command(
        self, name: str, *fields: Field, title: str, **hints: bool
    ) -> Callable[[Callable[[CallT], Awaitable[Reply]]], Callable[[CallT], Awaitable[Reply]]]:
        """Enter a handler into the table; its docstring is what help and tools say about it."""

        def enter(run: Callable[[CallT], Awaitable[Reply]]) -> Callable[[CallT], Awaitable[Reply]]:
            about = " ".join((run.__doc__ or "").split())
            self._commands[name] = Command(name=name, title=title, about=about, fields=fields, run=run, **hints)
            return run

        return enter
