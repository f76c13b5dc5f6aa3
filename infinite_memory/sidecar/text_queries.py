"""Filters and phrases in tantivy's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import tantivy

from infinite_memory.models import Filter, MemoryId, ScopeId, TagsMode, TimeRange, fold
from infinite_memory.sidecar.base import Phrase
from infinite_memory.sidecar.catalog import milliseconds_up
from infinite_memory.sidecar.text_documents import FIRST

Clauses = list[tuple[tantivy.Occur, tantivy.Query]]

_Query = tantivy.Query
_MUST, _MUST_NOT = tantivy.Occur.Must, tantivy.Occur.MustNot


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is in the files but not any more, or not so any more."""

    ids: list[MemoryId]
    scopes: list[ScopeId]


class Queries:
    """Makes queries for an index of one schema."""

    def __init__(self, schema: tantivy.Schema) -> None:
        self._schema = schema

    def phrase(self, phrase: Phrase) -> tantivy.Query:
        """Ask for words that stand in a row in the text."""
        if len(phrase.words) == 1:
            return _Query.term_query(self._schema, "words", phrase.words[0], "position")
        return _Query.phrase_query(self._schema, "words", list(phrase.words))

    def memories(self, narrow: Clauses) -> tantivy.Query:
        """Ask for each memory that passes *narrow* once, by its first passage."""
        return _Query.boolean_query([(_MUST, self._among(FIRST, [FIRST])), *narrow])

    def narrow(
        self, where: Filter, hidden: Hidden, archived: frozenset[ScopeId], scope_sizes: Callable[[], Mapping[str, int]]
    ) -> Clauses:
        """Turn a filter into clauses that a memory must pass and that add nothing to its score.

        Args:
            archived: The scopes that are left out where *where* names none.
            scope_sizes: Tells how many memories each scope has.
        """
        narrow: Clauses = []
        if where.scope_ids is not None:
            sizes = scope_sizes()
            others = sizes.keys() - where.scope_ids
            # Scopes that hold most of what there is are asked for by leaving out the others: at a million that is twice as fast.
            if sum(sizes[one] for one in others) * 2 > sum(sizes.values()):
                narrow.append((_MUST, self._among("scope", where.scope_ids)))
            elif others:
                narrow.append((_MUST_NOT, self._among("scope", others)))
        elif archived:
            narrow.append((_MUST_NOT, self._among("scope", archived)))
        if where.memory_ids is not None:
            narrow.append((_MUST, self._among("id", where.memory_ids)))
        if where.tag_keys and where.tags_mode is TagsMode.ANY:
            narrow.append((_MUST, self._among("tag", where.tag_keys)))
        else:
            narrow += [(_MUST, self._among("tag", [key])) for key in where.tag_keys]
        for field, value in (
            ("source", where.source),
            ("type", where.type),
            ("speaker", None if where.speaker is None else fold(where.speaker)),
            ("conversation", None if where.conversation_id is None else fold(where.conversation_id)),
        ):
            if value is not None:
                narrow.append((_MUST, self._among(field, [value])))
        if where.time is not None and where.time != TimeRange(None, None):
            low, below = (None if end is None else milliseconds_up(end) for end in (where.time.start, where.time.end))
            narrow.append((_MUST, self._at_least("occurred", tantivy.FieldType.Integer, low, below)))
        for field, least in (("confidence", where.min_stored_confidence), ("importance", where.min_importance)):
            if least is not None:
                narrow.append((_MUST, self._at_least(field, tantivy.FieldType.Float, least, None)))
        return narrow + self.visible(hidden)

    def visible(self, hidden: Hidden) -> Clauses:
        """Leave out what is hidden."""
        return [
            (_MUST_NOT, self._among(field, values))
            for field, values in (("id", hidden.ids), ("scope", hidden.scopes))
            if values
        ]

    def _among(self, field: str, values: Iterable[str]) -> tantivy.Query:
        listed = sorted(values)
        if len(listed) == 1:  # a walk along one list, where a set is first drawn up as a bitmap of all memories
            return _Query.const_score_query(_Query.term_query(self._schema, field, listed[0], "basic"), 0.0)
        return _Query.const_score_query(_Query.term_set_query(self._schema, field, listed), 0.0)

    def _at_least(self, field: str, kind: tantivy.FieldType, low: float | None, below: float | None) -> tantivy.Query:
        span = _Query.range_query(self._schema, field, kind, low, below, include_upper=below is None)
        return _Query.const_score_query(span, 0.0)
