"""The second model: its graph and tokenizer are written from its weights, and answer as the package that publishes those."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.embedding import use_graph
from infinite_memory.embedding.manifest import SECOND_MODEL, get_folder, is_exported
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.verification import check_fidelity
from infinite_memory.errors import EmbeddingError
from tests.integration.embedding.conftest import missing


@pytest.fixture(scope="module")
def second() -> OnnxEmbedder:
    """The second model, as set-up made it ready."""
    if not is_exported(folder := get_folder(SECOND_MODEL)):
        missing("the second model")
    return OnnxEmbedder(folder)


def test_the_second_model_answers_what_its_package_answers(second: OnnxEmbedder) -> None:
    report = check_fidelity(second)
    assert report.texts > 8
    assert report.is_faithful, str(report)


def test_the_same_text_has_the_same_vector_alone_and_among_longer_ones(second: OnnxEmbedder) -> None:
    texts = [
        "外婆喜欢郁金香。",
        "  Oma mag  Tulpen \n",
        "Grandma likes tulips, dark chocolate and long telephone calls " * 4,
    ]
    together = second.embed(texts)
    alone = np.concatenate([second.embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_blanks_around_and_within_a_text_change_nothing(second: OnnxEmbedder) -> None:
    one, other = second.embed(["Oma mag Tulpen", "  Oma mag \t  Tulpen\n"])
    assert np.allclose(one, other, atol=1e-5)


def test_a_long_text_is_cut_into_short_windows_that_overlap(second: OnnxEmbedder) -> None:
    text = "Wir treffen uns am Bahnhof und gehen dann zusammen essen. " * 30
    windows = second.windows(text)
    assert len(windows) > 5
    assert windows[0].start == 0 and windows[-1].end == len(text)
    assert all(following.start < window.end for window, following in itertools.pairwise(windows))


def test_weights_that_are_missing_or_damaged_are_told(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="cannot be read"):
        use_graph.write_encoder(tmp_path, tmp_path, "model.onnx")
    (tmp_path / use_graph.WEIGHTS_FILE).write_bytes(b"PK\3\4 no archive")
    (tmp_path / use_graph.VOCABULARY_FILE).write_bytes(struct.pack("<I", 7))
    with pytest.raises(EmbeddingError, match="cannot be read"):
        use_graph.write_encoder(tmp_path, tmp_path, "model.onnx")
    np.savez(tmp_path / use_graph.WEIGHTS_FILE, eps=np.float64(1e-12))
    with pytest.raises(EmbeddingError, match="cannot be read"):
        use_graph.write_encoder(tmp_path, tmp_path, "model.onnx")
