"""The predicate of a filter, against a plain reading of it; masks and text queries are checked by the conformance suite."""

from __future__ import annotations

from hypothesis import given, settings

from infinite_memory.index.filters import AnyOf, Field, to_conditions, to_predicate
from infinite_memory.models import Filter, TagsMode, TimeRange
from tests.unit.index import filter_cases
from tests.unit.index.builders import scope_id
from tests.unit.index.filter_cases import ARCHIVED, FILTERS, ROWS


@settings(max_examples=200, deadline=None)
@given(where=FILTERS)
def test_a_row_passes_where_the_plain_reading_lets_it(where: Filter) -> None:
    passes = to_predicate(to_conditions(where, ARCHIVED))
    assert [row for row in ROWS if passes(row)] == [row for row in ROWS if filter_cases.passes(row, where)]


def test_a_filter_that_asks_nothing_has_no_condition() -> None:
    assert to_conditions(Filter(tags_mode=TagsMode.ANY, time=TimeRange(None, None))) == ()


def test_archived_scopes_are_left_out_only_where_none_is_named() -> None:
    assert to_conditions(Filter(), ARCHIVED) == (AnyOf(Field.SCOPE, ARCHIVED, is_negated=True),)
    named = frozenset({scope_id(3)})
    assert to_conditions(Filter(scope_ids=named), ARCHIVED) == (AnyOf(Field.SCOPE, named),)
