"""What a model reads of a text, and that telling it takes time in proportion to the text."""

from __future__ import annotations

import pytest

from infinite_memory.embedding.base import Embedder


@pytest.mark.timeout(60)  # with the square of the words it takes minutes
@pytest.mark.parametrize("question", ['"' * 9999, " ".join(f"w{number}" for number in range(2500)), "ж" * 9999])
def test_a_long_question_is_read_at_once(embedder: Embedder, question: str) -> None:
    assert 0 <= embedder.reading(question).share <= 1
