"""Routes for search, chat and system prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infinite_memory.contracts.agentmem.chat import answer_message, serialize_answer
from infinite_memory.contracts.agentmem.prompts import make_prompt
from infinite_memory.contracts.agentmem.search import find_memories
from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native import recall
from infinite_memory.contracts.native.table import TABLE as NATIVE
from infinite_memory.contracts.native.table import make_filter
from infinite_memory.errors import InvalidRequestError
from infinite_memory.transports.http.api.backend import ApiRequest
from infinite_memory.transports.http.api.memories import EVERYWHERE
from infinite_memory.transports.http.api.serializers import memory_form, plain_id, results_form

AGENTMEM_ONLY = frozenset({"agent_id", "search_type", "memory_type", "min_score"})
"""Fields that only the AgentMem contract's search has; any of them selects that search."""

_SEARCH = AGENTMEM.find("agentmem_search_memories")
assert _SEARCH is not None
AGENTMEM_SEARCH = tuple(field.name for field in _SEARCH.fields)
"""All its fields; any other would be ignored, and the result would be wider than requested."""


_TIMES, _RANKED = NATIVE.find("recall_memory_by_time"), NATIVE.find("retrieve_memory")
assert _TIMES is not None and _RANKED is not None
TIMES = tuple(field.name for field in _TIMES.fields)
"""Fields of a search that lists a time range."""

EXPLAINING = ("explain", "explain_id")  # for the owner of the memory, over the native protocol
_RENAMED = {"top_k": "limit"}
RANKED = (
    *(_RENAMED.get(field.name, field.name) for field in _RANKED.fields if field.name not in EXPLAINING),
    "time_query",
    "range",
)
"""Fields of a search that answers a question, with this route's names."""


async def search(request: ApiRequest) -> tuple[int, Json]:
    """Search by meaning and words, or list a time range if there is nothing but a time.

    Raises:
        InvalidRequestError: a field is invalid, or belongs to another kind of search than the requested one.
    """
    fields = {name: value for name, value in request.fields.items() if value not in (None, "")}
    if theirs := sorted(AGENTMEM_ONLY & fields.keys()):
        request.require_user()
        if others := [name for name in fields if name not in AGENTMEM_SEARCH]:
            raise InvalidRequestError(
                others[0], f"does not go with {theirs[0]}, whose search takes {', '.join(AGENTMEM_SEARCH)}"
            )
        return 200, await _search_agentmem(request, fields)
    if request.is_narrow and "scope" not in fields and not _names_scope(fields.get("filter")):
        fields["scope"] = EVERYWHERE
    if "query" not in fields and ("time_query" in fields or "range" in fields):
        fields = _without_others(request, fields, TIMES, "time_query or range alone, which list")
        call = await request.native("recall_memory_by_time", fields)
        return 200, results_form(call, await recall.list_time(call), "results")
    fields = _without_others(request, fields, RANKED, "query, which ranks")
    if "limit" in fields:
        fields["top_k"] = fields.pop("limit")
    filter_ = fields.get("filter")
    times = {"time_query": "time_query", "range": "time_range"}
    if isinstance(filter_, dict) or filter_ is None:
        moved = {there: fields.pop(here) for here, there in times.items() if here in fields}
        if moved:
            fields["filter"] = {**(filter_ or {}), **moved}
    try:
        call = await request.native("retrieve_memory", fields)
        results, _ = await recall.rank(call, await make_filter(call, call.fields.inner("filter")))
    except InvalidRequestError as exc:
        raise _as_sent(exc, request.fields) from exc
    return 200, results_form(call, results, "results")


async def chat(request: ApiRequest) -> tuple[int, Json]:
    """Answer a message using the memories of the user."""
    answer = await answer_message(await request.agentmem("agentmem_chat", request.fields))
    return 200, serialize_answer(answer, plain_id, with_context=False)


async def prompt(request: ApiRequest) -> tuple[int, Json]:
    """Return a system prompt built from what is known about the user."""
    return 200, await make_prompt(await request.agentmem("agentmem_get_system_prompt", request.fields))


async def _search_agentmem(request: ApiRequest, fields: Json) -> Json:
    call = await request.agentmem("agentmem_search_memories", fields)
    hits = await find_memories(call)
    results = [memory_form(call.engine, hit.memory) | {"confidence": round(hit.score, 4)} for hit in hits.hits]
    scopes = [scope.name for scope in await call.engine.scopes.list_all() if scope.archived_at is None]
    form: Json = {"results": results, "total": hits.total, "next_cursor": None, "scopes_searched": scopes}
    return form | ({"note": hits.note} if hits.note else {})


def _without_others(request: ApiRequest, fields: Json, known: Sequence[str], search_name: str) -> Json:
    """Return the *fields* of the requested search, and warn about those of the other one, which have no meaning here."""
    request.checking.warnings += [
        f"{name} was ignored: it does not go with {search_name}; what does: {', '.join(known)}"
        for name in fields
        if name not in known
    ]
    return {name: value for name, value in fields.items() if name in known}


def _names_scope(filter_: Any) -> bool:
    return isinstance(filter_, dict) and filter_.get("scope") is not None


def _as_sent(exc: InvalidRequestError, fields: Json) -> InvalidRequestError:
    """Rename a field as in the request."""
    for name, sent_as in (("top_k", "limit"), ("filter.time_query", "time_query"), ("filter.time_range", "range")):
        if exc.field.startswith(name) and sent_as in fields:
            message = str(exc).removeprefix(f"{exc.field}: ")
            return InvalidRequestError(exc.field.replace(name, sent_as, 1), message)
    return exc
