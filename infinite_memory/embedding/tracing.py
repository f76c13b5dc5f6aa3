"""Trace with torch a model that `bert_graph` does not support: any that sentence-transformers runs; slower and a gigabyte heavier.

Why the older exporter (``dynamo=False``): onnxruntime fuses bias and GELU in its graphs but not in those of the newer one, which makes a
run 15 to 20 % faster for the same vectors, and it needs one package less.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infinite_memory.embedding.bert_graph import INPUTS, OPSET
from infinite_memory.embedding.manifest import TOKENIZER_FILE
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from sentence_transformers import SentenceTransformer

    from infinite_memory.models import Vectors


def trace_model(weights: Path, folder: Path, file_name: str) -> tuple[int, int]:
    """Write the graph and the tokenizer of the model in *weights* into *folder*; return its dimension and token limit.

    Raises:
        EmbeddingError: torch or sentence-transformers is missing, or the model cannot be loaded.
    """
    transformer = load_transformer(weights, attention="eager")
    _trace(transformer, folder / file_name)
    transformer.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER_FILE))
    return int(transformer.get_embedding_dimension() or 0), int(transformer.max_seq_length or 512)


def embed_reference(weights: Path, texts: Sequence[str]) -> Vectors:
    """Return the vectors of sentence-transformers for *texts*: float32 of shape ``(len(texts), dim)``, unit length.

    Raises:
        EmbeddingError: as in `trace_model`.
    """
    vectors = load_transformer(weights).encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def load_transformer(weights: Path, attention: str | None = None) -> SentenceTransformer:
    """Return the model that sentence-transformers loads from a folder.

    Raises:
        EmbeddingError: torch or sentence-transformers is missing, or the model cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as exc:
        raise EmbeddingError(
            "this model is exported by torch; install torch and the extra sentence-transformers first"
        ) from exc
    disable_progress_bar()  # type: ignore[no-untyped-call]
    options = {"attn_implementation": attention} if attention else {}
    try:
        return SentenceTransformer(str(weights), device="cpu", model_kwargs=options, local_files_only=True).eval()
    except (RuntimeError, ValueError, OSError, KeyError, TypeError) as exc:
        raise EmbeddingError(f"the model in {weights} cannot be loaded: {exc}") from exc


def _trace(transformer: SentenceTransformer, path: Path) -> None:
    """Write the whole chain, from token ids to unit vector, as one ONNX graph with free batch size and length."""
    import torch

    class Chain(torch.nn.Module):
        """Takes positional tensors, which the tracer needs, instead of the dict that sentence-transformers passes along."""

        def __init__(self) -> None:
            super().__init__()
            self.chain = transformer

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            features: dict[str, Any] = dict(zip(names, tensors, strict=True))
            for module in self.chain:
                features = module(features)
            vector: torch.Tensor = torch.nn.functional.normalize(features["sentence_embedding"], dim=1)
            return vector

    inputs = set(transformer.tokenizer.model_input_names)
    names = [name for name in INPUTS if name in inputs]
    # The second row is padded, so that the traced graph keeps the mask.
    ids = torch.randint(5, 100, (2, 7))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    examples = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    torch.onnx.export(
        Chain().eval(),
        tuple(examples[name] for name in names),
        str(path),
        input_names=names,
        output_names=["vector"],
        dynamic_axes={**{name: {0: "batch", 1: "tokens"} for name in names}, "vector": {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,
    )
