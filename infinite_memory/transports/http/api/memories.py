"""Routes for memories. Fields are validated by the native contract's commands, or AgentMem's if a user's memory is
stored; the engine does the work, and results are written in this API's own form."""

from __future__ import annotations

from collections.abc import Collection

from infinite_memory.contracts.agentmem import add as agentmem_add
from infinite_memory.contracts.agentmem.table import SCOPE
from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.field_types import NameField
from infinite_memory.contracts.fields import Json, parse_fields
from infinite_memory.contracts.native import forget as native_forget
from infinite_memory.contracts.native import recall as native_recall
from infinite_memory.contracts.native import store as native_store
from infinite_memory.contracts.native.store import BEFORE_FIELD, older_revisions
from infinite_memory.contracts.native.table import FILTER_FIELDS, IdField
from infinite_memory.engine.types import ForgetMode, StoreResult
from infinite_memory.errors import InvalidRequestError, MemoryNotFoundError
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.backend import AGENT_FIELD, ApiRequest
from infinite_memory.transports.http.api.serializers import earlier_form, plain_id, results_form, whole_form

EVERYWHERE = "ALL"
FILTERS = frozenset(field.name for field in FILTER_FIELDS)
_ID = IdField(name="memory_id", about="Id of the memory", required=True)
_ADD = AGENTMEM.find("agentmem_add_memory")
assert _ADD is not None
_OF_SCOPES = frozenset(field.name for field in native_store.STORE_FIELDS)
_OF_USERS = frozenset(field.name for field in _ADD.fields)
"""Fields of a memory that is stored for a scope, and for a user."""
_FINDINGS = ("facts", "superseded", "superseded_by", "generated", "model_error")
SCOPE_FIELD = NameField(name="scope", about="The scope that it goes to", required=True)


async def store(request: ApiRequest) -> tuple[int, Json]:
    """Store a memory; one that the user already has is not stored twice."""
    if request.user_id is not None:
        return await _store_of_user(request)
    fields = _without_others(request, _OF_SCOPES, "with user_id")
    result = await native_store.store(await request.native("store_memory", fields))
    memory = await _read(request, result.memory.memory_id)
    return 201, memory | {"outcome": "stored"} | _pending_form(result)


async def list_(request: ApiRequest) -> tuple[int, Json]:
    """List memories, newest first."""
    if request.fields.get(AGENT_FIELD.name) == "":
        request.fields.pop(AGENT_FIELD.name)
    await request.take_agent()
    fields = dict(request.fields)
    filter_ = {name: fields.pop(name) for name in list(fields) if name in FILTERS}
    ends = {end: value for end in ("from", "to") if (value := fields.pop(end, "")) != ""}
    if ends:
        filter_["time_range"] = ends
    if request.is_narrow and filter_.get("scope") is None:
        filter_["scope"] = EVERYWHERE
    try:
        call = await request.native("list_memories", {**fields, "filter": filter_})
        results = await native_recall.list_newest(call)
    except InvalidRequestError as exc:
        raise _renamed(exc, "filter.time_range.", "filter.") from exc
    return 200, results_form(call, results, "memories")


async def forget(request: ApiRequest) -> tuple[int, Json]:
    """Forget every memory that the selectors match; if all memories of a user are hard-deleted, also the agents created for them.

    Raises:
        InvalidRequestError: there is no selector, or only a scope: leaving something out must not delete everything.
    """
    await request.take_agent()
    fields = dict(request.fields)
    target = {name: fields.pop(name) for name in ("scope", "tag", "query") if name in fields}
    whole_user = request.user_id if not target and request.agent_id is None else None
    if not target:
        if not (request.names_user or request.agent_id is not None):
            raise InvalidRequestError(
                "", "nothing is named; give scope, tag or query, or user_id for all memories of a user"
            )
        target["scope"] = SCOPE  # all of the user's memories
    if set(target) == {"scope"} and not request.is_narrow:
        raise InvalidRequestError("scope", "names a whole scope; give tag or query too, or use the scopes command")
    try:
        report = await native_forget.forget(await request.native("delete_memory", {**fields, "target": target}))
    except InvalidRequestError as exc:
        raise _renamed(exc, "target.") from exc
    if whole_user is not None and report.mode is ForgetMode.HARD and not report.dry_run:
        await (await request.engine()).owners.remove_agents(whole_user)
    return 200, native_forget.serialize_forgotten(report, text_name="content")


async def read(request: ApiRequest) -> tuple[int, Json]:
    """Read one memory."""
    return 200, await _read(request, _id(request))


async def change(request: ApiRequest) -> tuple[int, Json]:
    """Update fields of a memory."""
    fields = {name: value for name, value in request.fields.items() if name != "memory_id"}
    result = await native_store.update(await request.native("update_memory", {**fields, "memory_id": _id(request)}))
    update = _pending_form(result) | native_store.serialize_update(result)
    return 200, await _read(request, result.memory.memory_id) | update


async def forget_one(request: ApiRequest) -> tuple[int, Json]:
    """Forget one memory.

    Raises:
        MemoryNotFoundError: no visible memory has that id.
    """
    fields = {name: value for name, value in request.fields.items() if name != "memory_id"}
    call = await request.native("delete_memory", {**fields, "target": {"memory_id": _id(request)}})
    report = await native_forget.forget(call)
    if not report.result.memory_ids:
        raise MemoryNotFoundError(MemoryId(_id(request)))
    return 200, native_forget.serialize_forgotten(report, text_name="content")


async def history(request: ApiRequest) -> tuple[int, Json]:
    """Return a memory and its earlier versions."""
    engine = await request.engine()
    memory = await engine.memories.get(_checked_id(request, _id(request)))
    page = await engine.memories.history(memory.memory_id, _before_revision(request))
    revisions = [earlier_form(engine, revision) for revision in page.revisions]
    return 200, {"memory": whole_form(engine, memory), "revisions": revisions} | older_revisions(page)


async def restore(request: ApiRequest) -> tuple[int, Json]:
    """Restore a soft-forgotten memory."""
    engine = await request.engine()
    result = await engine.memories.restore(_checked_id(request, _id(request)))
    fields: Json = {"outcome": native_forget.get_outcome(result.is_restored)}
    if not result.is_restored:
        fields["note"] = native_forget.NOT_FORGOTTEN
    return 200, await _read(request, result.memory.memory_id) | fields


async def move(request: ApiRequest) -> tuple[int, Json]:
    """Move a memory to another scope; it keeps its id, history and links."""
    engine = await request.engine()
    scope = parse_fields((SCOPE_FIELD,), {"scope": request.fields.get("scope")}, "", request.checking).text("scope")
    moved = await engine.memories.move(_checked_id(request, _id(request)), scope)
    fields: Json = {"outcome": "moved" if moved.is_moved else "unchanged", "former_scope": moved.former.name}
    if moved.same_text:
        fields["note"] = f"{moved.scope.name} has the same text already: {', '.join(moved.same_text)}"
    return 200, whole_form(engine, moved.memory) | fields


async def _store_of_user(request: ApiRequest) -> tuple[int, Json]:
    fields = _without_others(request, _OF_USERS, "without user_id")
    added = await agentmem_add.add(await request.agentmem("agentmem_add_memory", fields))
    form = await _read(request, added.memory.memory_id) | {"outcome": added.outcome}
    if added.pending_note is not None:
        form["note"] = added.pending_note
    if added.findings is not None:
        findings = agentmem_add.serialize_findings(added.findings, plain_id)
        form |= {name: findings[name] for name in _FINDINGS if name in findings}
    form["importance_score"] = added.importance
    return 200 if added.outcome == "duplicate" else 201, form


def _without_others(request: ApiRequest, taken: Collection[str], when: str) -> Json:
    """Return the fields that are *taken*, and warn about those that this route takes only *when* it stores the other kind of memory."""
    request.checking.warnings += [
        f"{name} was ignored: it goes only {when}"
        for name, value in request.fields.items()
        if name not in taken and value not in (None, "")
    ]
    return {name: value for name, value in request.fields.items() if name in taken}


def _pending_form(result: StoreResult) -> Json:
    """Return the fields for a memory that is not embedded yet, the note first."""
    pending = native_store.serialize_pending(result)
    return {name: pending[name] for name in ("note", "embedding") if name in pending}


async def _read(request: ApiRequest, memory_id: str) -> Json:
    engine = await request.engine()
    return whole_form(engine, await engine.memories.get(_checked_id(request, memory_id)))


def _checked_id(request: ApiRequest, memory_id: str) -> MemoryId:
    return MemoryId(parse_fields((_ID,), {"memory_id": memory_id}, "", request.checking).text("memory_id"))


def _before_revision(request: ApiRequest) -> int | None:
    provided = {name: value for name, value in request.fields.items() if name == BEFORE_FIELD.name}
    fields = parse_fields((BEFORE_FIELD,), provided, "", request.checking)
    return fields.integer(BEFORE_FIELD.name) if BEFORE_FIELD.name in fields else None


def _id(request: ApiRequest) -> str:
    return plain_id(request.fields["memory_id"])


def _renamed(exc: InvalidRequestError, *prefixes: str) -> InvalidRequestError:
    """Rename the field as in the query string; the two ends of a range are separate fields there."""
    if exc.field == "filter.time_range":
        return InvalidRequestError("from", str(exc).removeprefix("filter.time_range: from "))
    for prefix in prefixes:
        if exc.field.startswith(prefix):
            message = str(exc).removeprefix(f"{exc.field}: ")
            return InvalidRequestError(exc.field.removeprefix(prefix), message)
    return exc
