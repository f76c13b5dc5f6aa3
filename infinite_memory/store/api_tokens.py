"""Storage interface for HTTP API tokens; only a hash of each is stored.

Tokens belong to this database and are not part of backups: restoring one elsewhere grants nobody access, and a restore over this database
leaves its tokens unchanged.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import ScopeId


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A stored token. ``secret_hash`` is the SHA-256 of the whole token, in hex.

    ``users`` and ``scope_ids`` restrict the token; no users and None mean no restriction. Scopes are identified by id, so renaming one
    changes nothing; the id of a removed scope grants nothing, nor does an empty tuple. ``metrics_only`` grants access to the metrics only;
    such a token is bound to an empty set of scopes, so that a program that does not know the field grants it nothing. ``expires_at`` None
    means never.
    """

    token_id: str
    name: str
    secret_hash: str
    created_at: dt.datetime
    users: tuple[str, ...] = ()
    scope_ids: tuple[ScopeId, ...] | None = None
    read_only: bool = False
    metrics_only: bool = False
    expires_at: dt.datetime | None = None


class ApiTokens(Protocol):
    """The tokens of this database."""

    async def put(self, token: TokenRecord) -> None:
        """Store a new token."""

    async def find(self, token_id: str) -> TokenRecord | None:
        """Return the token with that id; None if there is none, or no longer."""

    async def all(self) -> list[TokenRecord]:
        """List every token, oldest first."""

    async def replace_secret(self, token_id: str, secret_hash: str) -> TokenRecord | None:
        """Replace a token's secret, and return the token; None if there is none with that id."""

    async def remove(self, token_id: str) -> bool:
        """Permanently remove a token; False if there was none with that id."""
