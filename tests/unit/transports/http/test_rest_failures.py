"""Every error of ours has a status that the OpenAPI document names, and the one form."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infinite_memory.errors import (
    AuthenticationError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    MemoryNotFoundError,
    RateLimitError,
)
from infinite_memory.transports.http.api.errors import failure, get_status
from infinite_memory.transports.http.api.schemas import ERRORS


def kinds(of: type[InfiniteMemoryError] = InfiniteMemoryError) -> Iterator[type[InfiniteMemoryError]]:
    """Give every kind of error of ours."""
    yield of
    for one in of.__subclasses__():
        yield from kinds(one)


@pytest.mark.parametrize("kind", sorted(set(kinds()), key=repr), ids=repr)
def test_every_error_has_a_status_that_is_documented(kind: type[InfiniteMemoryError]) -> None:
    assert get_status(kind.__new__(kind)) in ERRORS


def test_an_error_names_its_field_and_its_sizes() -> None:
    status, body, _ = failure(LimitExceededError("metadata.tags", 101, 100, "tags"))
    assert status == 400
    assert body == {
        "success": False,
        "error": {
            "code": "LIMIT_EXCEEDED",
            "message": "metadata.tags: 101 tags is more than the limit of 100",
            "field": "metadata.tags",
            "details": {"size": 101, "limit": 100},
        },
    }


def test_an_error_about_no_field_has_none() -> None:
    for problem in (InvalidRequestError("", "the line is not JSON"), MemoryNotFoundError("x")):
        assert failure(problem)[1]["error"]["field"] is None


def test_a_fault_of_ours_tells_nothing_of_itself() -> None:
    status, body, _ = failure(InfiniteMemoryError("/home/ada/secret.txt"))
    assert status == 500
    assert "secret" not in str(body)


def test_who_may_not_come_in_is_told_how_and_when() -> None:
    assert failure(AuthenticationError())[2] == {"WWW-Authenticate": "Bearer"}
    assert failure(RateLimitError(0.2))[2] == {"Retry-After": "1"}
    assert failure(RateLimitError(12.1))[2] == {"Retry-After": "13"}
