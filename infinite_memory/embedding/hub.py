"""Downloads from the model hub, if one can be reached; used by set-up only.

A downloaded file is not trusted by name: its checksum is pinned here, and the model must reproduce the package's reference vectors before
it is put into place.

Two files with known URLs do not need the hub's client, so they are fetched with the standard library; the client, 25 MB with its
dependencies, is for models known by name only. Its environment variables apply to both: ``HF_ENDPOINT``, ``HF_HUB_OFFLINE``, ``HF_TOKEN``.
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
"""SHA-256 of the files used, at `OFFICIAL_REVISION`; recorded identically by several public projects that use them."""

OFFICIAL_REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"

_ENDPOINT = "https://huggingface.co"
_TIMEOUT_S = 5.0
_STALLED_S = 30.0  # without a byte of a file whose download has started
_TRIES = 4  # each resumes where the previous one broke off
_CHUNK_BYTES = 1 << 20


def fetch_official(
    model: str,
    target: Path,
    work_dir: Path,
    files: Mapping[str, str] = OFFICIAL_FILES,
    revision: str = OFFICIAL_REVISION,
) -> None:
    """Create the folder *target* from the ONNX file published by the default model's authors; float32 only.

    Args:
        work_dir: Folder for downloads.
        files: Name and SHA-256 of the two files.

    Raises:
        EmbeddingError: *model* is a different one, the hub cannot be reached, or the file is not the known model.
    """
    if short_name(model) != DEFAULT_MODEL:
        raise EmbeddingError(f"only {DEFAULT_MODEL!r} is fetched ready made; export {model!r} instead")
    check_reachable()
    with staged(target) as folder:
        for (name, sha256), to in zip(files.items(), ("model.onnx", TOKENIZER_FILE), strict=True):
            _download(name, sha256, revision, work_dir).replace(folder / to)
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
    """Download the model called *model* with its weights, or find it in the hub's cache; return its folder.

    Raises:
        EmbeddingError: it is in neither.
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
    """Send the hub one request, to detect a machine without network at once.

    Raises:
        EmbeddingError: it does not answer, or is disabled.
    """
    if _is_offline():
        raise EmbeddingError("the model hub is switched off (HF_HUB_OFFLINE)")
    try:
        _open("config.json", "main", _TIMEOUT_S, method="HEAD").close()
    except (OSError, ValueError, HTTPException) as exc:  # invalid proxy or certificate variables raise the latter kinds
        raise EmbeddingError(f"the model hub cannot be reached: {exc}") from exc


def _download(name: str, sha256: str, revision: str, work_dir: Path) -> Path:
    """Download the hub's file *name* into *work_dir* and return its path."""
    path = work_dir / Path(name).name
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
    """Download the rest of the file into *path*; a server without range support sends all of it again."""
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
    """Open the default model's file *name* on the hub."""
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or _ENDPOINT
    revision = urllib.parse.quote(revision, safe="")
    address = f"{endpoint}/{_repository(DEFAULT_MODEL)}/resolve/{revision}/{urllib.parse.quote(name)}"
    request = urllib.request.Request(address, headers=dict(headers), method=method)
    if token := os.environ.get("HF_TOKEN", "").strip():
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # files are on another host
    return urllib.request.urlopen(request, timeout=timeout_s)


def _is_offline() -> bool:
    setting = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return setting.upper() in {"1", "ON", "YES", "TRUE"}


def _repository(model: str) -> str:
    return model if "/" in model else f"sentence-transformers/{model}"
