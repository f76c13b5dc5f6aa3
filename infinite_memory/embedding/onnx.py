"""The default embedder: an exported model run by onnxruntime, without torch.

Why these session options (all-MiniLM-L6-v2, one core, measured): with one intra-op thread large batches gain nothing, so a run has at most
`_RUN_TOKENS` tokens; 16 texts of 256 tokens then take 0.54 s and 212 MB RSS in total, against 0.64 s and 285 MB in runs of 2,048 tokens.
The memory arena stays on: without it the RSS is no smaller (the allocator keeps the pages) and long texts are slower.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from infinite_memory.embedding import mapped_weights
from infinite_memory.embedding import windows as cutting
from infinite_memory.embedding.manifest import SETUP_COMMAND, TOKENIZER_FILE, Manifest, ModelFile
from infinite_memory.embedding.model_tokenizer import ModelTokenizer, frame_size, load_tokenizer
from infinite_memory.embedding.onnxruntime_loader import load_onnxruntime
from infinite_memory.embedding.vocabulary import Reading, reading_of, spelled_out
from infinite_memory.errors import EmbeddingError
from infinite_memory.models import Window

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from infinite_memory.models import Vectors

_log = logging.getLogger(__name__)

_BATCH_TEXTS = 16
_RUN_TOKENS = 512
_ORT_LOG_ERRORS = 3


class OnnxEmbedder:
    """An `Embedder` over the folder of an exported model. Threads may share it."""

    def __init__(self, folder: Path, *, truncate_dim: int | None = None, precision: str = "fp32") -> None:
        """Read the manifest only; weights and tokenizer are loaded on first use.

        Args:
            folder: A folder created by `export`.
            truncate_dim: Truncate vectors to this many dimensions and renormalise them.
            precision: "fp32", or "int8" if the folder has it.

        Raises:
            EmbeddingError: the folder has no usable manifest.
        """
        self.folder = folder
        self.manifest = Manifest.load(folder)
        self.precision = precision
        self._dim = self.manifest.dim if truncate_dim is None else min(truncate_dim, self.manifest.dim)
        self._lock = threading.Lock()
        self._tokenizer: ModelTokenizer | None = None
        self._session: InferenceSession | None = None

    @property
    def space(self) -> str:
        """Model, dimension and precision, such as ``all-MiniLM-L6-v2/384/fp32``."""
        return f"{self.manifest.name}/{self._dim}/{self.precision}"

    @property
    def dim(self) -> int:
        """Length of a vector, after truncation if requested."""
        return self._dim

    def load(self) -> None:
        """Load weights and tokenizer once; after a failure the next call retries."""
        self._load_tokenizer()
        self._load_session()

    def windows(self, text: str) -> tuple[Window, ...]:
        """Split *text* into windows that fit the model; needs the tokenizer only."""
        tokenizer = self._load_tokenizer()
        capacity = self.manifest.window_tokens or self.manifest.max_tokens - frame_size(tokenizer)
        return cutting.cut(text, capacity, tokenizer)

    def spelled_out(self, text: str) -> float | None:
        """Check the vocabulary; see `infinite_memory.embedding.vocabulary`."""
        return spelled_out(self._load_tokenizer(), text)

    def reading(self, text: str) -> Reading:
        """Check the vocabulary; see `infinite_memory.embedding.vocabulary`."""
        return reading_of(self._load_tokenizer(), text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed *texts* in runs of texts of similar length."""
        tokenizer, session = self._load_tokenizer(), self._load_session()
        encodings = [self._encode(tokenizer, text) for text in texts]
        vectors = np.empty((len(texts), self._dim), dtype=np.float32)
        for chosen in _runs([len(ids) for ids in encodings]):
            vectors[chosen] = self._run(session, [encodings[index] for index in chosen])
        return vectors

    def _encode(self, tokenizer: ModelTokenizer, text: str) -> NDArray[np.int64]:
        """Tokenise *text* and truncate it to the model's limit, keeping the closing special tokens.

        Truncated here and not by the tokenizer, so that `windows` can share it: a second one takes 8 MB.
        """
        encoding = tokenizer.encode(text)
        ids = np.asarray(encoding.ids, dtype=np.int64)
        excess = len(ids) - self.manifest.max_tokens
        if excess <= 0:
            return ids
        special = np.asarray(encoding.special_tokens_mask, dtype=np.bool_)
        closing = int(np.argmin(special[::-1]))
        return np.concatenate((ids[: len(ids) - closing - excess], ids[len(ids) - closing :]))

    def _run(self, session: InferenceSession, encodings: Sequence[NDArray[np.int64]]) -> Vectors:
        """Embed one run; return rows in the order of *encodings*."""
        longest = max(len(ids) for ids in encodings)
        input_ids = np.zeros((len(encodings), longest), dtype=np.int64)
        mask = np.zeros_like(input_ids)
        for row, ids in enumerate(encodings):
            input_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        inputs = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": np.zeros_like(input_ids)}
        names = {node.name for node in session.get_inputs()}
        try:
            output = session.run(None, {name: array for name, array in inputs.items() if name in names})[0]
        except Exception as exc:  # onnxruntime's errors share no base but Exception
            raise EmbeddingError(f"the model {self.manifest.name!r} failed to run: {exc}") from exc
        vectors = np.asarray(output, dtype=np.float32)
        if self.manifest.pooling == "mean":
            vectors = _mean(vectors, mask)
        if self.manifest.pooling == "mean" or self._dim != self.manifest.dim:
            vectors = vectors[:, : self._dim]
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return vectors

    def _load_tokenizer(self) -> ModelTokenizer:
        with self._lock:
            if self._tokenizer is None:
                try:  # on the first text: the daemon answers before that
                    self._tokenizer = load_tokenizer(self.folder / TOKENIZER_FILE)
                except (OSError, ValueError) as exc:
                    raise self._broken(f"{TOKENIZER_FILE} is missing or damaged") from exc
            return self._tokenizer

    def _load_session(self) -> InferenceSession:
        with self._lock:
            if self._session is None:
                self._session = self._open_session()
            return self._session

    def _open_session(self) -> InferenceSession:
        file = self._file()
        try:
            onnxruntime = load_onnxruntime()
        except ImportError as exc:
            raise EmbeddingError(f"onnxruntime cannot be imported ({exc}); install it again") from exc
        if mapped_weights.is_supported(onnxruntime.__version__):
            try:
                return _open_mapped(onnxruntime, self.folder / file.name)
            except Exception as exc:  # an unusual or damaged file: onnxruntime decides
                _log.debug("the weights of %s are not mapped: %s", file.name, exc, extra={"event": "model_not_mapped"})
        try:
            return _new_session(onnxruntime, str(self.folder / file.name), _options(onnxruntime))
        except Exception as exc:  # onnxruntime's errors share no base but Exception
            raise self._broken(f"{file.name} is damaged, or made for another onnxruntime") from exc

    def _file(self) -> ModelFile:
        file = self.manifest.files.get(self.precision)
        if file is None:
            has = ", ".join(sorted(self.manifest.files)) or "none"
            raise self._broken(f"it has no {self.precision!r} weights (it has: {has})")
        path = self.folder / file.name
        # The size reveals a truncated file at no cost; a checksum of 90 MB at every start would cost more than it is worth.
        size = path.stat().st_size if path.is_file() else 0
        if size != file.size_bytes:
            raise self._broken(f"{file.name} has {size:,} bytes and should have {file.size_bytes:,}")
        return file

    def _broken(self, reason: str) -> EmbeddingError:
        # A client may see this message: the folder goes to the log, the command finds it anyway.
        _log.error("the model in %s cannot be used: %s", self.folder, reason, extra={"event": "model_broken"})
        return EmbeddingError(
            f"the model {self.manifest.name!r} cannot be used: {reason}; make it again: {SETUP_COMMAND}"
        )


def _options(onnxruntime: ModuleType) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _ORT_LOG_ERRORS
    return options


def _open_mapped(onnxruntime: ModuleType, path: Path) -> InferenceSession:
    options = _options(onnxruntime)
    options.add_session_config_entry(mapped_weights.FOLDER_OPTION, str(path.parent))
    return _new_session(onnxruntime, mapped_weights.without_weights(path), options)


def _new_session(onnxruntime: ModuleType, model: str | bytes, options: Any) -> InferenceSession:
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return cast("InferenceSession", session)


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group indexes by length, shortest first, to minimise padding and keep runs small."""
    run: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        # Lengths increase, so the whole run is padded to this one.
        if run and (len(run) == _BATCH_TEXTS or (len(run) + 1) * lengths[position] > _RUN_TOKENS):
            yield run
            run = []
        run.append(position)
    if run:
        yield run


def _mean(token_vectors: Vectors, mask: NDArray[np.int64]) -> Vectors:
    """Return the mean vector of each text's non-padding tokens: ``(n, tokens, dim)`` to ``(n, dim)``."""
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((token_vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9), dtype=np.float32)
