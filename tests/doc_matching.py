"""Compares what a document shows with what the program answered: ids, instants of now and sizes may differ, everything else may not.

``...`` in a shown text stands for anything; a key ``"..."`` of a shown object says that more keys follow, an entry ``"..."`` of a list
that more entries do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

MORE = "..."
SHOWN_HOME = "~/.local/share/infinite-memory"
TOLERANCE = 0.02
"""Confidences move in the last digits with processor and library."""

_NAME = r"\b[0-9a-f]{24}\b|\b(?:backup|export)_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(?:-\d)?"
_NOW = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?!000)\d{3}Z?"
_FIGURE = r"\d*\.\d+"
_BOUND = re.compile(_NAME)
_PART = re.compile(rf"(?P<name>{_NAME})|(?P<now>{_NOW})|(?P<figure>{_FIGURE})|(?P<more>\.\.\.)")
_VOLATILE = frozenset(
    {"when", "created_at", "updated_at", "size_bytes", "db_size_mb", "checksum", "next_cursor", "version", "last_used_at"}
)  # fmt: skip


class Names:
    """Which id or file name of the program stands for which of the document."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self._actual: dict[str, str] = {}

    def to_actual(self, text: str) -> str:
        """Put the program's own names into a request that the document shows."""
        return _BOUND.sub(lambda match: self._actual.get(match[0], match[0]), text)

    def bind(self, shown: str, actual: str) -> bool:
        """True if *actual* stands, or from now on stands, for *shown*."""
        return self._actual.setdefault(shown, actual) == actual

    def without_home(self, text: str) -> str:
        """Write the home as the documents do."""
        return text.replace(self._home, SHOWN_HOME)


def differences(shown: Any, actual: Any, names: Names, path: str = "") -> list[str]:
    """Return where a JSON value differs from the shown one; empty where it does not."""
    key = path.rpartition(".")[2]
    if shown == MORE or (key in _VOLATILE and actual is not None):
        return []
    if isinstance(shown, dict) and isinstance(actual, dict):
        return _object_differences(shown, actual, names, path)
    if isinstance(shown, list) and isinstance(actual, list):
        return _list_differences(shown, actual, names, path)
    if isinstance(shown, str) and isinstance(actual, str):
        same = is_text_alike(shown, actual, names)
    elif isinstance(shown, float) and isinstance(actual, float):
        same = abs(shown - actual) <= TOLERANCE
    else:
        same = type(shown) is type(actual) and shown == actual
    return [] if same else [f"{path or 'reply'}: {shown!r} is shown, {actual!r} came"]


def _object_differences(shown: dict[str, Any], actual: dict[str, Any], names: Names, path: str) -> list[str]:
    missing = [f"{path}.{key}: is shown, and did not come" for key in shown.keys() - actual.keys() - {MORE}]
    others = [] if MORE in shown else [f"{path}.{key}: came, and is not shown" for key in actual.keys() - shown.keys()]
    both = [key for key in shown if key in actual]
    return missing + others + [one for key in both for one in differences(shown[key], actual[key], names, f"{path}.{key}")]  # fmt: skip


def _list_differences(shown: list[Any], actual: list[Any], names: Names, path: str) -> list[str]:
    open_end = bool(shown) and shown[-1] == MORE
    entries = shown[:-1] if open_end else shown
    if len(actual) < len(entries) or (len(actual) > len(entries) and not open_end):
        return [f"{path}: {len(entries)} entries are shown, {len(actual)} came"]
    pairs = zip(entries, actual, strict=False)
    return [one for at, (left, right) in enumerate(pairs) for one in differences(left, right, names, f"{path}[{at}]")]


def is_text_alike(shown: str, actual: str, names: Names) -> bool:
    """True if a text is as the document shows it; figures with a point only have to be figures."""
    match = re.fullmatch(_to_pattern(shown), names.without_home(actual))
    return match is not None and all(
        names.bind(*pair) for pair in zip(_BOUND.findall(shown), match.groups(), strict=True)
    )


def _to_pattern(shown: str) -> str:
    pattern, end = [], 0
    for part in _PART.finditer(shown):
        pattern.append(re.escape(shown[end : part.start()]))
        stands = {"name": f"({_NAME})", "now": _NOW, "figure": _FIGURE, "more": "(?:.|\n)*?"}
        pattern.append(stands[str(part.lastgroup)])
        end = part.end()
    return "".join([*pattern, re.escape(shown[end:])])
