"""Strict JSON, in and out: what every line-based protocol of ours accepts as one message.

Stricter than `json`, because a memory must come back as it was sent: no NaN or Infinity, no integers that MongoDB cannot store,
no unpaired surrogates, no duplicate keys (in a deletion, the second would silently win), no unlimited nesting (notes to the
contracts, "All contracts"; RFC 8259 sections 4, 6 and 8.2).

Why a separate decoder for large texts: that of `json` is a single call into C, which holds the GIL. 16 MiB of small
values block all threads for a quarter of a second, even if it is called in a thread.
"""

from __future__ import annotations

import contextlib
import enum
import json
import json.decoder
import json.scanner
import math
import re
from collections.abc import Iterator
from typing import Any

from infinite_memory.errors import InvalidRequestError, truncated_repr, without_surrogates

MAX_DEPTH = 100
MAX_VALUES = 250_000
"""In one message: a thousand memories with all their tags and metadata have fewer, and freeing more would block the event loop."""

LARGE_TEXT = 64 * 1024  # characters; up to this size the C decoder takes under 5 ms
_INT64_DIGITS = 20  # with the sign; longer ones are out of range without being parsed
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)  # possessive: linear in the text


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse one JSON object from UTF-8 bytes.

    Raises:
        InvalidRequestError: anything but one strict JSON object; the message says where and why.
    """
    value = parse_value(line)
    if not isinstance(value, dict):
        raise InvalidRequestError("", f"a request is a JSON object, not {_kind(value)}")
    return value


def parse_value(line: bytes) -> Any:
    """Parse one JSON value from UTF-8 bytes; the same rules as `parse_object`, but any type of value."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("", f"the line is not UTF-8 (byte {exc.start})") from None
    try:
        value = _decode(text)
    except json.JSONDecodeError as exc:
        raise InvalidRequestError("", f"the line is not JSON: {exc.msg} (character {exc.pos})") from None
    if "\\u" in text:  # only an escape can produce one
        _check_surrogates(value)
    return value


class Speaks(enum.Enum):
    """The protocol of a session's lines."""

    ACTIONS = "actions"
    JSON_RPC = "json-rpc"


def detect_protocol(line: bytes) -> Speaks | None:
    """Return the protocol of a line that is a request: an object with a key ``jsonrpc``, or an ``action`` that is a string."""
    try:
        value = parse_value(line)
    except InvalidRequestError:
        return None
    if not isinstance(value, dict):
        return None
    if "jsonrpc" in value:
        return Speaks.JSON_RPC
    return Speaks.ACTIONS if isinstance(value.get("action"), str) else None  # of any action, known or not


def find_value(line: bytes) -> Any:
    """Parse JSON that the rules reject (duplicate keys, NaN), to see whose message it is; None if it is not JSON at all."""
    try:
        text = line.decode("utf-8")
        return json.loads(text) if len(text) <= LARGE_TEXT else _LargeDecoder().decode(text)
    except (ValueError, RecursionError, InvalidRequestError):
        return None


def format_line(value: Any) -> bytes:
    """Format *value* as one line of UTF-8 JSON with its newline; only characters that JSON requires are escaped.

    An unpaired surrogate (of a file name that is not UTF-8, say) has no UTF-8 form and becomes U+FFFD: the client must get a reply.
    """
    return _encoded(_ENCODER.encode(value)) + b"\n"


def format_line_in_pieces(value: Any) -> bytes:
    """Do the same as `format_line`, slower but without blocking other threads (`encode` is one call into C)."""
    return _encoded("".join(_ENCODER.iterencode(value))) + b"\n"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return without_surrogates(text).encode("utf-8")


def _decode(text: str) -> Any:
    rules: dict[str, Any] = {
        "object_pairs_hook": _object,
        "parse_constant": _no_constant,
        "parse_int": _integer,
        "parse_float": _number,
    }
    if len(text) > LARGE_TEXT:
        return _LargeDecoder(**rules).decode(text)
    _check_depth(text)
    return json.loads(text, **rules)


class _LargeDecoder(json.JSONDecoder):
    """The decoder of `json` in Python, which lets other threads run, and counts values and levels."""

    def __init__(self, **rules: Any) -> None:
        super().__init__(**rules)
        self._values = self._depth = 0
        self.parse_object = self._parse_object
        self.parse_array = self._parse_array
        self._scan = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]
        self.scan_once = self._scan_value

    # The scanner passes on itself for nested values; ours replaces it, so that they are counted too.

    def _parse_object(self, start: tuple[str, int], strict: bool, _: object, *hooks: Any) -> tuple[Any, int]:
        with self._level():
            return json.decoder.JSONObject(start, strict, self._scan_value, *hooks)  # type: ignore[no-any-return, attr-defined]

    def _parse_array(self, start: tuple[str, int], _: object) -> tuple[Any, int]:
        with self._level():
            return json.decoder.JSONArray(start, self._scan_value)  # type: ignore[no-any-return, attr-defined]

    @contextlib.contextmanager
    def _level(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidRequestError("", f"nesting deeper than {MAX_DEPTH} levels")
        yield
        self._depth -= 1

    def _scan_value(self, text: str, index: int) -> tuple[Any, int]:
        self._values += 1
        if self._values > MAX_VALUES:
            raise InvalidRequestError("", f"more than {MAX_VALUES:,} values in one message; send several")
        value: tuple[Any, int] = self._scan(text, index)
        return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidRequestError(twice, "the key stands twice in one object")
    return members


def _no_constant(word: str) -> Any:
    raise InvalidRequestError("", f"{word} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) <= _INT64_DIGITS and -(2**63) <= (value := int(digits)) < 2**63:
        return value
    raise InvalidRequestError("", f"the integer {truncated_repr(digits)} does not fit 64 bits")


def _number(digits: str) -> float:
    value = float(digits)
    if math.isfinite(value):
        return value
    raise InvalidRequestError("", f"the number {truncated_repr(digits)} is out of range")


def _check_depth(text: str) -> None:
    """Reject deep nesting before the parser recurses into it; brackets inside strings do not count."""
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
    """Reject strings that have no UTF-8 form; the parser has joined pairs already."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidRequestError("", "a text holds an unpaired surrogate (\\ud800 to \\udfff)") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_surrogates(key)
            _check_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _check_surrogates(item)


def _kind(value: Any) -> str:
    return {list: "an array", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
