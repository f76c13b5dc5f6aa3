"""Strict JSON: what is accepted comes back as it was sent, all else is refused with a reason."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transports.strict_json import (
    MAX_DEPTH,
    format_line,
    format_line_in_pieces,
    parse_object,
    parse_value,
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": "tab\tinside"}', "not JSON"),
        (b'{"a": "\xff"}', r"not UTF-8 \(byte 7\)"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'\xff\xfe{\x00}\x00', "not UTF-8"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": Infinity}', "Infinity is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": 9223372036854775808}', "does not fit 64 bits"),
        (b'{"a": -9223372036854775809}', "does not fit 64 bits"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "does not fit 64 bits"),
        (rb'{"a": "\ud800"}', "unpaired surrogate"),
        (rb'{"\udc00": 1}', "unpaired surrogate"),
        (rb'{"a": [["\ud83d"]]}', "unpaired surrogate"),
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b'{"a": {"b": 1, "b": 1}}', "stands twice"),
        (b"[1]", "not an array"),
        (b'"text"', "not a text"),
        (b"null", "not null"),
        (b"true", "not true or false"),
        (b"5", "not a number"),
        (b"[" * 101 + b"]" * 101, "deeper than 100"),
        (b"[" * 100_000, "deeper than 100"),
        (b'{"a":' * 100_000, "deeper than 100"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason) as caught:
        parse_object(line)
    assert len(str(caught.value)) < 300


def test_nesting_up_to_the_limit_is_read_and_brackets_in_texts_do_not_count() -> None:
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse_value(deep) == json.loads(deep)
    assert parse_value(b'{"a": "' + b"[" * 1000 + b'"}') == {"a": "[" * 1000}
    assert parse_value(b'["' + b'\\"[' * 1000 + b'"]') == ['"[' * 1000]


def test_numbers_up_to_their_limits_are_read() -> None:
    assert parse_value(b"[9223372036854775807, -9223372036854775808, 1.5, -0]") == [2**63 - 1, -(2**63), 1.5, 0]


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse_value(rb'"\ud83d\ude00"') == "😀"


def test_control_characters_come_back_as_they_came() -> None:
    assert parse_value(rb'"a\u0000b\u001f\u2028"') == "a\0b\x1f\u2028"


def test_a_reply_with_the_name_of_a_file_that_is_not_utf_8_is_written_all_the_same() -> None:
    name = os.fsdecode(b"back\xffup.dump")
    assert json.loads(format_line({"backups": [name]})) == {"backups": ["back\ufffdup.dump"]}
    assert json.loads(format_line_in_pieces({"backups": [name]})) == {"backups": ["back\ufffdup.dump"]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=20,
    )
)  # fmt: skip
def test_whatever_is_written_is_one_line_and_is_read_back(value: object) -> None:
    line = format_line(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_value(line) == value


@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_a_value_or_a_refusal(line: bytes) -> None:
    try:
        format_line(parse_value(line))
    except InvalidRequestError as exc:
        str(exc).encode()
