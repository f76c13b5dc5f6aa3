"""How values look in replies of the AgentMem contract."""

from __future__ import annotations

import datetime as dt


def instant_out(instant: dt.datetime) -> str:
    """Write an instant in UTC: ``2025-01-05T10:00:00.000Z``."""
    return instant.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def name_out(agent_id: str) -> str:
    """Make a name for people out of an agent's id: ``coding_assistant`` is Coding Assistant."""
    words = agent_id.replace("_", " ").replace("-", " ").split()
    return " ".join(word[:1].upper() + word[1:] for word in words) or agent_id
