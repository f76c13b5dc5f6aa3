"""What set-up fetches from the model hub, where one can be reached; nothing here runs afterwards.

A fetched file is not trusted for its name: its checksum is pinned here, and the model must answer the reference vectors that the
package carries before it is put in place.

Two files of known addresses need no client of the hub, so they are fetched by the standard library; the client, 25 MB with what it
brings, is for models of which the name alone is known. Its variables hold for both: ``HF_ENDPOINT``, ``HF_HUB_OFFLINE``, ``HF_TOKEN``.
"""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from infinite_memory.embedding import verification
from infinite_memory.embedding.atomic_dir import describe, staged
from infinite_memory.embedding.manifest import DEFAULT_MODEL, SETUP_COMMAND, TOKENIZER_FILE, Manifest, short_name
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.errors import EmbeddingError

OFFICIAL_FILES = {
    "onnx/model.onnx": "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""SHA-256 of the files that are taken, at `OFFICIAL_REVISION`; recorded alike by several public projects that use them."""

OFFICIAL_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"

_ENDPOINT = "https://huggingface.co"
_TIMEOUT_S = 5.0
_STALLED_S = 30.0  # without a byte of a file that has begun to come
_TRIES = 4  # each goes on where the one before broke off
_CHUNK_BYTES = 1 << 20


def fetch_official(
    model: str, target: Path, work: Path, files: Mapping[str, str] = OFFICIAL_FILES, revision: str = OFFICIAL_REVISION
) -> None:
    """Make the folder *target* from the ONNX file that the default model's makers publish; float32 only.

    Args:
        work: Where files are fetched to.
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
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise EmbeddingError(
            f"the model {model!r} is not on this machine, and fetching it needs huggingface_hub ({exc}); make it ready with"
            f" `{SETUP_COMMAND} --model {model}`"
        ) from exc
    try:
        return Path(
            snapshot_download(
                _repository(model), etag_timeout=_TIMEOUT_S, ignore_patterns=["onnx/*", "openvino/*", "*.h5"]
            )
        )
    except (OSError, ValueError) as exc:  # every error of the hub's client is one of these
        raise EmbeddingError(f"the model {model!r} is not on this machine and the hub cannot give it: {exc}") from exc


def check_reachable() -> None:
    """Ask the hub once, so that a machine without network is known at once.

    Raises:
        EmbeddingError: it does not answer, or is switched off.
    """
    if _is_offline():
        raise EmbeddingError("the model hub is switched off (HF_HUB_OFFLINE)")
    try:
        _open("config.json", "main", _TIMEOUT_S, method="HEAD").close()
    except (OSError, ValueError, HTTPException) as exc:  # odd proxy or certificate variables are of the latter kinds
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc


def _download(name: str, sha256: str, revision: str, work: Path) -> Path:
    """Return the file that the hub has under *name*, fetched into *work*."""
    path = work / Path(name).name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    for remaining in reversed(range(_TRIES)):
        try:
            _fetch_rest(name, revision, path)
            break
        except (OSError, ValueError, HTTPException) as exc:
            if not remaining or isinstance(exc, urllib.error.HTTPError):
                raise EmbeddingError(f"the model hub did not give {name}: {exc}") from exc
    if describe(path).sha256 != sha256:
        path.unlink()
        raise EmbeddingError(f"the hub's {name} is not the file that this version knows (another SHA-256)")
    return path


def _fetch_rest(name: str, revision: str, path: Path) -> None:
    """Add to *path* what it lacks of the file; a server that gives no parts gives the whole again."""
    present = path.stat().st_size if path.exists() else 0
    headers = {"Range": f"bytes={present}-"} if present else {}
    with _open(name, revision, _STALLED_S, headers=headers) as response:
        is_rest = response.status == 206  # partial content
        with path.open("ab" if is_rest else "wb") as file:
            shutil.copyfileobj(response, file, _CHUNK_BYTES)
        expected = response.headers.get("Content-Length")
    if expected is not None and path.stat().st_size != int(expected) + (present if is_rest else 0):
        raise ConnectionError(f"the connection broke after {path.stat().st_size:,} bytes")


def _open(name: str, revision: str, timeout_s: float, *, method: str = "GET", headers: Mapping[str, str] = {}) -> Any:
    """Open the file that the hub has of the default model under *name*."""
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or _ENDPOINT
    revision = urllib.parse.quote(revision, safe="")
    address = f"{endpoint}/{_repository(DEFAULT_MODEL)}/resolve/{revision}/{urllib.parse.quote(name)}"
    request = urllib.request.Request(address, headers=dict(headers), method=method)
    if token := os.environ.get("HF_TOKEN", "").strip():
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # files lie with another host
    return urllib.request.urlopen(request, timeout=timeout_s)


def _is_offline() -> bool:
    setting = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return setting.upper() in {"1", "ON", "YES", "TRUE"}


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"
