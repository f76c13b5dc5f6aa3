"""The table of the AgentMem contract, its enums, and what its rows share: the call and the fields that stand in several tools."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.field_types import ChoiceField, NameField
from infinite_memory.contracts.fields import Field
from infinite_memory.contracts.session import RequestContext
from infinite_memory.llm.base import ChatMessage, ChatModel, Role

SCOPE = "AgentMem"
"""The engine's scope that holds every memory of this contract."""

ID_CHARS = 200

Key = tuple[str, str | None, str | None]
"""User, agent and session; the session is None where the client names none."""

MAX_TURNS = 20  # of one conversation
MAX_CONVERSATIONS = 1000


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


class Conversations:
    """The newest turns of the newest conversations, so that a turn can refer to the one before. Kept in the process only, and for a while.

    Why not among the memories: what somebody once typed is not a fact about them, and would be found as one.
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[Key, deque[ChatMessage]] = OrderedDict()

    def turns(self, key: Key) -> Sequence[ChatMessage]:
        """Give what was said, oldest first."""
        return tuple(self._turns.get(key, ()))

    def add(self, key: Key, said: str, answered: str) -> None:
        """Keep a question and its answer."""
        turns = self._turns.setdefault(key, deque(maxlen=MAX_TURNS))
        turns += (ChatMessage(Role.USER, said), ChatMessage(Role.ASSISTANT, answered))
        self._turns.move_to_end(key)
        while len(self._turns) > MAX_CONVERSATIONS:
            self._turns.popitem(last=False)


@dataclass(slots=True)
class AgentMemCall(RequestContext):
    """One tool call on its way. ``model`` is the language model that may be asked, None for none."""

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
