"""What the SDK refuses before anything is sent, and how it names what the server refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from infinite_memory.contracts.agentmem.table import MemoryType
from infinite_memory.contracts.native.table import FILTER_FIELDS
from infinite_memory.sdk.errors import InvalidError, to_error
from infinite_memory.sdk.memory import Memory
from infinite_memory.sdk.requests import FILTER_KEYS, TIME_NAMES, USER_TYPES, narrow, to_json

SELF: list[Any] = []
SELF.append(SELF)


def test_the_keys_of_a_filter_and_the_types_are_those_of_the_contracts() -> None:
    assert [field.name for field in FILTER_FIELDS] == list(FILTER_KEYS)
    assert tuple(kind.value for kind in MemoryType) == USER_TYPES


REFUSED: list[tuple[str, Callable[[Memory], object]]] = [
    ("filter.room", lambda memory: memory.search("x", filter={"room": 3})),
    ("filter.run_id", lambda memory: memory.list_memories(filter={"run_id": "r"})),
    ("filter.tag_mode", lambda memory: memory.search("x", filter={"tag_mode": "any"})),
    ("filter", lambda memory: memory.search("x", filter=[("type", "a")])),  # type: ignore[arg-type]
    ("memory_type", lambda memory: memory.search("x", user_id="ada", memory_type="Foo")),
    ("scope", lambda memory: memory.add("x", user_id="ada", scope="Work")),
    ("scope", lambda memory: memory.delete_all(user_id="ada", scope="Work")),
    ("session_id", lambda memory: memory.search("x", user_id="ada", agent_id="a", session_id="s")),
    ("when", lambda memory: memory.recall()),
    ("since", lambda memory: memory.recall(since=5)),  # type: ignore[arg-type]
    ("tags", lambda memory: memory.add("x", tags=5)),  # type: ignore[arg-type]
    ("metadata", lambda memory: memory.add("x", metadata=["a"])),  # type: ignore[arg-type]
    ("home", lambda memory: Memory(home="/tmp", url="http://localhost")),
    ("scope", lambda memory: Memory("ada", scope="Work")),
    ("url", lambda memory: Memory(token="im_x")),
    ("url", lambda memory: Memory(tunnel_to="127.0.0.1:8765")),
    ("timeout_s", lambda memory: Memory(timeout_s=-1)),
    ("timeout_s", lambda memory: Memory(timeout_s=float("nan"))),
    ("tags", lambda memory: memory.search("x", tags=["a"], filter={"tags": ["b"]})),
    ("session_id", lambda memory: memory.list_memories(session_id="a", filter={"conversation_id": "b"})),
    ("when", lambda memory: memory.search("x", when="today", filter={"time_query": "yesterday"})),
    ("since", lambda memory: memory.search("x", since="2026-01-01", filter={"time_range": {"to": "2026-02-01"}})),
    ("page", lambda memory: list(memory.iterate(page=5000))),
]


def test_the_ends_of_a_filters_time_may_be_dates() -> None:
    ends = {"from": dt.date(2026, 3, 1), "to": dt.datetime(2026, 3, 4, tzinfo=dt.UTC)}
    keys = narrow({"time_range": ends}, ()).keys
    assert keys == {"time_range": {"from": "2026-03-01", "to": "2026-03-04T00:00:00+00:00"}}
    assert narrow({"time_range": "March"}, ()).keys == {"time_range": "March"}


@pytest.mark.parametrize(("field", "call"), REFUSED)
def test_what_cannot_be_meant_is_refused_and_named(field: str, call: Callable[[Memory], object]) -> None:
    with pytest.raises(InvalidError) as caught:
        call(Memory(url="http://127.0.0.1:1"))
    assert (caught.value.field, caught.value.code, caught.value.status) == (field, "INVALID_REQUEST", 0)
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("metadata", "path"),
    [({"at": {"day": [1, dt.date(2026, 1, 1)]}}, "metadata.at.day[1]"), ({"share": float("nan")}, "metadata.share"),
     ({"keys": {1, 2}}, "metadata.keys"), ({"self": SELF}, "metadata")],
)  # fmt: skip
def test_what_json_does_not_know_is_named_by_its_path(metadata: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        to_json({"content": "x", "metadata": metadata})
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("field", "argument"),
    [("range.from", "since"), ("range", "since"), ("time_query", "when"), ("ranged", "ranged"), (None, None)],
)
def test_a_field_is_named_as_the_argument_that_it_was_made_of(field: str | None, argument: str | None) -> None:
    body = {"error": {"code": "INVALID_REQUEST", "message": f"{field}: is wrong", "field": field}}
    problem = to_error(400, body, TIME_NAMES)
    assert (problem.field, str(problem)) == (argument, f"{argument}: is wrong")
