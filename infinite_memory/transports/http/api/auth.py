"""HTTP authentication and rate limits: bearer tokens to `TokenPermissions`.

The token of ``http.token`` is the owner's and has full access. Others are created by `infinite-memory tokens`. Each request looks its
token up, so a revoked one is rejected from the next request on, by every daemon of that database. Requests without a valid token have
their own limit and never use up that of others; however many guess, the database is read for them at most once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from infinite_memory import proofs
from infinite_memory.clock import Clock, ClockWatch, system_clock
from infinite_memory.errors import (
    AuthenticationError,
    ForbiddenError,
    InfiniteMemoryError,
    RateLimitError,
    StoreUnavailableError,
)
from infinite_memory.file_work import set_owner
from infinite_memory.store.api_tokens import ApiTokens
from infinite_memory.transports.http.api.tokens import OWNER, TokenPermissions, hash_token, parse_token_id

UNKNOWN = "unknown"  # all requests without a known token share one limit
CONCURRENT = 32  # default number of concurrent requests of one token
QUEUE = 4  # times as many may wait for their turn
LARGE_BODIES = 8  # large bodies of one token that are in memory at once; each may be as large as a request
LARGE_WAIT_S = 60.0  # how long a large body waits for a slot
LARGE_REPLY = 256 * 1024  # bytes
LARGE_REPLIES = 8  # concurrent reads of one token, including those whose large reply the client has not read yet
REFRESH_S = 1.0  # minimum interval between reads of the table of tokens for callers that may be guessing
RETRY_S = 1.0
CLOCK_SET = dt.timedelta(seconds=1)  # by how much the clock may drift between two requests without having been set


class Authenticator:
    """Checks tokens and counts requests. *tokens* waits for the database; without it only the owner's token is known."""

    def __init__(
        self,
        owner_token: Callable[[], str],
        tokens: Callable[[], Awaitable[ApiTokens]] | None,
        rate: str | None,
        clock: Clock = system_clock,
        concurrent: int = CONCURRENT,
        large_wait_s: float = LARGE_WAIT_S,
    ) -> None:
        self._owner_token, self._tokens, self._clock = owner_token, tokens, clock
        self._rate: RateLimitItem | None = parse(rate) if rate else None
        self._counts = MemoryStorage()
        self._limiter, self._clock_watch = MovingWindowRateLimiter(self._counts), ClockWatch(_clock_of_limits)
        self._known_hashes: set[str] = set()
        self._hashes = None if tokens is None else _Hashes(tokens)
        self._concurrent, self._lanes = concurrent, dict[str, _Lane]()
        self._large_wait_s, self._large_lanes = large_wait_s, dict[str, _Lane]()
        self._reply_lanes: dict[str, _Lane] = {}
        self._decoy = secrets.token_hex(32)

    async def authenticate(self, header: str, *, for_metrics: bool = False) -> TokenPermissions:
        """Return the permissions of the token in an Authorization header; a metrics-only token is valid for the metrics alone.

        Raises:
            AuthenticationError: it is missing, unknown, revoked or expired.
            ForbiddenError: it is metrics-only, and this is not *for_metrics*.
            RateLimitError: it was used too often.
            StoreUnavailableError: tokens cannot be looked up; the owner's always can.
        """
        kind, _, token = header.partition(" ")
        grant = await self._find_known(token.strip()) if kind.lower() == "bearer" else None
        self._count(grant.token_id if grant is not None else UNKNOWN)
        if grant is None:
            raise AuthenticationError
        if grant.metrics_only and not for_metrics:
            raise ForbiddenError("this token reads /metrics and nothing else")
        return grant

    async def is_valid(self, header: str) -> bool:
        """True if an admitted token is still valid, for long requests; not counted against the rate limit.

        Raises:
            StoreUnavailableError: tokens cannot be looked up.
        """
        return await self._find_known(header.partition(" ")[2].strip()) is not None

    async def prove(self, token_id: str, nonce: str, address: str) -> str:
        """Return a proof that this server knows the token of that id; for an unknown id, a proof that cannot be verified.

        Raises:
            StoreUnavailableError: tokens cannot be looked up; the owner's always can.
        """
        if token_id == OWNER:
            key = proofs.derive_key(self._owner_token())
        else:
            with _concealing():
                key = (None if self._hashes is None else await self._hashes.find(token_id)) or self._decoy
        return proofs.sign(key, proofs.BY_HTTP, address, nonce)

    def forget(self) -> None:
        """Drop cached tokens after one was created, replaced or revoked."""
        if self._hashes is not None:
            self._hashes.forget()

    @contextlib.asynccontextmanager
    async def turn(self, grant: TokenPermissions) -> AsyncIterator[None]:
        """Hold one of a token's slots for running requests, waiting for one if necessary.

        Raises:
            RateLimitError: too many of its requests are waiting already.
        """
        lane = self._lanes.get(grant.token_id)
        if lane is not None and lane.users >= self._concurrent * (1 + QUEUE):
            raise RateLimitError(RETRY_S)
        set_owner(grant.token_id)
        async with _place_in(self._lanes, grant.token_id, self._concurrent):
            yield

    @contextlib.asynccontextmanager
    async def reply_place(self, grant: TokenPermissions) -> AsyncIterator[None]:
        """Hold one of a token's slots for replies, whose size is unknown until they are built; wait for one if necessary."""
        async with _place_in(self._reply_lanes, grant.token_id, LARGE_REPLIES):
            yield

    @contextlib.asynccontextmanager
    async def room(self, grant: TokenPermissions) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Yield a function that waits for one of a token's slots for large bodies; the slot is held until this context ends.

        The function raises `RateLimitError` if no slot becomes free in time.
        """
        async with contextlib.AsyncExitStack() as stack:

            async def take() -> None:
                try:
                    async with asyncio.timeout(self._large_wait_s):
                        await stack.enter_async_context(_place_in(self._large_lanes, grant.token_id, LARGE_BODIES))
                except TimeoutError:
                    raise RateLimitError(RETRY_S) from None

            yield take

    async def _find_known(self, token: str) -> TokenPermissions | None:
        with _concealing():
            return await self._find(token)

    async def _find(self, token: str) -> TokenPermissions | None:
        if hmac.compare_digest(token.encode(), self._owner_token().encode()):
            return TokenPermissions(OWNER)
        token_id = parse_token_id(token)
        if token_id is None or self._tokens is None or self._hashes is None:
            return None
        hashed = hash_token(token)
        if hashed not in self._known_hashes and not await self._hashes.has(token_id, hashed):
            return None
        record = await (await self._tokens()).find(token_id)
        is_good = record is not None and hmac.compare_digest(hashed, record.secret_hash)
        if record is None or not is_good or (record.expires_at is not None and record.expires_at <= self._clock()):
            self._known_hashes.discard(hashed)
            return None
        self._known_hashes.add(hashed)
        return TokenPermissions(record.token_id, record.users, record.scope_ids, record.read_only, record.metrics_only)

    def _count(self, key: str) -> None:
        if self._rate is None:
            return
        self._forget_counts_of_another_clock()
        if self._limiter.hit(self._rate, key):
            return
        raise RateLimitError(max(0.0, self._limiter.get_window_stats(self._rate, key).reset_time - time.time()))

    def _forget_counts_of_another_clock(self) -> None:
        """Reset the counts if the clock was set: requests counted in the future would never expire."""
        if abs(self._clock_watch.take_shift()) > CLOCK_SET:
            self._counts.reset()


def _clock_of_limits() -> dt.datetime:
    """Return the time on the clock that `limits` uses."""
    return dt.datetime.fromtimestamp(time.time(), dt.UTC)


@contextlib.contextmanager
def _concealing() -> Iterator[None]:
    """Hide the reason why tokens cannot be looked up: it names folders, servers and versions, and the caller is not authenticated yet."""
    try:
        yield
    except InfiniteMemoryError as exc:
        raise StoreUnavailableError("tokens cannot be looked up at the moment: the database cannot be used") from exc


@dataclass(slots=True)
class _Lane:
    """The requests of one token: running and waiting."""

    places: asyncio.Semaphore
    users: int = 0


@contextlib.asynccontextmanager
async def _place_in(lanes: dict[str, _Lane], token_id: str, places: int) -> AsyncIterator[None]:
    """Hold one of the *places* of a token, waiting for one if necessary."""
    lane = lanes.setdefault(token_id, _Lane(asyncio.Semaphore(places)))
    lane.users += 1
    try:
        async with lane.places:
            yield
    finally:
        lane.users -= 1
        if not lane.users:
            lanes.pop(token_id, None)


class _Hashes:
    """Cached hashes of all tokens, by id; read from the database at most once in `REFRESH_S`, for all callers."""

    def __init__(self, tokens: Callable[[], Awaitable[ApiTokens]]) -> None:
        self._tokens = tokens
        self._by_id: dict[str, str] = {}
        self._read_at = float("-inf")
        self._next: asyncio.Task[None] | None = None

    async def has(self, token_id: str, secret_hash: str) -> bool:
        """True if a token of that id and hash exists; if it is not cached, read the table first."""
        if not self._is(token_id, secret_hash):
            await self._refresh()
        return self._is(token_id, secret_hash)

    async def find(self, token_id: str) -> str | None:
        """Return the hash of a token, at most `REFRESH_S` old; None if there is no such id."""
        if token_id not in self._by_id or time.monotonic() - self._read_at > REFRESH_S:
            await self._refresh()
        return self._by_id.get(token_id)

    def forget(self) -> None:
        self._by_id, self._read_at = {}, float("-inf")

    def _is(self, token_id: str, secret_hash: str) -> bool:
        return hmac.compare_digest(self._by_id.get(token_id, ""), secret_hash)

    async def _refresh(self) -> None:
        """Wait for a read of the table that began after this call; concurrent callers share one."""
        if self._next is None:
            self._next = asyncio.create_task(self._read(), name="tokens")
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._next)

    async def _read(self) -> None:
        try:
            await asyncio.sleep(max(0.0, self._read_at + REFRESH_S - time.monotonic()))
        finally:
            self._next = None  # later callers need the next read
        self._read_at = time.monotonic()
        self._by_id = {token.token_id: token.secret_hash for token in await (await self._tokens()).all()}
