"""Weights are mapped from the model's file: the same vectors, and no copy of the tables in the heap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from infinite_memory.embedding import mapped_weights
from infinite_memory.embedding.manifest import SECOND_MODEL, get_folder, is_exported
from infinite_memory.embedding.onnx import OnnxEmbedder

pytestmark = pytest.mark.skipif(
    not mapped_weights.is_supported(onnxruntime.__version__), reason="weights are mapped elsewhere"
)

MAX_KEPT_BYTES = 2**20  # of a graph without its large weights

LOADED = """
import sys
from pathlib import Path
from infinite_memory.embedding import mapped_weights
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.malloc_tuning import release_freed

def anonymous():
    release_freed()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

mapped_weights.is_supported = lambda version: sys.argv[2] == "mapped"
embedder = OnnxEmbedder(Path(sys.argv[1]))
embedder.windows("the tokenizer is loaded")
before = anonymous()
embedder.load()
embedder.embed(["My bicycle is in the cellar"])
print(anonymous() - before)
"""


def second_model() -> Path:
    folder = get_folder(SECOND_MODEL)
    if not is_exported(folder):
        pytest.skip("the second model is missing; scripts/test makes it ready")
    return folder


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_mapped_weights_give_the_same_vectors(
    model_folder: Path, texts: list[str], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = OnnxEmbedder(model_folder, precision=precision).embed(texts)
    monkeypatch.setattr(mapped_weights, "is_supported", lambda version: False)
    assert np.array_equal(OnnxEmbedder(model_folder, precision=precision).embed(texts), mapped)


def test_the_second_model_gives_the_same_vectors(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = OnnxEmbedder(second_model()).embed(texts)
    monkeypatch.setattr(mapped_weights, "is_supported", lambda version: False)
    assert np.array_equal(OnnxEmbedder(second_model()).embed(texts), mapped)


def test_references_name_the_bytes_of_each_weight(model_folder: Path) -> None:
    path = model_folder / "model.onnx"
    graph = mapped_weights.without_weights(path)
    assert len(graph) < MAX_KEPT_BYTES
    whole = {weight.name: weight for weight in onnx.load(str(path)).graph.initializer}
    content = path.read_bytes()
    weights = onnx.load_from_string(graph).graph.initializer
    assert [weight.name for weight in weights] == list(whole)
    references = [weight for weight in weights if weight.data_location == TensorProto.EXTERNAL]
    assert len(references) > 10
    for weight in references:
        place = {entry.key: entry.value for entry in weight.external_data}
        start, length = int(place["offset"]), int(place["length"])
        assert (place["location"], content[start : start + length]) == ("model.onnx", whole[weight.name].raw_data)


def test_a_weight_that_is_used_for_anything_else_stays_in_the_graph(tmp_path: Path) -> None:
    table = np.ones((300, 100), np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Gather", ["both", "ids"], ["others"]),
        helper.make_node("Add", ["both", "both"], ["sum"]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("rows", "others", "sum")]
    graph = helper.make_graph(
        nodes, "two", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])], outputs,
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(table, "both")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), str(tmp_path / "two.onnx"))
    weights = onnx.load_from_string(mapped_weights.without_weights(tmp_path / "two.onnx")).graph.initializer
    assert [weight.data_location == TensorProto.EXTERNAL for weight in weights] == [True, False]


def test_versions_that_ignore_the_option_copy_the_weights() -> None:
    assert [mapped_weights.is_supported(version) for version in ("1.20.1", "1.21.0", "1.28.0", "2.0", "x")] == [
        False, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "content",
    [b"\xff" * 2**20, bytes(2**20), b"\x3a\xff\xff\xff\xff\x0f", b"\x07", b"\x3a", b"\x3a\x04\x2a\x7f\x00\x00"],
)
def test_what_is_no_model_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises((ValueError, IndexError)):
        mapped_weights.without_weights(tmp_path / "model.onnx")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(("is_second", "spared_mib"), [(False, 35), (True, 50)])
def test_the_tables_are_not_in_the_heap(model_folder: Path, is_second: bool, spared_mib: int) -> None:
    folder = second_model() if is_second else model_folder
    copied, mapped = (
        int(subprocess.run([sys.executable, "-c", LOADED, str(folder), how], check=True, capture_output=True).stdout)
        for how in ("copied", "mapped")
    )
    assert copied - mapped > spared_mib * 1024, (copied, mapped)
