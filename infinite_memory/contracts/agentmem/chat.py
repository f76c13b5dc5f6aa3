"""Chat about a user's memories: a language model answers if there is one, else the memories themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infinite_memory.contracts.agentmem.access import check_agent, format_id, see_user
from infinite_memory.contracts.agentmem.prompts import format_line, prompt_text
from infinite_memory.contracts.agentmem.search import Scored, search
from infinite_memory.contracts.agentmem.table import (
    TABLE,
    USER,
    AgentMemCall,
    Exchange,
    SearchType,
    agent_id,
    list_turns,
)
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import FlagField, IntegerField, NameField, TextField
from infinite_memory.contracts.fields import Json
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import ConfigError, EmbeddingError, InvalidRequestError, ModelError, SidecarNotReadyError
from infinite_memory.llm.base import ChatMessage, Role, ask_model
from infinite_memory.models import MemoryId
from infinite_memory.text.bm25 import match_words

MAX_TOKENS = 1000
MIN_SCORE = 0.1  # below this a memory is unrelated to the message, unless they share a word
NOTHING = "Nothing is remembered that would answer this."
LEFT_OUT = "Memories were left out of this answer, as asked, and there is no language model to answer without them."
UNSEARCHED = "Memories cannot be searched at the moment, so nothing can be said about what is remembered."


@TABLE.command(
    "agentmem_chat",
    TextField(name="message", about="What the user says", required=True, limit="query_chars"),
    USER,
    agent_id("Agent that answers; it also sees the user's memories that belong to no agent"),
    FlagField(name="include_memories", about="Whether relevant memories are in the context; default: true"),
    FlagField(name="use_memory", about="Another name of include_memories"),
    IntegerField(name="max_memories", about="Most memories in the context", default=5, low=0, high=100),
    NameField(name="session_id", about="Conversation to go on with; default: the one without a name", max_chars=200),
    title="Chat",
)  # fmt: skip
async def chat(call: AgentMemCall) -> Reply:
    """Answer a message with what is remembered of the user in mind. Without a language model the answer is made of the memories and
    marked "generated": false."""
    return {"success": True} | serialize_answer(await answer_message(call), format_id, with_context=True)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer and the memories in its context. ``model`` wrote it, None if it was extracted from the memories."""

    text: str
    used: Sequence[Scored]
    context_chars: int
    duration_s: float
    model: str | None
    model_error: str
    notes: Sequence[str]


async def answer_message(call: AgentMemCall) -> ChatAnswer:
    """Answer the message of an `agentmem_chat` request."""
    began = time.monotonic()
    fields = call.fields
    message, agent = fields.text("message"), fields.find_text("agent_id")
    await check_agent(call.engine, agent)
    user = fields.text("user_id")
    visibility = see_user(user, agent, with_shared=True)
    hits, notes, without = await _memories(call, message, visibility)
    key = (user, agent, fields.find_text("session_id"))
    system = prompt_text(agent, [format_line(hit.memory) for hit in hits])
    before = await call.conversations.recall(key, call.engine)
    turns = [*list_turns(before), ChatMessage(Role.USER, message)]
    answer, generated, model_error = extract(hits, without), False, ""
    if call.model is not None:
        try:
            answer, generated = await ask_model(call.model, system, turns, max_tokens=MAX_TOKENS), True
        except (ModelError, ConfigError) as exc:
            model_error = f"the answer is made of the memories: {exc}"
            notes.append(model_error)
    used = {memory_id: mark for exchange in before for memory_id, mark in exchange.used.items()}
    used |= {hit.memory.memory_id: hit.memory.content_hash for hit in hits}
    call.conversations.add(key, Exchange(message, answer, used))
    chars = len(system) + sum(len(turn.text) for turn in turns)
    model = call.model.name if generated and call.model is not None else None
    return ChatAnswer(answer, hits, chars, time.monotonic() - began, model, model_error, notes)


def serialize_answer(answer: ChatAnswer, write_id: Callable[[MemoryId], str], *, with_context: bool) -> Json:
    """Serialize an answer, with ids in a contract's form; *with_context* adds AgentMem's other name for the memories used."""
    used = [
        {"memory_id": write_id(hit.memory.memory_id), "content": hit.memory.text, "relevance": round(hit.score, 4)}
        for hit in answer.used
    ]
    reply: Json = {"response": answer.text, "memories_used": used}
    if with_context:
        reply["memory_context_used"] = used
    reply |= {
        "context_length": answer.context_chars,
        "response_time_ms": round(1000 * answer.duration_s),
        "generated": answer.model is not None,
    }
    if answer.model is not None:
        reply["model"] = answer.model
    if answer.model_error:
        reply["model_error"] = answer.model_error
    return reply | ({"note": "; ".join(answer.notes)} if answer.notes else {})


def extract(hits: Sequence[Scored], without: str = NOTHING) -> str:
    """Answer with the memories themselves; with *without* if there are none."""
    if not hits:
        return without
    return "This is what is remembered about it:\n" + "\n".join(f"- {format_line(hit.memory)}" for hit in hits)


async def _memories(call: AgentMemCall, message: str, visibility: Visibility) -> tuple[list[Scored], list[str], str]:
    """Search for what the message is about; with notes, and an accurate message for the case that nothing was found."""
    fields = call.fields
    flags = [fields[name] for name in ("include_memories", "use_memory") if fields[name] is not None]
    if len(set(flags)) > 1:
        raise InvalidRequestError(
            "use_memory", "contradicts include_memories, which is the same by another name; give one"
        )
    limit = fields.integer("max_memories")
    if flags[:1] == [False] or not limit:
        return [], [], LEFT_OUT
    try:
        hits, note = await search(call.engine, message, visibility, limit, SearchType.HYBRID)
    except (EmbeddingError, SidecarNotReadyError) as exc:
        return [], [f"memories cannot be searched at the moment: {exc}"], UNSEARCHED
    sharing = {match.memory.memory_id for match in await match_words(message, [hit.memory for hit in hits])}
    used = [hit for hit in hits if hit.score >= MIN_SCORE or hit.memory.memory_id in sharing]
    if call.session.counts_use:
        call.engine.recall.record_use(hit.memory for hit in used)
    return used, [note] if note else [], NOTHING
