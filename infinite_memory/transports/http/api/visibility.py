"""What a token lets its bearer see: one user's memories of the AgentMem contract, those of some scopes, or everything.

Why a value of the engine and no checks in the routes: every command of every contract goes through the engine, so what a token does
not open stays shut whatever field, filter, cursor or id a request comes with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from infinite_memory.contracts.agentmem.access import see_user
from infinite_memory.engine.visibility import ANYBODYS, EVERYTHING, Visibility
from infinite_memory.models import ScopeId
from infinite_memory.transports.http.api.tokens import TokenPermissions


def get_visibility(grant: TokenPermissions, user_id: str | None, agent_id: str | None = None) -> Visibility:
    """Return what a request sees that comes with *grant* and is about *user_id*, or only about one agent of theirs."""
    if grant.metrics_only:
        return Visibility()
    if user_id is not None:
        return get_user_visibility(user_id, agent_id, conceals=bool(grant.users))
    return EVERYTHING if grant.scope_ids is None else get_scopes_visibility(grant.scope_ids)


def get_user_visibility(user_id: str, agent_id: str | None = None, *, conceals: bool) -> Visibility:
    """Return the visibility of one user's memories, or one agent's of them; what newer ones took the place of is read by its id.

    Args:
        conceals: Whether whoever asks must not notice other users; False for who may see them and did not ask for it.
    """
    return dataclasses.replace(see_user(user_id, agent_id), hidden_statuses=frozenset(), conceals=conceals)


def get_scopes_visibility(scope_ids: Sequence[ScopeId]) -> Visibility:
    """Return the visibility of some scopes' memories, whoever stored them there. A scope is meant by its id, whatever it is called
    now, and none is made: that would be another than the one that was meant."""
    return Visibility(scope_ids=tuple(scope_ids), owners=ANYBODYS, described="some scopes")
