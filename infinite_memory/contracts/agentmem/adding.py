"""Adding a memory: stored first, and made sense of afterwards, so that no failure of a model loses it."""

from __future__ import annotations

import dataclasses
import itertools

from infinite_memory.contracts.agentmem.importance import importance_of
from infinite_memory.contracts.agentmem.knowing import Knowledge, know
from infinite_memory.contracts.agentmem.people import (
    SUPERSEDED,
    Sight,
    id_out,
    own_id,
    owners_of,
    source_of,
    superseded_source_of,
)
from infinite_memory.contracts.agentmem.searching import search
from infinite_memory.contracts.agentmem.table import (
    ID_CHARS,
    SCOPE,
    TABLE,
    USER,
    AgentMemCall,
    MemoryType,
    ScopeType,
    SearchType,
    agent_id,
    memory_type,
)
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import (
    ChoiceField,
    InstantField,
    NameField,
    TagsField,
    TextField,
)
from infinite_memory.contracts.metadata import MetadataField
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine.parts import Changes, Draft, Kept
from infinite_memory.errors import AlreadyExistsError, InfiniteMemoryError
from infinite_memory.models import MemoryId, MemoryRecord

ACTIVE = "active"
COMPARED = 8  # older memories that a model is shown beside a new one
SUPERSEDES = "supersedes"
FACTS = "extracted_facts"
_SCALE = 10  # the engine's importance is 0 to 10


@TABLE.command(
    "agentmem_add_memory",
    TextField(name="content", about="The memory content to store", required=True, limit="text_bytes"),
    USER,
    agent_id("Agent that it belongs to"),
    NameField(name="run_id", about="Run that it belongs to", max_chars=ID_CHARS),
    NameField(name="session_id", about="Session that it belongs to", max_chars=ID_CHARS),
    NameField(name="org_id", about="Organization that it belongs to", max_chars=ID_CHARS),
    ChoiceField(name="scope_type", about="Whose it is; default: of the narrowest id given", choices=ScopeType),
    memory_type("What kind of memory", MemoryType.EPISODIC),
    MetadataField(name="metadata", about="Additional metadata, as JSON text or an object", or_text=True),
    TagsField(name="tags", about="Tags for finding it again"),
    InstantField(name="timestamp", about="When it happened; default: now"),
    title="Add a memory", idempotent=True,
)  # fmt: skip
async def add_memory(call: AgentMemCall) -> Reply:
    """Add a new memory about a user. Use it when the user asks to remember something or says what will matter later: one fact each.
    What is known already is not stored twice; what contradicts an older memory takes its place."""
    fields = call.fields
    draft = _draft(call)
    kept, outcome = await _store(call, draft)
    memory = kept.memory
    reply: Json = {
        "success": True,
        "memory_id": id_out(memory.memory_id),
        "user_id": fields.text("user_id"),
        "content": memory.text,
        "memory_type": memory.type,
        "created_at": instant_out(memory.created_at),
        "importance_score": round((memory.importance or 0.0) / _SCALE, 2),
        "scope_type": memory.owners["scope_type"],
        "outcome": outcome,
    }
    if kept.pending is not None:
        reply["note"] = f"stored; it is found by meaning once it is embedded ({kept.pending})"
    if outcome != "duplicate":
        reply |= await _make_sense(call, memory)
    return reply


def _draft(call: AgentMemCall) -> Draft:
    fields = call.fields
    owners, content, kind = owners_of(fields), fields.text("content"), fields["memory_type"]
    metadata = fields["metadata"] or {}
    return Draft(
        text=content,
        scope=SCOPE,
        source=source_of(fields.text("user_id")),
        type=kind.value,
        importance=round(_SCALE * importance_of(content, kind, metadata), 1),
        status=ACTIVE,
        conversation_id=fields.find_text("session_id"),
        tags=fields["tags"] or (),
        occurred_at=fields.find_instant("timestamp"),
        owners=owners,
        metadata=metadata,
    )


async def _store(call: AgentMemCall, draft: Draft) -> tuple[Kept, str]:
    """Store, or meet what is there: known is a duplicate, deleted or superseded comes back."""
    for number in itertools.count():
        memory_id = own_id(draft.owners, draft.text, number)
        try:
            return await call.engine.remember(dataclasses.replace(draft, memory_id=memory_id)), "stored"
        except AlreadyExistsError:
            if await _says(call, memory_id, own_id(draft.owners, draft.text)):
                break  # else its text was changed since: what is said now is another memory
    restored = await call.engine.restore(memory_id)
    is_live = restored.status == ACTIVE and restored.source == draft.source
    scope = call.engine.parts.scopes.find_by_id(restored.scope_id)
    if is_live and scope is not None:
        return Kept(restored, scope), "duplicate"
    return await call.engine.update(restored.memory_id, Changes(status=ACTIVE, source=draft.source)), "stored"


async def _says(call: AgentMemCall, memory_id: MemoryId, said: MemoryId) -> bool:
    """Tell whether a memory, live or hidden, still says what the id *said* is made of."""
    scope = await call.engine.get_scope(SCOPE)
    found = await call.engine.parts.store.fetch({memory_id: scope.scope_id}, deleted=None)
    return memory_id not in found or own_id(found[memory_id].owners, found[memory_id].text) == said


async def _make_sense(call: AgentMemCall, memory: MemoryRecord) -> Json:
    """Let the model, if there is one, draw facts and settle contradictions; whatever fails is said and nothing else."""
    if call.model is None:
        return {"facts": [], "generated": False}
    try:
        older = await _nearest(call, memory)
        known = await know(call.model, memory.text, older)
        return await _apply(call, memory, known)
    except InfiniteMemoryError as problem:  # of whatever kind: the memory is stored
        return {"facts": [], "generated": False, "model_error": f"stored, but nothing was made of it: {problem}"}


async def _nearest(call: AgentMemCall, memory: MemoryRecord) -> list[MemoryRecord]:
    sight = Sight(call.fields.text("user_id"))
    found, _ = await search(call.engine, memory.text, sight, COMPARED + 1, SearchType.VECTOR)
    return [one.memory for one in found if one.memory.memory_id != memory.memory_id][:COMPARED]


async def _apply(call: AgentMemCall, memory: MemoryRecord, known: Knowledge) -> Json:
    engine = call.engine
    if known.facts:
        await engine.update(memory.memory_id, Changes(metadata={FACTS: list(known.facts)}))
    superseded: list[MemoryId] = []
    for old in dict.fromkeys(one.memory_id for one in (*known.contradicted, *filter(None, [known.repeated]))):
        await engine.update(old, Changes(status=SUPERSEDED, source=superseded_source_of(call.fields.text("user_id"))))
        await engine.link(memory, await engine.get(old), SUPERSEDES)
        superseded.append(old)
    return {"facts": list(known.facts), "superseded": [id_out(one) for one in superseded], "generated": True}
