"""How values look in replies of the AgentMem contract."""

from __future__ import annotations


def name_out(agent_id: str) -> str:
    """Make a name for people out of an agent's id: ``coding_assistant`` is Coding Assistant."""
    words = agent_id.replace("_", " ").replace("-", " ").split()
    return " ".join(word[:1].upper() + word[1:] for word in words) or agent_id
