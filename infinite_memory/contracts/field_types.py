"""The types of fields: texts, numbers, choices, tags, instants, and objects and lists of others.

Each accepts what clients really send (the text "5" is the number 5) and rejects everything else with the field's name.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.fields import (
    Field,
    Fields,
    Json,
    ValidationContext,
    ignored_fields,
    missing_field,
    object_schema,
    parse_fields,
    refuse_unknown,
)
from infinite_memory.contracts.json_text import read_json_text
from infinite_memory.errors import InvalidRequestError, LimitExceededError, check_printable, truncated_repr
from infinite_memory.models import MILLISECOND, TimeRange, floor_to_millisecond, fold
from infinite_memory.normalization import is_blank
from infinite_memory.settings import LimitsSettings
from infinite_memory.time_expressions.instants import is_day, parse_day_or_instant, parse_instant

REPEATED_TAGS = 20  # maximum number of list entries for each allowed tag
LAST_DAY = "9999-12-31"  # no day follows it; as the end of a range it means open-ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TextField(Field):
    """Unmodified text. ``limit`` names the setting under ``limits`` that bounds it; ``blank`` allows white space only.

    With ``blank_is_absent`` a blank text counts as missing.
    """

    limit: str | None = None
    blank: bool = False
    blank_is_absent: bool = False

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        return super(TextField, self).is_empty(value, checking) and not self.blank

    def parse(self, value: Any, path: str, checking: ValidationContext) -> str | None:
        if not isinstance(value, str):
            raise InvalidRequestError.invalid_value(path, value, "a text")
        if not self.blank and is_blank(value):
            if self.blank_is_absent:
                return None
            raise InvalidRequestError(path, "is blank; a text with at least one visible character was expected")
        if self.limit is not None:
            check_limit(self.limit, value, path, checking.limits)
        return value

    def schema(self) -> Json:
        return {"type": "string"} if self.blank or self.blank_is_absent else {"type": "string", "minLength": 1}


def check_limit(limit: str, value: str, path: str, limits: LimitsSettings) -> None:
    """Reject a text above ``limits.<limit>``, whose name says whether bytes or characters count.

    Raises:
        LimitExceededError: it is longer.
    """
    size, unit = (len(value.encode("utf-8")), "bytes") if limit.endswith("_bytes") else (len(value), "characters")
    if size > (allowed := getattr(limits, limit)):
        raise LimitExceededError(path, size, allowed, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameField(Field):
    """A name of 1 to ``max_chars`` characters after stripping: a scope's, say. With ``new`` it may be created: no control characters."""

    max_chars: int = 256
    new: bool = False

    def parse(self, value: Any, path: str, checking: ValidationContext) -> str:
        if not isinstance(value, str):
            raise InvalidRequestError.invalid_value(path, value, "a text")
        name = value.strip()
        if not name:
            raise InvalidRequestError(path, f"is blank; a name of 1 to {self.max_chars} characters was expected")
        if len(name) > self.max_chars:
            raise LimitExceededError(path, len(name), self.max_chars, "characters")
        if self.new:
            check_printable(name, path)
        return name

    def schema(self) -> Json:
        return {"type": "string", "minLength": 1, "maxLength": self.max_chars}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerField(Field):
    """An integer from ``low`` to ``high``; "5" and 5.0 are 5. ``limit`` names a setting that lowers ``high``."""

    low: int
    high: int
    limit: str | None = None

    def parse(self, value: Any, path: str, checking: ValidationContext) -> int:
        high = min(self.high, getattr(checking.limits, self.limit)) if self.limit else self.high
        number = _number(value)
        if number is None or number != int(number) or not self.low <= number <= high:
            raise InvalidRequestError.invalid_value(path, value, self.expected(high))
        return int(number)

    def expected(self, high: int) -> str:
        """Return what was expected, for an error message."""
        return f"a whole number from {self.low:,} to {high:,}"

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberField(Field):
    """A number from ``low`` to ``high``; "0.5" is 0.5."""

    low: float
    high: float

    def parse(self, value: Any, path: str, checking: ValidationContext) -> float:
        number = _number(value)
        if number is None or not self.low <= number <= self.high:
            raise InvalidRequestError.invalid_value(path, value, f"a number from {self.low:g} to {self.high:g}")
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

    def parse(self, value: Any, path: str, checking: ValidationContext) -> bool:
        value = read_json_text(value, bool, path, checking)
        if not isinstance(value, bool):
            raise InvalidRequestError.invalid_value(path, value, "true or false")
        return value

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        # An empty `dry_run` of a destructive command is not a confirmation.
        return value == "" and not checking.strict

    def schema(self) -> Json:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceField(Field):
    """A member of an enum, by its exact value."""

    choices: type[enum.Enum]

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        """True if *value* is "" and the command is not destructive: there a default would decide what happens to memories."""
        return Field.is_empty(self, value, checking) and not checking.strict

    def parse(self, value: Any, path: str, checking: ValidationContext) -> enum.Enum:
        for member in self.choices:
            if isinstance(value, str) and member.value == value:
                return member
        raise InvalidRequestError.invalid_value(
            path, value, f"one of {', '.join(repr(choice.value) for choice in self.choices)}"
        )

    def schema(self) -> Json:
        return {"type": "string", "enum": [choice.value for choice in self.choices]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesField(Field):
    """A list of members of an enum."""

    choices: type[enum.Enum]

    def parse(self, value: Any, path: str, checking: ValidationContext) -> list[enum.Enum]:
        value = read_json_text(value, list, path, checking)
        if not isinstance(value, list):
            raise InvalidRequestError.invalid_value(path, value, "a list")
        choice_field = ChoiceField(name=self.name, about=self.about, choices=self.choices)
        return list(
            dict.fromkeys(choice_field.parse(item, f"{path}[{index}]", checking) for index, item in enumerate(value))
        )

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string", "enum": [choice.value for choice in self.choices]}}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsField(Field):
    """Tags: a list, a comma-separated text, or a JSON list in a text; stripped, without empty and duplicate ones."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> tuple[str, ...]:
        if isinstance(value, str):
            check_tags_size(path, value.count(",") + 1, checking.limits.tags)
        listed = _tag_list(value)
        if isinstance(listed, list):
            check_tags_size(path, len(listed), checking.limits.tags)
        else:
            raise InvalidRequestError.invalid_value(
                path, value, "a list of texts, or one text with commas between the tags"
            )
        tags: dict[str, str] = {}
        seen: set[str] = set()
        for index, tag in enumerate(listed):
            if not isinstance(tag, str):
                raise InvalidRequestError.invalid_value(f"{path}[{index}]", tag, "a text")
            if tag in seen:
                continue
            seen.add(tag)
            if any("\ud800" <= char <= "\udfff" for char in tag):  # JSON in a text may contain one
                raise InvalidRequestError.invalid_value(
                    f"{path}[{index}]", tag, "a text: it holds an unpaired surrogate"
                )
            check_limit("tag_chars", tag.strip(), f"{path}[{index}]", checking.limits)
            if not is_blank(tag):
                tags.setdefault(fold(tag), tag.strip())
            if len(tags) > checking.limits.tags:  # checked early: a line may have a million
                raise LimitExceededError(path, len(listed), checking.limits.tags, "tags")
        return tuple(tags.values())

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "string"}}


def check_tags_size(path: str, count: int, allowed: int) -> None:
    """Reject a list of tags that is far too long before parsing it: duplicates and empty ones do not count, but take time.

    Raises:
        LimitExceededError: *count* is more than `REPEATED_TAGS` times the limit.
    """
    if count > REPEATED_TAGS * allowed:
        raise LimitExceededError(path, count, allowed, "tags")


def _tag_list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.strip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # a tag may start with a bracket
    return value.split(",")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantField(Field):
    """An instant, RFC 3339; without an offset it is in the user's time zone, a date alone is midnight there."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> dt.datetime:
        if not isinstance(value, str):
            raise InvalidRequestError.invalid_value(
                path, value, "an instant (2026-11-28T14:05:00Z) or a date (2026-11-28)"
            )
        try:
            return parse_instant(value, checking.zone)
        except ValueError as exc:
            raise InvalidRequestError(path, str(exc)) from None

    def schema(self) -> Json:
        return {"type": "string", "examples": ["2026-11-28T14:05:00Z", "2026-11-28"]}


@dataclass(frozen=True, slots=True)
class NamedRange(TimeRange):
    """A time range with an inclusive last instant, so the half-open end is a millisecond later."""

    @property
    def last(self) -> dt.datetime:
        """The inclusive last instant."""
        assert self.end is not None
        return self.end - MILLISECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRangeField(Field):
    """``{"from": ..., "to": ...}``, either end may be missing; both ends are inclusive, a date alone is the whole day."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> TimeRange | None:
        value = read_json_text(value, dict, path, checking)
        if not isinstance(value, dict):
            raise InvalidRequestError.invalid_value(path, value, 'an object {"from": ..., "to": ...}')
        others = sorted(set(value) - {"from", "to"})
        if checking.strict:
            refuse_unknown(others, ("from", "to"), f"{path}.")
        checking.warnings += ignored_fields(others, ("from", "to"), f"{path}.")
        # Only if both ends are empty: a single empty one is a mistake that would silently widen the range.
        if all(end in ("", None) for end in value.values()):
            return None
        start = self._end(value.get("from"), f"{path}.from", checking, upper=False)
        end = self._end(value.get("to"), f"{path}.to", checking, upper=True)
        if start is not None and end is not None and start >= end:
            raise InvalidRequestError(
                path, f"from {truncated_repr(value['from'])} is after to {truncated_repr(value['to'])}"
            )
        if value.get("from") is None and value.get("to") is None:
            return None
        return TimeRange(start, end) if end is None or is_day(value["to"]) else NamedRange(start, end)

    def _end(self, value: Any, path: str, checking: ValidationContext, *, upper: bool) -> dt.datetime | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise InvalidRequestError.invalid_value(
                path, value, "an instant (2026-11-28T14:05:00Z) or a date (2026-11-28)"
            )
        if upper and value.strip() == LAST_DAY:
            return None
        try:
            instant = floor_to_millisecond(parse_day_or_instant(value, checking.zone, upper=upper))
        except ValueError as exc:
            raise InvalidRequestError(path, str(exc)) from None
        try:
            return instant + MILLISECOND if upper and not is_day(value) else instant
        except OverflowError:  # the last representable instant
            return None

    def schema(self) -> Json:
        end = {"type": "string", "description": "Instant (RFC 3339) or date; a date as `to` includes that day"}
        return {"type": "object", "properties": {"from": end, "to": end}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyField(Field):
    """Any JSON value, unmodified."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> Any:
        return value

    def schema(self) -> Json:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectField(Field):
    """An object with its own fields; with ``free`` other keys are kept, else reported in a warning or, in a strict check, rejected."""

    fields: tuple[Field, ...]
    free: bool = False

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        return bool(value == "")

    def parse(self, value: Any, path: str, checking: ValidationContext) -> Fields:
        value = read_json_text(value, dict, path, checking)
        if not isinstance(value, dict):
            raise InvalidRequestError.invalid_value(path, value, "an object")
        return parse_fields(self.fields, value, path, checking, free=self.free)

    def missing_value(self, path: str, checking: ValidationContext) -> Fields:
        if self.required:
            raise missing_field(path, self.about)
        return parse_fields(self.fields, {}, path, checking, free=self.free)

    def schema(self) -> Json:
        return object_schema(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListField(Field):
    """A list of 1 to ``most`` raw values; each is validated by the caller, so that one bad entry does not fail the others."""

    item: tuple[Field, ...]
    max_items: int

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        return bool(value == "")

    def parse(self, value: Any, path: str, checking: ValidationContext) -> list[Any]:
        value = read_json_text(value, list, path, checking)
        if not isinstance(value, list) or not value:
            raise InvalidRequestError.invalid_value(path, value, "a list with at least one entry")
        if len(value) > self.max_items:
            raise LimitExceededError(path, len(value), self.max_items, "entries")
        return [read_json_text(entry, dict, f"{path}[{index}]", checking) for index, entry in enumerate(value)]

    def schema(self) -> Json:
        return {"type": "array", "minItems": 1, "maxItems": self.max_items, "items": object_schema(self.item)}
