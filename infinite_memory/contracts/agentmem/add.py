"""Adding a memory: it is stored first and analyzed afterwards, so that no failure of a model loses it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.agentmem.access import (
    SUPERSEDED,
    format_id,
    get_owners,
    make_content_key,
    make_source,
    make_superseded_source,
    see_user,
)
from infinite_memory.contracts.agentmem.fact_extraction import Knowledge, extract_facts
from infinite_memory.contracts.agentmem.importance import compute_importance
from infinite_memory.contracts.agentmem.search import search
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
from infinite_memory.contracts.field_types import (
    ChoiceField,
    InstantField,
    NameField,
    NumberField,
    TagsField,
    TextField,
)
from infinite_memory.contracts.fields import Field, Json
from infinite_memory.contracts.metadata import MetadataField
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.records import FACTS
from infinite_memory.engine.types import MemoryUpdate, NewMemory, StoreResult
from infinite_memory.errors import (
    AlreadyExistsError,
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryChangedError,
    ScopeNotFoundError,
)
from infinite_memory.models import MemoryId, MemoryRecord, tag_key

log = logging.getLogger(__name__)

ACTIVE = "active"
_WHEN = InstantField(name="timestamp", about="When it happened; default: metadata.timestamp, else now")
_IMPORTANCE = NumberField(name="importance", about="How much it matters", low=0, high=1)
COMPARED = 8  # older memories that the model sees together with a new one
SUPERSEDES = "supersedes"
_SCALE = 10  # the engine's importance is 0 to 10


@TABLE.command(
    "agentmem_add_memory",
    TextField(name="content", about="The memory content to store", required=True, limit="text_bytes"),
    USER,
    agent_id("Agent that it belongs to", new=True),
    NameField(name="run_id", about="Run that it belongs to", max_chars=ID_CHARS),
    NameField(name="session_id", about="Session that it belongs to", max_chars=ID_CHARS),
    NameField(name="org_id", about="Organization that it belongs to", max_chars=ID_CHARS, new=True),
    ChoiceField(name="scope_type", about="Whose it is; default: of the narrowest id given", choices=ScopeType),
    memory_type("What kind of memory", MemoryType.EPISODIC),
    MetadataField(name="metadata", about="Additional metadata, as JSON text or an object", or_text=True),
    TagsField(name="tags", about="Tags for finding it again"),
    _WHEN,
    title="Add a memory", idempotent=True,
)  # fmt: skip
async def add_memory(call: AgentMemCall) -> Reply:
    """Add a new memory about a user. Use it when the user asks to remember something or says what will matter later: one fact each.
    What is known already is not stored twice; what contradicts an older memory takes its place."""
    added = await add(call)
    memory = added.memory
    reply: Json = {
        "success": True,
        "memory_id": format_id(memory.memory_id),
        "user_id": call.fields.text("user_id"),
        "content": memory.text,
        "memory_type": memory.type,
        "created_at": format_instant(memory.occurred_at),
        "importance_score": added.importance,
        "scope_type": memory.owners["scope_type"],
        "outcome": added.outcome,
    }
    if added.pending_note is not None:
        reply["note"] = added.pending_note
    return reply | (serialize_findings(added.findings, format_id) if added.findings is not None else {})


@dataclass(frozen=True, slots=True)
class Findings:
    """A model's analysis of a new memory: its facts, and the memories it supersedes. *failure* says why there is no analysis."""

    facts: Sequence[str] = ()
    generated: bool = False
    superseded: Sequence[MemoryId] = ()
    superseded_by: MemoryId | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """A memory that was added. ``findings`` is None for a duplicate, which is not analyzed."""

    memory: MemoryRecord
    outcome: str
    pending_note: str | None
    findings: Findings | None

    @property
    def importance(self) -> float:
        """The importance, from 0 to 1."""
        return round((self.memory.importance or 0.0) / _SCALE, 2)


async def add(call: AgentMemCall) -> Added:
    """Store the memory of an `agentmem_add_memory` request, and analyze it."""
    new_memory = _draft(call)
    stored, outcome = await _store(call, new_memory)
    note = None if stored.pending is None else f"stored; it is found by meaning once it is embedded ({stored.pending})"
    findings = None
    if outcome != "duplicate":
        now = call.engine.now()
        findings = await _make_sense(call, stored.memory, min(new_memory.occurred_at or now, now))
    return Added(stored.memory, outcome, note, findings)


def serialize_findings(findings: Findings, write_id: Callable[[MemoryId], str]) -> Json:
    """Serialize the analysis of a memory, with ids in a contract's form."""
    reply: Json = {"facts": list(findings.facts)}
    if findings.generated:
        reply["superseded"] = [write_id(memory_id) for memory_id in findings.superseded]
    reply["generated"] = findings.generated
    if findings.superseded_by is not None:
        reply["superseded_by"] = write_id(findings.superseded_by)
    return reply | ({"model_error": findings.failure} if findings.failure is not None else {})


def _draft(call: AgentMemCall) -> NewMemory:
    fields = call.fields
    owners, content, kind = get_owners(fields), fields.text("content"), fields["memory_type"]
    metadata = fields["metadata"] or {}
    return NewMemory(
        text=content,
        scope=SCOPE,
        source=make_source(fields.text("user_id")),
        type=kind.value,
        importance=round(_SCALE * compute_importance(content, kind, _parse_importance(call, metadata)), 1),
        status=ACTIVE,
        conversation_id=fields.find_text("session_id"),
        tags=fields["tags"] or (),
        occurred_at=fields.find_instant("timestamp") or _parse_time(call, metadata),
        owners=owners,
        metadata=metadata,
    )


def _parse_time(call: AgentMemCall, metadata: Mapping[str, Any]) -> dt.datetime | None:
    """Parse when it happened from ``metadata.timestamp``; anything but an instant is kept as free metadata, with a warning."""
    instant: dt.datetime | None = _parse_metadata(call, metadata, _WHEN, "the memory's time is now")
    return instant


def _parse_importance(call: AgentMemCall, metadata: Mapping[str, Any]) -> float | None:
    """Parse ``metadata.importance``; anything but a number from 0 to 1 is kept as free metadata, with a warning."""
    importance: float | None = _parse_metadata(call, metadata, _IMPORTANCE, "the importance was computed")
    return importance


def _parse_metadata(call: AgentMemCall, metadata: Mapping[str, Any], field: Field, instead: str) -> Any:
    """Parse *field* of the metadata; None if it is missing, or with a warning if it has another type."""
    value = metadata.get(field.name)
    if value is None or value == "":
        return None
    try:
        return field.parse(value, f"metadata.{field.name}", call.checking)
    except InvalidRequestError as exc:
        call.checking.warnings.append(f"{exc}; it was kept, and {instead}")
        return None


async def _store(call: AgentMemCall, new_memory: NewMemory) -> tuple[StoreResult, str]:
    """Store a memory or find the existing one: a live one is a duplicate, a deleted or superseded one is restored."""
    while True:
        memory_id, is_known = await _meet(call, new_memory)
        if is_known:
            break
        with contextlib.suppress(AlreadyExistsError):  # stored concurrently
            return await call.engine.memories.store(dataclasses.replace(new_memory, memory_id=memory_id)), "stored"
    result = await call.engine.memories.restore(memory_id)
    restored = result.memory
    if ignored := _list_ignored(new_memory, restored):
        call.checking.warnings.append(
            f"{', '.join(ignored)}: not taken; these words were there already and keep theirs"
        )
    is_current = restored.status == ACTIVE and restored.source == new_memory.source
    scope = call.engine.scopes.find_by_id(restored.scope_id)
    if is_current and scope is not None:
        return StoreResult(restored, scope), "stored" if result.is_restored else "duplicate"
    return await call.engine.memories.update(
        restored.memory_id, MemoryUpdate(status=ACTIVE, source=new_memory.source)
    ), "stored"


def _list_ignored(new_memory: NewMemory, known: MemoryRecord) -> list[str]:
    """Return the fields of *new_memory* that have another value in the memory that is there already, and that it therefore loses."""
    metadata, tags = known.metadata, {tag_key(tag) for tag in known.tags}
    differs = {
        "memory_type": new_memory.type not in (known.type, MemoryType.EPISODIC.value),  # the default: not given
        "tags": any(tag_key(tag) not in tags for tag in new_memory.tags),
        "metadata": any(name not in metadata or metadata[name] != value for name, value in new_memory.metadata.items()),
        "timestamp": "timestamp" not in new_memory.metadata and new_memory.occurred_at not in (None, known.occurred_at),
    }
    return [name for name, is_lost in differs.items() if is_lost]


async def _meet(call: AgentMemCall, new_memory: NewMemory) -> tuple[MemoryId, bool]:
    """Return the id of the memory with the text of *new_memory*, or a free one; and whether that memory exists, live or soft-forgotten.

    A memory whose text was edited since does not count; the new statement is then another memory.
    """
    free: MemoryId | None = None
    for number in itertools.count():
        ids = await call.engine.memories.make_ids(make_content_key(new_memory.owners, new_memory.text, number))
        memories = await _read(call, ids)
        for memory_id in ids:
            if (memory := memories.get(memory_id)) is not None and _says_same(memory, new_memory):
                return memory_id, True
        if free is None and ids[0] not in memories:
            free = ids[0]
        if free is not None and not memories:
            return free, False
    raise AssertionError  # itertools.count never ends


async def _read(call: AgentMemCall, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord | None]:
    try:
        scope = await call.engine.scopes.get(SCOPE)
    except ScopeNotFoundError:  # nothing is stored yet
        return {}
    return await call.engine.memories.find_taken(scope, ids)


def _says_same(memory: MemoryRecord, new_memory: NewMemory) -> bool:
    # The owners are compared separately: a name may contain the NUL that separates them from the text in the key.
    return dict(memory.owners) == dict(new_memory.owners) and (
        make_content_key(memory.owners, memory.text) == make_content_key(new_memory.owners, new_memory.text)
    )


async def _make_sense(call: AgentMemCall, memory: MemoryRecord, said_at: dt.datetime) -> Findings:
    """Let the model, if there is one, extract facts and resolve contradictions; failures are only reported.

    *said_at* is the time of this statement, not of the memory if an old one is repeated.
    """
    if call.model is None:
        return Findings()
    try:
        older = await _nearest(call, memory)
        knowledge = await extract_facts(call.model, memory.text, older)
        return await _apply(call, memory, knowledge, said_at)
    except InfiniteMemoryError as exc:  # any error: the memory is stored
        reason = str(exc)
    except Exception:  # a model's answer may have any form
        log.exception("nothing could be made of a memory", extra={"event": "facts_failed"})
        reason = "internal error; the log has the details"
    return Findings(failure=f"stored, but nothing was made of it: {reason}")


async def _nearest(call: AgentMemCall, memory: MemoryRecord) -> list[MemoryRecord]:
    visibility = see_user(call.fields.text("user_id"))
    hits, _ = await search(call.engine, memory.text, visibility, COMPARED + 1, SearchType.VECTOR)
    return [hit.memory for hit in hits if hit.memory.memory_id != memory.memory_id][:COMPARED]


async def _apply(call: AgentMemCall, memory: MemoryRecord, knowledge: Knowledge, said_at: dt.datetime) -> Findings:
    """Store the facts, and let the newer of two statements supersede the older one, whichever was added first.

    Raises:
        MemoryChangedError: *memory* was edited since the model saw it, so that the answer is out of date.
    """
    says_the_same = _check_text(memory)
    says_the_same(await call.engine.memories.get(memory.memory_id))
    if knowledge.facts:
        facts = MemoryUpdate(metadata={FACTS: list(knowledge.facts)})
        await call.engine.memories.update(memory.memory_id, facts, check=says_the_same)
    others = {
        statement.memory_id: statement for statement in (*knowledge.contradicted, *filter(None, [knowledge.repeated]))
    }
    older = [statement for statement in others.values() if _said_at(statement) <= said_at]
    superseded: list[MemoryId] = []
    for old in older:
        with contextlib.suppress(MemoryChangedError):  # it was edited, and stays
            await _supersede(call, old, memory.memory_id)
            superseded.append(old.memory_id)
    newer = max(
        (statement for statement in others.values() if _said_at(statement) > said_at), key=_said_at, default=None
    )
    if newer is not None:
        await _supersede(call, memory, newer.memory_id)
    newer_id = newer.memory_id if newer is not None else None
    return Findings(knowledge.facts, True, superseded, newer_id)


def _said_at(memory: MemoryRecord) -> dt.datetime:
    """Return when a memory was stated: a time after its creation is a plan, stated when it was created."""
    return min(memory.occurred_at, memory.created_at)


def _check_text(shown: MemoryRecord) -> Callable[[MemoryRecord], None]:
    def check(memory: MemoryRecord) -> None:
        if memory.text != shown.text:
            raise MemoryChangedError(memory.memory_id)

    return check


async def _supersede(call: AgentMemCall, old: MemoryRecord, new: MemoryId) -> None:
    engine, source = call.engine, make_superseded_source(call.fields.text("user_id"))
    change = MemoryUpdate(status=SUPERSEDED, source=source)
    await engine.memories.update(old.memory_id, change, check=_check_text(old))
    await engine.graph.link(await engine.memories.get(new), await engine.memories.get(old.memory_id), SUPERSEDES)
