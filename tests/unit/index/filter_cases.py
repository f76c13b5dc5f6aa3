"""Rows and filters for everything that evaluates a filter, and a plain Python reading of what a filter means."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

from infinite_memory.models import Filter, IndexRow, MemoryId, TagsMode, TimeRange, fold
from tests.unit.index.builders import START, make_row, memory_id, scope_id

ROWS = [
    make_row(
        number,
        scope=number % 4,
        second=(number * 37) % 50,
        tags=[tag for tag, step in (("red", 2), ("green", 3), ("blue", 5)) if number % step == 0]
        + [tag for tag, only in (("rare", 7), ("seldom", 64)) if number == only],
        source=("cli", "import")[number % 2],
        type=(None, "note", "fact")[number % 3],
        speaker=(None, "Ada", "ADA", "Bob")[number % 4],
        conversation_id=(None, "C1", "c2")[number % 3],
        confidence=(None, 0.2, 0.8)[number % 3],
        importance=(None, 0.0, 0.5, 1.0)[number % 4],
    )
    for number in range(120)
]
ARCHIVED = frozenset({scope_id(3)})


def passes(row: IndexRow, where: Filter) -> bool:
    """Read a filter the plain way; `ARCHIVED` scopes are archived."""
    held = where.tag_keys & row.tag_keys
    exact = ((row.source, where.source), (row.type, where.type))
    folded = ((row.speaker, where.speaker), (row.conversation_id, where.conversation_id))
    at_least = ((row.confidence, where.min_stored_confidence), (row.importance, where.min_importance))
    return all(
        (
            row.scope_id not in ARCHIVED if where.scope_ids is None else row.scope_id in where.scope_ids,
            held == where.tag_keys or (where.tags_mode is TagsMode.ANY and len(held) > 0),
            where.time is None or where.time.holds(row.occurred_at),
            all(wanted is None or value == wanted for value, wanted in exact),
            all(wanted is None or (value is not None and fold(value) == fold(wanted)) for value, wanted in folded),
            all(least is None or (number is not None and number >= least) for number, least in at_least),
            where.memory_ids is None or row.memory_id in where.memory_ids,
        )
    )


def filters_of_text(text: str) -> list[Filter]:
    """Return a filter for each part that asks for a text as it is."""
    return [
        Filter(tag_keys=frozenset({text})),
        Filter(source=text),
        Filter(type=text),
        Filter(speaker=text),
        Filter(conversation_id=text),
    ]


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw None or one of *values*."""
    return st.none() | values


INSTANTS = st.builds(lambda ms: START + dt.timedelta(milliseconds=ms), st.integers(-1000, 51_000))
FILTERS = st.builds(
    Filter,
    scope_ids=maybe(st.frozensets(st.sampled_from([scope_id(number) for number in range(5)]))),
    tag_keys=st.frozensets(st.sampled_from(["red", "green", "blue", "rare", "seldom", "none"]), max_size=3),
    tags_mode=st.sampled_from(TagsMode),
    time=maybe(st.builds(TimeRange, maybe(INSTANTS), maybe(INSTANTS))),
    source=maybe(st.sampled_from(["cli", "import", "other"])),
    type=maybe(st.sampled_from(["note", "fact", "Note"])),
    speaker=maybe(st.sampled_from(["ada", "Bob", "Eve"])),
    conversation_id=maybe(st.sampled_from(["c1", "C2", "c3"])),
    min_stored_confidence=maybe(st.sampled_from([0.0, 0.2, 0.8, 0.9])),
    min_importance=maybe(st.sampled_from([0.0, 0.5, 1.0])),
    memory_ids=maybe(st.frozensets(st.integers(0, 130).map(memory_id) | st.just(MemoryId("no id")))),
)
HOSTILE = (
    '"quoted"',
    "it's",
    "back\\slash",
    'x" or scope != "',
    "tag in ['a']",
    "a AND NOT b",
    "* OR 1 == 1",
    "%",
    "_",
    "$where",
    "{{}}",
    "line\nbreak",
    "nul\x00byte",
    "tab\tand  blanks",
    "Ünïcödé",
    "日本語のタグ",
    "עברית",
    "हिन्दी",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "l" * 2000,
)
"""Words that a query language might take for its own, or not as they are."""
