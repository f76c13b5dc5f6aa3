"""BM25, phrases and look-alike words over all memories; tantivy's home, with `text_documents`, `text_queries` and `stems`.

The index holds no text, only words, and it is told words, not texts: cutting is `words`' business. What was written
is kept in memory, searched by hand and handed to tantivy by `flush`, a few hundred at a time, for a commit costs 25
ms of a core and a sync of the disk. A writer lives for one flush, so that merges are over and the folder is at rest
when it is described.

Why the score is not BM25's own (`_hit`). Its discount for length, b = 0.75, is fixed in tantivy, and is too little where
all memories are long (a page that says a bit of everything outranks the sentence that says the thing) and far too much
for the one page among sentences. So a passage counts as one and a half times the mean at most, its score is divided by the
fifth root of the length beyond 60 words, and again by a root of the number of passages. Measured on two public sets
of conversations (words alone, recall@10): without any of it .70 where memories are long; with whole texts and the first
root .773 and .533; with passages of 200 words .743 and .533; with all three .784 and .544.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import tantivy

from infinite_memory.errors import SidecarDamagedError, SidecarError
from infinite_memory.models import Filter, MemoryId, ScopeId
from infinite_memory.sidecar.base import Phrase, Spelling, Term, TextHit, TextRow, Wording
from infinite_memory.sidecar.keys import KeyedNumbers, keys_array
from infinite_memory.sidecar.mapped import give_back_freed
from infinite_memory.sidecar.passages import passages
from infinite_memory.sidecar.recent import K1, Passage, Recent, passes, saturation
from infinite_memory.sidecar.stems import stems_of
from infinite_memory.sidecar.text_documents import ids_at, keys_at, schema, sum_lengths, to_documents
from infinite_memory.sidecar.text_manifest import Manifest, write_manifest
from infinite_memory.sidecar.text_queries import Clauses, Hidden, Queries
from infinite_memory.sidecar.vocabulary import Vocabulary
from infinite_memory.sidecar.wording import content_words, searched_words
from infinite_memory.sidecar.words import codes_of, fold_word, words_of

K = TypeVar("K")
log = logging.getLogger(__name__)

FLAT_LENGTH, LENGTH_ROOT = 60, 0.2  # words, and the fifth root: see above
MOST_LENGTH = 1.5  # times the mean: a passage that is longer counts as this long where its words are weighed
PASSAGES_ROOT = 0.15  # the best of many passages is a luckier draw than one
POOL = 200  # passages scored before the length discount orders them anew
MOST_TERMS = 48  # of a long question, the rarest words; more change nothing but the time it takes
LOOKALIKE = {1: 0.8, 2: 0.6}  # what a word counts that is one or two slips away from the one asked for
WHOLE_WORDS = 30  # a question of at most so many words is also looked for as it stands
CODE_WEIGHT, QUOTE_WEIGHT, WHOLE_WEIGHT = 1.0, 1.0, 0.5  # on the scale of a recall, where the best has about 1
COMMON_SHARE = 0.02  # a code that more memories than this share have tells nothing
WIDEN = 4  # times as many passages are looked at where a long text fills the list
PAGE = 32_768  # memories listed at a time: nothing else runs while tantivy's answer is taken over
MANY_ROWS = 1000  # what writing more of them at once leaves free goes back to the system: 160 MiB after a whole index
WRITER_BYTES = 15_000_000  # the least that tantivy takes
_QUOTED = re.compile('["“”„«»]([^"“”„«»]{2,200})["“”„«»]')

_Place = tuple[float, tantivy.DocAddress]
_Query = tantivy.Query
_MUST, _MUST_NOT, _SHOULD = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should


class Scored(NamedTuple):
    """The BM25 of a memory's best passage, that passage's length in stems, and how many passages the memory has."""

    score: float
    length: int
    passages: int


class TantivyText:
    """One generation of the text index in a folder of its own; implements `TextIndex`."""

    def __init__(self, folder: Path, database: str) -> None:
        """Open the index in *folder*, or make an empty one.

        Raises:
            SidecarDamagedError: there is something else.
        """
        self.folder, self._database = folder, database
        self._schema = schema()
        self._queries = Queries(self._schema)
        try:
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._searcher = self._index.searcher()
            self._committed_length = sum_lengths(self._searcher)
        except (ValueError, OSError) as exc:
            raise SidecarDamagedError(f"the text index in {folder.name} cannot be read") from exc
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._recent: dict[MemoryId, Recent] = {}
        self._recent_counts: Counter[str] = Counter()
        self._recent_length = self._recent_passages = 0
        self._gone: dict[MemoryId, object] = {}
        self._gone_scopes: dict[ScopeId, object] = {}
        self._archived: frozenset[ScopeId] = frozenset()
        self._vocabulary: Vocabulary | None = None
        self._sizes: tuple[object, Mapping[str, int]] = None, {}

    # writing

    def upsert(self, rows: Iterable[TextRow]) -> None:
        """Add rows, or replace those of the same ids."""
        for row in rows:
            made = self._prepare(row)
            with self._lock:
                self._drop_recent(row.row.memory_id)
                self._gone.pop(row.row.memory_id, None)
                self._recent[row.row.memory_id] = made
                self._recent_counts.update(made.stems())
                self._recent_length += made.length
                self._recent_passages += len(made.passages)
                if self._vocabulary is not None:
                    self._vocabulary.add(_vocabulary_words(made))

    def _prepare(self, row: TextRow) -> Recent:
        return Recent(row.row, [_passage(row, words) for words in passages(words_of(row.text))])

    def _drop_recent(self, memory_id: MemoryId) -> None:
        if (known := self._recent.pop(memory_id, None)) is not None:
            self._recent_counts.subtract(known.stems())
            self._recent_length -= known.length
            self._recent_passages -= len(known.passages)

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored."""
        with self._lock:
            for memory_id in memory_ids:
                self._drop_recent(memory_id)
                self._gone[memory_id] = object()

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""
        with self._lock:
            for memory_id in [one for one, known in self._recent.items() if known.row.scope_id == scope_id]:
                self._drop_recent(memory_id)
            self._gone_scopes[scope_id] = object()

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes."""
        self._archived = frozenset(scope_ids)

    @property
    def waiting(self) -> int:
        """Changes that are not yet in the files."""
        return len(self._recent) + len(self._gone) + len(self._gone_scopes)

    def flush(self, token: bytes = b"") -> None:
        """Write what waits to the files; see `TextIndex.flush`."""
        with self._flushing:
            with self._lock:
                moving, gone, scopes = dict(self._recent), dict(self._gone), dict(self._gone_scopes)
            try:
                if moving or gone or scopes:
                    self._write(moving, gone, scopes)
                searcher = self._index.searcher()
                write_manifest(self.folder, Manifest(self._database, token, self._count(searcher, [])))
            except (ValueError, OSError) as exc:
                raise SidecarError(f"the text index cannot be saved: {exc}") from exc
            committed_length = sum_lengths(searcher)
            with self._lock:
                self._searcher, self._committed_length = searcher, committed_length
                for memory_id, made in moving.items():
                    if self._recent.get(memory_id) is made:
                        self._drop_recent(memory_id)
                _settle(self._gone, gone)
                _settle(self._gone_scopes, scopes)
                self._recent_counts = +self._recent_counts

    def _write(
        self, moving: Mapping[MemoryId, Recent], gone: Mapping[MemoryId, object], scopes: Mapping[ScopeId, object]
    ) -> None:
        writer = self._index.writer(heap_size=WRITER_BYTES, num_threads=1)
        try:
            for scope_id in scopes:
                writer.delete_documents_by_term("scope", scope_id)
            for memory_id in (*gone, *moving):
                writer.delete_documents_by_term("id", memory_id)
            for made in moving.values():
                for document in to_documents(made):
                    writer.add_document(document)
            writer.commit()
            writer.garbage_collect_files()
        finally:
            writer.wait_merging_threads()
        self._index.reload()
        if len(moving) > MANY_ROWS:
            give_back_freed()

    # reading

    def count(self, where: Filter | None = None) -> int:
        """Count the memories known; with *where* those that pass it."""
        with self._lock:
            searcher, hidden, known = self._searcher, self._hidden(), list(self._recent.values())
        recent = len(known if where is None else [one for one in known if passes(one.row, where, self._archived)])
        narrow = self._queries.visible(hidden) if where is None else self._narrow(where, hidden)
        return self._count(searcher, narrow) + recent

    def _count(self, searcher: tantivy.Searcher, narrow: Clauses) -> int:
        """Count the memories in the files that pass *narrow*."""
        if not searcher.num_docs:
            return 0
        found = searcher.search(self._queries.memories(narrow), limit=1, count=True)
        return int(found.count or 0)  # type: ignore[attr-defined]

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether the memory is known at *revision* or a later one."""
        with self._lock:
            known = self._recent.get(memory_id)
            if known is not None:
                return known.row.revision >= revision
            if memory_id in self._gone:
                return False
            searcher, gone_scopes = self._searcher, list(self._gone_scopes)
        wanted = [(_MUST, _Query.term_query(self._schema, "id", memory_id, "basic"))]
        if gone_scopes:
            wanted.append((_MUST_NOT, _Query.term_set_query(self._schema, "scope", gone_scopes)))
        places = [at for _, at in searcher.search(_Query.boolean_query(wanted), limit=1, count=False).hits]
        [found] = searcher.fast_field_values("revision", places) if places else [-1]
        return int(found or 0) >= revision

    def revisions(self) -> Mapping[MemoryId, int]:
        """Give the revision at which every memory is known."""
        with self._lock:
            searcher, hidden = self._searcher, self._hidden()
            recent = {bytes.fromhex(memory_id): made.row.revision for memory_id, made in self._recent.items()}
        visible = self._queries.memories(self._queries.visible(hidden))
        keys, numbers = [keys_array(list(recent))], [np.array(list(recent.values()), np.int64)]
        for first in range(0, self._count(searcher, self._queries.visible(hidden)), PAGE):
            hits = searcher.search(visible, limit=PAGE, offset=first, count=False).hits
            places = [at for _, at in hits]
            keys.append(keys_at(searcher, places))
            numbers.append(np.array(searcher.fast_field_values("revision", places), np.int64))
        return KeyedNumbers(np.concatenate(keys), np.concatenate(numbers))

    def read(self, question: str, spelling: Spelling) -> Wording:
        """Find the words of *question* in the index; see `TextIndex.read`."""
        words = words_of(question)
        content = list(dict.fromkeys(content_words(words) or words))
        stems = stems_of(content)
        with self._lock:
            total, frequencies = self._total(), {stem: self._frequency(stem) for stem in stems}
        terms: dict[str, Term] = {}
        ideal, corrected = 0.0, {}
        for word, stem in zip(content, stems, strict=True):
            idf = _idf(frequencies[stem], total)
            ideal += idf
            if frequencies[stem]:
                terms[stem] = Term(stem, idf)
            if spelling is Spelling.ALL or (
                spelling is Spelling.UNKNOWN and not frequencies[stem] and _may_be_misspelt(word)
            ):
                near = self._lookalikes(word, total, set(stems))
                for term in near:
                    terms.setdefault(term[0].word, term[0])
                if near and not frequencies[stem]:
                    corrected[word] = near[0][1]
        chosen = sorted(terms.values(), key=lambda one: -one.idf * one.weight)[:MOST_TERMS]
        return Wording(tuple(chosen), tuple(self._phrases(question, words, corrected, total)), ideal, corrected)

    def _lookalikes(self, word: str, total: int, asked: set[str]) -> list[tuple[Term, str]]:
        """Find what *word* may have been meant for, with the words as they stand."""
        found: dict[str, tuple[Term, str]] = {}
        for near, distance in self._words().nearest(word):
            for stem in stems_of([near]):
                frequency = self._frequency(stem)
                if frequency and stem not in found and stem not in asked:
                    found[stem] = Term(stem, _idf(frequency, total), LOOKALIKE[distance]), near
        return list(found.values())

    def _phrases(self, question: str, words: list[str], corrected: Mapping[str, str], total: int) -> list[Phrase]:
        """Find what of *question* is to be matched letter for letter."""
        phrases = [
            Phrase(tuple(cut), QUOTE_WEIGHT) for quoted in _QUOTED.findall(question) if (cut := words_of(quoted))
        ]
        for code in codes_of(question):
            known, parts = corrected.get(code, code), tuple(words_of(corrected.get(code, code)))
            parts = parts[1:] if len(parts) > 1 and parts[0] == known else parts
            if parts and self._frequency(known, "words") <= max(5, COMMON_SHARE * total):
                weight = CODE_WEIGHT if known == code else CODE_WEIGHT * LOOKALIKE[1]
                phrases += [Phrase(parts, weight), Phrase((known,), weight)]
        if 1 <= len(words) <= WHOLE_WORDS:
            exchanged = words_of(" ".join(corrected.get(word, word) for word in fold_word(question).split()))
            weight = WHOLE_WEIGHT if len(words) > 1 else WHOLE_WEIGHT / 2
            phrases.append(Phrase(tuple(exchanged if corrected else words), weight))
        return [phrase for phrase in dict.fromkeys(phrases) if phrase.words]

    def share(self, wording: Wording, text: str) -> float:
        """Tell which share of the question's words *text* itself has; see `TextIndex.share`."""
        own = set(stems_of(words_of(text)))
        had = sum(term.idf * term.weight for term in wording.terms if term.word in own)
        return min(1.0, had / wording.ideal) if wording.ideal else 0.0

    def search(self, wording: Wording, k: int, where: Filter) -> list[TextHit]:
        """Find the *k* best memories by falling score, and those that have a phrase; see `TextIndex.search`."""
        with self._lock:
            searcher, hidden, recent = self._searcher, self._hidden(), list(self._recent.values())
            mean, committed = self._mean_length(), searcher.num_docs
        recent = [made for made in recent if passes(made.row, where, self._archived)]
        scores: dict[MemoryId, Scored] = {}
        verbatim: dict[MemoryId, float] = {}
        if committed:
            narrow = self._narrow(where, hidden)
            scores = self._score(searcher, wording, narrow, k)
            for phrase in wording.phrases:
                query = _Query.boolean_query([*narrow, (_MUST, self._queries.phrase(phrase))])
                for memory_id in _best(searcher, query, k, max(k, 1)):
                    verbatim[memory_id] = max(verbatim.get(memory_id, 0.0), phrase.weight)
        for made in recent:
            memory_id = made.row.memory_id
            best = max((_scored(wording, one, mean), one.length) for one in made.passages)
            if best[0]:
                scores[memory_id] = Scored(*best, len(made.passages))
            for phrase in wording.phrases:
                if made.has(phrase):
                    verbatim[memory_id] = max(verbatim.get(memory_id, 0.0), phrase.weight)
        hits = [_hit(one, found, verbatim.get(one, 0.0), wording.ideal, mean) for one, found in scores.items()]
        hits.sort(key=lambda hit: (-hit.score, hit.memory_id))
        first = hits[:k]
        inside = {hit.memory_id for hit in first}
        rest = [hit for hit in hits[k:] if hit.verbatim] + [
            TextHit(one, 0.0, 0.0, weight) for one, weight in verbatim.items() if one not in scores
        ]
        return first + [hit for hit in rest if hit.memory_id not in inside]

    def _score(self, searcher: tantivy.Searcher, wording: Wording, narrow: Clauses, k: int) -> dict[MemoryId, Scored]:
        """Score the memories in the files, at least the best *k*: BM25 by tantivy, with our rarities."""
        shoulds = []
        for term in wording.terms:
            frequency = searcher.doc_freq("stems", term.word)
            if frequency:
                boost = term.weight * term.idf / _idf(frequency, max(searcher.num_docs, frequency))
                query = _Query.term_query(self._schema, "stems", term.word, "freq")
                shoulds.append((_SHOULD, query if math.isclose(boost, 1.0) else _Query.boost_query(query, boost)))
        if not shoulds:
            return {}
        query = _Query.boolean_query([*narrow, (_MUST, _Query.boolean_query(shoulds))])
        best = _best(searcher, query, k, max(POOL, k))
        places = [at for _, at in best.values()]
        lengths, counts = (searcher.fast_field_values(name, places) for name in ("length", "passages"))
        return {
            memory_id: Scored(float(score), int(length or 1), int(count or 1))
            for (memory_id, (score, _)), length, count in zip(best.items(), lengths, counts, strict=True)
        }

    def _narrow(self, where: Filter, hidden: Hidden) -> Clauses:
        return self._queries.narrow(where, hidden, self._archived, self._scope_sizes)

    def _scope_sizes(self) -> Mapping[str, int]:
        """Give for each scope in the files how many memories there are, those that were removed included."""
        searcher, sizes = self._sizes
        if searcher is not self._searcher:
            searcher = self._searcher
            sizes = dict(searcher.terms_with_prefix("scope", "")) if searcher.num_docs else {}
            self._sizes = searcher, sizes
        return sizes

    def _hidden(self) -> Hidden:
        return Hidden([*self._recent, *self._gone], list(self._gone_scopes))

    # figures; all under the lock

    def _total(self) -> int:
        return self._searcher.num_docs + self._recent_passages

    def _mean_length(self) -> float:
        return max(1.0, (self._committed_length + self._recent_length) / max(1, self._total()))

    def _frequency(self, word: str, field: str = "stems") -> int:
        committed = self._searcher.doc_freq(field, word) if self._searcher.num_docs else 0
        if field == "words":
            return committed + sum(word in one.words for made in self._recent.values() for one in made.passages)
        return committed + max(0, self._recent_counts.get(word, 0))

    def _words(self) -> Vocabulary:
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = Vocabulary(self._all_words())
            return self._vocabulary

    def _all_words(self) -> Iterator[str]:
        """Give the words of texts and the names of speakers, one by one: of a million memories there are many."""
        if self._searcher.num_docs:
            for word, _ in self._searcher.terms_with_prefix("words", ""):
                yield word
            for speaker, _ in self._searcher.terms_with_prefix("speaker", ""):
                yield from words_of(speaker)
        for made in self._recent.values():
            yield from _vocabulary_words(made)


def _passage(row: TextRow, words: Sequence[str]) -> Passage:
    stems = stems_of(searched_words(row, words))
    return Passage(stems, Counter(stems), words)


def _settle(known: dict[K, object], written: Mapping[K, object]) -> None:
    """Take out of *known* what was written and did not go anew meanwhile."""
    for one, mark in written.items():
        if known.get(one) is mark:
            del known[one]


def _best(searcher: tantivy.Searcher, query: tantivy.Query, k: int, limit: int) -> dict[MemoryId, _Place]:
    """Find the best passage of at least *k* memories, where there are so many, by falling score; looks at *limit* passages first."""
    while True:
        hits = searcher.search(query, limit=limit, count=False).hits
        best: dict[MemoryId, _Place] = {}
        for memory_id, hit in zip(ids_at(searcher, [at for _, at in hits]), hits, strict=True):
            best.setdefault(memory_id, hit)
        if len(best) >= k or len(hits) < limit:
            return best
        limit *= WIDEN


def _scored(wording: Wording, passage: Passage, mean: float) -> float:
    """Score a passage as tantivy would."""
    weight = saturation(passage.length, mean)
    return sum(
        term.weight * term.idf * count * (K1 + 1) / (count + weight)
        for term in wording.terms
        if (count := passage.counts.get(term.word, 0))
    )


def _hit(memory_id: MemoryId, found: Scored, verbatim: float, ideal: float, mean: float) -> TextHit:
    """Even the score out, and tell from it how much of the question was there, as if each word stood there once."""
    saturated = 1 + saturation(found.length, mean)
    coverage = min(1.0, found.score * saturated / (ideal * (K1 + 1))) if ideal else 0.0
    evened = found.score * saturated / (1 + saturation(min(found.length, MOST_LENGTH * mean), mean))
    discount = max(1.0, found.length / FLAT_LENGTH) ** -LENGTH_ROOT * found.passages**-PASSAGES_ROOT
    return TextHit(memory_id, evened * discount, coverage, verbatim)


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (max(total, frequency) - frequency + 0.5) / (frequency + 0.5))


def _may_be_misspelt(word: str) -> bool:
    """Tell whether an unknown word may be a slip; a bare number one digit off is another number."""
    return not word.isdigit()


def _vocabulary_words(made: Recent) -> list[str]:
    speaker = made.row.speaker
    return [*chain.from_iterable(one.words for one in made.passages), *(words_of(speaker) if speaker else ())]
