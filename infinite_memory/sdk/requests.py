"""Converts arguments of the SDK to the fields of a request, and validates them before anything is sent.

A misspelt filter key, or a scope in addition to a user, would find, or forget, more than was asked for. The HTTP API ignores such
fields with a warning, as its clients may be of another version; the SDK's fields are those of its own package.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from infinite_memory.sdk.errors import InvalidError

Instant = dt.datetime | dt.date | str
"""A datetime (a naive one is in the user's time zone), a date (the whole local day), or an RFC 3339 string."""

FILTER_KEYS = (
    "scope", "tags", "tags_mode", "time_range", "time_query", "source", "type", "speaker", "conversation_id", "min_importance",
    "min_confidence",
)  # fmt: skip
"""The keys of *filter*, those of `filter` of `retrieve_memory`; a test compares both."""

USER_TYPES = (
    "Episodic", "Semantic", "Procedural", "Factual", "Core", "Working", "Resource", "Knowledge", "Contextual",
)  # fmt: skip
"""The types of a user's memory, those of the AgentMem contract; a test compares both."""

TIME_NAMES = {"time_query": "when", "range.from": "since", "range.to": "until", "range": "since"}
"""The arguments that time fields are made from."""

MAX_TIMEOUT_S = 86400 * 365.0  # sockets do not accept longer ones

_INVALID = "INVALID_REQUEST"


def refuse(field: str, reason: str) -> NoReturn:
    """Raise `InvalidError` for an argument."""
    raise InvalidError(f"{field}: {reason}", code=_INVALID, field=field)


def check_place(home: object, url: str | None, token: str | None, tunnel_to: str | None, timeout_s: float) -> None:
    """Refuse arguments that do not identify one memory, or an invalid timeout: a token without a URL would open this machine's memory.

    Raises:
        InvalidError: an argument is invalid, missing or contradicts another.
    """
    if url is not None and home is not None:
        refuse("home", "give home or url, not both")
    for name, value in (("token", token), ("tunnel_to", tunnel_to)):
        if url is None and value is not None:
            refuse("url", f"is required beside {name}: the address of the server that it is for")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        refuse("timeout_s", f"{timeout_s!r} is not a number of seconds above 0")


def check_page(page: object) -> None:
    """Raise `InvalidError` if *page* is not a valid page size."""
    if type(page) is not int or not 1 <= page <= 1000:
        refuse("page", f"{page!r} is not a whole number from 1 to 1,000")


class Narrowed(NamedTuple):
    """The keys of a filter, and the argument that each of them comes from."""

    keys: dict[str, Any]
    names: dict[str, str]


def narrow(
    filter: Mapping[str, Any] | None,
    tags: Sequence[str] | str | None,
    session_id: str | None = None,
    memory_type: str | None = None,
    times: Mapping[str, object] | None = None,
) -> Narrowed:
    """Combine the arguments that filter a search or a listing. *times* are the time arguments, by name.

    Raises:
        InvalidError: *filter* has an unknown key, or one that contradicts another argument.
    """
    keys = to_object("filter", filter) or {}
    for key in keys:
        if key not in FILTER_KEYS:
            refuse(
                f"filter.{key}",
                f"is not a key of filter; there are: {', '.join(FILTER_KEYS)}. Other metadata is kept, and not filtered by",
            )
    if isinstance(ends := keys.get("time_range"), Mapping):
        keys["time_range"] = {end: _to_text(value) for end, value in ends.items()}
    names = {key: f"filter.{key}" for key in keys}
    named = {"tags": to_tags(tags) or None, "type": memory_type, "conversation_id": session_id}
    arguments = {"tags": "tags", "type": "memory_type", "conversation_id": "session_id"}
    for name, value in (times or {}).items():
        if value is not None and (conflicting := [key for key in ("time_query", "time_range") if key in keys]):
            refuse(name, f"filter.{conflicting[0]} says a time too; give it once")
    for key, value in named.items():
        if value is not None:
            if key in keys and keys[key] != value:
                refuse(arguments[key], f"filter.{key} says something else; give it once")
            keys[key], names[key] = value, arguments[key]
    return Narrowed(keys, names)


def to_user_type(memory_type: str | None) -> str | None:
    """Return the canonical spelling of the type of a user's memory.

    Raises:
        InvalidError: there is no such type, so nothing could be found.
    """
    if memory_type is None:
        return None
    for name in USER_TYPES:
        if isinstance(memory_type, str) and name.casefold() == memory_type.casefold():
            return name
    refuse("memory_type", f"{memory_type!r} is not one of {', '.join(USER_TYPES)}")


def to_tags(tags: Sequence[str] | str | None) -> list[str] | str:
    """Return tags for a request: a list, or a comma-separated string, which the server splits."""
    if isinstance(tags, str):
        return tags
    try:
        return list(tags or ())
    except TypeError:
        refuse("tags", f"{tags!r} is neither a sequence of texts nor a text")


def to_object(name: str, value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a mapping for a request; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        refuse(name, f"{type(value).__name__} is not a mapping")
    return dict(value)


def to_range(since: Instant | None, until: Instant | None) -> dict[str, str] | None:
    """Return a time range for a request, both ends inclusive; None if both are open."""
    ends = {"from": to_instant("since", since), "to": to_instant("until", until)}
    return {name: end for name, end in ends.items() if end is not None} or None


def to_instant(name: str, instant: Instant | None) -> str | None:
    """Return an instant for a request; None stays None."""
    if instant is None:
        return None
    if isinstance(text := _to_text(instant), str):
        return text
    refuse(name, f"{type(instant).__name__} is not a datetime, a date or a text")


def _to_text(value: object) -> object:
    """Return a date or datetime in ISO format, and anything else unchanged."""
    return value.isoformat() if isinstance(value, dt.date) else value


def to_json(fields: Mapping[str, Any]) -> str:
    """Return fields as JSON.

    Raises:
        InvalidError: a value is not JSON-serializable; names its path.
    """
    try:
        return json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        path, value = _find_foreign(fields, "")
        refuse(
            path,
            f"this {type(value).__name__} cannot be written as JSON; give a text, a finite number, a list or an object",
        )


def _find_foreign(value: Any, path: str) -> tuple[str, Any]:
    """Return path and value of the first, innermost part of *value* that is not JSON-serializable."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        parts = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    for inner, item in parts:
        try:
            json.dumps(item, allow_nan=False)
        except RecursionError:
            return inner, item
        except (TypeError, ValueError) as exc:
            return (inner, item) if "Circular" in str(exc) else _find_foreign(item, inner)
    return path, value


def to_forget_mode(hard: bool) -> str:
    """Return the mode of forgetting, as requests name it."""
    return "hard" if hard else "soft"
