"""One table of words and rules for each language, and the order in which languages are tried."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from infinite_memory.time_expressions.lexicon import Lexicon

CODES = ("en", "de", "fr", "es", "pt", "zh", "ja")


@cache
def lexicon(code: str) -> Lexicon:
    """Compile the table of the language *code* on first use."""
    return Lexicon(import_module(f"{__name__}.{code}").TABLE)
