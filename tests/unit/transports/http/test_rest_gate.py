"""Tokens to grants: who comes in, who does not, and how often."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time

import pytest

from infinite_memory.bootstrap import new_session
from infinite_memory.config import Config
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import AuthenticationError, RateLimitError
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.api.backend import ApiRequest, Backend
from infinite_memory.transports.http.api.tokens import TokenPermissions, hash_token, make_token, parse_token_id
from infinite_memory.transports.http.api.visibility import get_visibility
from infinite_memory.transports.http.page.queries import Queries

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
OWNERS = "the-owners-token"


def admitted(gate: Authenticator, header: str) -> TokenPermissions | None:
    """Come with a header; None when it lets nobody in."""
    try:
        return asyncio.run(gate.authenticate(header))
    except AuthenticationError:
        return None


def test_the_owners_token_opens_everything_without_a_database() -> None:
    gate = Authenticator(lambda: OWNERS, None, None)
    grant = admitted(gate, f"Bearer {OWNERS}")
    assert grant is not None
    assert grant.is_full
    assert admitted(gate, f"bearer   {OWNERS} ") == grant


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", OWNERS, f"Basic {OWNERS}", f"Bearer {OWNERS}x", "Bearer ÿ",
                                    pytest.param(f"Bearer {make_token('x', NOW)[0]}", id="another token")])  # fmt: skip
def test_any_other_header_lets_nobody_in(header: str) -> None:
    assert admitted(Authenticator(lambda: OWNERS, None, None), header) is None


def test_a_token_has_its_id_and_256_random_bits_and_only_its_hash_is_kept() -> None:
    token, record = make_token("lamp", NOW, users=["ada"])
    assert re.fullmatch(r"im_[0-9a-f]{12}_[\w-]{43}", token)
    assert parse_token_id(token) == record.token_id
    assert record.secret_hash == hash_token(token)
    assert token.split("_", 2)[2] not in repr(record)
    assert make_token("lamp", NOW)[0] != token
    assert parse_token_id(token + "x") is None


def test_a_grant_is_full_only_when_it_is_bound_to_nothing() -> None:
    assert TokenPermissions("x").is_full
    assert not TokenPermissions("x", users=("a",)).is_full
    assert not TokenPermissions("x", scope_ids=()).is_full
    assert not TokenPermissions("x", read_only=True).is_full
    assert TokenPermissions("x", read_only=True).sees_all
    assert TokenPermissions("x", read_only=True).reads_metrics
    assert not TokenPermissions("x", users=("a",)).reads_metrics


def test_a_token_for_the_metrics_sees_nothing_whatever_else_is_said_of_it() -> None:
    for token in (TokenPermissions("x", metrics_only=True), TokenPermissions("x", ("a",), metrics_only=True)):
        assert (token.reads_metrics, token.sees_all, token.is_full) == (True, False, False)
        assert get_visibility(token, None) == get_visibility(token, "a") == Visibility()


def test_requests_above_the_rate_are_told_when_to_come_again() -> None:
    gate = Authenticator(lambda: OWNERS, None, "2/minute")
    for _ in range(2):
        assert admitted(gate, f"Bearer {OWNERS}") is not None
    with pytest.raises(RateLimitError) as refused:
        admitted(gate, f"Bearer {OWNERS}")
    assert 0 < refused.value.retry_after_s <= 60


def test_requests_counted_while_the_clock_was_ahead_are_not_held_against_anyone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead_s, read = 3600.0, time.time
    monkeypatch.setattr(time, "time", lambda: read() + ahead_s)  # `limits` takes no clock
    gate = Authenticator(lambda: OWNERS, None, "2/minute")
    for _ in range(2):
        assert admitted(gate, f"Bearer {OWNERS}") is not None
    ahead_s = 0.0
    for _ in range(2):
        assert admitted(gate, f"Bearer {OWNERS}") is not None
    with pytest.raises(RateLimitError) as refused:
        admitted(gate, f"Bearer {OWNERS}")
    assert 0 < refused.value.retry_after_s <= 60


@pytest.mark.parametrize("read_only", [True, False])
async def test_what_is_found_for_who_only_reads_counts_as_no_use(read_only: bool) -> None:
    """Uses decide what is pruned first, so counting one would change something."""

    async def engine() -> Engine:
        raise AssertionError("nothing is read")

    async def opened() -> ApiRequest:
        config = Config()
        backend = Backend(engine, lambda: new_session(config, {}), None, 1.0)
        return await backend.open(TokenPermissions("x", read_only=read_only), {})

    request = await opened()
    assert request.session.counts_use is not read_only
    assert (Queries(request).counts(is_asked=True), Queries(request).counts(is_asked=False)) == (not read_only, False)
