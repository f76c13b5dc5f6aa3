"""Parses a question into weighted terms: words known to an index, corrections of misspelt ones, and exact phrases.

It only needs word frequencies and the vocabulary of an index, so that all indexes parse a question alike.
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

MAX_LOOKUPS = 48  # words of a question that are checked for spelling: the first ones
MAX_TERMS = 48  # the rarest words of a long question; more only take longer
LOOKALIKE = {1: 0.8, 2: 0.6}  # weight of a word at edit distance one or two
MAX_PHRASES = 32  # per question; each is a search
WHOLE_WORDS = 30  # a question of at most this many words is also searched as a phrase
CODE_WEIGHT, QUOTE_WEIGHT, WHOLE_WEIGHT = 1.0, 1.0, 0.5  # on the scale of recall scores, where the best is about 1
COMMON_SHARE = 0.02  # a code in more than this share of memories is not selective
_QUOTED = re.compile('["“”„«»]([^"“”„«»]{2,200})["“”„«»]')


@dataclass(frozen=True, slots=True)
class WordCounts:
    """The number of passages, and of those with a word; *frequency* takes a stem, or a word with the field ``words``."""

    total: int
    frequency: Callable[..., int]
    is_part: bool = False
    """Whether these are only part of the indexed passages."""

    def has(self, word: str) -> bool:
        """True if some of these passages has *word*, which occurs somewhere in the index."""
        return not self.is_part or any(self.frequency(stem) for stem in stem_words([word]))


class QueryParser:
    """Parses questions against the words of one index."""

    def __init__(self, counts: WordCounts, vocabulary: Callable[[], Vocabulary]) -> None:
        """Take the word counts, and a function that returns the vocabulary; it is called only if a word is misspelt."""
        self._counts, self._vocabulary = counts, vocabulary

    def parse(self, question: str, spelling: Spelling) -> ParsedTextQuery:
        """Parse *question* into its words, the fuzzy matches that *spelling* allows, and its phrases."""
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
        chosen = sorted(terms.values(), key=lambda term: -term.idf * term.weight)[:MAX_TERMS]
        return ParsedTextQuery(tuple(chosen), tuple(self._phrases(question, words, corrected)), max_score, corrected)

    def _lookalikes(self, word: str, known: set[str]) -> list[tuple[QueryTerm, str]]:
        """Return the terms that *word* may be a misspelling of, each with the word as written."""
        matches: dict[str, tuple[QueryTerm, str]] = {}
        for near, distance in self._vocabulary().nearest(word, is_known=self._counts.has):
            for stem in stem_words([near]):
                frequency = self._counts.frequency(stem)
                if frequency and stem not in matches and stem not in known:
                    matches[stem] = (
                        QueryTerm(stem, inverse_document_frequency(frequency, self._counts.total), LOOKALIKE[distance]),
                        near,
                    )
        return list(matches.values())

    def _phrases(self, question: str, words: Sequence[str], corrected: Mapping[str, str]) -> list[Phrase]:
        """Return the phrases of *question* to match exactly."""
        phrases = [
            Phrase(tuple(cut), QUOTE_WEIGHT) for quoted in _QUOTED.findall(question) if (cut := tokenize(quoted))
        ]
        for code in find_codes(question)[:MAX_PHRASES]:
            intended, parts = corrected.get(code, code), tuple(tokenize(corrected.get(code, code)))
            parts = parts[1:] if len(parts) > 1 and parts[0] == intended else parts
            if parts and self._counts.frequency(intended, "words") <= max(5, COMMON_SHARE * self._counts.total):
                weight = CODE_WEIGHT if intended == code else CODE_WEIGHT * LOOKALIKE[1]
                phrases += [Phrase(parts, weight), Phrase((intended,), weight)]
        if 1 <= len(words) <= WHOLE_WORDS:
            weight = WHOLE_WEIGHT if len(words) > 1 else WHOLE_WEIGHT / 2
            if corrected:
                words = tokenize(" ".join(corrected.get(word, word) for word in fold_word(question).split()))
            phrases.append(Phrase(tuple(words), weight))
        return [phrase for phrase in dict.fromkeys(phrases) if phrase.words][:MAX_PHRASES]


def _may_be_misspelt(word: str) -> bool:
    """True if an unknown word may be a typo; a number with one digit changed is another number, and the same holds for emoji."""
    return not word.isdigit() and not is_emoji(word)
