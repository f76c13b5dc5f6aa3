"""The form of the seam itself: small, and nothing in it that only an index in the same process could do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from infinite_memory.index import base

SOURCE = ast.parse(Path(base.__file__).read_text("utf-8"))
METHODS = {
    node.name: [one for one in node.body if isinstance(one, ast.FunctionDef)]
    for node in SOURCE.body
    if isinstance(node, ast.ClassDef) and any(ast.unparse(one) == "Protocol" for one in node.bases)
}
UNBOUNDED = {"count_by_scope"}
"""Methods that return something for each of what there is without a bound: of scopes there are few."""


@pytest.mark.parametrize("protocol", ["VectorIndex", "VectorIndexFiles", "TextIndex", "TextFiles"])
def test_no_method_takes_or_returns_a_function(protocol: str) -> None:
    for method in METHODS[protocol]:
        assert "Callable" not in ast.unparse(method.args), method.name
        assert "Callable" not in ast.unparse(method.returns or ast.Constant(None)), method.name


@pytest.mark.parametrize("protocol", ["VectorIndex", "TextIndex"])
def test_what_returns_many_is_bounded_by_what_it_is_given_or_comes_in_pages(protocol: str) -> None:
    for method in METHODS[protocol]:
        returned = ast.unparse(method.returns or ast.Constant(None))
        if returned.startswith(("list[", "Sequence[", "Mapping[", "Page")) and method.name not in UNBOUNDED:
            names = {argument.arg for argument in method.args.args}
            assert names & {"k", "limit", "memory_ids", "edges"}, method.name


def test_the_seam_does_not_grow_unnoticed() -> None:
    most = {"VectorIndex": 24, "VectorIndexFiles": 4, "TextIndex": 12, "TextFiles": 6}
    assert METHODS.keys() == most.keys()
    for protocol, methods in METHODS.items():
        assert len(methods) <= most[protocol], "every implementation must provide it"
