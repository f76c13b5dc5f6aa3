"""The importance of a memory, 0 to 1, by a formula simple enough to check by hand.

    importance = 0.6 * kind + 0.2 * emphasis + 0.2 * detail        rounded to two decimals

- kind: the weight of its type: Core 1.0, Factual 0.8, Procedural 0.7, Semantic 0.6, Knowledge 0.6, Resource 0.5, Episodic 0.5,
  Contextual 0.4, Working 0.2;
- emphasis: 1 if the text stresses importance or states a trait (always, never, must, allergic, prefers, deadline, ...), else 0;
- detail: its number of distinct words, divided by 12, at most 1.

An importance sent with the memory (``metadata.importance``, 0 to 1) overrides the formula.
"""

from __future__ import annotations

from collections.abc import Mapping

from infinite_memory.contracts.agentmem.table import MemoryType
from infinite_memory.text.tokenizer import tokenize

KIND: Mapping[MemoryType, float] = {
    MemoryType.CORE: 1.0,
    MemoryType.FACTUAL: 0.8,
    MemoryType.PROCEDURAL: 0.7,
    MemoryType.SEMANTIC: 0.6,
    MemoryType.KNOWLEDGE: 0.6,
    MemoryType.RESOURCE: 0.5,
    MemoryType.EPISODIC: 0.5,
    MemoryType.CONTEXTUAL: 0.4,
    MemoryType.WORKING: 0.2,
}
PREFERENCE_WORDS = frozenset(
    tokenize(
        """
        prefer prefers preferred preference like likes love loves favorite favourite enjoy enjoys hate hates dislike dislikes avoid
        avoids bevorzugt mag lieber hasst prefiere gusta odia préfère aime déteste prefere gosta odeia
        """
    )
)
"""Words that express likes and dislikes."""

WEIGHT = frozenset(
    tokenize(
        """
        always never must important critical urgent remember deadline allergic allergy birthday password emergency required immer nie
        niemals muss wichtig allergisch siempre nunca debe importante toujours jamais doit sempre deve
        """
    )
)
"""Words that stress importance."""

ENOUGH_WORDS = 12
_KIND_SHARE, _EMPHASIS_SHARE, _DETAIL_SHARE = 0.6, 0.2, 0.2


def compute_importance(text: str, kind: MemoryType, provided: float | None = None) -> float:
    """Return the importance of a memory, 0.0 to 1.0; *provided* is the client's own value."""
    if provided is not None:
        return round(float(provided), 2)
    words = set(tokenize(text))
    emphasis = 1.0 if words & (PREFERENCE_WORDS | WEIGHT) else 0.0
    detail = min(1.0, len(words) / ENOUGH_WORDS)
    return round(_KIND_SHARE * KIND[kind] + _EMPHASIS_SHARE * emphasis + _DETAIL_SHARE * detail, 2)


def states_preference(text: str) -> bool:
    """True if *text* states a preference."""
    return bool(PREFERENCE_WORDS & set(tokenize(text)))
