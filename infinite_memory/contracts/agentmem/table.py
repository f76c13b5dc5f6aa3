"""The table of the AgentMem contract, its enums, and what its rows share: the call and common fields."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.field_types import ChoiceField, NameField
from infinite_memory.contracts.fields import Field
from infinite_memory.contracts.session import RequestContext
from infinite_memory.engine.engine import Engine
from infinite_memory.llm.base import ChatMessage, ChatModel, Role
from infinite_memory.models import MemoryId, MemoryRecord

SCOPE = "AgentMem"
"""The engine's scope of all memories of this contract."""

ID_CHARS = 200

Key = tuple[str, str | None, str | None]
"""User, agent and session; the session is None if the client names none."""

MAX_TURNS = 20  # of one conversation
MAX_CONVERSATIONS = 1000


class MemoryType(enum.Enum):
    """The type of a memory."""

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
    """The owner of a memory, in addition to the user."""

    USER = "user"
    AGENT = "agent"
    RUN = "run"
    SESSION = "session"
    ORGANIZATION = "organization"


class SearchType(enum.Enum):
    """The search engine."""

    VECTOR = "vector"
    BM25 = "bm25"
    FULLTEXT = "fulltext"
    FUZZY = "fuzzy"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer; ``used`` are the memories that the answer may quote, each with its content hash."""

    said: str
    answered: str
    used: Mapping[MemoryId, str]


class Conversations:
    """The newest turns of the newest conversations, so that a turn can refer to an earlier one. In memory only, for a limited time.

    Why not stored as memories: what a user once typed is not a fact about them, and would be found as one. An answer is dropped with the
    memories that it may quote: those in its context, and in that of the earlier answers.
    """

    def __init__(self) -> None:
        self._exchanges: OrderedDict[Key, deque[Exchange]] = OrderedDict()

    def exchanges(self, key: Key) -> Sequence[Exchange]:
        """Return the turns, oldest first."""
        return tuple(self._exchanges.get(key, ()))

    async def recall(self, key: Key, engine: Engine) -> Sequence[Exchange]:
        """Return the turns, oldest first, and drop those that may quote a memory that was forgotten or edited since then."""
        exchanges = self.exchanges(key)
        used = {memory_id for exchange in exchanges for memory_id in exchange.used}
        memories = await engine.memories.find(list(used), deleted=None) if used else {}
        hashes = {
            memory_id: memory.content_hash for memory_id, memory in memories.items() if is_current(engine, memory)
        }
        current = [exchange for exchange in exchanges if exchange.used.items() <= hashes.items()]
        if len(current) < len(exchanges):
            self._exchanges[key] = deque(current, maxlen=MAX_TURNS // 2)
        return current

    def add(self, key: Key, exchange: Exchange) -> None:
        """Store a question and its answer."""
        self._exchanges.setdefault(key, deque(maxlen=MAX_TURNS // 2)).append(exchange)
        self._exchanges.move_to_end(key)
        while len(self._exchanges) > MAX_CONVERSATIONS:
            self._exchanges.popitem(last=False)


def is_current(engine: Engine, memory: MemoryRecord) -> bool:
    """True if neither a memory nor its scope has been forgotten."""
    scope = engine.scopes.find_by_id(memory.scope_id)
    return memory.deleted_at is None and scope is not None and scope.archived_at is None


def list_turns(exchanges: Sequence[Exchange]) -> list[ChatMessage]:
    """Return questions and answers as separate messages, in the form that a model gets them."""
    return [
        turn
        for exchange in exchanges
        for turn in (ChatMessage(Role.USER, exchange.said), ChatMessage(Role.ASSISTANT, exchange.answered))
    ]


@dataclass(slots=True)
class AgentMemCall(RequestContext):
    """A running tool call. ``model`` is the available language model, if any."""

    model: ChatModel | None
    conversations: Conversations


TABLE: Table[AgentMemCall] = Table()

USER = NameField(name="user_id", about="Whose memories", required=True, max_chars=ID_CHARS)


def agent_id(about: str, *, new: bool = False) -> Field:
    """Return the field of an agent's id; *new* if the request may create the agent."""
    return NameField(name="agent_id", about=about, max_chars=ID_CHARS, new=new)


def memory_type(about: str, default: MemoryType | None = None) -> Field:
    """Return the field of a memory's type."""
    return ChoiceField(name="memory_type", about=about, choices=MemoryType, default=default)
