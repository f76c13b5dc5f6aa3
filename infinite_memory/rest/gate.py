"""Who may come in by HTTP, and how often: bearer tokens to `Grant`s.

The token of ``http.token`` is the owner's and opens everything. Others are made by `infinite-memory tokens`. Each request looks its
token up, so a revoked one is refused from the next request on, by every daemon of that database.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from infinite_memory.engine.clock import Clock, system_clock
from infinite_memory.errors import AuthenticationError, RateLimitError
from infinite_memory.rest.tokens import OWNER, Grant, hash_of, id_of
from infinite_memory.store.tokens import Tokens

UNKNOWN = "unknown"  # whoever comes without a token that is known shares one limit


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
        self._known_hashes: set[str] = set()

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

    async def opens(self, header: str) -> bool:
        """Tell whether a token that was admitted still opens, for what takes long; counts nothing.

        Raises:
            StoreUnavailableError: tokens cannot be looked up.
        """
        return await self._known(header.partition(" ")[2].strip()) is not None

    async def _known(self, token: str) -> Grant | None:
        if hmac.compare_digest(token.encode(), self._owner_token):
            return Grant(OWNER)
        token_id = id_of(token)
        if token_id is None or self._tokens is None:
            return None
        hashed = hash_of(token)
        if hashed not in self._known_hashes and not self._may_guess():
            return None
        record = await (await self._tokens()).find(token_id)
        is_good = record is not None and hmac.compare_digest(hashed, record.secret_hash)
        if record is None or not is_good or (record.expires_at is not None and record.expires_at <= self._clock()):
            self._known_hashes.discard(hashed)
            return None
        self._known_hashes.add(hashed)
        return Grant(record.token_id, record.users, record.scopes, record.read_only)

    def _may_guess(self) -> bool:
        """Tell whether a token that never was good here may be looked up: who guesses must not keep the database busy.

        Those that were good are looked up all the same, so that nobody's guesses shut others out.
        """
        return self._rate is None or self._limiter.test(self._rate, UNKNOWN)

    def _count(self, key: str) -> None:
        if self._rate is None or self._limiter.hit(self._rate, key):
            return
        raise RateLimitError(max(0.0, self._limiter.get_window_stats(self._rate, key).reset_time - time.time()))
