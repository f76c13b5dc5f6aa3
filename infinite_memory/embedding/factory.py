"""Choose the embedder for a model by its name or path. Heavy libraries are imported only once chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infinite_memory.embedding.base import Embedder
from infinite_memory.embedding.manifest import (
    DEFAULT_MODEL,
    PREPARED_DIMS,
    SETUP_COMMAND,
    check_cached,
    get_folder,
    is_exported,
    short_name,
)
from infinite_memory.embedding.preparation import Preparation
from infinite_memory.embedding.vocabulary import Reading
from infinite_memory.errors import ConfigError, EmbeddingError
from infinite_memory.models import Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

FIRST_PAUSE_S = 30.0  # between attempts to prepare a model, without a network for example
MAX_PAUSE_S = 1800.0


class MissingEmbedder:
    """An `Embedder` for a missing model: every use reports that, nothing else fails.

    Memories are still stored and wait for a model. No vector ever has this `space`; ``dim`` is a placeholder, so that an empty index can be
    created.
    """

    def __init__(self, model: str, reason: str, truncate_dim: int | None) -> None:
        self._model = model
        self._problem = reason
        self._dim = truncate_dim or PREPARED_DIMS[DEFAULT_MODEL]

    @property
    def space(self) -> str:
        """A name that no real model has."""
        return f"{self._model}/missing"

    @property
    def dim(self) -> int:
        """A placeholder."""
        return self._dim

    def load(self) -> None:
        """Raise: the model is missing."""
        raise EmbeddingError(self._problem)

    def windows(self, text: str) -> tuple[Window, ...]:
        """Raise: the model is missing."""
        raise EmbeddingError(self._problem)

    def spelled_out(self, text: str) -> float | None:
        """Return None: the model is missing."""
        return None

    def reading(self, text: str) -> Reading:
        """Raise: the model is missing."""
        raise EmbeddingError(self._problem)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raise: the model is missing."""
        raise EmbeddingError(self._problem)


class DeferredEmbedder:
    """An `Embedder` for one of `PREPARED_DIMS` before it is on this machine: `load` prepares it, which takes a minute or two."""

    def __init__(
        self, folder: Path, *, model: str = DEFAULT_MODEL, truncate_dim: int | None = None, precision: str = "fp32"
    ) -> None:
        self._model_name, self._dim, self._precision = model, truncate_dim or PREPARED_DIMS[model], precision
        self._truncate_dim = truncate_dim
        self._preparation = Preparation(model, folder, precision=precision)
        self._ready: Embedder | None = None
        self._failure, self._failures, self._patient_until = "", 0, 0.0

    @property
    def space(self) -> str:
        """The space that the model will have."""
        return f"{self._model_name}/{self._dim}/{self._precision}"

    @property
    def dim(self) -> int:
        """The dimension that the model will have."""
        return self._dim

    @property
    def preparing(self) -> int | None:
        """Progress of the preparation in percent; None once it is ready."""
        return None if self._ready is not None else self._preparation.percent

    def load(self) -> None:
        """Prepare the model if needed, then load it; the delay before the next attempt doubles after each failure."""
        if self._ready is None:
            from infinite_memory.embedding.onnx import OnnxEmbedder

            self._prepare()
            embedder = OnnxEmbedder(
                self._preparation.target, truncate_dim=self._truncate_dim, precision=self._precision
            )
            embedder.load()
            self._ready = embedder
        self._ready.load()

    def _prepare(self) -> None:
        if time.monotonic() < self._patient_until and not is_exported(self._preparation.target):
            raise EmbeddingError(self._failure)
        try:
            self._preparation.run()
        except EmbeddingError as exc:
            self._failure = str(exc)
            self._patient_until = time.monotonic() + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
            self._failures += 1
            raise

    def stop(self) -> None:
        """Stop the preparation."""
        self._preparation.stop()

    def windows(self, text: str) -> tuple[Window, ...]:
        """Delegate to the model once it is ready."""
        return self._model().windows(text)

    def spelled_out(self, text: str) -> float | None:
        """Delegate to the model once it is ready."""
        return self._model().spelled_out(text)

    def reading(self, text: str) -> Reading:
        """Delegate to the model once it is ready."""
        return self._model().reading(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Delegate to the model once it is ready."""
        return self._model().embed(texts)

    def _model(self) -> Embedder:
        if self._ready is None:
            raise EmbeddingError("the model is not ready yet")
        return self._ready


def open_embedder(
    model: str, *, truncate_dim: int | None = None, precision: str = "fp32", prepare: bool = False
) -> Embedder:
    """Return the embedder for *model*; loads no weights.

    Args:
        model: Name of an exported model, path of an exported model's folder, path of a sentence-transformers model, or the name of one in
            the hub's cache on this machine. Nothing is downloaded.
        truncate_dim: Length to truncate vectors to; None for the model's own.
        precision: "fp32" or "int8"; only exported models have int8.
        prepare: Whether one of `PREPARED_DIMS` that is missing is prepared when it is loaded.

    Returns:
        An embedder whose ``space`` and ``dim`` are known. For a missing model its `load` raises, or prepares the model.

    Raises:
        ConfigError: the model is known and does not support *truncate_dim* or *precision*.
    """
    try:
        return _open(model, truncate_dim, precision)
    except EmbeddingError as exc:
        short = short_name(model)
        if prepare and (dim := PREPARED_DIMS.get(short)) is not None:
            _check(model, dim, truncate_dim)
            return DeferredEmbedder(get_folder(model), model=short, truncate_dim=truncate_dim, precision=precision)
        return MissingEmbedder(model, str(exc), truncate_dim)


def _open(model: str, truncate_dim: int | None, precision: str) -> Embedder:
    path = Path(model).expanduser()
    for folder in (path, get_folder(model)):
        if is_exported(folder):
            if folder != path:
                check_cached(folder)
            from infinite_memory.embedding.onnx import OnnxEmbedder

            exported = OnnxEmbedder(folder, truncate_dim=truncate_dim, precision=precision)
            _check(model, exported.manifest.dim, truncate_dim)
            if precision not in exported.manifest.files:
                has = ", ".join(sorted(exported.manifest.files))
                raise ConfigError(
                    f"embedding.precision: {precision!r} is not one that {model!r} was exported in ({has})"
                )
            return exported
    from infinite_memory.embedding.sentence_transformers import SentenceEmbedder, is_sentence_model

    cached = None if path.is_dir() else _find_cached(model)
    folder = cached or path
    if not is_sentence_model(folder):
        raise EmbeddingError(
            f"the model {model!r} is not on this machine: make it ready with `{SETUP_COMMAND}` and restart, or set"
            f" embedding.model to {DEFAULT_MODEL!r} or to a model's folder"
        )
    if precision != "fp32":
        raise ConfigError(
            f"embedding.precision: {precision!r} needs an exported model, and {model!r} is not; export it first"
        )
    sentence = SentenceEmbedder(folder, name=short_name(model) if cached else None)
    _check(model, sentence.dim, truncate_dim)
    if truncate_dim is not None:
        sentence = SentenceEmbedder(folder, name=sentence.name, truncate_dim=truncate_dim)
    return sentence


def _check(model: str, dim: int, truncate_dim: int | None) -> None:
    if truncate_dim is not None and not 1 <= truncate_dim <= dim:
        raise ConfigError(
            f"embedding.truncate_dim: {truncate_dim} is not between 1 and {dim}, the dimension of {model!r}"
        )


def _find_cached(model: str) -> Path | None:
    """Find a model by name in the hub's cache on this machine, offline."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        return None
    repository = model if "/" in model else f"sentence-transformers/{model}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
