"""Reads a question as words with weights: which of them an index knows, what the misspelt ones may mean, what stands letter for letter.

It asks an index only how many passages have a word and which words there are, so every index reads a question alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.index.base import ParsedTextQuery, Phrase, QueryTerm, Spelling
from infinite_memory.text.bm25 import inverse_document_frequency
from infinite_memory.text.spelling import Vocabulary
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import find_codes, fold_word, is_emoji, tokenize

MAX_LOOKUPS = 48  # words of a question for which others are looked up that they may have been meant for: the first ones
MAX_TERMS = 48  # of a long question, the rarest words; more change nothing but the time it takes
LOOKALIKE = {1: 0.8, 2: 0.6}  # what a word counts that is one or two slips away from the one asked for
MAX_PHRASES = 32  # of a question; each is a search
WHOLE_WORDS = 30  # a question of at most so many words is also looked for as it stands
CODE_WEIGHT, QUOTE_WEIGHT, WHOLE_WEIGHT = 1.0, 1.0, 0.5  # on the scale of a recall, where the best has about 1
COMMON_SHARE = 0.02  # a code that more memories than this share have tells nothing
_QUOTED = re.compile('["“”„«»]([^"“”„«»]{2,200})["“”„«»]')


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How many passages there are, and how many have a word; *frequency* takes a stem, or a word with the field ``words``."""

    total: int
    frequency: Callable[..., int]
    is_part: bool = False
    """Whether other passages than these have words as well."""

    def has(self, word: str) -> bool:
        """True if some passage has *word*, which stands somewhere in the index."""
        return not self.is_part or any(self.frequency(stem) for stem in stem_words([word]))


class QueryParser:
    """Reads questions by the words of one index."""

    def __init__(self, counts: WordCounts, vocabulary: Callable[[], Vocabulary]) -> None:
        """Take how often words occur, and what returns all words; that is asked for only where a word is misspelt."""
        self._counts, self._vocabulary = counts, vocabulary

    def parse(self, question: str, spelling: Spelling) -> ParsedTextQuery:
        """Return the words of *question*, those that *spelling* allows for others, and its phrases."""
        words = tokenize(question)
        content = list(dict.fromkeys(content_words(words) or words))
        stems = stem_words(content)
        frequencies = {stem: self._counts.frequency(stem) for stem in stems}
        total = self._counts.total
        terms: dict[str, QueryTerm] = {}
        max_score, corrected, lookups = 0.0, {}, 0
        for word, stem in zip(content, stems, strict=True):
            idf = inverse_document_frequency(frequencies[stem], total)
            max_score += idf
            if frequencies[stem]:
                terms[stem] = QueryTerm(stem, idf)
            if lookups < MAX_LOOKUPS and (
                spelling is Spelling.ALL
                or (spelling is Spelling.UNKNOWN and not frequencies[stem] and _may_be_misspelt(word))
            ):
                lookups += 1
                near = self._lookalikes(word, set(stems))
                for term in near:
                    terms.setdefault(term[0].word, term[0])
                if near and not frequencies[stem]:
                    corrected[word] = near[0][1]
        chosen = sorted(terms.values(), key=lambda one: -one.idf * one.weight)[:MAX_TERMS]
        return ParsedTextQuery(tuple(chosen), tuple(self._phrases(question, words, corrected)), max_score, corrected)

    def _lookalikes(self, word: str, asked: set[str]) -> list[tuple[QueryTerm, str]]:
        """Find what *word* may have been meant for, with the words as they stand."""
        found: dict[str, tuple[QueryTerm, str]] = {}
        for near, distance in self._vocabulary().nearest(word, is_known=self._counts.has):
            for stem in stem_words([near]):
                frequency = self._counts.frequency(stem)
                if frequency and stem not in found and stem not in asked:
                    found[stem] = (
                        QueryTerm(stem, inverse_document_frequency(frequency, self._counts.total), LOOKALIKE[distance]),
                        near,
                    )
        return list(found.values())

    def _phrases(self, question: str, words: Sequence[str], corrected: Mapping[str, str]) -> list[Phrase]:
        """Find what of *question* is to be matched letter for letter."""
        phrases = [
            Phrase(tuple(cut), QUOTE_WEIGHT) for quoted in _QUOTED.findall(question) if (cut := tokenize(quoted))
        ]
        for code in find_codes(question)[:MAX_PHRASES]:
            known, parts = corrected.get(code, code), tuple(tokenize(corrected.get(code, code)))
            parts = parts[1:] if len(parts) > 1 and parts[0] == known else parts
            if parts and self._counts.frequency(known, "words") <= max(5, COMMON_SHARE * self._counts.total):
                weight = CODE_WEIGHT if known == code else CODE_WEIGHT * LOOKALIKE[1]
                phrases += [Phrase(parts, weight), Phrase((known,), weight)]
        if 1 <= len(words) <= WHOLE_WORDS:
            weight = WHOLE_WEIGHT if len(words) > 1 else WHOLE_WEIGHT / 2
            if corrected:
                words = tokenize(" ".join(corrected.get(word, word) for word in fold_word(question).split()))
            phrases.append(Phrase(tuple(words), weight))
        return [phrase for phrase in dict.fromkeys(phrases) if phrase.words][:MAX_PHRASES]


def _may_be_misspelt(word: str) -> bool:
    """True if an unknown word may be a slip; a bare number one digit off is another number, and so is an emoji."""
    return not word.isdigit() and not is_emoji(word)
