"""A short run takes a sample of the tests that repeat others in a second way; `scripts/test --long`, or an id of a test, takes all."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from tests.processes import LONG

ONE_IN = 4
"""Of so many tests a sample has one."""


def sample(config: pytest.Config, items: list[pytest.Item], is_second: Callable[[dict[str, object]], bool]) -> None:
    """Leave out of *items* most whose parameters are a second way; the tests' names decide, so each run takes the same.

    Args:
        config: Of the run, which tells of tests left out.
        items: All tests, changed in place.
        is_second: True for the parameters of what repeats other tests.
    """
    if LONG or any("::" in argument for argument in config.args):
        return
    left_out = {item for item in items if is_second(_parameters(item)) and zlib.crc32(_name(item)) % ONE_IN}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _parameters(item: pytest.Item) -> dict[str, object]:
    return dict(item.callspec.params) if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _name(item: pytest.Item) -> bytes:
    return item.nodeid.partition("[")[0].encode()
