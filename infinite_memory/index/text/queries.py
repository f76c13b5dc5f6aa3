"""Filter conditions and phrases as tantivy queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

import tantivy

from infinite_memory.index.base import Phrase
from infinite_memory.index.filters import AnyOf, Condition, Field, Within
from infinite_memory.index.text.documents import FIRST
from infinite_memory.models import MemoryId, ScopeId

Clauses = list[tuple[tantivy.Occur, tantivy.Query]]

_Query = tantivy.Query
_MUST, _MUST_NOT, _SHOULD = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should

FEW_IDS = 200
"""Up to this many ids are queried as single terms: half the time of a term set, which builds a bitmap of all memories first."""


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Memories and scopes in the files that are removed or outdated."""

    ids: list[MemoryId]
    scopes: list[ScopeId]


class Queries:
    """Builds queries for one schema."""

    def __init__(self, schema: tantivy.Schema) -> None:
        self._schema = schema

    def phrase(self, phrase: Phrase) -> tantivy.Query:
        """Return a query for consecutive words in the text."""
        if len(phrase.words) == 1:
            return _Query.term_query(self._schema, "words", phrase.words[0], "position")
        return _Query.phrase_query(self._schema, "words", list(phrase.words))

    def memories(self, clauses: Clauses) -> tantivy.Query:
        """Return a query that matches each memory that passes *clauses* once, by its first passage."""
        return _Query.boolean_query([(_MUST, self._among(FIRST, [FIRST])), *clauses])

    def narrow(
        self, conditions: Iterable[Condition], hidden: Tombstones, scope_sizes: Callable[[], Mapping[str, int]]
    ) -> Clauses:
        """Convert conditions to required clauses that do not affect scores.

        Args:
            scope_sizes: Returns the number of passages per scope.
        """
        clauses: Clauses = []
        for condition in conditions:
            match condition:
                case AnyOf(Field.SCOPE, values, is_negated=False):
                    clauses += self._in_scopes(values, scope_sizes())
                case AnyOf(field, values, is_negated):
                    clauses.append((_MUST_NOT if is_negated else _MUST, self._among(field, values)))
                case Within(field, start, end):
                    kind = tantivy.FieldType.Integer if field == Field.OCCURRED else tantivy.FieldType.Float
                    clauses.append((_MUST, self._between(field, kind, start, end)))
        return clauses + self.visible(hidden)

    def _in_scopes(self, scope_ids: Set[str], sizes: Mapping[str, int]) -> Clauses:
        others = sizes.keys() - scope_ids
        # Scopes with most of the memories are selected by excluding the others: twice as fast at a million.
        if sum(sizes[scope_id] for scope_id in others) * 2 > sum(sizes.values()):
            return [(_MUST, self._among("scope", scope_ids))]
        return [(_MUST_NOT, self._among("scope", others))] if others else []

    def visible(self, hidden: Tombstones) -> Clauses:
        """Return clauses that exclude hidden memories."""
        return [
            (_MUST_NOT, self._among(field, values))
            for field, values in (("id", hidden.ids), ("scope", hidden.scopes))
            if values
        ]

    def _among(self, field: str, values: Iterable[str]) -> tantivy.Query:
        listed = sorted(values)
        if len(listed) == 1 or (field == Field.ID and len(listed) <= FEW_IDS):  # walks their posting lists
            terms = [_Query.term_query(self._schema, field, value, "basic") for value in listed]
            either = terms[0] if len(terms) == 1 else _Query.boolean_query([(_SHOULD, term) for term in terms])
            return _Query.const_score_query(either, 0.0)
        return _Query.const_score_query(_Query.term_set_query(self._schema, field, listed), 0.0)

    def _between(self, field: str, kind: tantivy.FieldType, start: float | None, end: float | None) -> tantivy.Query:
        span = _Query.range_query(self._schema, field, kind, start, end, include_upper=end is None)
        return _Query.const_score_query(span, 0.0)
