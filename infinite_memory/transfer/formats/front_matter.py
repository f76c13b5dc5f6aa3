"""YAML front matter of Markdown notes: the block between two lines of dashes.

Parsed by PyYAML with the scalars of YAML 1.2's core schema, as Obsidian and others do: ``no`` is a word, ``12:30`` a time of day and
``2024-05-01`` a string that dates are parsed from. Custom tags, aliases (a few lines can expand to gigabytes) and duplicate keys are
refused; size and depth are bounded.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from infinite_memory.transfer.formats.caps import MAX_FRONT_MATTER_BYTES
from infinite_memory.transfer.formats.json_stream import Json

MAX_LEVELS = 20  # as free metadata has by default
_BEGIN = re.compile(r"---[ \t]*\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)


class FrontMatterError(Exception):
    """Front matter is present but cannot be parsed; the message says why."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads plain values only, by the rules of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,18})", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]{1,18}\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?", list("-+0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def split_note(text: str) -> tuple[str | None, str]:
    """Split a note into its front matter (None if it has none) and its body. Only the first block counts."""
    begin = _BEGIN.match(text)
    end = _END.search(text, begin.end(), begin.end() + MAX_FRONT_MATTER_BYTES) if begin is not None else None
    if begin is None or end is None:
        return None, text
    return text[begin.end() : end.start()], text[end.end() :].lstrip("\n")


def parse_front_matter(text: str) -> Json:
    """Read front matter.

    Raises:
        FrontMatterError: it is not a YAML mapping of plain values.
    """
    try:
        _check(text)
        loaded = yaml.load(text, _Loader)
        if loaded is None:
            return {}
        if not isinstance(loaded, dict):
            raise FrontMatterError("is no list of names and values")
        _check_keys(text)
    except yaml.YAMLError:
        raise FrontMatterError("is no YAML that can be read") from None
    except (ValueError, RecursionError, TypeError, OverflowError, AttributeError, LookupError):
        # Raised by PyYAML's constructors if a value does not fit its tag.
        raise FrontMatterError("holds a value that cannot be read") from None
    return {str(key): _plain(value) for key, value in loaded.items()}


def _check(text: str) -> None:
    """Refuse what would be too expensive, before constructing it."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise FrontMatterError("holds an alias")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_LEVELS:
                raise FrontMatterError(f"is nested deeper than {MAX_LEVELS} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_keys(text: str) -> None:
    """Refuse duplicate keys: the library would silently keep the second."""
    nodes = [yaml.compose(text, _Loader)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(keys):
                raise FrontMatterError("names a key twice")
            nodes += [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
