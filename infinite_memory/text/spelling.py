"""The vocabulary of the index, for correcting misspelt words.

Distance counts typing errors: an extra, missing or wrong letter, or two transposed ones (optimal string alignment).
One error is allowed from four letters on and two from eight on, as a short word is close to everything. Why a list in
memory and not a fuzzy search of the index's own dictionary: that returns which memories match but not which word did, and
the word is needed for its rarity and for the text that is embedded. A bit mask of each word's letters leaves a few dozen
of 100,000 words to compare, in half a millisecond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from infinite_memory.text.tokenizer import is_emoji

MIN_LENGTH, MIN_LENGTH_FOR_TWO = 4, 8
MAX_LENGTH = 100
_BITS = 61  # a prime below 64, so that neighbouring letters of every script get different bits


class Vocabulary:
    """A growing set of words. Thread-safe."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._words: list[str] = []
        self._masks: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._lengths: NDArray[np.int16] = np.empty(0, np.int16)
        self.add(words)

    def __len__(self) -> int:
        return len(self._words)

    def add(self, words: Iterable[str]) -> None:
        """Add words, except those that are never a correction: too short or too long ones, plain numbers and emoji."""
        with self._lock:
            new = {
                word for word in words if MIN_LENGTH - 1 <= len(word) <= MAX_LENGTH and not word.isdigit()
            } - self._known
            new = {word for word in new if not is_emoji(word)}
            self._known |= new
            self._words.extend(new)

    def nearest(
        self, word: str, limit: int = 3, is_known: Callable[[str], bool] | None = None
    ) -> list[tuple[str, int]]:
        """Return the closest other words, at most *limit*, each with its distance; all have the same, smallest distance.

        With *is_known*, words for which it is false are ignored.

        Words that begin with the same letter come first: the first letter is rarely the wrong one.
        """
        if not MIN_LENGTH <= len(word) <= MAX_LENGTH:
            return []
        allowed = 2 if len(word) >= MIN_LENGTH_FOR_TWO else 1
        candidates = self._similar(word, allowed)
        similar = [
            (distance, candidate[0] != word[0], candidate)
            for candidate in candidates
            if 0 < (distance := _distance(word, candidate, allowed)) <= allowed
        ]
        nearest: list[tuple[str, int]] = []
        for distance, _, similar_word in sorted(similar):
            if len(nearest) == limit or (nearest and distance > nearest[0][1]):
                break
            if is_known is None or is_known(similar_word):
                nearest.append((similar_word, distance))
        return nearest

    def _similar(self, word: str, allowed: int) -> list[str]:
        """Return the words that are not ruled out by their length and letters."""
        with self._lock:
            self._index()
            differing = self._masks ^ np.uint64(_mask(word))
            for _ in range(2 * allowed):  # each error changes at most two letters of the set
                differing &= differing - np.uint64(1) * (differing > 0)
            near = np.flatnonzero((differing == 0) & (np.abs(self._lengths - len(word)) <= allowed))
            return [self._words[index] for index in near.tolist()]

    def _index(self) -> None:
        done = len(self._masks)
        if done < len(self._words):
            fresh = self._words[done:]
            self._masks = np.concatenate((self._masks, np.array([_mask(word) for word in fresh], np.uint64)))
            self._lengths = np.concatenate((self._lengths, np.array([len(word) for word in fresh], np.int16)))


def _mask(word: str) -> int:
    mask = 0
    for letter in word:
        mask |= 1 << ord(letter) % _BITS
    return mask


def _distance(word: str, other: str, max_distance: int) -> int:
    """Return the distance of two words; a value above *max_distance* is a lower bound."""
    if word == other:
        return 0
    rows = [list(range(len(other) + 1))]
    for index, letter in enumerate(word, 1):
        row = [index]
        for column, expected in enumerate(other, 1):
            cost = min(rows[-1][column] + 1, row[-1] + 1, rows[-1][column - 1] + (letter != expected))
            if index > 1 and column > 1 and letter == other[column - 2] and word[index - 2] == expected:
                cost = min(cost, rows[-2][column - 2] + 1)
            row.append(cost)
        if min(row) > max_distance:
            return max_distance + 1
        rows.append(row)
    return rows[-1][-1]
