"""The routes that search, chat, and make prompts."""

from __future__ import annotations

import asyncio
from typing import Any

from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.replies import memory_out
from infinite_memory.errors import InvalidRequestError, MemoryNotFoundError
from infinite_memory.models import MemoryId
from infinite_memory.rest.backend import ApiRequest
from infinite_memory.rest.forms import memory_form, plain_id
from infinite_memory.rest.memories import EVERYWHERE, listing_form

AGENTMEM_ONLY = frozenset({"agent_id", "search_type", "memory_type", "min_score"})
"""Fields that only the AgentMem contract's search has; with one of them it is the search that is meant."""

_SEARCH = AGENTMEM.find("agentmem_search_memories")
assert _SEARCH is not None
AGENTMEM_SEARCH = tuple(one.name for one in _SEARCH.fields)
"""All fields that it has; any other would be left out, and more be found than was asked for."""


async def search(request: ApiRequest) -> tuple[int, Json]:
    """Find by meaning and words, or list a stretch of time where there is nothing but a time.

    Raises:
        InvalidRequestError: a field is wrong, or goes only with another search than the one that is asked for.
    """
    fields = {name: value for name, value in request.fields.items() if value is not None}
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
        return 200, listing_form(await request.native("recall_memory_by_time", fields), "results")
    if "limit" in fields:
        fields["top_k"] = fields.pop("limit")
    filter_ = fields.get("filter")
    times = {"time_query": "time_query", "range": "time_range"}
    if isinstance(filter_, dict) or filter_ is None:
        moved = {there: fields.pop(here) for here, there in times.items() if here in fields}
        if moved:
            fields["filter"] = {**(filter_ or {}), **moved}
    try:
        found = await request.native("retrieve_memory", fields)
    except InvalidRequestError as problem:
        raise _as_sent(problem, request.fields) from problem
    return 200, listing_form(found, "results")


async def chat(request: ApiRequest) -> tuple[int, Json]:
    """Answer a message with what is remembered of the user in mind."""
    reply = await request.agentmem("agentmem_chat", request.fields)
    used = [{**one, "memory_id": plain_id(one["memory_id"])} for one in reply["memories_used"]]
    kept = {name: value for name, value in reply.items() if name not in ("success", "memory_context_used")}
    return 200, kept | {"memories_used": used}


async def prompt(request: ApiRequest) -> tuple[int, Json]:
    """Make a system prompt of what is known of the user."""
    reply = await request.agentmem("agentmem_get_system_prompt", request.fields)
    return 200, {name: value for name, value in reply.items() if name != "success"}


async def _search_agentmem(request: ApiRequest, fields: Json) -> Json:
    reply = await request.agentmem("agentmem_search_memories", fields)
    engine = await request.engine()

    async def whole(hit: Json) -> Json | None:
        try:
            memory = await engine.get(MemoryId(plain_id(hit["memory_id"])))
        except MemoryNotFoundError:  # forgotten at this moment
            return None
        return memory_form(memory_out(engine, memory)) | {"confidence": hit["score"]}

    results = [one for one in await asyncio.gather(*map(whole, reply["results"])) if one is not None]
    scopes = sorted({one["scope"] for one in results})
    made: Json = {"results": results, "total": len(results), "next_cursor": None, "scopes_searched": scopes}
    return made | ({"note": reply["note"]} if "note" in reply else {})


def _names_scope(filter_: Any) -> bool:
    return isinstance(filter_, dict) and filter_.get("scope") is not None


def _as_sent(problem: InvalidRequestError, sent: Json) -> InvalidRequestError:
    """Name a field as the request did."""
    for name, sent_as in (("top_k", "limit"), ("filter.time_query", "time_query"), ("filter.time_range", "range")):
        if problem.field.startswith(name) and sent_as in sent:
            said = str(problem).removeprefix(f"{problem.field}: ")
            return InvalidRequestError(problem.field.replace(name, sent_as, 1), said)
    return problem
