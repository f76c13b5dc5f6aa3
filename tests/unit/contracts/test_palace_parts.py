"""Rooms, and UUIDs that are computed from ids."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid

import pytest

from infinite_memory.contracts.palace.table import ROOMS, find_memory_id, get_room, room_named, to_uuid
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId

NOW = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)
MEMORY = MemoryRecord(MemoryId("a" * 24), ScopeId("b" * 24), "tea", "test", NOW, NOW, NOW)


@pytest.mark.parametrize(
    ("name", "room"),
    [(None, "General"), ("", "General"), ("  ", "General"), ("General", "General"), (" Backend ", "Backend"),
     ("backend", "Custom(backend)"), ("Attic", "Custom(Attic)"), ("Custom(Attic)", "Custom(Attic)")],
)  # fmt: skip
def test_a_room_is_known_by_name_or_custom(name: str | None, room: str) -> None:
    assert room_named(name) == room


def test_every_known_room_is_itself() -> None:
    assert [room_named(room) for room in ROOMS] == list(ROOMS)


@pytest.mark.parametrize(("kind", "room"), [(None, "General"), ("decision", "General"), ("Testing", "Testing"),
                                            ("Custom(x)", "Custom(x)")])  # fmt: skip
def test_a_memory_of_another_type_lies_in_general(kind: str | None, room: str) -> None:
    assert get_room(dataclasses.replace(MEMORY, type=kind)) == room


@pytest.mark.parametrize("key", ["0" * 24, "f" * 24, "65a1b2c3d4e5f60718293a4b"])
def test_a_uuid_leads_back_to_its_id(key: str) -> None:
    made = uuid.UUID(to_uuid(key))
    assert (made.version, made.variant) == (8, uuid.RFC_4122)
    assert find_memory_id(str(made)) == key
    assert find_memory_id(str(made).upper()) == key


@pytest.mark.parametrize("other", ["", "abc", str(uuid.UUID(int=7)), "a3f1c2d4-1234-5678-9abc-def012345678", "a" * 24])
def test_a_uuid_of_somebody_else_leads_nowhere(other: str) -> None:
    assert find_memory_id(other) is None
