"""What counts as the same content: the order of keys and the spelling of whole numbers do not, all else does."""

from __future__ import annotations

from typing import Any

import pytest

from infinite_memory.engine.upsert import content_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": [1, {"x": 1, "y": 2}], "d": "x"}}, {"b": {"d": "x", "c": [1, {"y": 2, "x": 1}]}, "a": 1}),
        ({"n": 1}, {"n": 1.0}),
        ({"n": -0.0}, {"n": 0}),
        ((1, 2), [1, 2]),
    ],
)
def test_content_is_the_same_whatever_the_order_of_keys(one: Any, other: Any) -> None:
    assert content_key("t", "s", one) == content_key("t", "s", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": None}, {}),
        ({"a": "x"}, {"a": "X"}),
        ({"a": 1.5}, {"a": 1}),
        ("{}", {}),
    ],
)
def test_content_differs_by_anything_else(one: Any, other: Any) -> None:
    assert content_key("t", "s", one) != content_key("t", "s", other)


def test_type_and_source_count() -> None:
    keys = {content_key(kind, source, {}) for kind in ("a", "b", None) for source in ("a", "b")}
    assert len(keys) == 6
