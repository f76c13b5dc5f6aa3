"""The rooms of a palace: eight that are known by name, General, and any other as ``Custom(name)``.

A drawer's room is kept as the memory's type, so every contract can filter by it. A memory of another type, or of none, lies in General.
"""

from __future__ import annotations

from infinite_memory.models import MemoryRecord

GENERAL = "General"
ROOMS = (
    "Frontend", "Backend", "Testing", "Planning", "Documentation", "Research", "Configuration", "Meetings", GENERAL,
)  # fmt: skip
_CUSTOM = "Custom("


def room_named(name: str | None) -> str:
    """Give the room that *name* means; none is General."""
    trimmed = (name or "").strip()
    if not trimmed:
        return GENERAL
    return trimmed if is_room(trimmed) else f"{_CUSTOM}{trimmed})"


def room_of(memory: MemoryRecord) -> str:
    """Give the room that a memory lies in."""
    return memory.type if memory.type is not None and is_room(memory.type) else GENERAL


def is_room(name: str) -> bool:
    """Tell whether *name* is how a room is written, letter for letter."""
    return name in ROOMS or (name.startswith(_CUSTOM) and name.endswith(")"))
