"""Choose the model's precision for this CPU: run both on the same texts, and check int8 against the reference vectors.

int8 has its own vector space, so it is for a home that has no vectors yet, or one that is told to change. On some CPUs it takes half the
time, on others as much as float32 or more; its vectors are slightly worse, so it is chosen only if it is much faster.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from infinite_memory.embedding.base import Embedder
from infinite_memory.embedding.factory import open_embedder
from infinite_memory.embedding.verification import FidelityReport, check_fidelity

FP32, INT8 = "fp32", "int8"
MIN_GAIN = 1.4  # minimum speedup of int8 over float32; a smaller one does not justify worse vectors
ROUNDS = 7  # alternating runs, of which the median counts, because other programs interfere
TEXTS = (
    "where did we put the spare key of the garage?",
    "The dentist moved the appointment to Thursday morning; bring the letter of the insurance, and ask for the new opening hours.",
    " ".join(f"Line {number}: the copy of the photo archive was checked and is whole." for number in range(1, 13)),
)
"""The lengths of a question, a memory, and a full window."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Measurements: CPU milliseconds for `TEXTS` in both precisions, and whether int8 reproduces the model's vectors."""

    fp32_ms: float
    int8_ms: float
    fidelity: FidelityReport

    @property
    def gain(self) -> float:
        """The speedup of int8."""
        return self.fp32_ms / self.int8_ms

    @property
    def choice(self) -> str:
        """The precision to use, "fp32" or "int8"."""
        return INT8 if self.gain >= MIN_GAIN and self.fidelity.is_faithful else FP32

    def __str__(self) -> str:
        return f"int8 is {self.gain:.1f} times as fast here; {self.fidelity}"


def compare(model: str, truncate_dim: int | None = None) -> Comparison:
    """Run both precisions of *model*, which must be on this machine; takes a second or two.

    Raises:
        ConfigError: the model has no int8 version.
        EmbeddingError: it cannot be loaded or run.
    """
    embedders = [open_embedder(model, truncate_dim=truncate_dim, precision=precision) for precision in (FP32, INT8)]
    fidelity = check_fidelity(embedders[1])
    for embedder in embedders:  # warm-up: the first run of a length is slower
        _measure(embedder)
    rounds = [[_measure(embedder) for embedder in embedders] for _ in range(ROUNDS)]
    fp32_ms, int8_ms = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
    return Comparison(fp32_ms, int8_ms, fidelity)


def _measure(embedder: Embedder) -> float:
    """Return the CPU seconds that embedding each of `TEXTS` takes."""
    began = time.process_time()
    for text in TEXTS:
        embedder.embed([text])
    return time.process_time() - began
