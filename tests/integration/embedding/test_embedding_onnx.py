"""The default embedder against recorded vectors, and its promises: order, shape, threads, failures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from infinite_memory.embedding.manifest import Manifest, ModelFile
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError

DATA = Path(__file__).parents[2] / "data"


def test_the_vectors_are_those_that_sentence_transformers_gave(embedder: OnnxEmbedder, texts: list[str]) -> None:
    recorded = np.load(DATA / "embedding_reference.npz")["vectors"]
    vectors = embedder.embed(texts)
    assert vectors.shape == recorded.shape == (100, 384)
    assert vectors.dtype == np.float32
    assert (vectors * recorded).sum(axis=1).min() >= 0.9999


def test_a_text_gets_the_same_vector_alone_and_in_company(embedder: OnnxEmbedder, texts: list[str]) -> None:
    together = embedder.embed(texts)
    for position in range(0, len(texts), 7):
        alone = embedder.embed([texts[position]])[0]
        np.testing.assert_allclose(alone, together[position], atol=2e-6)


def test_vectors_have_unit_length(embedder: OnnxEmbedder, texts: list[str]) -> None:
    np.testing.assert_allclose(np.linalg.norm(embedder.embed(texts), axis=1), 1.0, atol=1e-5)


def test_no_text_gives_no_vector(embedder: OnnxEmbedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_texts_of_like_meaning_are_nearer_than_others(embedder: OnnxEmbedder) -> None:
    blue, question, train = embedder.embed(
        ["My favorite color is blue", "which colour do I like best?", "the train to Lyon leaves at nine"]
    )
    assert blue @ question > 0.5
    assert train @ question < 0.3


def test_truncated_vectors_are_the_first_numbers_brought_back_to_unit_length(
    embedder: OnnxEmbedder, model_folder: Path, texts: list[str]
) -> None:
    short = OnnxEmbedder(model_folder, truncate_dim=256)
    assert (short.dim, short.space) == (256, "all-MiniLM-L6-v2/256/fp32")
    expected = embedder.embed(texts[:20])[:, :256]
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(short.embed(texts[:20]), expected, atol=1e-5)


def test_int8_has_a_space_of_its_own_and_nearly_the_same_vectors(
    embedder: OnnxEmbedder, model_folder: Path, texts: list[str]
) -> None:
    small = OnnxEmbedder(model_folder, precision="int8")
    assert small.space == "all-MiniLM-L6-v2/384/int8" != embedder.space
    cosine = (small.embed(texts) * embedder.embed(texts)).sum(axis=1)
    assert np.median(cosine) > 0.97


def test_many_threads_share_an_embedder_that_is_not_loaded_yet(model_folder: Path, texts: list[str]) -> None:
    fresh = OnnxEmbedder(model_folder)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda position: fresh.embed([texts[position]])[0], range(24)))
    np.testing.assert_allclose(np.stack(answers), fresh.embed(texts[:24]), atol=2e-6)


def test_space_and_dim_are_known_without_loading_anything_heavy(model_folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from infinite_memory.embedding.factory import open_embedder;"
        f"e = open_embedder({str(model_folder)!r}); print(e.space, e.dim, 'onnxruntime' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["all-MiniLM-L6-v2/384/fp32", "384", "False"]


def test_the_interface_imports_no_numpy() -> None:
    program = (
        "import sys, infinite_memory.embedding.base, infinite_memory.embedding.manifest;"
        "print({'numpy', 'onnxruntime', 'morpheme', 'tokenizers'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "set()"


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_damaged_model_says_so_and_loads_once_it_is_mended(model_folder: Path, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2])
    broken = OnnxEmbedder(folder)
    with pytest.raises(EmbeddingError, match=r"all-MiniLM-L6-v2.*infinite-memory setup"):
        broken.load()
    (folder / file).write_bytes(whole)
    assert broken.embed(["mended"]).shape == (1, 384)


def test_a_model_file_of_the_right_size_with_wrong_bytes_is_an_error_of_ours(
    model_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    size = (folder / "model.onnx").stat().st_size
    (folder / "model.onnx").write_bytes(b"\xff" * size)
    with pytest.raises(EmbeddingError, match=r"model\.onnx is damaged"):
        OnnxEmbedder(folder).load()


def test_a_manifest_of_another_format_is_refused(model_folder: Path, tmp_path: Path) -> None:
    fields = json.loads((model_folder / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "manifest.json").write_text(json.dumps(fields | {"format": 99}), encoding="utf-8")
    with pytest.raises(EmbeddingError, match="no usable manifest"):
        OnnxEmbedder(tmp_path)


def test_a_model_that_answers_token_vectors_is_averaged_over_its_tokens_only(
    model_folder: Path, tmp_path: Path
) -> None:
    """The hub's official files have no pooling inside. This tiny one answers, for each token, its id and a one."""
    shutil.copy(model_folder / "tokenizer.json", tmp_path / "tokenizer.json")
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["ids", "axis"], ["column"]),
            helper.make_node("Mul", ["column", "zero"], ["zeros"]),
            helper.make_node("Add", ["zeros", "one"], ["ones"]),
            helper.make_node("Concat", ["column", "ones"], ["last_hidden_state"], axis=2),
        ],
        "tokens",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", 2])],
        [
            helper.make_tensor("axis", TensorProto.INT64, [1], [2]),
            helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]),
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
        ],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    file = ModelFile("model.onnx", path.stat().st_size, "")
    Manifest("tiny", 2, 256, "mean", "this test", "", {"fp32": file}).save(tmp_path)
    # "ok" is the tokens 101, 7929, 102 and "ok ok" has one more; without the mask, padding would pull the first down.
    expected = np.array([[(101 + 7929 + 102) / 3, 1.0], [(101 + 7929 + 7929 + 102) / 4, 1.0]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(OnnxEmbedder(tmp_path).embed(["ok", "ok ok"]), expected, rtol=1e-5)
