"""Chat with what is remembered of a user: a language model answers where there is one, else the memories themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence

from infinite_memory.contracts.agentmem.people import Sight, check_agent, id_out
from infinite_memory.contracts.agentmem.prompting import line_of, prompt_text
from infinite_memory.contracts.agentmem.searching import Scored, search
from infinite_memory.contracts.agentmem.table import TABLE, USER, AgentMemCall, SearchType, agent_id
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import FlagField, IntegerField, NameField, TextField
from infinite_memory.engine.by_words import match_words
from infinite_memory.errors import ConfigError, EmbeddingError, ModelError, SidecarNotReadyError
from infinite_memory.model_port.base import Role, Turn

MAX_TOKENS = 1000
LEAST_SCORE = 0.1  # below this a memory has nothing to do with the message, unless they share a word
NOTHING = "Nothing is remembered that would answer this."


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
    began = time.monotonic()
    fields = call.fields
    message, agent = fields.text("message"), fields.find_text("agent_id")
    await check_agent(call.engine, agent)
    sight = Sight(fields.text("user_id"), agent, with_shared=True)
    found, notes = await _memories(call, message, sight)
    key = (sight.user_id, agent, fields.find_text("session_id"))
    system = prompt_text(agent, [line_of(one.memory) for one in found])
    turns = [*call.conversations.turns(key), Turn(Role.USER, message)]
    answer, generated = extract(found), False
    if call.model is not None:
        try:
            answer, generated = await call.model.complete(system, turns, max_tokens=MAX_TOKENS), True
        except (ModelError, ConfigError) as problem:
            notes.append(f"the answer is made of the memories: {problem}")
    call.conversations.add(key, message, answer)
    used = [
        {"memory_id": id_out(one.memory.memory_id), "content": one.memory.text, "relevance": round(one.score, 4)}
        for one in found
    ]
    reply: Json = {
        "success": True,
        "response": answer,
        "memories_used": used,
        "memory_context_used": used,
        "context_length": len(system) + sum(len(one.text) for one in turns),
        "response_time_ms": round(1000 * (time.monotonic() - began)),
        "generated": generated,
    }
    if generated and call.model is not None:
        reply["model"] = call.model.name
    return reply | ({"note": "; ".join(notes)} if notes else {})


def extract(found: Sequence[Scored]) -> str:
    """Answer with the memories themselves."""
    if not found:
        return NOTHING
    return "This is what is remembered about it:\n" + "\n".join(f"- {line_of(one.memory)}" for one in found)


async def _memories(call: AgentMemCall, message: str, sight: Sight) -> tuple[list[Scored], list[str]]:
    fields = call.fields
    wanted = [fields[name] for name in ("include_memories", "use_memory") if fields[name] is not None]
    most = fields.integer("max_memories")
    if wanted[:1] == [False] or not most:
        return [], []
    try:
        found, note = await search(call.engine, message, sight, most, SearchType.HYBRID)
    except (EmbeddingError, SidecarNotReadyError) as problem:
        return [], [f"memories cannot be searched at the moment: {problem}"]
    sharing = {one.memory.memory_id for one in match_words(message, [one.memory for one in found])}
    used = [one for one in found if one.score >= LEAST_SCORE or one.memory.memory_id in sharing]
    return used, [note] if note else []
