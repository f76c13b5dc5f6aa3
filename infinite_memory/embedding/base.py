"""What the engine needs of an embedding model, whichever runs it; no model code here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from infinite_memory.embedding.vocabulary import Reading
from infinite_memory.models import Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors


class Embedder(Protocol):
    """Turns texts into unit vectors. Methods are called from worker threads, several at a time."""

    @property
    def space(self) -> str:
        """Name of the vector space: model, dimension and precision. Equal names mean comparable vectors."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    def load(self) -> None:
        """Load the weights; idempotent, safe from several threads.

        Raises:
            EmbeddingError: the model is not there or cannot run; the message says what to do.
        """

    def windows(self, text: str) -> tuple[Window, ...]:
        """Cut *text* into overlapping stretches that each fit the model; one for a text that fits whole, never none."""

    def spelled_out(self, text: str) -> float | None:
        """Return which share of the words of *text* the vocabulary lacks, 0 to 1; None where that tells nothing."""

    def reading(self, text: str) -> Reading:
        """Return which share of *text* the model reads, and which words it does not."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed *texts*; what exceeds the model's length is cut.

        Returns:
            float32 of shape ``(len(texts), dim)``, rows of unit length, in the order of *texts*.

        Raises:
            EmbeddingError: the model cannot be loaded or run.
        """


@runtime_checkable
class Preparing(Protocol):
    """An `Embedder` whose `load` may have to make the model ready first."""

    @property
    def preparing(self) -> int | None:
        """How many percent of that are done; None when the model is ready."""

    def stop(self) -> None:
        """Give up making it ready; `load` raises."""
