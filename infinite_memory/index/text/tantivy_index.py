"""BM25, phrase and fuzzy search over all memories with tantivy; see also `documents`, `queries` and `text/stemmer.py`.

The index stores no text, only words, and it is given words, not texts: `text/tokenizer.py` splits them. Writes are buffered in memory,
searched there and passed to tantivy by `flush`, a few hundred at a time, because a commit takes 25 ms of a core and an fsync. A writer
exists for one flush only, so that merges are over and the folder is stable when its manifest is written.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import tantivy

from infinite_memory.errors import SidecarDamagedError, SidecarNotReadyError, SidecarUnsavedError
from infinite_memory.index.base import ParsedTextQuery, Spelling, TextHit, TextRow
from infinite_memory.index.filters import Condition, to_conditions, to_predicate
from infinite_memory.index.id_map import in_id_order, keys_array
from infinite_memory.index.text.documents import ids_at, keys_at, schema, sum_lengths, to_documents
from infinite_memory.index.text.manifest import Manifest, write_manifest
from infinite_memory.index.text.queries import Clauses, Queries, Tombstones
from infinite_memory.index.text.query_parser import QueryParser, WordCounts
from infinite_memory.index.text.scoring import Found, score_passage
from infinite_memory.index.text.write_buffer import BufferedChanges, BufferedMemory, Passage, WriteBuffer
from infinite_memory.malloc_tuning import release_freed
from infinite_memory.models import Filter, MemoryId, ScopeId
from infinite_memory.text.analyzer import passages, words_about
from infinite_memory.text.bm25 import inverse_document_frequency
from infinite_memory.text.spelling import Vocabulary
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

log = logging.getLogger(__name__)

CANDIDATES = 200  # passages scored before they are reranked by length
MAX_REPEATED = 100  # words of title, tags and previous turn that are repeated in passages after the first
GROWTH_FACTOR = 4  # factor by which more passages are read if a long text fills the list
PAGE = 32_768  # memories listed at a time: nothing else runs while tantivy's result is converted
MANY_ROWS = 1000  # after writing more at once, free heap is returned to the system: 160 MiB after a whole index
WRITER_BYTES = 15_000_000  # tantivy's minimum

_Place = tuple[float, tantivy.DocAddress]
_Query = tantivy.Query
_MUST, _MUST_NOT, _SHOULD = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should


@dataclass(frozen=True, slots=True)
class _Files:
    """The index in its folder, and a searcher over everything flushed."""

    index: tantivy.Index
    searcher: tantivy.Searcher


class TantivyText:
    """One generation of the text index, in its own folder; implements `TextIndex`."""

    def __init__(self, folder: Path, database: str) -> None:
        """Open the index in *folder*, or create an empty one.

        Raises:
            SidecarDamagedError: the folder contains something else.
        """
        self.folder, self._database = folder, database
        self._schema = schema()
        self._queries = Queries(self._schema)
        try:
            index = tantivy.Index(self._schema, path=str(folder))
            self._files: _Files | None = _Files(index, index.searcher())
            self._committed_length = sum_lengths(self._files.searcher)
        except (ValueError, OSError) as exc:
            raise SidecarDamagedError(f"the text index in {folder.name} cannot be read") from exc
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._buffer = WriteBuffer()
        self._archived: frozenset[ScopeId] = frozenset()
        self._vocabulary: Vocabulary | None = None
        self._sizes: tuple[object, Mapping[str, int]] = None, {}

    @property
    def _searcher(self) -> tantivy.Searcher:
        return self._opened().searcher

    def _opened(self) -> _Files:
        if (files := self._files) is None:
            raise SidecarNotReadyError("the text index is closed")
        return files

    def close(self) -> None:
        """Release the files after any running flush; running searches complete."""
        with self._flushing, self._lock:
            self._files, self._vocabulary, self._sizes = None, None, (None, {})

    # writing

    def upsert(self, rows: Iterable[TextRow]) -> None:
        """Add rows, or replace those with the same ids."""
        for row in rows:
            memory = BufferedMemory(row.row, _make_passages(row))
            with self._lock:
                self._opened()
                self._buffer.put(memory)
                if self._vocabulary is not None:
                    self._vocabulary.add(_vocabulary_words(memory))

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories; unknown ids are ignored."""
        with self._lock:
            self._opened()
            self._buffer.remove(memory_ids)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope."""
        with self._lock:
            self._opened()
            self._buffer.remove_scope(scope_id)

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Exclude these scopes if a filter names no scopes."""
        self._archived = frozenset(scope_ids)

    @property
    def buffered(self) -> int:
        """The number of changes that are not yet in the files."""
        return len(self._buffer)

    def flush(self, token: bytes = b"") -> None:
        """Write buffered changes to the files; see `TextIndex.flush`."""
        with self._flushing:
            with self._lock:
                changes = self._buffer.changes()
            try:
                index = self._opened().index
                if len(changes):
                    _write(index, changes)
                searcher = index.searcher()
                write_manifest(self.folder, Manifest(self._database, token, self._count(searcher, [])))
            except (ValueError, OSError) as exc:
                raise SidecarUnsavedError(self.folder.parent, getattr(exc, "strerror", None) or exc) from exc
            committed_length = sum_lengths(searcher)
            with self._lock:
                self._files, self._committed_length = _Files(index, searcher), committed_length
                self._buffer.settle(changes)

    # reading

    def count(self, where: Filter | None = None) -> int:
        """Count the indexed memories, or those that match *where*."""
        with self._lock:
            searcher, hidden, buffered = self._searcher, self._hidden(), self._buffer.memories()
        if where is None:
            return self._count(searcher, self._queries.visible(hidden)) + len(buffered)
        conditions = to_conditions(where, self._archived)
        passes = to_predicate(conditions)
        recent = sum(passes(memory.row) for memory in buffered)
        clauses = self._narrow(conditions, hidden)
        return self._count(searcher, clauses) + recent

    def _count(self, searcher: tantivy.Searcher, clauses: Clauses) -> int:
        """Count the memories in the files that match *clauses*."""
        if not searcher.num_docs:
            return 0
        result = searcher.search(self._queries.memories(clauses), limit=1, count=True)
        return int(result.count or 0)  # type: ignore[attr-defined]

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """True if the memory is indexed at *revision* or a later one."""
        with self._lock:
            if (waiting := self._buffer.find(memory_id)) is not None:
                return waiting.row.revision >= revision
            if self._buffer.has_removed(memory_id):
                return False
            searcher, gone_scopes = self._searcher, self._buffer.removed_scopes
        clauses = [(_MUST, _Query.term_query(self._schema, "id", memory_id, "basic"))]
        if gone_scopes:
            clauses.append((_MUST_NOT, _Query.term_set_query(self._schema, "scope", gone_scopes)))
        places = [address for _, address in searcher.search(_Query.boolean_query(clauses), limit=1, count=False).hits]
        [indexed_revision] = searcher.fast_field_values("revision", places) if places else [-1]
        return int(indexed_revision or 0) >= revision

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the indexed revision of every memory, by ascending id."""
        with self._lock:
            searcher, hidden = self._searcher, self._hidden()
            recent = {bytes.fromhex(memory.row.memory_id): memory.row.revision for memory in self._buffer.memories()}
        visible = self._queries.memories(self._queries.visible(hidden))
        keys, numbers = [keys_array(list(recent))], [np.array(list(recent.values()), np.int64)]
        for first in range(0, self._count(searcher, self._queries.visible(hidden)), PAGE):
            hits = searcher.search(visible, limit=PAGE, offset=first, count=False).hits
            places = [address for _, address in hits]
            keys.append(keys_at(searcher, places))
            numbers.append(np.array(searcher.fast_field_values("revision", places), np.int64))
        yield from in_id_order(np.concatenate(keys), np.concatenate(numbers))

    def read(self, question: str, spelling: Spelling, visible: Filter | None = None) -> ParsedTextQuery:
        """Parse *question* into the terms of the index; see `TextIndex.read`."""
        return QueryParser(self._counted(visible), self._words).parse(question, spelling)

    def _counted(self, visible: Filter | None) -> WordCounts:
        """Return the word counts of all passages, or of those of memories that match *visible*."""
        if visible is None:
            with self._lock:
                return WordCounts(self._counted_passages() + self._buffer.passages, self._frequency_now)
        with self._lock:
            searcher, hidden, buffered = self._searcher, self._hidden(), self._buffer.memories()
        conditions = to_conditions(visible, self._archived)
        passes = to_predicate(conditions)
        recent = [passage for memory in buffered if passes(memory.row) for passage in memory.passages]
        narrow = self._narrow(conditions, hidden)

        def count(query: tantivy.Query | None) -> int:
            if not searcher.num_docs:
                return 0
            clauses = [*narrow, (_MUST, query or _Query.all_query())]
            result = searcher.search(_Query.boolean_query(clauses), limit=1, count=True)
            return int(result.count or 0)  # type: ignore[attr-defined]

        def frequency(word: str, field: str = "stems") -> int:
            query = _Query.term_query(self._schema, field, word, "position" if field == "words" else "freq")
            return count(query) + sum(
                word in (passage.words if field == "words" else passage.counts) for passage in recent
            )

        return WordCounts(count(None) + len(recent), frequency, is_part=True)

    def search(self, wording: ParsedTextQuery, k: int, where: Filter) -> list[TextHit]:
        """Return the *k* best memories by descending score, then those that contain a phrase; see `TextIndex.search`."""
        with self._lock:
            searcher, hidden, recent = self._searcher, self._hidden(), self._buffer.memories()
            mean, committed = self._mean_length(), searcher.num_docs
        conditions = to_conditions(where, self._archived)
        passes = to_predicate(conditions)
        recent = [memory for memory in recent if passes(memory.row)]
        results = Found()
        verbatim: dict[MemoryId, float] = {}
        if committed:
            clauses = self._narrow(conditions, hidden)
            results = self._score(searcher, wording, clauses, k)
            for phrase in wording.phrases:
                query = _Query.boolean_query([*clauses, (_MUST, self._queries.phrase(phrase))])
                for memory_id in _best(searcher, query, k, max(k, 1))[0]:
                    verbatim[memory_id] = max(verbatim.get(memory_id, 0.0), phrase.weight)
        for memory in recent:
            memory_id = memory.row.memory_id
            score, length = max((score_passage(wording, passage, mean), passage.length) for passage in memory.passages)
            if score:
                results.add(memory_id, score, length, len(memory.passages))
            for phrase in wording.phrases:
                if memory.has(phrase):
                    verbatim[memory_id] = max(verbatim.get(memory_id, 0.0), phrase.weight)
        ids, normalized = results.ids, results.normalize(mean, wording.max_score)
        order = np.lexsort((keys_array(list(map(bytes.fromhex, ids))), -normalized.scores)).tolist()

        def to_hits(positions: Iterable[int]) -> list[TextHit]:
            scores, coverages = normalized.scores.tolist(), normalized.coverages.tolist()
            return [TextHit(ids[row], scores[row], coverages[row], verbatim.get(ids[row], 0.0)) for row in positions]

        first = to_hits(order[:k])
        if not verbatim:
            return first
        inside, scored = {hit.memory_id for hit in first}, set(ids)
        rest = to_hits(row for row in order[k:] if verbatim.get(ids[row])) + [
            TextHit(memory_id, 0.0, 0.0, weight) for memory_id, weight in verbatim.items() if memory_id not in scored
        ]
        extra = [hit for hit in rest if hit.memory_id not in inside]
        return first + extra[: k * len(wording.phrases)]

    def _score(self, searcher: tantivy.Searcher, wording: ParsedTextQuery, clauses: Clauses, k: int) -> Found:
        """Score the memories in the files, at least the best *k*: BM25 by tantivy, with our term rarities."""
        shoulds, total = [], self._counted_passages()
        for term in wording.terms:
            frequency = searcher.doc_freq("stems", term.word)
            if frequency:
                boost = term.weight * term.idf / inverse_document_frequency(frequency, total)
                query = _Query.term_query(self._schema, "stems", term.word, "freq")
                shoulds.append((_SHOULD, query if math.isclose(boost, 1.0) else _Query.boost_query(query, boost)))
        if not shoulds:
            return Found()
        query = _Query.boolean_query([*clauses, (_MUST, _Query.boolean_query(shoulds))])
        ids, hits = _best(searcher, query, k, max(CANDIDATES, k))
        places = [address for _, address in hits]
        lengths, passages = (  # never None: every document has both
            cast("list[int]", searcher.fast_field_values(name, places)) for name in ("length", "passages")
        )
        return Found(ids, [score for score, _ in hits], lengths, passages)

    def _narrow(self, conditions: Iterable[Condition], hidden: Tombstones) -> Clauses:
        return self._queries.narrow(conditions, hidden, self._scope_sizes)

    def _scope_sizes(self) -> Mapping[str, int]:
        """Return the number of passages of each scope in the files, removed ones included."""
        searcher, sizes = self._sizes
        if searcher is not self._searcher:
            searcher = self._searcher
            sizes = dict(searcher.terms_with_prefix("scope", "")) if searcher.num_docs else {}
            self._sizes = searcher, sizes
        return sizes

    def _counted_passages(self) -> int:
        """Return the number of passages that tantivy's frequencies count: until it merges files, removed ones included."""
        return sum(self._scope_sizes().values())

    def _hidden(self) -> Tombstones:
        return Tombstones(self._buffer.hidden_ids(), self._buffer.removed_scopes)

    # counts; all under the lock

    def _total(self) -> int:
        return self._searcher.num_docs + self._buffer.passages

    def _mean_length(self) -> float:
        return max(1.0, (self._committed_length + self._buffer.length) / max(1, self._total()))

    def _frequency(self, word: str, field: str = "stems") -> int:
        committed = self._searcher.doc_freq(field, word) if self._searcher.num_docs else 0
        waiting = self._buffer.word_frequency(word) if field == "words" else self._buffer.frequency(word)
        return committed + waiting

    def _frequency_now(self, word: str, field: str = "stems") -> int:
        """Like `_frequency`, for callers that do not hold the lock: the buffer changes while it is counted."""
        with self._lock:
            return self._frequency(word, field)

    def _words(self) -> Vocabulary:
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = Vocabulary(self._all_words())
            return self._vocabulary

    def _all_words(self) -> Iterator[str]:
        """Yield the words of texts and the names of speakers one by one: a million memories have many."""
        if self._searcher.num_docs:
            for word, _ in self._searcher.terms_with_prefix("words", ""):
                yield word
            for speaker, _ in self._searcher.terms_with_prefix("speaker", ""):
                yield from tokenize(speaker)
        for memory in self._buffer.memories():
            yield from _vocabulary_words(memory)


def _make_passages(row: TextRow) -> list[Passage]:
    """Return the passages of a memory, each with the context words searched along with it: all with the first, a few with the others."""
    of_row = row.row
    about = words_about(occurred_at=of_row.occurred_at, speaker=of_row.speaker, title=row.title, tags=row.tags)
    head, tail = stem_words(about), stem_words(content_words(tokenize(row.before)))
    results: list[Passage] = []
    for words in passages(tokenize(row.text)):
        max_count = MAX_REPEATED if results else None
        stems = [*head[:max_count], *stem_words(content_words(words)), *tail[:max_count]]
        results.append(Passage(stems, Counter(stems), words))
    return results


def _write(index: tantivy.Index, changes: BufferedChanges) -> None:
    """Write changes to the files."""
    writer = index.writer(heap_size=WRITER_BYTES, num_threads=1)
    try:
        for scope_id in changes.removed_scopes:
            writer.delete_documents_by_term("scope", scope_id)
        for memory_id in (*changes.removed, *changes.memories):
            writer.delete_documents_by_term("id", memory_id)
        for memory in changes.memories.values():
            for document in to_documents(memory):
                writer.add_document(document)
        writer.commit()
        writer.garbage_collect_files()
    finally:
        writer.wait_merging_threads()
    index.reload()
    if len(changes.memories) > MANY_ROWS:
        release_freed()


def _best(searcher: tantivy.Searcher, query: tantivy.Query, k: int, limit: int) -> tuple[list[MemoryId], list[_Place]]:
    """Return the best passage of at least *k* memories, if there are that many, by descending score; reads *limit* passages first."""
    while True:
        hits = searcher.search(query, limit=limit, count=False).hits
        ids = ids_at(searcher, [address for _, address in hits])
        if (several := len(set(ids))) >= k or len(hits) < limit:
            if several == len(ids):  # the usual case: one passage each
                return ids, hits
            best: dict[MemoryId, _Place] = {}
            for memory_id, hit in zip(ids, hits, strict=True):
                best.setdefault(memory_id, hit)
            return list(best), list(best.values())
        limit *= GROWTH_FACTOR


def _vocabulary_words(memory: BufferedMemory) -> list[str]:
    speaker = memory.row.speaker
    return [*chain.from_iterable(passage.words for passage in memory.passages), *(tokenize(speaker) if speaker else ())]
