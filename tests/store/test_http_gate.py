"""Tokens of a real MongoDB at the gate of the HTTP API."""

from __future__ import annotations

import datetime as dt

import pytest

from infinite_memory.errors import AuthenticationError, RateLimitError
from infinite_memory.rest.gate import Gate
from infinite_memory.rest.tokens import Grant, make_token
from infinite_memory.store.tokens import TokenRecord, Tokens
from tests.mongo_server import run

from .conftest import NOW, Place

HOUR = dt.timedelta(hours=1)


class Counted:
    """The tokens of a store, and how often one was looked up."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens, self.count = tokens, 0

    async def __call__(self) -> Tokens:
        self.count += 1
        return self.tokens


async def kept(tokens: Tokens, expires_at: dt.datetime | None = None) -> tuple[str, TokenRecord]:
    """Make a token that the store knows."""
    token, record = make_token("lamp", NOW, users=["ada"], expires_at=expires_at)
    await tokens.put(record)
    return token, record


def test_a_token_opens_until_the_instant_when_it_expires(place: Place) -> None:
    async def scenario() -> None:
        async with place.open() as store:
            token, record = await kept(store.tokens, NOW + HOUR)
            now = NOW
            gate = Gate("owner's", Counted(store.tokens), None, clock=lambda: now)
            for now in (NOW, NOW + HOUR - dt.timedelta(milliseconds=1)):  # noqa: B007
                assert await gate.admit(f"Bearer {token}") == Grant(record.token_id, ("ada",))
            for now in (NOW + HOUR, NOW + 2 * HOUR):  # noqa: B007
                with pytest.raises(AuthenticationError):
                    await gate.admit(f"Bearer {token}")

    run(scenario())


def test_a_token_that_was_removed_or_has_another_secret_opens_nothing(place: Place) -> None:
    async def scenario() -> None:
        async with place.open() as store:
            token, record = await kept(store.tokens)
            gate = Gate("owner's", Counted(store.tokens), None)
            assert (await gate.admit(f"Bearer {token}")).users == ("ada",)
            with pytest.raises(AuthenticationError):
                await gate.admit(f"Bearer {token[:-1]}{'a' if token[-1] != 'a' else 'b'}")
            await store.tokens.remove(record.token_id)
            with pytest.raises(AuthenticationError):
                await gate.admit(f"Bearer {token}")

    run(scenario())


def test_who_guesses_tokens_soon_costs_no_look_into_the_database_and_shuts_nobody_out(place: Place) -> None:
    async def scenario() -> None:
        async with place.open() as store:
            token, record = await kept(store.tokens)
            counted = Counted(store.tokens)
            gate = Gate("owner's", counted, "3/hour")
            assert await gate.admit(f"Bearer {token}")
            refusals = []
            for _ in range(10):
                with pytest.raises((AuthenticationError, RateLimitError)) as refused:
                    await gate.admit(f"Bearer {make_token('guess', NOW)[0]}")
                refusals.append(refused.type)
            assert refusals == [AuthenticationError] * 3 + [RateLimitError] * 7
            assert counted.count == 1 + 3
            assert await gate.admit(f"Bearer {token}") == Grant(record.token_id, ("ada",))
            assert counted.count == 1 + 3 + 1

    run(scenario())
