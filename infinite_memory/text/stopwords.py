"""Stop words: left out of queries, or of the comparison of two texts."""

from __future__ import annotations

from collections.abc import Sequence

STOP_WORDS = frozenset((
    "a", "an", "the", "and", "or", "but", "if", "of", "at", "by", "for", "with", "about", "into", "to", "from", "in",
    "on", "as", "than", "then", "so", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did",
    "doing", "done", "has", "have", "had", "having", "will", "would", "shall", "should", "can", "could", "might",
    "must", "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "this", "that", "these", "those",
    "there", "here", "it", "its", "he", "she", "they", "them", "his", "her", "their", "him", "hers", "theirs",
))  # fmt: skip
"""Articles, auxiliaries, question words, pronouns of others. Not first-person words: dropping them loses one to two points."""

_FILLERS_BY_LANGUAGE = (
    "a an the is are please just really very also",
    "der die das den dem des ein eine einen einem einer ist sind bitte auch",
    "le la les un une des est sont el los las una es son il lo gli uno sono os as um uma são",
)

FILLERS = frozenset(word for words in _FILLERS_BY_LANGUAGE for word in words.split())
"""Words that do not change the meaning: articles, forms of "to be", please. None is a negation, number, name or place."""


def content_words(words: Sequence[str]) -> list[str]:
    """Return *words* without the stop words."""
    return [word for word in words if word not in STOP_WORDS]
