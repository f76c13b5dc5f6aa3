"""The embedder for models that are not exported: sentence-transformers itself, an optional extra.

Importing it takes nine seconds of CPU time and half a gigabyte of RAM, so it is imported on the first text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infinite_memory.embedding import windows as cutting
from infinite_memory.embedding.model_tokenizer import HuggingFaceTokenizer, frame_size
from infinite_memory.embedding.vocabulary import READ, Reading, reading_of, spelled_out
from infinite_memory.errors import EmbeddingError
from infinite_memory.models import Window

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from infinite_memory.models import Vectors

_log = logging.getLogger(__name__)

EXTRA = "pip install 'infinite-memory[sentence-transformers]'"

_BATCH_TEXTS = 16
_SAMPLE_BYTES = 65_536


class SentenceEmbedder:
    """An `Embedder` over the folder of a sentence-transformers model. Thread-safe; calls are serialised."""

    def __init__(self, folder: Path, *, name: str | None = None, truncate_dim: int | None = None) -> None:
        """Read the model's small configuration files only.

        Args:
            folder: A folder with ``modules.json``.
            name: The model's name; by default the folder's name and a fingerprint of the weights, so that two models in folders of the same
                name do not share a space.
            truncate_dim: Truncate vectors to this many dimensions and renormalise them.

        Raises:
            EmbeddingError: the folder does not state the length of the model's vectors.
        """
        self.folder = folder
        self.name = name or f"{folder.name}-{fingerprint(folder)}"
        own_dim = _read_dim(folder)
        self._dim = own_dim if truncate_dim is None else min(truncate_dim, own_dim)
        self._lock = threading.Lock()
        self._model: SentenceTransformer | None = None

    @property
    def space(self) -> str:
        """Model, dimension and precision; the export of the same model has the same name, because its vectors are equal."""
        return f"{self.name}/{self._dim}/fp32"

    @property
    def dim(self) -> int:
        """Length of a vector, after truncation if requested."""
        return self._dim

    def load(self) -> None:
        """Import sentence-transformers and load the model once; after a failure the next call retries."""
        with self._lock:
            self._loaded()

    def windows(self, text: str) -> tuple[Window, ...]:
        """Split *text* into windows that fit the model; loads the model."""
        with self._lock:
            model = self._loaded()
            tokenizer = self._tokenizer()
            if tokenizer is None:
                raise EmbeddingError(
                    f"the model {self.name!r} has no fast tokenizer, so long texts cannot be cut; choose another"
                )
            return cutting.cut(text, (model.max_seq_length or 512) - frame_size(tokenizer), tokenizer)

    def spelled_out(self, text: str) -> float | None:
        """Check the vocabulary; None for a tokenizer that is not a fast one."""
        with self._lock:
            tokenizer = self._tokenizer()
            return None if tokenizer is None else spelled_out(tokenizer, text)

    def reading(self, text: str) -> Reading:
        """Check the vocabulary; a tokenizer that is not a fast one is assumed to read everything."""
        with self._lock:
            tokenizer = self._tokenizer()
            return READ if tokenizer is None else reading_of(tokenizer, text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed *texts*; sentence-transformers sorts them by length itself."""
        with self._lock:
            model = self._loaded()
            try:
                vectors = model.encode(
                    list(texts),
                    batch_size=_BATCH_TEXTS,
                    convert_to_numpy=True,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
            except (RuntimeError, ValueError, OSError) as exc:
                raise EmbeddingError(f"the model {self.name!r} failed to run: {exc}") from exc
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), self._dim)

    def _tokenizer(self) -> HuggingFaceTokenizer | None:
        backend: Any = getattr(self._loaded().tokenizer, "backend_tokenizer", None)
        return None if backend is None else HuggingFaceTokenizer(backend)

    def _loaded(self) -> SentenceTransformer:
        if self._model is None:
            called = f"the model {self.name!r}"
            self._model = open_model("SentenceTransformer", called, str(self.folder), truncate_dim=self._dim)
        return self._model


def open_model(kind: str, called: str, folder: str, **options: Any) -> Any:
    """Import sentence-transformers and load a model of the class *kind*, from this machine only.

    Args:
        called: Its name in messages.
        folder: A folder, or a name in the hub's cache on this machine.

    Raises:
        EmbeddingError: sentence-transformers or the model is missing, or cannot be loaded.
    """
    try:
        import sentence_transformers
        from transformers.utils.logging import disable_progress_bar
    except ImportError as exc:
        raise EmbeddingError(
            f"{called} is not exported and needs sentence-transformers: install torch, then run {EXTRA}"
        ) from exc
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return getattr(sentence_transformers, kind)(folder, device="cpu", local_files_only=True, **options)
    except (RuntimeError, ValueError, OSError, KeyError, TypeError) as exc:
        _log.error("the model in %s cannot be loaded", folder, exc_info=exc, extra={"event": "model_broken"})
        raise EmbeddingError(
            f"{called} is not on this machine, or cannot be loaded by sentence-transformers; the log has the cause"
        ) from exc


def is_sentence_model(folder: Path) -> bool:
    """True if *folder* is a sentence-transformers model."""
    return (folder / "modules.json").is_file()


def fingerprint(folder: Path) -> str:
    """Return an 8-character fingerprint of the weights in *folder*, from the sizes and samples of its weight files."""
    digest = hashlib.sha256()
    for path in sorted(file for pattern in ("*.safetensors", "*.bin") for file in folder.rglob(pattern)):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        with path.open("rb") as weights:
            for position in (0, size // 2, max(0, size - _SAMPLE_BYTES)):
                weights.seek(position)
                digest.update(weights.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:8]


def _read_dim(folder: Path) -> int:
    """Return the length of the model's vectors from its configuration: the last layer that states one decides."""
    dim = None
    try:
        for module in json.loads((folder / "modules.json").read_text(encoding="utf-8")):
            path = folder / module["path"] / "config.json"
            stated = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            for key in ("hidden_size", "word_embedding_dimension", "embedding_dimension", "out_features"):
                dim = stated.get(key, dim)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise EmbeddingError(f"the model {folder.name!r} is damaged: its configuration cannot be read") from exc
    if not isinstance(dim, int):
        raise EmbeddingError(f"the model {folder.name!r} does not say how long its vectors are")
    return dim
