"""Edits one entry in a JSON or TOML file owned by another program, and leaves every other byte unchanged.

JSON as clients write it: comments and trailing commas are allowed and kept. Each change is parsed again and compared with the intended
result before it is returned, so a file with an unexpected layout is refused, not damaged.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_SPACE_OR_COMMENT = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"')
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


@dataclass(slots=True)
class _Member:
    """A member of an object, with its position."""

    name: str
    start: int
    value: _Value
    comma: int | None = None  # position of the comma after it


@dataclass(slots=True)
class _Value:
    """A value and its span in the text; ``members`` if it is an object."""

    start: int
    end: int
    plain: Any
    members: list[_Member] = field(default_factory=list)

    def find(self, name: str) -> _Member | None:
        """Return the member with a name; the last of several, as parsers do."""
        return next((member for member in reversed(self.members) if member.name == name), None)


def merged(existing: Any, entry: Json) -> Json:
    """Return an entry with the new members, keeping the user's other members; ``env`` is merged by name."""
    if not isinstance(existing, dict):
        return entry
    both = {**existing, **entry}
    if isinstance(existing.get("env"), dict) and "env" in entry:
        both["env"] = {**existing["env"], **entry["env"]}
    return both


def read_json(text: str) -> Json:
    """Return the object in a JSON file with comments; {} for an empty file.

    Raises:
        ValueError: the file is not a JSON object.
    """
    return dict(_parse(text).plain) if text.strip() else {}


def find_entry(text: str, key: str, name: str, *, is_toml: bool) -> Any:
    """Return the entry ``key.name`` of a file, None if there is none.

    Raises:
        ValueError: the text is not a JSON object, or not TOML.
    """
    if not text.strip():
        return None
    entries = (_toml(text) if is_toml else _parse(text).plain).get(key)
    return entries.get(name) if isinstance(entries, dict) else None


def set_json_entry(text: str, key: str, name: str, entry: Any) -> str:
    """Return *text* with ``{key: {name: entry}}`` in it; in an existing entry only members that differ are written.

    Raises:
        ValueError: the text is not a JSON object, or cannot be changed safely.
    """
    if not text.strip():
        return json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    root = _parse(text)
    servers = root.find(key)
    if servers is None:
        after = _inserted(text, root, key, {name: entry})
    elif not isinstance(servers.value.plain, dict):
        raise ValueError(f"{key} is not an object")
    elif (ours := servers.value.find(name)) is None:
        after = _inserted(text, servers.value, name, entry)
    elif ours.value.plain == entry:
        return text
    else:
        after = _with_member(text, (key,), name, entry)
    expected = {**root.plain, key: {**root.plain.get(key, {}), name: entry}}
    return _checked(after, expected)


def _with_member(text: str, path: tuple[str, ...], name: str, value: Any) -> str:
    """Set one member of the object at *path*, in place or after the last one."""
    parent = _parse(text)
    for step in path:
        existing = parent.find(step)
        assert existing is not None
        parent = existing.value
    member = parent.find(name)
    if member is None:
        return _inserted(text, parent, name, value)
    if member.value.plain == value:
        return text
    is_laid_out = "\n" in text[member.value.start : member.value.end]
    if (
        isinstance(value, dict)
        and isinstance(member.value.plain, dict)
        and is_laid_out
        and member.value.plain.keys() <= value.keys()
    ):
        for inner, inner_value in value.items():
            text = _with_member(text, (*path, name), inner, inner_value)
        return text
    return text[: member.value.start] + _written(text, member.start, value) + text[member.value.end :]


def remove_json_entry(text: str, key: str, name: str) -> str:
    """Return *text* without ``key.name``, unchanged if there is none. Errors as in `set_json_entry`."""
    if not text.strip():
        return text
    root = _parse(text)
    servers = root.find(key)
    ours = servers.value.find(name) if servers is not None else None
    if servers is None or ours is None:
        return text
    after = _without(text, servers.value, ours)
    remaining = {other_name: value for other_name, value in servers.value.plain.items() if other_name != name}
    return _checked(after, {**root.plain, key: remaining})


def remove_empty_object(text: str, key: str) -> str:
    """Return *text* without its member ``key`` if that is an empty object. Errors as in `set_json_entry`."""
    root = _parse(text) if text.strip() else None
    member = root.find(key) if root is not None else None
    if root is None or member is None or member.value.plain != {}:
        return text
    return _checked(_without(text, root, member), {name: value for name, value in root.plain.items() if name != key})


def _without(text: str, parent: _Value, member: _Member) -> str:
    """Return *text* without a member of an object and its comma, or the comma before it if it is the last one."""
    index = parent.members.index(member)
    cuts = [(_start_of_room(text, member.start), member.value.end)]
    if member.comma is not None:
        cuts.append((member.comma, member.comma + 1))
    elif index > 0 and (comma := parent.members[index - 1].comma) is not None:
        cuts.append((comma, comma + 1))
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _checked(after: str, expected: Json) -> str:
    if _parse(after).plain != expected:
        raise ValueError("the file is written in a way that cannot be changed safely")
    return after


def _inserted(text: str, parent: _Value, name: str, value: Any) -> str:
    """Return *text* with a member added at the end of an object, in the layout of the existing ones."""
    newline = "\r\n" if "\r\n" in text else "\n"
    close = parent.end - 1
    content_end = _end_of_content(text, parent)
    outer = _find_indent(text, parent.start)
    inner = _find_indent(text, parent.members[0].start) if parent.members else ""
    if not inner.startswith(outer) or inner == outer:
        inner = outer + _unit(text)
    member = f"{inner}{json.dumps(name, ensure_ascii=False)}: {_dumped(text, value, inner)}"
    tail = text[content_end:close]
    if "\n" not in tail:
        tail = newline + outer
    head = text[:content_end]
    if parent.members and parent.members[-1].comma is None:
        end = parent.members[-1].value.end
        head = text[:end] + "," + text[end:content_end]
    trailing = "," if parent.members and parent.members[-1].comma is not None else ""
    return head + newline + member + trailing + tail + text[close:]


def _written(text: str, start: int, value: Any) -> str:
    return _dumped(text, value, _find_indent(text, start))


def _dumped(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (("\r\n" if "\r\n" in text else "\n") + indent).join(lines)


def _unit(text: str) -> str:
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _find_indent(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _start_of_room(text: str, position: int) -> int:
    """Return where the whitespace before *position* starts."""
    while position > 0 and text[position - 1] in " \t\r\n":
        position -= 1
    return position


def _end_of_content(text: str, parent: _Value) -> int:
    """Return the end of the last token inside an object, comments included."""
    return _start_of_room(text, parent.end - 1)


def _parse(text: str) -> _Value:
    """Parse a JSON object with comments.

    Raises:
        ValueError: the text is not a JSON object; the message has the position.
    """
    start = _skip(text, 0)
    value = _read(text, start, 0)
    if _skip(text, value.end) != len(text):
        raise ValueError(f"something follows the JSON ({_line_and_column(text, value.end)})")
    if not isinstance(value.plain, dict):
        raise ValueError("it is not a JSON object")
    return value


def _line_and_column(text: str, position: int) -> str:
    """Return a position as editors show it, from 1."""
    before = text[:position]
    return f"line {before.count(chr(10)) + 1}, column {position - before.rfind(chr(10))}"


def _skip(text: str, position: int) -> int:
    match = _SPACE_OR_COMMENT.match(text, position)
    return match.end() if match else position


def _read(text: str, position: int, depth: int) -> _Value:
    if depth > 100:
        raise ValueError("it is nested too deeply")
    letter = text[position : position + 1]
    if letter == "{":
        return _read_object(text, position, depth)
    if letter == "[":
        return _read_array(text, position, depth)
    match = _STRING.match(text, position) or _SCALAR.match(text, position)
    if match is None:
        raise ValueError(f"it is not JSON ({_line_and_column(text, position)})")
    return _Value(position, match.end(), json.loads(match[0]))


def _read_object(text: str, start: int, depth: int) -> _Value:
    members: list[_Member] = []
    position = _skip(text, start + 1)
    while text[position : position + 1] != "}":
        if members and members[-1].comma is None:
            raise ValueError(f"a comma was expected ({_line_and_column(text, position)})")
        name = _STRING.match(text, position)
        if name is None:
            raise ValueError(f"a name was expected ({_line_and_column(text, position)})")
        colon = _skip(text, name.end())
        if text[colon : colon + 1] != ":":
            raise ValueError(f"a colon was expected ({_line_and_column(text, colon)})")
        value = _read(text, _skip(text, colon + 1), depth + 1)
        members.append(_Member(json.loads(name[0]), position, value))
        position = _skip(text, value.end)
        if text[position : position + 1] == ",":
            members[-1].comma = position
            position = _skip(text, position + 1)
    return _Value(start, position + 1, {member.name: member.value.plain for member in members}, members)


def _read_array(text: str, start: int, depth: int) -> _Value:
    values: list[Any] = []
    position, may_follow = _skip(text, start + 1), True
    while text[position : position + 1] != "]":
        if not may_follow:
            raise ValueError(f"a comma was expected ({_line_and_column(text, position)})")
        value = _read(text, position, depth + 1)
        values.append(value.plain)
        position = _skip(text, value.end)
        may_follow = text[position : position + 1] == ","
        if may_follow:
            position = _skip(text, position + 1)
    return _Value(start, position + 1, values)


def set_toml_table(text: str, key: str, name: str, entry: Json) -> str:
    """Return *text* with a table ``[key.name]`` that holds *entry*, replacing an existing one.

    Raises:
        ValueError: the text is not TOML, or cannot be changed safely.
    """
    before = _toml(text)
    servers = before.get(key, {})
    if not isinstance(servers, dict):
        raise ValueError(f"{key} is not a table")
    if servers.get(name) == entry:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join(
        [f"[{key}.{name}]", *(f"{_toml_key(option)} = {_toml_value(value)}" for option, value in entry.items())]
    )
    stretch = _toml_stretch(text, key, name)
    if stretch is not None:
        after = text[: stretch[0]] + block + newline + text[stretch[1] :]
    else:
        room = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
        after = text + room + block + newline
    return _toml_checked(after, {**before, key: {**servers, name: entry}})


def remove_toml_table(text: str, key: str, name: str) -> str:
    """Return *text* without the table ``[key.name]``, unchanged if there is none. Errors as in `set_toml_table`."""
    before = _toml(text)
    servers = before.get(key)
    if not isinstance(servers, dict) or name not in servers:
        return text
    stretch = _toml_stretch(text, key, name)
    if stretch is None:
        raise ValueError(f"{key}.{name} is not written as a table of its own")
    head, tail = text[: stretch[0]], text[stretch[1] :]
    if head.endswith(("\n\n", "\r\n\r\n")):
        head = head.removesuffix("\n").removesuffix("\r")
    expected = {**before, key: {other_name: server for other_name, server in servers.items() if other_name != name}}
    if not expected[key]:
        del expected[key]
    return _toml_checked(head + tail, expected)


def _toml(text: str) -> Json:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as exc:
        raise ValueError(str(exc)) from None


def _toml_checked(after: str, expected: Json) -> str:
    if _toml(after) != expected:
        raise ValueError("the file is written in a way that cannot be changed safely")
    return after


def _toml_stretch(text: str, key: str, name: str) -> tuple[int, int] | None:
    """Return the lines of a table and its subtables; trailing blank lines and comments do not belong to it."""
    quoted = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    ours = re.compile(rf"\s*\[\s*{re.escape(key)}\s*\.\s*{quoted}\s*(?:\.[^\]]*)?\]")
    start = end = None
    position = 0
    inside = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = ours.match(line) is not None
            if inside and start is None:
                start = position
        position += len(line)
        if inside and line.strip() and not line.lstrip().startswith("#"):
            end = position
    return None if start is None or end is None else (start, end)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
