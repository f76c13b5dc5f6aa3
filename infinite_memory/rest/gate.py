"""Who may come in by HTTP, how often, and what for: bearer tokens to `Grant`s.

The token of ``http.token`` is the owner's and opens everything. Others are made by `infinite-memory tokens`; the database keeps
their SHA-256 only (they are 256 random bits, so a slow hash would protect nothing more). Each request looks its token up, so a
revoked one is refused from the next request on, by every daemon of that database.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from infinite_memory.contracts.agentmem.failures import AuthenticationError, RateLimitError
from infinite_memory.engine.clock import Clock, system_clock
from infinite_memory.models import floor_to_millisecond
from infinite_memory.store.tokens import TokenRecord, Tokens

OWNER = "owner"
UNKNOWN = "unknown"  # whoever comes without a token that is known shares one limit
_FORM = re.compile(r"im_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token opens. ``users`` and ``scopes`` are what it is bound to, at most one of them; neither is everything."""

    token_id: str
    users: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it is bound to nothing, so that it may do all that its owner may."""
        return not (self.users or self.scopes or self.read_only)


class Gate:
    """Checks tokens and counts requests. *tokens* waits for the database; without it only the owner's token is known."""

    def __init__(
        self,
        owner_token: str,
        tokens: Callable[[], Awaitable[Tokens]] | None,
        rate: str | None,
        clock: Clock = system_clock,
    ) -> None:
        self._owner_token, self._tokens, self._clock = owner_token.encode(), tokens, clock
        self._rate: RateLimitItem | None = parse(rate) if rate else None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def admit(self, header: str) -> Grant:
        """Give what the token of an Authorization header opens.

        Raises:
            AuthenticationError: there is none, or it is unknown, revoked or expired.
            RateLimitError: it was used too often.
            StoreUnavailableError: tokens cannot be looked up; the owner's can always.
        """
        kind, _, token = header.partition(" ")
        grant = await self._known(token.strip()) if kind.lower() == "bearer" else None
        self._count(grant.token_id if grant is not None else UNKNOWN)
        if grant is None:
            raise AuthenticationError
        return grant

    async def _known(self, token: str) -> Grant | None:
        if hmac.compare_digest(token.encode(), self._owner_token):
            return Grant(OWNER)
        found = _FORM.fullmatch(token)
        if found is None or self._tokens is None:
            return None
        record = await (await self._tokens()).find(found[1])
        if record is None or not hmac.compare_digest(hash_of(token), record.secret_hash):
            return None
        if record.expires_at is not None and record.expires_at <= self._clock():
            return None
        return Grant(record.token_id, record.users, record.scopes, record.read_only)

    def _count(self, key: str) -> None:
        if self._rate is None or self._limiter.hit(self._rate, key):
            return
        raise RateLimitError(max(0.0, self._limiter.get_window_stats(self._rate, key).reset_time - time.time()))


def hash_of(token: str) -> str:
    """Give what is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def make_token(
    name: str,
    now: dt.datetime,
    *,
    users: Sequence[str] = (),
    scopes: Sequence[str] = (),
    read_only: bool = False,
    expires_at: dt.datetime | None = None,
) -> tuple[str, TokenRecord]:
    """Make a token: itself, to be shown once, and what is kept of it."""
    token_id = secrets.token_hex(6)
    token = f"im_{token_id}_{secrets.token_urlsafe(32)}"
    made_at = floor_to_millisecond(now)
    return token, TokenRecord(
        token_id, name, hash_of(token), made_at, tuple(users), tuple(scopes), read_only, expires_at
    )
