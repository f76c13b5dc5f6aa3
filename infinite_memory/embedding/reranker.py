"""The optional cross-encoder: reads question and memory together and scores how well the memory answers the question.

Through sentence-transformers, an optional extra; off unless ``recall.reranker`` names a model. Far more expensive than comparing vectors,
so only the best candidates of a recall are reranked.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.embedding.sentence_transformers import open_model
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class Reranker:
    """A cross-encoder of sentence-transformers, by name or path of its folder. Thread-safe; calls are serialised."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._lock = threading.Lock()
        self._loaded: CrossEncoder | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score of how well each text answers *query*: higher is better, comparable within one call.

        Raises:
            EmbeddingError: the model is missing, or failed.
        """
        with self._lock:
            model = self._load()
            try:
                scores: Any = model.predict([(query, text) for text in texts], show_progress_bar=False)
            except (RuntimeError, ValueError, OSError, IndexError) as exc:
                raise EmbeddingError(f"the re-ranker {self.model!r} failed to run: {exc}") from exc
        if getattr(scores, "ndim", 1) != 1:
            raise EmbeddingError(f"the re-ranker {self.model!r} gives more than one number for a pair; choose another")
        return [float(score) for score in scores]

    def _load(self) -> CrossEncoder:
        if self._loaded is None:
            folder = Path(self.model).expanduser()
            named = str(folder) if folder.is_dir() else self.model
            self._loaded = open_model("CrossEncoder", f"the re-ranker {self.model!r}", named)
        return self._loaded
