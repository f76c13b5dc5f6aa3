"""What set-up fetches from the model hub, where one can be reached; nothing here runs afterwards.

A fetched file is not trusted for its name: its checksum is pinned here, and the model must answer the reference vectors that the
package carries before it is put in place.
"""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

from infinite_memory.embedding import verification
from infinite_memory.embedding.atomic_dir import describe, staged
from infinite_memory.embedding.manifest import DEFAULT_MODEL, TOKENIZER_FILE, Manifest, short_name
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError

OFFICIAL_FILES = {
    "onnx/model.onnx": "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""SHA-256 of the files that are taken, at `OFFICIAL_REVISION`; recorded alike by several public projects that use them."""

OFFICIAL_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"

_TIMEOUT_S = 5.0


def fetch_official(
    model: str, target: Path, work: Path, files: Mapping[str, str] = OFFICIAL_FILES, revision: str = OFFICIAL_REVISION
) -> None:
    """Make the folder *target* from the ONNX file that the default model's makers publish; float32 only.

    Args:
        work: Where files are fetched to; what is there half is completed.
        files: Name and SHA-256 of the two files.

    Raises:
        EmbeddingError: *model* is another one, the hub cannot be reached, or the file is not the model we know.
    """
    if short_name(model) != DEFAULT_MODEL:
        raise EmbeddingError(f"only {DEFAULT_MODEL!r} is fetched ready made; export {model!r} instead")
    check_reachable()
    with staged(target) as folder:
        for (name, sha256), to in zip(files.items(), ("model.onnx", TOKENIZER_FILE), strict=True):
            _download(name, sha256, revision, work).replace(folder / to)
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
        report = verification.check_fidelity(OnnxEmbedder(folder))
        if report.lowest is None or not report.is_faithful:
            raise EmbeddingError(f"the hub's file is not the model that this version knows (cosine {report.lowest})")
        print(f"fetched; cosine at least {report.lowest:.6f}", file=sys.stderr)


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


def check_reachable() -> None:
    """Ask the hub once: its own client tries for half a minute before it believes that there is no network.

    Raises:
        EmbeddingError: it does not answer, or is switched off.
    """
    from huggingface_hub import constants, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise EmbeddingError("the model hub is switched off (HF_HUB_OFFLINE)")
    request = urllib.request.Request(hf_hub_url(_repository(DEFAULT_MODEL), "config.json"), method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()
    except (OSError, ValueError, HTTPException) as exc:  # odd proxy or certificate variables are of the latter kinds
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc


def _download(name: str, sha256: str, revision: str, work: Path) -> Path:
    """Return the file that the hub has under *name*, fetched into *work*."""
    from huggingface_hub import hf_hub_download

    try:
        path = Path(
            hf_hub_download(
                _repository(DEFAULT_MODEL), name, revision=revision, local_dir=work, etag_timeout=_TIMEOUT_S
            )
        )
    except (OSError, ValueError) as exc:  # every error of the hub's client is one of these
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc
    if describe(path).sha256 != sha256:
        path.unlink()
        raise EmbeddingError(f"the hub's {name} is not the file that this version knows (another SHA-256)")
    return path


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"
