"""Tokens of a real MongoDB at the gate of the HTTP API."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from infinite_memory import proofs
from infinite_memory.errors import AuthenticationError, RateLimitError
from infinite_memory.store.api_tokens import ApiTokens, TokenRecord
from infinite_memory.transports.http.api.auth import LARGE_BODIES, QUEUE, Authenticator
from infinite_memory.transports.http.api.tokens import TokenPermissions, hash_token, make_token
from infinite_memory.transports.http.asgi import LARGE_BODY, read_body

from .conftest import NOW, Place

HOUR = dt.timedelta(hours=1)


class Counted:
    """The tokens of a store, and how often one was looked up."""

    def __init__(self, tokens: ApiTokens) -> None:
        self.tokens, self.count = tokens, 0

    async def __call__(self) -> ApiTokens:
        self.count += 1
        return self.tokens


async def kept(tokens: ApiTokens, expires_at: dt.datetime | None = None) -> tuple[str, TokenRecord]:
    """Make a token that the store knows."""
    token, record = make_token("lamp", NOW, users=["ada"], expires_at=expires_at)
    await tokens.put(record)
    return token, record


async def test_a_token_opens_until_the_instant_when_it_expires(place: Place) -> None:
    async with place.open() as store:
        token, record = await kept(store.tokens, NOW + HOUR)
        now = NOW
        gate = Authenticator(lambda: "owner's", Counted(store.tokens), None, clock=lambda: now)
        for now in (NOW, NOW + HOUR - dt.timedelta(milliseconds=1)):  # noqa: B007
            assert await gate.authenticate(f"Bearer {token}") == TokenPermissions(record.token_id, ("ada",))
        for now in (NOW + HOUR, NOW + 2 * HOUR):  # noqa: B007
            with pytest.raises(AuthenticationError):
                await gate.authenticate(f"Bearer {token}")


async def test_a_token_that_was_removed_or_has_another_secret_opens_nothing(place: Place) -> None:
    async with place.open() as store:
        token, record = await kept(store.tokens)
        gate = Authenticator(lambda: "owner's", Counted(store.tokens), None)
        assert (await gate.authenticate(f"Bearer {token}")).users == ("ada",)
        with pytest.raises(AuthenticationError):
            await gate.authenticate(f"Bearer {token[:-1]}{'a' if token[-1] != 'a' else 'b'}")
        await store.tokens.remove(record.token_id)
        with pytest.raises(AuthenticationError):
            await gate.authenticate(f"Bearer {token}")


async def test_however_many_guess_the_database_is_read_once_a_second_and_nobody_is_shut_out(place: Place) -> None:
    async with place.open() as store:
        token, record = await kept(store.tokens)
        counted = Counted(store.tokens)
        gate = Authenticator(lambda: "owner's", counted, "3/hour")

        async def guess(number: int) -> type[BaseException]:
            with pytest.raises((AuthenticationError, RateLimitError)) as refused:
                await gate.authenticate(f"Bearer {make_token(f'guess {number}', NOW)[0]}")
            return refused.type

        refusals = await asyncio.gather(*map(guess, range(200)))
        assert sorted(map(str, refusals)) == sorted([str(AuthenticationError)] * 3 + [str(RateLimitError)] * 197)
        assert counted.count == 1
        assert await gate.authenticate(f"Bearer {token}") == TokenPermissions(record.token_id, ("ada",)), (
            "its first use"
        )
        assert counted.count == 2, "it was seen when the table was read"


async def test_a_token_that_was_just_made_opens_while_others_guess(place: Place) -> None:
    async with place.open() as store:
        gate = Authenticator(lambda: "owner's", Counted(store.tokens), "3/hour")
        with pytest.raises(AuthenticationError):
            await gate.authenticate(f"Bearer {make_token('guess', NOW)[0]}")
        token, record = await kept(store.tokens)  # by another daemon of this database
        assert (await gate.authenticate(f"Bearer {token}")).token_id == record.token_id


async def test_a_proof_is_made_of_the_token_and_of_an_unknown_one_looks_the_same(place: Place) -> None:
    async with place.open() as store:
        token, record = await kept(store.tokens)
        gate, nonce, at = (
            Authenticator(lambda: "owner's", Counted(store.tokens), None),
            proofs.make_nonce(),
            "127.0.0.1:8",
        )
        good = await gate.prove(record.token_id, nonce, at)
        assert proofs.is_signed(good, proofs.derive_key(token), proofs.BY_HTTP, at, nonce)
        assert not proofs.is_signed(good, proofs.derive_key(token), proofs.BY_HTTP, "127.0.0.1:9", nonce)
        owners = await gate.prove("owner", nonce, at)
        assert proofs.is_signed(owners, proofs.derive_key("owner's"), proofs.BY_HTTP, at, nonce)
        unknown = await gate.prove("0" * 12, nonce, at)
        assert len(unknown) == len(good)
        assert unknown == await gate.prove("0" * 12, nonce, at)
        renewed = make_token("lamp", NOW)[0]
        await store.tokens.replace_secret(record.token_id, hash_token(renewed))
        gate.forget()
        again = await gate.prove(record.token_id, nonce, at)
        assert proofs.is_signed(again, proofs.derive_key(renewed), proofs.BY_HTTP, at, nonce)


async def test_requests_of_one_token_wait_for_their_turn_and_others_do_not(place: Place) -> None:
    gate = Authenticator(lambda: "owner's", None, None, concurrent=2)
    busy, other = TokenPermissions("busy"), TokenPermissions("other")
    under_way = most = 0
    release = asyncio.Event()

    async def work() -> None:
        nonlocal under_way, most
        async with gate.turn(busy):
            under_way += 1
            most = max(most, under_way)
            await release.wait()
            under_way -= 1

    tasks = [asyncio.create_task(work()) for _ in range(2 * (1 + QUEUE))]
    await asyncio.sleep(0)
    with pytest.raises(RateLimitError):
        async with gate.turn(busy):
            pass
    async with gate.turn(other):
        pass
    release.set()
    await asyncio.gather(*tasks)
    assert most == 2
    async with gate.turn(busy):
        pass


async def test_large_bodies_of_one_token_wait_before_they_are_read_and_others_do_not() -> None:
    """However many connections a token has, a few of its large bodies are in memory; small ones need no place."""
    most = 8 * LARGE_BODY

    gate = Authenticator(lambda: "owner's", None, None, large_wait_s=0.2)
    end = asyncio.Event()
    received: list[int] = []

    async def send(token_id: str, size: int) -> int | None:
        """Read a body of *size* bytes that comes in parts; what was taken of it is noted."""
        number = len(received)
        received.append(0)

        async def receive() -> dict[str, object]:
            received[number] += LARGE_BODY // 4
            await asyncio.sleep(0)
            if received[number] >= size > LARGE_BODY:
                await end.wait()
            return {"type": "http.request", "body": bytes(LARGE_BODY // 4), "more_body": received[number] < size}

        async with gate.room(TokenPermissions(token_id)) as take_place:
            body = await read_body(receive, most, take_place)
            return None if body is None else len(body)

    large = [asyncio.create_task(send("busy", most)) for _ in range(3 * LARGE_BODIES)]
    assert await send("busy", LARGE_BODY) == LARGE_BODY
    await asyncio.sleep(0.1)
    assert sum(one > 2 * LARGE_BODY for one in received) == LARGE_BODIES
    assert sum(received) < LARGE_BODIES * most + 3 * LARGE_BODIES * 2 * LARGE_BODY
    other = asyncio.create_task(send("other", most))
    await asyncio.sleep(0.3)
    assert received[-1] == most, "another token has places of its own"
    end.set()
    results = await asyncio.gather(*large, other, return_exceptions=True)
    assert results.count(most) == LARGE_BODIES + 1
    refused = [one for one in results if isinstance(one, RateLimitError)]
    assert len(refused) == 2 * LARGE_BODIES, "who waited for too long is told to come again"
    assert await send("busy", most) == most
