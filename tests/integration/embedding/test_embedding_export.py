"""Export and its check: a model comes out whole and faithful, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.embedding import export, hub, verification
from infinite_memory.embedding.atomic_dir import staged
from infinite_memory.embedding.factory import open_embedder
from infinite_memory.embedding.manifest import Manifest
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError


def test_a_model_given_by_path_is_exported_and_faithful(weights: Path, tmp_path: Path) -> None:
    target = tmp_path / "models" / "mine"
    assert export.main(["--model", str(weights), "--to", str(target)]) == 0
    assert [one.name for one in target.parent.iterdir()] == ["mine"]
    manifest = Manifest.load(target)
    assert (manifest.dim, manifest.max_tokens, manifest.pooling) == (384, 256, "inside")
    for precision in ("fp32", "int8"):
        report = verification.check_fidelity(open_embedder(str(target), precision=precision))
        assert report.is_faithful
        assert report.texts == len(verification.REFERENCE_TEXTS)


def test_a_model_that_cannot_be_found_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "models" / "mine"
    assert export.main(["--model", str(tmp_path), "--to", str(target)]) == 1
    assert not target.parent.exists() or not list(target.parent.iterdir())
    said = capsys.readouterr()
    assert said.out == ""
    assert "has no config.json" in said.err


def test_an_export_that_is_there_is_left_alone_when_asked(model_folder: Path) -> None:
    before = (model_folder / "manifest.json").stat().st_mtime_ns
    assert export.main(["--to", str(model_folder), "--if-missing"]) == 0
    assert (model_folder / "manifest.json").stat().st_mtime_ns == before


def test_a_failed_export_keeps_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(RuntimeError), staged(target) as folder:
        (folder / "new").touch()
        raise RuntimeError
    assert [one.name for one in target.iterdir()] == ["old"]
    with staged(target) as folder:
        (folder / "new").touch()
    assert [one.name for one in target.iterdir()] == ["new"]
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_only_the_default_model_is_fetched_ready_made(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="export 'another' instead"):
        hub.fetch_official("another", tmp_path / "another", tmp_path / "work")


def test_the_default_model_is_checked_against_the_packages_own_vectors(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    (folder / "reference.json").unlink()
    report = verification.check_fidelity(OnnxEmbedder(folder))
    assert report.is_faithful
    assert report.lowest is not None
    assert report.lowest >= 0.9999


def test_other_weights_under_the_same_name_are_found_out(model_folder: Path, tmp_path: Path) -> None:
    """The int8 weights pose as the float ones: near enough to be useful, and not the model they say they are."""
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    manifest = Manifest.load(folder)
    Manifest(
        manifest.name, manifest.dim, manifest.max_tokens, manifest.pooling, manifest.source, manifest.source_sha256,
        {"fp32": manifest.files["int8"]},
    ).save(folder)  # fmt: skip
    report = verification.check_fidelity(OnnxEmbedder(folder))
    assert not report.is_faithful


def test_a_reference_survives_its_file(tmp_path: Path) -> None:
    vectors = np.eye(3, 8, dtype=np.float32)
    verification.Reference("m", ("a", "ü", "🎉"), vectors).save(tmp_path / "reference.json")
    read = verification.Reference.load(tmp_path / "reference.json")
    assert (read.model, read.texts) == ("m", ("a", "ü", "🎉"))
    np.testing.assert_array_equal(read.vectors, vectors)


def test_vectors_that_are_not_numbers_are_an_error() -> None:
    good = np.eye(2, 4, dtype=np.float32)
    with pytest.raises(EmbeddingError, match="cannot be compared"):
        verification.lowest_cosine(np.full_like(good, np.nan), good)
