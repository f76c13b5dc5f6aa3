"""The table of the AgentMem contract, its enums, and what its rows share: the call and the fields that stand in several tools."""

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


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer; ``used`` are the memories that the answer may quote, each with its content's hash."""

    said: str
    answered: str
    used: Mapping[MemoryId, str]


class Conversations:
    """The newest turns of the newest conversations, so that a turn can refer to the one before. Kept in the process only, and for a while.

    Why not among the memories: what somebody once typed is not a fact about them, and would be found as one. An answer goes with the
    memories that it may quote: those in its context, and in that of the answers before it.
    """

    def __init__(self) -> None:
        self._exchanges: OrderedDict[Key, deque[Exchange]] = OrderedDict()

    def exchanges(self, key: Key) -> Sequence[Exchange]:
        """Return what was said, oldest first."""
        return tuple(self._exchanges.get(key, ()))

    async def recall(self, key: Key, engine: Engine) -> Sequence[Exchange]:
        """Return what was said, oldest first, and drop what may quote a memory that was forgotten or edited since then."""
        exchanges = self.exchanges(key)
        used = {memory_id for exchange in exchanges for memory_id in exchange.used}
        found = await engine.memories.find(list(used), deleted=None) if used else {}
        hashes = {one: memory.content_hash for one, memory in found.items() if is_current(engine, memory)}
        current = [one for one in exchanges if one.used.items() <= hashes.items()]
        if len(current) < len(exchanges):
            self._exchanges[key] = deque(current, maxlen=MAX_TURNS // 2)
        return current

    def add(self, key: Key, exchange: Exchange) -> None:
        """Keep a question and its answer."""
        self._exchanges.setdefault(key, deque(maxlen=MAX_TURNS // 2)).append(exchange)
        self._exchanges.move_to_end(key)
        while len(self._exchanges) > MAX_CONVERSATIONS:
            self._exchanges.popitem(last=False)


def is_current(engine: Engine, memory: MemoryRecord) -> bool:
    """True if a memory is neither forgotten nor in a scope that was."""
    scope = engine.scopes.find_by_id(memory.scope_id)
    return memory.deleted_at is None and scope is not None and scope.archived_at is None


def list_turns(exchanges: Sequence[Exchange]) -> list[ChatMessage]:
    """Return questions and answers one by one, as a model is shown them."""
    return [
        turn
        for exchange in exchanges
        for turn in (ChatMessage(Role.USER, exchange.said), ChatMessage(Role.ASSISTANT, exchange.answered))
    ]


@dataclass(slots=True)
class AgentMemCall(RequestContext):
    """One tool call on its way. ``model`` is the language model that may be asked, None for none."""

    model: ChatModel | None
    conversations: Conversations


TABLE: Table[AgentMemCall] = Table()

USER = NameField(name="user_id", about="Whose memories", required=True, max_chars=ID_CHARS)


def agent_id(about: str, *, new: bool = False) -> Field:
    """The agent a memory or a request belongs to; *new* where the request may make it."""
    return NameField(name="agent_id", about=about, max_chars=ID_CHARS, new=new)


def memory_type(about: str, default: MemoryType | None = None) -> Field:
    """What kind of memory."""
    return ChoiceField(name="memory_type", about=about, choices=MemoryType, default=default)
