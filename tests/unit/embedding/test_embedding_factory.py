"""Which embedder a model's name or path gets, and what a missing or unsuitable model says."""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.embedding.factory import MissingEmbedder, open_embedder
from infinite_memory.embedding.manifest import folder_of
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.sentence import SentenceEmbedder
from infinite_memory.errors import ConfigError, EmbeddingError


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_default_model_is_run_from_its_export(model_folder: Path, name: str) -> None:
    opened = open_embedder(name)
    assert isinstance(opened, OnnxEmbedder)
    assert opened.folder == model_folder
    assert (opened.space, opened.dim) == ("all-MiniLM-L6-v2/384/fp32", 384)


def test_the_path_of_an_export_is_a_model_too(model_folder: Path) -> None:
    assert open_embedder(str(model_folder)).space == "all-MiniLM-L6-v2/384/fp32"


def test_the_path_of_other_weights_is_run_by_sentence_transformers(weights: Path) -> None:
    opened = open_embedder(str(weights))
    assert isinstance(opened, SentenceEmbedder)
    assert opened.dim == 384
    # The folder is called "model", as many are: the space tells its weights from others'.
    assert opened.space.startswith("model-")


@pytest.mark.parametrize("model", ["no-such-model", "no/such-model", "/no/such/folder", ".", "", "nö sûch\nmodel"])
def test_a_model_that_is_not_here_fails_when_it_is_used_and_not_before(model: str) -> None:
    opened = open_embedder(model)
    assert isinstance(opened, MissingEmbedder)
    assert opened.dim > 0
    for use in (opened.load, lambda: opened.embed(["x"]), lambda: opened.windows("x")):
        with pytest.raises(EmbeddingError, match="is not on this machine") as caught:
            use()
        assert repr(model) in str(caught.value)


@pytest.mark.parametrize("dim", [0, -1, 385, 10_000])
def test_a_dimension_that_the_model_does_not_have_is_refused_by_name(model_folder: Path, dim: int) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.truncate_dim.*between 1 and 384"):
        open_embedder(str(model_folder), truncate_dim=dim)


def test_a_precision_that_the_export_does_not_have_is_refused_by_name(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.precision: 'fp16'.*fp32, int8"):
        open_embedder(str(model_folder), precision="fp16")


def test_int8_needs_an_export(weights: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.precision: 'int8' needs an exported model"):
        open_embedder(str(weights), precision="int8")


def test_a_models_folder_stays_inside_the_models_folder() -> None:
    for name in ("../../etc", "a/b", "C:\\x", "..", "ünï"):
        assert folder_of(name).parent == folder_of("all-MiniLM-L6-v2").parent
