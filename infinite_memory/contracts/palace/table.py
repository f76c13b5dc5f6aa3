"""The table of the palace contract, and what its rows share: fields, the ids of drawers, and rooms.

A drawer's id is a UUID that is computed from the memory's id and back, so nothing is stored for it. The 96 bits of an id fit in a UUID
of version 8 (RFC 9562, section 5.8, with vendor-specific content); the remaining 26 bits are zero, so a foreign UUID
is recognised. The case of its digits is ignored (RFC 9562, section 4); all else is compared exactly.

There are eight predefined rooms, General, and any other as ``Custom(name)``. A drawer's room is stored as the memory's type,
so every contract can filter by it. A memory of another type, or of none, is in General.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.field_types import IntegerField, NameField, TextField
from infinite_memory.contracts.session import RequestContext
from infinite_memory.models import MemoryId, MemoryRecord

_FORM = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{6})000000", re.IGNORECASE)
GENERAL = "General"
ROOMS = (
    "Frontend", "Backend", "Testing", "Planning", "Documentation", "Research", "Configuration", "Meetings", GENERAL,
)  # fmt: skip
_CUSTOM = "Custom("


@dataclass(slots=True)
class CommandContext(RequestContext):
    """A running tool call. ``data_dir`` is the folder of all palaces."""

    data_dir: Path

    @property
    def palace(self) -> str:
        """The palace of the call."""
        return self.fields.text("palace")


TABLE: Table[CommandContext] = Table()

PALACE = NameField(name="palace", about="Palace ID (optional if server started with --palace)", required=True)


def query() -> TextField:
    """Return the field of the text to search for."""
    return TextField(name="query", about="What to look for, by meaning", required=True, limit="query_chars")


def top_k() -> IntegerField:
    """Return the field of the number of drawers in a search."""
    return IntegerField(name="top_k", about="Most results", default=10, low=1, high=1000, limit="top_k")


def to_uuid(key: str) -> str:
    """Convert an id of 24 hexadecimal digits to a UUID."""
    return f"{key[:8]}-{key[8:12]}-8{key[12:15]}-8{key[15:18]}-{key[18:24]}000000"


def find_memory_id(uuid: str) -> MemoryId | None:
    """Return the id from which *uuid* was made; None if it was not made from one."""
    match = _FORM.fullmatch(uuid)
    return MemoryId("".join(match.groups()).lower()) if match else None


def room_named(name: str | None) -> str:
    """Return the room of *name*; None is General."""
    trimmed = (name or "").strip()
    if not trimmed:
        return GENERAL
    return trimmed if is_room(trimmed) else f"{_CUSTOM}{trimmed})"


def get_room(memory: MemoryRecord) -> str:
    """Return the room of a memory."""
    return memory.type if memory.type is not None and is_room(memory.type) else GENERAL


def is_room(name: str) -> bool:
    """True if *name* is exactly a room's name."""
    return name in ROOMS or (name.startswith(_CUSTOM) and name.endswith(")"))
