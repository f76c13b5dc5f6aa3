"""Which embedder a model's name or path gets, and what a missing or unsuitable model says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infinite_memory.embedding.factory import DeferredEmbedder, MissingEmbedder, open_embedder
from infinite_memory.embedding.manifest import get_folder, models_folders
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.sentence_transformers import SentenceEmbedder
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
        assert get_folder(name).parent in models_folders()


@pytest.fixture
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which no model is."""
    monkeypatch.setattr("infinite_memory.embedding.manifest.models_folders", lambda: (tmp_path,))
    monkeypatch.setattr("infinite_memory.embedding.factory._find_cached", lambda model: None)
    return tmp_path


def test_the_default_model_where_it_is_missing_is_made_ready_if_that_is_wanted(no_models: Path) -> None:
    wanted = open_embedder("all-MiniLM-L6-v2", truncate_dim=128, precision="int8", prepare=True)
    assert isinstance(wanted, DeferredEmbedder)
    assert (wanted.space, wanted.dim) == ("all-MiniLM-L6-v2/128/int8", 128)
    assert isinstance(open_embedder("all-MiniLM-L6-v2"), MissingEmbedder)
    assert isinstance(open_embedder("another/model", prepare=True), MissingEmbedder)
    with pytest.raises(ConfigError, match="385 is not between 1 and 384"):
        open_embedder("all-MiniLM-L6-v2", truncate_dim=385, prepare=True)


def test_what_could_not_be_made_ready_is_not_tried_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("no folder")
    embedder = DeferredEmbedder(tmp_path / "models" / "all-MiniLM-L6-v2")
    with pytest.raises(EmbeddingError, match="cannot be written"):
        embedder.load()
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match="cannot be written"):
        embedder.load()
    assert time.monotonic() - started < 0.05  # no process is started for that
