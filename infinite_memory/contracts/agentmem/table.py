"""The table of the AgentMem contract, its enums, and what its rows share: the call and the fields that stand in several tools."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from infinite_memory.contracts.agentmem.conversations import Conversations
from infinite_memory.contracts.base import Table
from infinite_memory.contracts.fields import Checking, Field, Fields
from infinite_memory.contracts.kinds import ChoiceField, NameField
from infinite_memory.contracts.native.table import Session
from infinite_memory.engine import Engine
from infinite_memory.model_port.base import ChatModel

SCOPE = "AgentMem"
"""The engine's scope that holds every memory of this contract."""

ID_CHARS = 200


class MemoryType(enum.Enum):
    """What kind of memory it is."""

    EPISODIC = "Episodic"
    SEMANTIC = "Semantic"
    PROCEDURAL = "Procedural"
    FACTUAL = "Factual"
    CORE = "Core"
    WORKING = "Working"
    RESOURCE = "Resource"
    KNOWLEDGE = "Knowledge"
    CONTEXTUAL = "Contextual"


class ScopeType(enum.Enum):
    """Whose a memory is, beside the user's."""

    USER = "user"
    AGENT = "agent"
    RUN = "run"
    SESSION = "session"
    ORGANIZATION = "organization"


class SearchType(enum.Enum):
    """By what is searched."""

    VECTOR = "vector"
    BM25 = "bm25"
    FULLTEXT = "fulltext"
    FUZZY = "fuzzy"
    HYBRID = "hybrid"


@dataclass(slots=True)
class AgentMemCall:
    """One tool call on its way. ``model`` is the language model that may be asked, None for none."""

    engine: Engine
    session: Session
    fields: Fields
    checking: Checking
    model: ChatModel | None
    conversations: Conversations


TABLE: Table[AgentMemCall] = Table()

USER = NameField(name="user_id", about="Whose memories", required=True, max_chars=ID_CHARS)


def agent_id(about: str) -> Field:
    """The agent a memory or a request belongs to."""
    return NameField(name="agent_id", about=about, max_chars=ID_CHARS)


def memory_type(about: str, default: MemoryType | None = None) -> Field:
    """What kind of memory."""
    return ChoiceField(name="memory_type", about=about, choices=MemoryType, default=default)
