"""Graphs written from weights, held against what sentence-transformers answers for the same folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infinite_memory.embedding import export
from infinite_memory.embedding.bert_graph import UnsupportedModelError, read_model, write_graph
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError
from tests.processes import LONG


def make_folder(weights: Path, folder: Path, *, pooling: str = "mean", **config: Any) -> Path:
    """Write a small model with random weights as sentence-transformers would; its tokenizer is the default model's."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    fields = json.loads((weights / "config.json").read_text("utf-8"))
    small = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64}
    BertModel(BertConfig(**fields | small | config)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "modules.json",
                 "sentence_bert_config.json", "config_sentence_transformers.json"):  # fmt: skip
        shutil.copy(weights / name, folder)
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in ("mean_tokens", "cls_token", "max_tokens")}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32} | modes), "utf-8")
    return folder


BY_OTHER_FORMULAS: tuple[str, dict[str, Any]] = ("mean", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5})
OF_ONE_LAYER: tuple[str, dict[str, Any]] = ("cls", {"num_attention_heads": 1, "num_hidden_layers": 1})


@pytest.mark.parametrize(
    ("pooling", "config"), [BY_OTHER_FORMULAS, OF_ONE_LAYER, *([("mean", {}), ("cls", {})] if LONG else [])]
)
def test_a_written_graph_answers_what_sentence_transformers_answers(
    weights: Path, texts: list[str], tmp_path: Path, pooling: str, config: dict[str, Any]
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = make_folder(weights, tmp_path / "small", pooling=pooling, **config)
    export.export(str(folder), tmp_path / "exported")
    embedder = OnnxEmbedder(tmp_path / "exported")
    assert "written" in embedder.manifest.source
    reference = SentenceTransformer(str(folder), device="cpu")
    short = [text for text in texts if len(text) < 300]
    expected = reference.encode(short, normalize_embeddings=True, show_progress_bar=False)
    cosines = (embedder.embed(short) * np.asarray(expected)).sum(axis=1)
    assert cosines.min() >= 0.9999


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("config.json", {"model_type": "t5"}, "a model of type 't5' is not written here"),
        ("config.json", {"hidden_act": "swish"}, "hidden_act 'swish' is none of"),
        ("config.json", {"position_embedding_type": "relative_key"}, "is not written here"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "pooling by"),
    ],
)
def test_a_model_of_another_kind_is_left_to_torch(
    weights: Path, tmp_path: Path, name: str, change: dict[str, Any], expected: str
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(weights, folder)
    fields = json.loads((folder / name).read_text("utf-8"))
    (folder / name).write_text(json.dumps(fields | change), "utf-8")
    with pytest.raises(UnsupportedModelError, match=expected):
        read_model(folder)


def test_damaged_and_missing_weights_are_named(weights: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(weights, folder)
    (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    with pytest.raises(EmbeddingError, match=r"damaged: model\.safetensors cannot be read"):
        write_graph(folder, tmp_path / "model.onnx")
    (folder / "model.safetensors").unlink()
    with pytest.raises(EmbeddingError, match=r"damaged: model\.safetensors cannot be read"):
        write_graph(folder, tmp_path / "model.onnx")
    (folder / "config.json").write_text('{"model_type": "bert"', "utf-8")
    with pytest.raises(EmbeddingError, match=r"config\.json cannot be read"):
        write_graph(folder, tmp_path / "model.onnx")
