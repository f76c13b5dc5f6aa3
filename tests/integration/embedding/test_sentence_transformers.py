"""sentence-transformers, the reference: the exported model answers what it answers, and it can be used in its stead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.sentence_transformers import SentenceEmbedder, fingerprint
from infinite_memory.errors import EmbeddingError


@pytest.fixture(scope="module")
def reference(weights: Path) -> SentenceEmbedder:
    return SentenceEmbedder(weights, name="all-MiniLM-L6-v2")


def test_a_hundred_texts_get_the_vectors_of_sentence_transformers(
    embedder: OnnxEmbedder, reference: SentenceEmbedder, texts: list[str]
) -> None:
    assert len(texts) == 100
    assert (embedder.embed(texts) * reference.embed(texts)).sum(axis=1).min() >= 0.9999
    assert embedder.space == reference.space


def test_truncation_is_that_of_sentence_transformers(model_folder: Path, weights: Path, texts: list[str]) -> None:
    ours = OnnxEmbedder(model_folder, truncate_dim=128)
    theirs = SentenceEmbedder(weights, name="all-MiniLM-L6-v2", truncate_dim=128)
    assert ours.space == theirs.space
    assert theirs.dim == 128
    assert (ours.embed(texts[:30]) * theirs.embed(texts[:30])).sum(axis=1).min() >= 0.9999


def test_both_cut_long_texts_at_the_same_places(embedder: OnnxEmbedder, reference: SentenceEmbedder) -> None:
    text = "We walked along the river and talked about nothing at all. " * 100
    assert embedder.windows(text) == reference.windows(text)
    # Cutting must not switch off the model's own limit.
    assert (embedder.embed([text]) * reference.embed([text])).sum() >= 0.9999


def test_no_text_gives_no_vector(reference: SentenceEmbedder) -> None:
    assert reference.embed([]).shape == (0, 384)


def test_without_the_extra_the_error_says_what_to_install(weights: Path) -> None:
    program = (
        "import sys; sys.modules['sentence_transformers'] = None\n"
        "from pathlib import Path; from infinite_memory.embedding.sentence_transformers import SentenceEmbedder\n"
        "from infinite_memory.errors import EmbeddingError\n"
        f"e = SentenceEmbedder(Path({str(weights)!r}))\n"
        "try: e.load()\n"
        "except EmbeddingError as exc: print(exc)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "infinite-memory[sentence-transformers]" in told


def test_a_folder_without_weights_says_so(tmp_path: Path, weights: Path) -> None:
    for name in ("modules.json", "config.json"):
        (tmp_path / name).write_bytes((weights / name).read_bytes())
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        SentenceEmbedder(tmp_path).load()


def test_a_folder_without_a_dimension_says_so(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]", encoding="utf-8")
    with pytest.raises(EmbeddingError, match="how long its vectors are"):
        SentenceEmbedder(tmp_path)


def test_other_weights_have_another_fingerprint(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(np.arange(100_000, dtype="<f4").tobytes())
    before = fingerprint(tmp_path)
    weights.write_bytes(np.arange(1, 100_001, dtype="<f4").tobytes())
    assert fingerprint(tmp_path) != before
