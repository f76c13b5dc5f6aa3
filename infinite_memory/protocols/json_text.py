"""Strict JSON, in and out: what every line-based protocol of ours accepts as one message.

Stricter than `json`, because a memory must come back as it was sent: no NaN or Infinity, no integers that MongoDB cannot keep,
no unpaired surrogates, no duplicate keys (in a deletion, the second would silently win), no bottomless nesting (notes to the
contracts, "All contracts"; RFC 8259 sections 4, 6 and 8.2).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from infinite_memory.errors import InvalidRequestError, shown

MAX_DEPTH = 100
_INT64_DIGITS = 20  # with the sign; longer ones need not be read to be out of range
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)  # possessive: linear in the text


def parse_object(line: bytes) -> dict[str, Any]:
    """Read one JSON object from UTF-8 bytes.

    Raises:
        InvalidRequestError: anything but one strict JSON object; the message says where and why.
    """
    value = parse_value(line)
    if not isinstance(value, dict):
        raise InvalidRequestError("", f"a request is a JSON object, not {_kind(value)}")
    return value


def parse_value(line: bytes) -> Any:
    """Read one JSON value from UTF-8 bytes; the same rules as `parse_object`, any kind of value."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidRequestError("", f"the line is not UTF-8 (byte {problem.start})") from None
    _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer, parse_float=_number
        )
    except json.JSONDecodeError as problem:
        raise InvalidRequestError("", f"the line is not JSON: {problem.msg} (character {problem.pos})") from None
    if "\\u" in text:  # only an escape can bring one in
        _check_surrogates(value)
    return value


def format_line(value: Any) -> bytes:
    """Write *value* as one line of UTF-8 JSON with its newline; only characters JSON demands are escaped."""
    return _ENCODER.encode(value).encode("utf-8") + b"\n"


def format_line_in_pieces(value: Any) -> bytes:
    """Do as `format_line`, slower and in a way that lets other threads run meanwhile (`encode` is one call into C)."""
    return "".join(_ENCODER.iterencode(value)).encode("utf-8") + b"\n"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidRequestError(twice, "the key stands twice in one object")
    return found


def _no_constant(word: str) -> Any:
    raise InvalidRequestError("", f"{word} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) <= _INT64_DIGITS and -(2**63) <= (value := int(digits)) < 2**63:
        return value
    raise InvalidRequestError("", f"the integer {shown(digits)} does not fit 64 bits")


def _number(digits: str) -> float:
    value = float(digits)
    if math.isfinite(value):
        return value
    raise InvalidRequestError("", f"the number {shown(digits)} is out of range")


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser recurses into it; brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidRequestError("", f"nesting deeper than {MAX_DEPTH} levels")
        elif first in "]}":
            depth -= 1


def _check_surrogates(value: Any) -> None:
    """Refuse texts that have no UTF-8 form; pairs were joined by the parser already."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidRequestError("", "a text holds an unpaired surrogate (\\ud800 to \\udfff)") from None
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_surrogates(key)
            _check_surrogates(one)
    elif isinstance(value, list):
        for one in value:
            _check_surrogates(one)


def _kind(value: Any) -> str:
    return {list: "an array", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
