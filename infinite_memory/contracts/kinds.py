"""The kinds of fields: texts, numbers, choices, tags, instants, and objects and lists of others.

Each takes what clients really send (the text "5" is the number 5) and refuses all else with the field's name.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from typing import Any

from infinite_memory.config import LimitsSettings
from infinite_memory.contracts.fields import Checking, Field, Fields, Json, ignored_fields, object_schema, parse_fields
from infinite_memory.errors import InvalidRequestError, LimitExceededError, shown
from infinite_memory.models import MILLISECOND, TimeRange, fold
from infinite_memory.time_phrases.instants import is_day, parse_day_or_instant, parse_instant

LAST_DAY = "9999-12-31"  # no day follows it; as the end of a range it means that there is none


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
        seen: set[str] = set()
        for at, tag in enumerate(listed):
            if not isinstance(tag, str):
                raise InvalidRequestError.wrong(f"{path}[{at}]", tag, "a text")
            if tag in seen:
                continue
            seen.add(tag)
            if any("\ud800" <= one <= "\udfff" for one in tag):  # JSON in a text may bring one in
                raise InvalidRequestError.wrong(f"{path}[{at}]", tag, "a text: it holds an unpaired surrogate")
            check_limit("tag_chars", tag.strip(), f"{path}[{at}]", checking.limits)
            if tag.strip():
                tags.setdefault(fold(tag), tag.strip())
            if len(tags) > checking.limits.tags:  # not at the end: a line has room for a million
                raise LimitExceededError(path, len(listed), checking.limits.tags, "tags")
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
        checking.warnings += ignored_fields(sorted(set(value) - {"from", "to"}), ("from", "to"), f"{path}.")
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
    """An object with fields of its own; with ``free`` other keys are kept, else named in a warning.

    With ``refuses_slips`` a key that looks like a misspelt field is refused: where each field narrows what is removed, one that
    is ignored removes more than was meant.
    """

    fields: tuple[Field, ...]
    free: bool = False
    refuses_slips: bool = False

    def parse(self, value: Any, path: str, checking: Checking) -> Fields:
        if not isinstance(value, dict):
            raise InvalidRequestError.wrong(path, value, "an object")
        return parse_fields(self.fields, value, path, checking, free=self.free, refuses_slips=self.refuses_slips)

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
