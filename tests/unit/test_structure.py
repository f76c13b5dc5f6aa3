"""The shape of the package: each outside library has one home, and imports point inward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent.parent / "infinite_memory"

HOMES = {
    "pymongo": ("store",),
    "motor": ("store",),
    "bson": ("store",),
    "faiss": ("sidecar/vectors.py",),
    "tantivy": ("sidecar",),
    "dateparser": ("time_phrases",),
    "apscheduler": ("lifecycle/jobs.py",),
    "onnxruntime": ("embedding",),
    "sentence_transformers": ("embedding",),
    "torch": ("embedding",),
    "mcp": ("protocols",),
    "starlette": ("protocols",),
    "uvicorn": ("protocols",),
    "httpx2": ("model_port",),
    "fastapi": ("rest",),
    "limits": ("rest",),
    "prometheus_client": ("rest",),
    "langgraph": ("adapters/langgraph.py",),
    "langchain_core": ("adapters/langchain.py",),
}
INWARD = {
    "models.py": (),
    "errors.py": (),
    "store": ("store", "models", "errors", "home", "config"),
    "sidecar": ("sidecar", "models", "errors", "time_phrases"),
    "embedding": ("embedding", "models", "errors"),
    "model_port": ("model_port", "config", "errors"),
    "time_phrases": ("time_phrases", "models", "errors"),
    "sdk": ("sdk", "greeting", "local_socket", "home", "errors"),
    "adapters": ("adapters", "sdk"),
    "lifecycle": ("lifecycle", "engine", "model_port", "store", "models", "errors", "config"),
    "contracts": (
        "contracts",
        "lifecycle",
        "engine",
        "model_port",
        "store",
        "sidecar",
        "time_phrases",
        "models",
        "errors",
        "config",
    ),
    "web": ("web", "rest", "protocols", "contracts", "errors", "config"),
    # `rest` borrows the protocols' reading of bytes.
    "rest": ("rest", "protocols", "contracts", "engine", "model_port", "store", "sidecar", "models", "errors"),
    "protocols": ("protocols", "contracts", "errors", "config"),
    "engine": ("engine", "store", "sidecar", "embedding", "time_phrases", "models", "errors", "config"),
}


def imports(file: Path) -> Iterator[str]:
    """Name every module that *file* imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def sources(part: str = "") -> list[Path]:
    """List the package's files below *part*."""
    place = PACKAGE / part
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@pytest.mark.parametrize(("library", "homes"), HOMES.items())
def test_an_outside_library_has_one_home(library: str, homes: tuple[str, ...]) -> None:
    for file in sources():
        if any(name.split(".")[0] == library for name in imports(file)):
            place = file.relative_to(PACKAGE).as_posix()
            assert place.startswith(homes), f"{place} imports {library}"


@pytest.mark.parametrize(("part", "allowed"), INWARD.items())
def test_imports_point_inward(part: str, allowed: tuple[str, ...]) -> None:
    for file in sources(part):
        for name in imports(file):
            words = name.split(".")
            if words[0] == "infinite_memory" and len(words) > 1:
                assert words[1] in allowed, f"{file.relative_to(PACKAGE)} imports {name}"


def test_every_module_says_what_it_is_for() -> None:
    for file in sources():
        assert ast.get_docstring(ast.parse(file.read_text("utf-8"))), file
