"""Parts of the AgentMem contract that need no service: fusion, identity, conversations, what a model's answer may say, error codes."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from infinite_memory.contracts.agentmem.conversations import KEPT_TURNS, Conversations
from infinite_memory.contracts.agentmem.failures import (
    AgentNotFoundError,
    AuthenticationError,
    RateLimitError,
    failure,
)
from infinite_memory.contracts.agentmem.knowing import know
from infinite_memory.contracts.agentmem.people import Sight, own_id
from infinite_memory.contracts.agentmem.searching import Scored, fused
from infinite_memory.errors import (
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    MemoryNotFoundError,
    ModelReplyError,
    SidecarNotReadyError,
    StoreUnavailableError,
)
from infinite_memory.model_port.base import Turn
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId

NOW = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)


def make_memory(number: int, **owners: str) -> MemoryRecord:
    key = MemoryId(f"{number:024x}")
    return MemoryRecord(key, ScopeId("0" * 24), f"text {number}", "agentmem:u", NOW, NOW, NOW, owners=owners)


A, B, C = (make_memory(number) for number in range(3))


def test_what_several_engines_find_comes_first() -> None:
    order = fused([[Scored(A, 0.9), Scored(B, 0.8)], [Scored(B, 0.7), Scored(C, 0.6)]])
    assert [one.memory for one in order] == [B, A, C]


def test_a_fused_score_never_rises_with_rank() -> None:
    order = fused([[Scored(A, 0.2)], [Scored(B, 0.9), Scored(A, 0.1)]])
    assert [(one.memory, one.score) for one in order] == [(A, 0.2), (B, 0.2)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Likes tea.", "likes  TEA", True),
        ("Likes C", "Likes C++", False),
        ("Likes tea", "Likes no tea", False),
        ("Caf\u00e9", "Cafe\u0301", True),
        ("...", "!", False),
    ],
)
def test_the_same_words_have_the_same_id(one: str, other: str, same: bool) -> None:
    owners = {"user_id": "u"}
    assert (own_id(owners, one) == own_id(owners, other)) is same
    assert own_id(owners, one) != own_id({"user_id": "u2"}, one)
    assert own_id({"user_id": "a", "run_id": "b"}, one) != own_id({"user_id": "b", "run_id": "a"}, one)


@pytest.mark.parametrize(
    ("sight", "owners", "shown"),
    [
        (Sight("u"), {"user_id": "u", "agent_id": "a"}, True),
        (Sight("u"), {"user_id": "U"}, False),
        (Sight("u"), {}, False),
        (Sight("u", "a"), {"user_id": "u"}, False),
        (Sight("u", "a", with_shared=True), {"user_id": "u"}, True),
        (Sight("u", "a", with_shared=True), {"user_id": "u", "agent_id": "b"}, False),
    ],
)
def test_a_sight_shows_only_what_is_its_own(sight: Sight, owners: dict[str, str], shown: bool) -> None:
    assert sight.shows(make_memory(1, **owners)) is shown


def test_a_conversation_keeps_its_newest_turns_and_no_other() -> None:
    conversations = Conversations()
    for number in range(KEPT_TURNS):
        conversations.add(("u", None, None), f"said {number}", f"answered {number}")
    turns = conversations.turns(("u", None, None))
    assert len(turns) == KEPT_TURNS
    assert turns[-1].text == f"answered {KEPT_TURNS - 1}"
    assert conversations.turns(("u", "a", None)) == ()


class Says:
    """A model that says one thing."""

    name = "says"

    def __init__(self, text: str) -> None:
        self.text = text

    async def complete(
        self, system: str, turns: Sequence[Turn], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        return self.text


@pytest.mark.parametrize(
    ("answer", "facts", "contradicted", "repeated"),
    [
        ({}, (), (), None),
        ({"facts": ["a ", "a", " "], "contradicted": [1, "2", 1], "repeated": None}, ("a",), (A, B), None),
        ({"contradicted": [0, 9, -1], "repeated": 2}, (), (), B),
        ({"contradicted": None, "facts": None, "repeated": 99}, (), (), None),
    ],
)
def test_a_models_answer_is_taken_only_as_far_as_it_makes_sense(
    answer: dict[str, object],
    facts: tuple[str, ...],
    contradicted: tuple[MemoryRecord, ...],
    repeated: MemoryRecord | None,
) -> None:
    known = asyncio.run(know(Says(json.dumps(answer)), "new", [A, B]))
    assert (known.facts, known.contradicted, known.repeated) == (facts, contradicted, repeated)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "null",
        '{"facts": {"a": 1}}',
        '{"facts": [1]}',
        '{"contradicted": 1}',
        '{"contradicted": [{}]}',
        '{"repeated": "x"}',
    ],
)
def test_an_answer_of_another_form_is_refused(said: str) -> None:
    with pytest.raises(ModelReplyError):
        asyncio.run(know(Says(said), "new", [A, B]))


@pytest.mark.parametrize(
    ("problem", "code", "details"),
    [
        (InvalidRequestError("user_id", "is required"), "INVALID_PARAMETERS", {"field": "user_id"}),
        (
            LimitExceededError("content", 9, 8, "bytes"),
            "INVALID_PARAMETERS",
            {"field": "content", "size": 9, "limit": 8},
        ),
        (StoreUnavailableError("gone"), "BACKEND_UNAVAILABLE", {}),
        (SidecarNotReadyError("soon"), "BACKEND_UNAVAILABLE", {}),
        (EmbeddingError("no model"), "BACKEND_UNAVAILABLE", {}),
        (AgentNotFoundError("a"), "AGENT_NOT_FOUND", {"agent_id": "a"}),
        (MemoryNotFoundError("m"), "MEMORY_NOT_FOUND", {}),
        (RateLimitError(3), "RATE_LIMIT_EXCEEDED", {"retry_after_s": 3}),
        (AuthenticationError(), "AUTHENTICATION_FAILED", {}),
        (InfiniteMemoryError("oh"), "INTERNAL_ERROR", {}),
    ],
)
def test_each_row_of_the_error_table_has_its_code(
    problem: InfiniteMemoryError, code: str, details: dict[str, object]
) -> None:
    assert failure(problem) == {"success": False, "error": {"code": code, "message": str(problem), "details": details}}
