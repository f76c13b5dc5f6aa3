"""Interface of embedding models, whichever library runs them; no model code here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from infinite_memory.embedding.vocabulary import Reading
from infinite_memory.models import Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors


class Embedder(Protocol):
    """Turns texts into unit vectors. Methods are called from worker threads, concurrently."""

    @property
    def space(self) -> str:
        """Name of the vector space: model, dimension and precision. Vectors with equal names are comparable."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    def load(self) -> None:
        """Load the weights; idempotent, safe from several threads.

        Raises:
            EmbeddingError: the model is missing or cannot run; the message says what to do.
        """

    def windows(self, text: str) -> tuple[Window, ...]:
        """Split *text* into overlapping windows that each fit the model; one for a text that fits whole, never none."""

    def spelled_out(self, text: str) -> float | None:
        """Return the share of words of *text* missing from the vocabulary, 0 to 1; None if that is not meaningful."""

    def reading(self, text: str) -> Reading:
        """Return the share of *text* that the model can read, and the words that it cannot."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed *texts*; each is truncated to the model's maximum length.

        Returns:
            float32 of shape ``(len(texts), dim)``, rows of unit length, in the order of *texts*.

        Raises:
            EmbeddingError: the model cannot be loaded or run.
        """


@runtime_checkable
class Preparing(Protocol):
    """An `Embedder` whose `load` may have to prepare the model first."""

    @property
    def preparing(self) -> int | None:
        """Progress of the preparation in percent; None once the model is ready."""

    def stop(self) -> None:
        """Stop preparing it; `load` raises."""
