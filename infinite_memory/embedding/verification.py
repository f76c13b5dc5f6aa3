"""Check that a model gives the same vectors as sentence-transformers, on a few reference texts.

The reference of the default model is part of the package, so that the check is independent of the export; other models use the reference
that their export created.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infinite_memory.embedding.base import Embedder
from infinite_memory.embedding.manifest import REFERENCE_FILE
from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

MIN_COSINE = {"fp32": 0.9999, "int8": 0.95}
"""Minimum cosine for the same model. Measured: 1.0000 and 0.9883; a different or broken model is far below."""

REFERENCE_TEXTS = (
    "My favorite color is blue",
    "Grandma's birthday is on 3 May; she likes tulips, dark chocolate and long telephone calls.",
    "Der Zahnarzttermin wurde auf Donnerstag um 9:30 Uhr verschoben.",
    "🎉 明日の会議は午後三時からです。",
    " ".join(f"Line {number}: the backup of the photo archive finished without errors." for number in range(1, 41)),
)
"""Short, longer than a model's limit, and in several scripts."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Texts and the float32 vectors of shape ``(len(texts), dim)`` that sentence-transformers gives for them."""

    model: str
    texts: tuple[str, ...]
    vectors: Vectors

    def save(self, path: Path) -> None:
        """Write the reference as JSON, vectors as base64 of little-endian float32."""
        packed = base64.b64encode(self.vectors.astype("<f4").tobytes()).decode("ascii")
        fields = {"model": self.model, "texts": self.texts, "dim": self.vectors.shape[1], "vectors": packed}
        path.write_text(json.dumps(fields, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Reference:
        """Read a reference that `save` wrote."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        vectors = np.frombuffer(base64.b64decode(fields["vectors"]), dtype="<f4").reshape(-1, fields["dim"])
        return cls(fields["model"], tuple(fields["texts"]), vectors.astype(np.float32))


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """Result of a check. ``lowest`` is the smallest cosine, None if there was no reference to compare with."""

    space: str
    texts: int
    lowest: float | None
    needed: float

    @property
    def is_faithful(self) -> bool:
        """True if the model may be used; a model without a reference is accepted."""
        return self.lowest is None or self.lowest >= self.needed

    def __str__(self) -> str:
        if self.lowest is None:
            return f"{self.space}: there is no reference to compare with"
        return f"{self.space}: cosine {self.lowest:.5f} to sentence-transformers over {self.texts} texts (least {self.needed})"


def find_reference(model: str, folder: Path | None) -> Reference | None:
    """Find the reference for the model called *model*: the package's own, else that of its *folder*."""
    for path in (Path(__file__).with_name("reference") / f"{model}.json", folder and folder / REFERENCE_FILE):
        if path and path.is_file():
            return Reference.load(path)
    return None


def check_fidelity(embedder: Embedder) -> FidelityReport:
    """Embed the reference texts and compare.

    Raises:
        EmbeddingError: the model cannot be loaded or run.
    """
    embedder.load()
    model, _dim, precision = embedder.space.rsplit("/", 2)
    reference = find_reference(model, getattr(embedder, "folder", None))
    needed = MIN_COSINE[precision]
    if reference is None:
        return FidelityReport(embedder.space, 0, None, needed)
    vectors = embedder.embed(reference.texts)
    return FidelityReport(embedder.space, len(reference.texts), lowest_cosine(vectors, reference.vectors), needed)


def lowest_cosine(vectors: Vectors, expected: Vectors) -> float:
    """Return the smallest cosine, row by row; *expected* is first truncated to the length of *vectors*.

    Raises:
        EmbeddingError: a vector is not finite, or the shapes cannot be compared.
    """
    if len(vectors) != len(expected) or vectors.shape[1] > expected.shape[1] or not np.isfinite(vectors).all():
        raise EmbeddingError(
            f"the model answered vectors of shape {vectors.shape} that cannot be compared with {expected.shape}"
        )
    cut = expected[:, : vectors.shape[1]].astype(np.float64)
    cut /= np.linalg.norm(cut, axis=1, keepdims=True)
    return float(np.einsum("ij,ij->i", vectors.astype(np.float64), cut).min())
