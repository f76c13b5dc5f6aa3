"""The visibility of a token: one user's memories of the AgentMem contract, those of some scopes, or everything.

Why a value of the engine and no checks in the routes: every command of every contract goes through the engine, so what a token does
not allow stays hidden whatever field, filter, cursor or id a request has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from infinite_memory.contracts.agentmem.access import see_user
from infinite_memory.engine.visibility import ANYBODYS, EVERYTHING, Visibility
from infinite_memory.models import ScopeId
from infinite_memory.transports.http.api.tokens import TokenPermissions


def get_visibility(grant: TokenPermissions, user_id: str | None, agent_id: str | None = None) -> Visibility:
    """Return the visibility of a request with *grant* about *user_id*, or only about one of the user's agents."""
    if grant.metrics_only:
        return Visibility()
    if user_id is not None:
        return get_user_visibility(user_id, agent_id, conceals=bool(grant.users))
    return EVERYTHING if grant.scope_ids is None else get_scopes_visibility(grant.scope_ids)


def get_user_visibility(user_id: str, agent_id: str | None = None, *, conceals: bool) -> Visibility:
    """Return the visibility of one user's memories, or those of one of the user's agents; superseded ones can be read by id.

    Args:
        conceals: Whether the caller must not notice other users; False if it may see them and did not ask for it.
    """
    return dataclasses.replace(see_user(user_id, agent_id), hidden_statuses=frozenset(), conceals=conceals)


def get_scopes_visibility(scope_ids: Sequence[ScopeId]) -> Visibility:
    """Return the visibility of some scopes' memories, whoever stored them there. A scope is identified by its id, whatever its current
    name, and none is created: that would be a different scope."""
    return Visibility(scope_ids=tuple(scope_ids), owners=ANYBODYS, described="some scopes")
