"""What set-up fetches from the model hub, where one can be reached; nothing here runs afterwards.

A fetched file is not trusted for its name: it must answer the reference vectors that the package carries before it is
put in place. That stands in for a pinned checksum, and holds when the hub's file is made anew.
"""

from __future__ import annotations

import shutil
import sys
import urllib.request
from pathlib import Path

from infinite_memory.embedding import fidelity
from infinite_memory.embedding.folder import describe, staged
from infinite_memory.embedding.manifest import DEFAULT_MODEL, TOKENIZER_FILE, Manifest, short_name
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError

_TIMEOUT_S = 5.0


def fetch_official(model: str, target: Path) -> None:
    """Make the folder *target* from the ONNX file that the default model's makers publish; float32 only.

    Raises:
        EmbeddingError: *model* is another one, the hub cannot be reached, or the file is not the model we know.
    """
    if short_name(model) != DEFAULT_MODEL:
        raise EmbeddingError(f"only {DEFAULT_MODEL!r} is fetched ready made; export {model!r} instead")
    _check_reachable()
    with staged(target) as folder:
        _copy("onnx/model.onnx", folder / "model.onnx")
        _copy("tokenizer.json", folder / TOKENIZER_FILE)
        file = describe(folder / "model.onnx")
        Manifest(
            name=DEFAULT_MODEL,
            dim=384,
            max_tokens=256,
            pooling="mean",
            source=f"the hub's sentence-transformers/{DEFAULT_MODEL}",
            source_sha256=file.sha256,
            files={"fp32": file},
        ).save(folder)
        report = fidelity.check_fidelity(OnnxEmbedder(folder))
        if report.lowest is None or not report.is_faithful:
            raise EmbeddingError(f"the hub's file is not the model that this version knows (cosine {report.lowest})")
        print(f"export: fetched; cosine at least {report.lowest:.6f}", file=sys.stderr)


def snapshot(model: str) -> Path:
    """Fetch the model called *model*, weights and all, or find it in the hub's cache; returns its folder.

    Raises:
        EmbeddingError: it is neither there nor here.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                _repository(model), etag_timeout=_TIMEOUT_S, ignore_patterns=["onnx/*", "openvino/*", "*.h5"]
            )
        )
    except (OSError, ValueError) as exc:  # every error of the hub's client is one of these
        raise EmbeddingError(f"the model {model!r} is not on this machine and the hub cannot give it: {exc}") from exc


def _check_reachable() -> None:
    """Ask the hub once: its own client tries for half a minute before it believes that there is no network."""
    from huggingface_hub import constants, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise EmbeddingError("the model hub is switched off (HF_HUB_OFFLINE)")
    request = urllib.request.Request(hf_hub_url(_repository(DEFAULT_MODEL), "config.json"), method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()
    except OSError as exc:
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc


def _copy(name: str, to: Path) -> None:
    from huggingface_hub import hf_hub_download

    try:
        shutil.copyfile(hf_hub_download(_repository(DEFAULT_MODEL), name, etag_timeout=_TIMEOUT_S), to)
    except (OSError, ValueError) as exc:  # every error of the hub's client is one of these
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"
