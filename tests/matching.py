"""Compares replies with documents: a block of a document is a pattern in which placeholders stand for what differs from run to run.

An object of the pattern must be part of the object found: more members are no difference. A list must have as many entries, unless it is
``{"<each>": pattern}`` (one or more, all alike) or ``{"<contains>": [patterns]}``. ``{"<json>": pattern}`` is a text that holds JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_PLACEHOLDERS: dict[str, Callable[[Any], bool]] = {
    "<anything>": lambda _: True,
    "<text>": lambda value: isinstance(value, str) and bool(value.strip()),
    "<number>": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "<integer>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<id>": lambda value: isinstance(value, str) and bool(re.fullmatch(r"[0-9a-f]{24}", value)),
    "<memory id>": lambda value: isinstance(value, str) and bool(re.fullmatch(r"mem_[0-9a-f]{24}", value)),
    "<uuid>": lambda value: (
        isinstance(value, str) and bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value))
    ),
    "<instant>": lambda value: (
        isinstance(value, str) and bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value))
    ),
}


def differences(found: Any, pattern: Any, path: str = "") -> Iterator[str]:
    """Say where *found* is not as *pattern* wants it; nothing when it is."""
    if isinstance(pattern, str) and pattern in _PLACEHOLDERS:
        if not _PLACEHOLDERS[pattern](found):
            yield f"{path}: {found!r} is not {pattern}"
    elif isinstance(pattern, dict) and len(pattern) == 1 and (kind := next(iter(pattern))).startswith("<"):
        yield from _special(found, kind, pattern[kind], path)
    elif isinstance(pattern, dict):
        if not isinstance(found, dict):
            yield f"{path}: {found!r} is no object"
            return
        for name, inner in pattern.items():
            if name not in found:
                yield f"{path}.{name}: is missing in {found!r}"
            else:
                yield from differences(found[name], inner, f"{path}.{name}")
    elif isinstance(pattern, list):
        if not isinstance(found, list) or len(found) != len(pattern):
            yield f"{path}: {found!r} is no list of {len(pattern)}"
            return
        for at, inner in enumerate(pattern):
            yield from differences(found[at], inner, f"{path}[{at}]")
    elif found != pattern or isinstance(found, bool) is not isinstance(pattern, bool):
        yield f"{path}: {found!r} is not {pattern!r}"


def _special(found: Any, kind: str, pattern: Any, path: str) -> Iterator[str]:
    if kind == "<json>":
        try:
            yield from differences(json.loads(found), pattern, f"{path}|json")
        except (TypeError, ValueError):
            yield f"{path}: {found!r} is no text that holds JSON"
    elif not isinstance(found, list):
        yield f"{path}: {found!r} is no list"
    elif kind == "<each>":
        if not found:
            yield f"{path}: is empty"
        for at, one in enumerate(found):
            yield from differences(one, pattern, f"{path}[{at}]")
    else:
        for wanted in pattern:
            if not any(not list(differences(one, wanted)) for one in found):
                yield f"{path}: none of {found!r} is {wanted!r}"


def look_up(value: Any, path: str) -> Any:
    """Follow a path such as ``result.content[0].text|json.id``."""
    for step in re.findall(r"\|json|\[\d+\]|[^.\[\]|]+", path):
        value = json.loads(value) if step == "|json" else value[int(step[1:-1]) if step.startswith("[") else step]
    return value


def filled(value: Any, names: dict[str, Any]) -> Any:
    """Put what was kept in the place of ``${name}``."""
    if isinstance(value, dict):
        return {name: filled(one, names) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    return re.sub(r"\$\{(\w+)\}", lambda gap: str(names[gap[1]]), value) if isinstance(value, str) else value
