"""Which arithmetic of the model pays on this processor: both are run here on the same texts, and int8 is held to the reference vectors.

int8 has a vector space of its own, so it is for a home that has no vectors yet, or one that is told to change. On some processors it takes
half the time, on others as much as float32 or more; its vectors are a little worse, so it is taken only where it is much faster.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from infinite_memory.embedding.base import Embedder
from infinite_memory.embedding.factory import open_embedder
from infinite_memory.embedding.verification import FidelityReport, check_fidelity

FP32, INT8 = "fp32", "int8"
MIN_GAIN = 1.4  # times as fast as float32 that int8 has to be; for less nobody should have worse vectors
ROUNDS = 7  # of which the median counts, in turns, for other programs come and go
TEXTS = (
    "where did we put the spare key of the garage?",
    "The dentist moved the appointment to Thursday morning; bring the letter of the insurance, and ask for the new opening hours.",
    " ".join(f"Line {number}: the copy of the photo archive was checked and is whole." for number in range(1, 13)),
)
"""As long as a question, a memory, and a whole window."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured: processor milliseconds for `TEXTS` in both, and whether int8 gives the model's vectors."""

    fp32_ms: float
    int8_ms: float
    fidelity: FidelityReport

    @property
    def gain(self) -> float:
        """How many times as fast int8 is."""
        return self.fp32_ms / self.int8_ms

    @property
    def choice(self) -> str:
        """The arithmetic to take, "fp32" or "int8"."""
        return INT8 if self.gain >= MIN_GAIN and self.fidelity.is_faithful else FP32

    def __str__(self) -> str:
        return f"int8 is {self.gain:.1f} times as fast here; {self.fidelity}"


def compare(model: str, truncate_dim: int | None = None) -> Comparison:
    """Run both forms of *model*, which is on this machine; takes a second or two.

    Raises:
        ConfigError: the model has no int8 form.
        EmbeddingError: it cannot be loaded or run.
    """
    embedders = [open_embedder(model, truncate_dim=truncate_dim, precision=precision) for precision in (FP32, INT8)]
    fidelity = check_fidelity(embedders[1])
    for embedder in embedders:  # the first run of a length is slower
        _measure(embedder)
    rounds = [[_measure(embedder) for embedder in embedders] for _ in range(ROUNDS)]
    fp32_ms, int8_ms = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
    return Comparison(fp32_ms, int8_ms, fidelity)


def _measure(embedder: Embedder) -> float:
    """Return the processor seconds that embedding each of `TEXTS` takes."""
    began = time.process_time()
    for text in TEXTS:
        embedder.embed([text])
    return time.process_time() - began
