"""Write the ONNX graph of a BERT-family sentence-transformers model from its published weights, without torch.

The graph takes token ids and returns unit vectors: it includes embeddings, encoder layers, pooling and normalisation. Attention, bias with
GELU, and addition with layer normalisation are nodes of onnxruntime's own domain (``com.microsoft``), into which its optimiser would
otherwise have to fuse the plain operators: this way a run is as fast as with the traced graph. The matrix products stay plain nodes,
because quantisation looks for those.

Sources: Devlin et al. 2019 (BERT), and onnxruntime's "Contrib operators" for MultiHeadAttention, BiasGelu and
SkipLayerNormalization.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.embedding.manifest import TOKENIZER_FILE
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 17  # the first with LayerNormalization
CONTRIB = "com.microsoft"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLINGS = ("mean", "cls")

Weights = Mapping[str, NDArray[np.float32]]

_FAMILY = "bert"
_NAME_PREFIX = "bert."  # prefix of the weights' names in some files
_ACTIVATIONS = {"gelu": "BiasGelu", "gelu_new": "FastGelu", "gelu_pytorch_tanh": "FastGelu"}
_MIN_NORM = 1e-12  # torch.nn.functional.normalize divides by at least this
_IR_VERSION = 8  # of the file format; every onnxruntime since 1.13 reads it


class UnsupportedModelError(EmbeddingError):
    """A model that this module does not support; torch may trace it (`tracing`)."""


@dataclass(frozen=True, slots=True)
class BertModel:
    """The parameters of a model's own files needed to write its graph.

    Attributes:
        hidden: Length of a token's vector, and of the output.
        heads: Attention heads; they divide ``hidden``.
        layers: Encoder layers.
        activation: The contrib operator between the two matrix products of a layer.
        epsilon: Added to the variance by layer normalisation.
        max_tokens: Maximum input length, special tokens included.
        pooling: "mean" over the non-padding tokens, or "cls", the first.
    """

    hidden: int
    heads: int
    layers: int
    activation: str
    epsilon: float
    max_tokens: int
    pooling: str


def read_model(folder: Path) -> BertModel:
    """Return the model that a sentence-transformers folder describes.

    Raises:
        UnsupportedModelError: the model is of another family, pooling or activation, or has no ``tokenizer.json``.
        EmbeddingError: a file is missing or corrupt.
    """
    config = _read_json(folder / "config.json")
    limits = _read_json(folder / "sentence_bert_config.json", missing_is_empty=True)
    if config.get("model_type") != _FAMILY or config.get("position_embedding_type", "absolute") != "absolute":
        raise UnsupportedModelError(
            f"{folder.name}: a model of type {config.get('model_type')!r} is not written here, only bert"
        )
    if not (folder / TOKENIZER_FILE).is_file():
        raise UnsupportedModelError(f"{folder.name} has no {TOKENIZER_FILE}")
    activation = _ACTIVATIONS.get(config.get("hidden_act", "gelu"))
    if activation is None:
        raise UnsupportedModelError(
            f"{folder.name}: hidden_act {config['hidden_act']!r} is none of {', '.join(_ACTIVATIONS)}"
        )
    try:
        positions = int(config["max_position_embeddings"])
        return BertModel(
            hidden=int(config["hidden_size"]),
            heads=int(config["num_attention_heads"]),
            layers=int(config["num_hidden_layers"]),
            activation=activation,
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
            max_tokens=min(int(limits.get("max_seq_length") or positions), positions),
            pooling=_read_pooling(folder),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise EmbeddingError(f"{folder.name}: config.json lacks or spoils {exc}") from exc


def write_graph(folder: Path, target: Path) -> BertModel:
    """Write the ONNX graph of the model in *folder* to the file *target*, and return the model's parameters.

    The graph's inputs are int64 of shape ``(batch, tokens)``, see `INPUTS`; its output ``vector`` is float32 of shape
    ``(batch, hidden)``, unit length.

    Raises:
        EmbeddingError: as in `read_model`, the weights are missing or of other shapes, or ``onnx`` or ``safetensors`` is not
            installed.
    """
    model = read_model(folder)
    try:
        import onnx
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as exc:
        raise EmbeddingError(f"writing a model needs the packages onnx and safetensors ({exc})") from exc
    try:
        weights = {
            name.removeprefix(_NAME_PREFIX): array for name, array in load_file(folder / "model.safetensors").items()
        }
        onnx.save(_Writer(model, weights).write(), str(target))
    except (OSError, SafetensorError) as exc:
        raise EmbeddingError(f"{folder.name}: model.safetensors cannot be read: {exc}") from exc
    except KeyError as exc:
        raise EmbeddingError(f"{folder.name}: model.safetensors has no weights called {exc}") from exc
    return model


def _read_pooling(folder: Path) -> str:
    """Return the pooling mode, from the modules that sentence-transformers chains."""
    modules = [(entry["type"].rsplit(".", 1)[-1], entry["path"]) for entry in _read_json(folder / "modules.json")]
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UnsupportedModelError(f"{folder.name}: a chain of {', '.join(kinds)} is not written here")
    settings = _read_json(folder / modules[1][1] / "config.json")
    enabled = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    if "pooling_mode" in settings:  # as written by newer releases
        enabled, names = [settings["pooling_mode"]], {pooling: pooling for pooling in POOLINGS}
    if len(enabled) != 1 or enabled[0] not in names:
        raise UnsupportedModelError(
            f"{folder.name}: pooling by {', '.join(enabled)} is not written here, only {', '.join(POOLINGS)}"
        )
    return names[enabled[0]]


def _read_json(path: Path, *, missing_is_empty: bool = False) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if missing_is_empty:
            return {}
        raise EmbeddingError(f"{path.parent.name} has no {path.name}; is it a sentence-transformers folder?") from None
    except (OSError, ValueError) as exc:
        raise EmbeddingError(f"{path} cannot be read: {exc}") from exc


class _Writer:
    """Collects the nodes and weights of one graph. Every method that adds a node returns the name of its output."""

    def __init__(self, model: BertModel, weights: Weights) -> None:
        self._model, self._weights = model, weights
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}

    def write(self) -> ModelProto:
        """Return the whole graph."""
        from onnx import TensorProto, helper

        hidden = self._add_embeddings()
        mask = self._add("Cast", ["attention_mask"], to=TensorProto.INT32)
        for layer in range(self._model.layers):
            hidden = self._add_layer(f"encoder.layer.{layer}", hidden, mask)
        pooled = self._add_mean(hidden) if self._model.pooling == "mean" else self._add_first(hidden)
        norm = self._add("ReduceL2", [pooled], axes=[1], keepdims=1)
        floor = self._constant("min_norm", np.float32(_MIN_NORM))
        self._add("Div", [pooled, self._add("Max", [norm, floor])], output="vector")
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS]
        output = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", self._model.hidden])
        graph = helper.make_graph(self._nodes, "sentence", inputs, [output], list(self._initializers.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="infinite-memory")

    def _add_embeddings(self) -> str:
        """Add the word, position and token type embeddings, normalised: ``(batch, tokens, hidden)``."""
        words = self._add("Gather", [self._weight("embeddings.word_embeddings.weight"), "input_ids"])
        types = self._add("Gather", [self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids"])
        count = self._add("Shape", ["input_ids"], start=1, end=2)
        zero, axis = self._constant("slice_start", np.array([0])), self._constant("slice_axis", np.array([0]))
        positions = self._add("Slice", [self._weight("embeddings.position_embeddings.weight"), zero, count, axis])
        typed = self._add("Add", [self._add("Add", [words, types]), positions])
        scale, shift = self._weight("embeddings.LayerNorm.weight"), self._weight("embeddings.LayerNorm.bias")
        return self._add("LayerNormalization", [typed, scale, shift], axis=-1, epsilon=self._model.epsilon)

    def _add_layer(self, prefix: str, hidden: str, mask: str) -> str:
        """Add self-attention and the feed-forward part, each with its residual connection and normalisation."""
        attention = f"{prefix}.attention"
        projections = [
            self._add_product(hidden, f"{attention}.self.{projection}") for projection in ("query", "key", "value")
        ]
        biases = [self._array(f"{attention}.self.{projection}.bias") for projection in ("query", "key", "value")]
        bias = self._constant(f"{attention}.self.bias", np.concatenate(biases))
        context = self._add(
            "MultiHeadAttention", [*projections, bias, mask], domain=CONTRIB, num_heads=self._model.heads
        )
        hidden = self._add_residual(
            self._add_product(context, f"{attention}.output.dense"), hidden, f"{attention}.output"
        )
        wide = self._add_product(hidden, f"{prefix}.intermediate.dense")
        active = self._add(
            self._model.activation, [wide, self._weight(f"{prefix}.intermediate.dense.bias")], domain=CONTRIB
        )
        return self._add_residual(self._add_product(active, f"{prefix}.output.dense"), hidden, f"{prefix}.output")

    def _add_product(self, hidden: str, name: str) -> str:
        """Add a matrix product without its bias; weights are stored as ``(outputs, inputs)``, the node needs them transposed."""
        matrix = np.ascontiguousarray(self._array(f"{name}.weight").T)
        return self._add("MatMul", [hidden, self._constant(f"{name}.weight", matrix)])

    def _add_residual(self, product: str, hidden: str, prefix: str) -> str:
        parts = [f"{prefix}.LayerNorm.weight", f"{prefix}.LayerNorm.bias", f"{prefix}.dense.bias"]
        inputs = [product, hidden, *map(self._weight, parts)]
        return self._add("SkipLayerNormalization", inputs, domain=CONTRIB, epsilon=self._model.epsilon)

    def _add_mean(self, hidden: str) -> str:
        """Add the mean over the non-padding tokens."""
        from onnx import TensorProto

        last = self._constant("mean_last", np.array([2]))
        weights = self._add("Unsqueeze", [self._add("Cast", ["attention_mask"], to=TensorProto.FLOAT), last])
        tokens = self._constant("mean_tokens", np.array([1]))
        total = self._add("ReduceSum", [self._add("Mul", [hidden, weights]), tokens], keepdims=0)
        count = self._add("ReduceSum", [weights, tokens], keepdims=0)
        return self._add("Div", [total, self._add("Max", [count, self._constant("min_count", np.float32(1e-9))])])

    def _add_first(self, hidden: str) -> str:
        return self._add("Gather", [hidden, self._constant("first", np.array(0))], axis=1)

    def _add(
        self, operator: str, inputs: Sequence[str], *, output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        from onnx import helper

        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name=f"node_{name}", domain=domain, **attributes))
        return name

    def _array(self, name: str) -> NDArray[np.float32]:
        return np.asarray(self._weights[name], dtype=np.float32)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._array(name))

    def _constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(np.asarray(value), name)
        return name
