"""Memory ids as UUIDs, for contracts that speak those: computed from the id and back, so nothing is kept beside it.

The 96 bits of an id fill a UUID of version 8 (RFC 9562, section 5.8, whose content is the maker's own); the 26 bits that are
left are zero, so a UUID of somebody else's is known as such.
"""

from __future__ import annotations

import re

from infinite_memory.models import MemoryId

_FORM = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{6})000000", re.IGNORECASE)


def uuid_of(key: str) -> str:
    """Write an id of 24 hexadecimal digits as a UUID."""
    return f"{key[:8]}-{key[8:12]}-8{key[12:15]}-8{key[15:18]}-{key[18:24]}000000"


def find_memory_id(uuid: str) -> MemoryId | None:
    """Give the id that *uuid* was made from; None when it was made from none."""
    found = _FORM.fullmatch(uuid.strip())
    return MemoryId("".join(found.groups()).lower()) if found else None
