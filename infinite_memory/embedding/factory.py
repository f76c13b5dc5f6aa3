"""Which embedder runs a model, by the model's name or path. Imports nothing heavy before it knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infinite_memory.embedding.base import Embedder
from infinite_memory.embedding.manifest import DEFAULT_MODEL, EXPORT_COMMAND, folder_of, is_exported, short_name
from infinite_memory.errors import ConfigError, EmbeddingError
from infinite_memory.models import Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

_PLACEHOLDER_DIM = 384


class MissingEmbedder:
    """An `Embedder` for a model that is not here: every use says so, nothing else fails.

    Memories are stored all the same and wait for a model. No vector ever has this `space`; ``dim`` is a placeholder, so
    that an empty index can be made.
    """

    def __init__(self, model: str, problem: str, truncate_dim: int | None) -> None:
        self._model = model
        self._problem = problem
        self._dim = truncate_dim or _PLACEHOLDER_DIM

    @property
    def space(self) -> str:
        """A name that no working model has."""
        return f"{self._model}/missing"

    @property
    def dim(self) -> int:
        """A placeholder."""
        return self._dim

    def load(self) -> None:
        """Raise: the model is not here."""
        raise EmbeddingError(self._problem)

    def windows(self, text: str) -> tuple[Window, ...]:
        """Raise: the model is not here."""
        raise EmbeddingError(self._problem)

    def spelled_out(self, text: str) -> float | None:
        """Tell nothing: the model is not here."""
        return None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Raise: the model is not here."""
        raise EmbeddingError(self._problem)


def open_embedder(model: str, *, truncate_dim: int | None = None, precision: str = "fp32") -> Embedder:
    """Choose the embedder for *model*; loads no weights.

    Args:
        model: Name of an exported model, path of an exported model's folder, path of a sentence-transformers model, or
            the name of one that the hub's cache on this machine holds. Nothing is fetched.
        truncate_dim: Length to cut vectors to; None for the model's own.
        precision: "fp32" or "int8"; only exported models have int8.

    Returns:
        An embedder whose ``space`` and ``dim`` are known. A model that is not here gives one whose `load` raises.

    Raises:
        ConfigError: the model is known and cannot give what *truncate_dim* or *precision* asks for.
    """
    try:
        return _open(model, truncate_dim, precision)
    except EmbeddingError as exc:
        return MissingEmbedder(model, str(exc), truncate_dim)


def _open(model: str, truncate_dim: int | None, precision: str) -> Embedder:
    path = Path(model).expanduser()
    for folder in (path, folder_of(model)):
        if is_exported(folder):
            from infinite_memory.embedding.onnx import OnnxEmbedder

            exported = OnnxEmbedder(folder, truncate_dim=truncate_dim, precision=precision)
            _check(model, exported.manifest.dim, truncate_dim)
            if precision not in exported.manifest.files:
                has = ", ".join(sorted(exported.manifest.files))
                raise ConfigError(
                    f"embedding.precision: {precision!r} is not one that {model!r} was exported in ({has})"
                )
            return exported
    from infinite_memory.embedding.sentence import SentenceEmbedder, is_sentence_model

    cached = None if path.is_dir() else _find_cached(model)
    folder = cached or path
    if not is_sentence_model(folder):
        remedy = EXPORT_COMMAND if short_name(model) == DEFAULT_MODEL else f"{EXPORT_COMMAND} --model {model}"
        raise EmbeddingError(
            f"the model {model!r} is not on this machine: make it ready with `{remedy}` and restart, or set"
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
    """Find a model by name in the hub's cache on this machine, without any network."""
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
