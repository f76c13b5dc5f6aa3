"""Lists, objects and booleans sent as JSON text, as some clients do with every argument that is not a string.

The text must be as strict as a request itself: no duplicate keys, no NaN, no integers beyond 64 bits, no unpaired surrogates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from infinite_memory.contracts.fields import ValidationContext
from infinite_memory.errors import InvalidRequestError, LimitExceededError, truncated_repr

MAX_DEPTH = 100  # as in `transports.strict_json`
MAX_CHARS = 2 * 1024 * 1024  # parsing it blocks the event loop for about 20 ms
_KINDS: dict[type, tuple[str, str]] = {dict: ("{", "an object"), list: ("[", "a list"), bool: ("", "true or false")}


def read_json_text(value: Any, kind: type, path: str, checking: ValidationContext) -> Any:
    """Return *value*; parse a text that holds JSON of *kind* (dict, list or bool), with a warning.

    Raises:
        InvalidRequestError: the text starts like an object or a list and is not strict JSON.
    """
    if not isinstance(value, str):
        return value
    start, expected = _KINDS[kind]
    text = value.strip()
    if kind is bool:
        parsed = {"true": True, "false": False}.get(text)
        if parsed is None:
            return value
    elif text.startswith(start):
        parsed = parse_json_text(text, path, expected)
    else:
        return value
    checking.warnings.append(f"{path} came as a JSON text and was read as {expected}")
    return parsed


def parse_json_text(text: str, path: str, expected: str) -> Any:
    """Parse a strict JSON value; *expected* is its type in words, for the error.

    Raises:
        InvalidRequestError: it is not strict JSON.
        LimitExceededError: it is longer than `MAX_CHARS`.
    """
    if len(text) > MAX_CHARS:
        raise LimitExceededError(path, len(text), MAX_CHARS, "characters of JSON text")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_number
        )
        for node in _walk(value):
            if isinstance(node, str):
                node.encode("utf-8")
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError(path, f"{truncated_repr(text)} is not {expected} as JSON text: {exc}") from None
    return value


def _walk(value: Any) -> Iterator[Any]:
    """Yield every part of *value*, including keys.

    Raises:
        ValueError: it is nested too deeply.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        yield from level
        inner: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                inner += [*node.keys(), *node.values()]
            elif isinstance(node, list):
                inner += node
        if not inner:
            return
        level = inner
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**63:
        return value
    raise ValueError("an integer does not fit 64 bits")


def _number(digits: str) -> float:
    if math.isfinite(value := float(digits)):
        return value
    raise ValueError("a number is out of range")
