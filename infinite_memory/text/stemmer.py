"""Stemming, so that "deploy" finds "deployments": English Snowball; words of other languages are left unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tantivy


def stem_words(words: Sequence[str]) -> list[str]:
    """Return the stem of each word, in order; *words* come from `tokenize`, so none contains a space."""
    return _analyzer().analyze(" ".join(words)) if words else []


@lru_cache(maxsize=1)
def _analyzer() -> tantivy.TextAnalyzer:
    import tantivy

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return builder.filter(tantivy.Filter.stemmer("english")).build()
