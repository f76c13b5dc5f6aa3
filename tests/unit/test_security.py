"""Each promise of SECURITY.md names a test, and the test is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", DOCUMENT)))


@functools.cache
def functions(file: str) -> frozenset[str]:
    """Return the names of the functions of a file of tests."""
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_a_promise_names_exists(file: str, name: str) -> None:
    assert name in functions(file)


def test_every_promise_names_a_test() -> None:
    promised = DOCUMENT.partition("## What is promised")[2].partition("## What is not promised")[0]
    promises = re.findall(r"^- (.*?)(?=^- |^#|\Z)", promised, re.MULTILINE | re.DOTALL)
    assert promises
    for promise in promises:
        assert "::" in promise, promise
