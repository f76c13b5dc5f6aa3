"""Filter conditions as a Milvus expression."""

from __future__ import annotations

import json
from collections.abc import Iterable

from infinite_memory.index.filters import AnyOf, Condition, Field, Within
from infinite_memory.index.id_map import to_key
from infinite_memory.index.milvus import schema

NOTHING = f"{schema.WINDOW} < -1"
"""Matches no row."""

_TIMES = {Field.OCCURRED: schema.OCCURRED}


def to_expression(conditions: Iterable[Condition], base: str = schema.MEMORIES) -> str:
    """Return an expression for the rows that meet *base* and all *conditions*."""
    return " and ".join([base, *map(_to_term, conditions)])


def among(field: str, values: Iterable[str], *, is_negated: bool = False) -> str:
    """Return an expression for the rows whose *field* has one of *values* (safe characters only), or none of them."""
    listed = sorted(values)
    if not listed:
        return f"{schema.WINDOW} >= -1" if is_negated else NOTHING
    return f"{field} {'not in' if is_negated else 'in'} {json.dumps(listed)}"


def _to_term(condition: Condition) -> str:
    match condition:
        case AnyOf(Field.ID, values, is_negated):
            return among(schema.MEMORY, (value for value in values if to_key(value) is not None), is_negated=is_negated)
        case AnyOf(Field.SCOPE, values, is_negated):
            return among(schema.SCOPE, (value for value in values if to_key(value) is not None), is_negated=is_negated)
        case AnyOf(Field.TAG, values, is_negated):
            has = f"array_contains_any({schema.TAGS}, {json.dumps(sorted(map(schema.encode, values)))})"
            return f"not ({has})" if is_negated else has
        case AnyOf(field, values, is_negated):
            return among(field, map(schema.encode, values), is_negated=is_negated)
        case Within(field, start, end):
            name = _TIMES.get(field, field)
            present = [] if field in _TIMES else [f"{name} > {schema.ABSENT!r}"]
            low = [] if start is None else [f"{name} >= {start!r}"]
            high = [] if end is None else [f"{name} < {end!r}"]
            return " and ".join([*present, *low, *high])
