"""What the HTTP side needs of the store, beside `Store`: the tokens that let clients in, of which only a hash is kept.

They belong to this database and travel in no backup: who restores one elsewhere lets nobody in by it, and a restore over this
database leaves the tokens as they are.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import ScopeId


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token as it is kept. ``secret_hash`` is the SHA-256 of the whole token, in hexadecimal.

    ``users`` and ``scope_ids`` are what it is bound to; no users and None mean everything. A scope is meant by its id, whatever it is
    called now; of one that is gone nothing is seen, and an empty tuple opens nothing. ``metrics_only`` opens the metrics and nothing
    else; such a token is bound to no scope, so that a program that does not know the field lets it see nothing. ``expires_at`` None is
    never.
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
        """Keep a new token."""

    async def find(self, token_id: str) -> TokenRecord | None:
        """Read one; None when there is none of that id, or no longer."""

    async def all(self) -> list[TokenRecord]:
        """List every token, oldest first."""

    async def replace_secret(self, token_id: str, secret_hash: str) -> TokenRecord | None:
        """Replace a token's secret, and return the token; None when there is none of that id."""

    async def remove(self, token_id: str) -> bool:
        """Remove one for good; False when there was none of that id."""
