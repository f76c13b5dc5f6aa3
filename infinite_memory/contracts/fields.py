"""The fields of a request: their description and validation, and the object of validated fields.

Rules shared by all contracts are here: null, and "" for an optional field, mean "missing"; unknown fields are reported in a warning,
and rejected by commands that destroy or replace. Which values a field accepts depends on its type (`field_types`).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from infinite_memory.errors import InvalidRequestError, truncated_repr
from infinite_memory.settings import LimitsSettings

Json = dict[str, Any]

MAX_NAMED = 50
"""Unknown fields of one object that get a warning each: a line may have a million, and each takes 20 microseconds."""


@dataclass(slots=True)
class ValidationContext:
    """The settings for validating a request, and the warnings it collects.

    ``strict`` rejects unknown fields at every depth: a command that destroys or replaces must not run without the ``dry_run``
    or ``limit`` that the client meant to set.
    """

    limits: LimitsSettings
    zone: ZoneInfo
    warnings: list[str] = dataclasses.field(default_factory=list)
    strict: bool = False

    def with_strict(self, strict: bool) -> ValidationContext:
        """Return the same settings with *strict*; the warnings are shared."""
        return dataclasses.replace(self, strict=strict)

    def without_warnings(self) -> ValidationContext:
        """Return the same settings with a list of warnings that is discarded."""
        return dataclasses.replace(self, warnings=[])


class Fields:
    """The validated fields of one object of a request; a missing field has its default.

    ``empty`` names the fields that were "" and count as missing.
    """

    def __init__(
        self, path: str, values: Mapping[str, Any], free: Mapping[str, Any], empty: Sequence[str] = ()
    ) -> None:
        self.path, self._values, self.free, self.empty = path, values, free, tuple(empty)

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def given(self) -> Iterator[str]:
        """Yield the names of the fields that have a value."""
        return (name for name, value in self._values.items() if value is not None)

    def at(self, name: str) -> str:
        """Return the path of a field as the client sees it."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str) -> str:
        """Return a text that must be present (required, or with a default)."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def find_text(self, name: str) -> str | None:
        """Return a text, or None if it is missing."""
        return self.text(name) if name in self else None

    def integer(self, name: str) -> int:
        """Return an integer that must be present."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def find_number(self, name: str) -> float | None:
        """Return a number, or None if it is missing."""
        return float(self._values[name]) if name in self else None

    def flag(self, name: str) -> bool:
        """Return a boolean; False if it is missing and has no default."""
        return bool(self._values[name])

    def find_instant(self, name: str) -> dt.datetime | None:
        """Return an instant in UTC, or None if it is missing."""
        value = self._values[name]
        assert value is None or isinstance(value, dt.datetime), name
        return value

    def inner(self, name: str) -> Fields:
        """Return the fields of an object; a missing object has none."""
        value = self._values[name]
        assert isinstance(value, Fields), name
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a request: its name, its description, and the validation of its value."""

    name: str
    about: str
    required: bool = False
    default: Any = None

    def parse(self, value: Any, path: str, checking: ValidationContext) -> Any:
        """Validate *value*, which is not null, and convert it to the field's type.

        Raises:
            InvalidRequestError: the field does not accept it.
        """
        raise NotImplementedError

    def accepts(self, value: Any) -> bool:
        """True if *value* is meant for this field, if an object also keeps free keys; else it is a free key of that name."""
        return True

    def is_empty(self, value: Any, checking: ValidationContext) -> bool:
        """True if *value* is the "" with which clients omit an optional field."""
        return value == "" and not self.required

    def schema(self) -> Json:
        """Return the JSON Schema of the field."""
        raise NotImplementedError

    def missing_value(self, path: str, checking: ValidationContext) -> Any:
        """Return the value of a field that is missing from a request."""
        if self.required:
            raise missing_field(path, self.about)
        return self.default

    def described(self) -> Json:
        """Return the schema with description and default."""
        default = {} if self.default is None else {"default": _plain(self.default)}
        return self.schema() | {"description": self.about} | default


def missing_field(path: str, about: str) -> InvalidRequestError:
    """Return the error for a missing required field; *about* continues the sentence."""
    starts_a_word = about[1:2].islower() or not about[1:2].isalpha()  # "UUID of ..." keeps its capitals
    return InvalidRequestError(path, f"is required: {about[:1].lower() if starts_a_word else about[:1]}{about[1:]}")


def parse_fields(
    fields: Sequence[Field], values: Mapping[str, Any], path: str, checking: ValidationContext, *, free: bool = False
) -> Fields:
    """Validate an object of a request against its fields.

    Unknown keys become ``Fields.free`` if they are allowed, else a warning: a misspelt ``tag`` must not be ignored
    silently. If *checking* is strict, they are rejected.

    Raises:
        InvalidRequestError: a field is missing or invalid, or unknown if *checking* is strict.
    """
    prefix = f"{path}." if path else ""
    by_name = {field.name: field for field in fields}
    others = {
        name: value
        for name, value in values.items()
        if name not in by_name or (free and not by_name[name].accepts(value))
    }
    if not free:
        if checking.strict:
            refuse_unknown(list(islice(others, 1)), list(by_name), prefix)
        checking.warnings += ignored_fields(list(others), list(by_name), prefix)
    parsed, empty = {}, []
    for name, field in by_name.items():
        value = None if name in others else values.get(name)
        field_path = prefix + name
        if value is not None and field.is_empty(value, checking):
            empty.append(name)
            value = None
        parsed[name] = (
            field.missing_value(field_path, checking) if value is None else field.parse(value, field_path, checking)
        )
        if parsed[name] is None and value is not None:
            parsed[name] = field.missing_value(field_path, checking)
    return Fields(path, parsed, others if free else {}, empty)


def refuse_unknown(names: Sequence[str], known_names: Sequence[str], prefix: str = "") -> None:
    """Reject the first of the unknown fields *names* of a command that destroys or replaces.

    Raises:
        InvalidRequestError: there is one; suggests a similar field.
    """
    if names:
        raise InvalidRequestError(
            prefix + truncated_repr(names[0])[1:-1], f"is not known here; {unknown_field(names[0], known_names)}"
        )


def ignored_fields(names: Sequence[str], known_names: Sequence[str], prefix: str = "") -> list[str]:
    """Return warnings about ignored fields: for the first `MAX_NAMED` with a suggestion, for the others only their number."""
    messages = [
        f"{prefix}{truncated_repr(name)[1:-1]} is not known and was ignored; {unknown_field(name, known_names)}"
        for name in names[:MAX_NAMED]
    ]
    if (excess := len(names) - MAX_NAMED) > 0:
        messages.append(
            f"{prefix}{truncated_repr(names[MAX_NAMED])[1:-1]} and {excess - 1:,} more are not known and were ignored"
        )
    return messages


def unknown_field(name: str, known_names: Sequence[str]) -> str:
    """Return a hint about an unknown name: the most similar field, or all known ones."""
    near = nearest_field(name, known_names)
    return f"did you mean {near}?" if near is not None else f"known: {', '.join(known_names) or 'none'}"


def nearest_field(name: str, known_names: Sequence[str]) -> str | None:
    """Return the field of which an unknown name is probably a misspelling; None if none is similar."""
    near = difflib.get_close_matches(name, known_names, n=1) if len(name) < 100 else []
    return near[0] if near else None


def object_schema(fields: Sequence[Field]) -> Json:
    """Return the JSON Schema of an object with *fields*; other keys are not an error (ignored with a warning, or kept)."""
    schema: Json = {"type": "object", "properties": {field.name: field.described() for field in fields}}
    if required := [field.name for field in fields if field.required]:
        schema["required"] = required
    return schema


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value
