"""How the tests of a parallel run are handed to its processes: a file at a time, or alone where a test shares nothing with its file.

Most tests of `tests/end_to_end` wait, each for a daemon of its own; a file of twenty such would keep one process long after the others.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APART = "tests/end_to_end/"
SHARED = "shared"
"""The fixture of `tests/end_to_end/conftest.py` that starts one daemon for a whole file."""
WITH_TORCH = {
    f"tests/{name}.py"
    for name in (
        "integration/embedding/test_sentence_transformers",
        "integration/embedding/test_embedding_export",
        "integration/embedding/test_embedding_hub",
        "integration/embedding/test_bert_graph",
        "store/engine/test_reranking",
        "store/engine/test_explaining",
    )
}
"""Files that load PyTorch and sentence-transformers, which costs a process half a minute in a busy run: all go to one."""

_MADE_ONCE = re.compile(r"fixture\([^)]*scope=|usefixtures|autouse|functools\.cache")


def get_work_unit(nodeid: str) -> str:
    """Return the name of what is handed to a process as a whole, of which the test *nodeid* is a part."""
    file, _, test = nodeid.partition("::")
    if file in WITH_TORCH:
        return "torch"
    return nodeid if file.startswith(APART) and test.partition("[")[0] in tests_apart(file) else file


@functools.cache
def tests_apart(file: str) -> frozenset[str]:
    """Return the tests of *file* that use nothing which is made once for several: no such fixture, here or from elsewhere."""
    source = (ROOT / file).read_text("utf-8")
    if _MADE_ONCE.search(source):
        return frozenset()
    tree = ast.parse(source)
    arguments = {
        node.name: [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    def shares(function: str) -> bool:
        return any(
            name == SHARED or name in imported or (name in arguments and shares(name)) for name in arguments[function]
        )

    return frozenset(name for name in arguments if name.startswith("test_") and not shares(name))
