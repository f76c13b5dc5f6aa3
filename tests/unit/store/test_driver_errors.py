"""The driver's errors as ours: by what a caller can do about them."""

from __future__ import annotations

import pytest
from bson.errors import InvalidDocument
from pymongo import errors

from infinite_memory.errors import (
    AlreadyExistsError,
    ConfigError,
    InvalidRequestError,
    StoreError,
    StoreUnavailableError,
)
from infinite_memory.store.mongo.driver_errors import translate, translated

CASES: list[tuple[Exception, type[Exception]]] = [
    (errors.ServerSelectionTimeoutError("h:1: refused, Timeout: 5s, Topology: <...>"), StoreUnavailableError),
    (errors.AutoReconnect("lost"), StoreUnavailableError),
    (errors.NetworkTimeout("slow"), StoreUnavailableError),
    (errors.NotPrimaryError("stepped down"), StoreUnavailableError),
    (errors.ExecutionTimeout("slow", 50), StoreUnavailableError),
    (errors.WTimeoutError("slow", 64), StoreUnavailableError),
    (errors.WaitQueueTimeoutError("busy"), StoreUnavailableError),
    (errors.DuplicateKeyError("E11000", 11000), AlreadyExistsError),
    (errors.BulkWriteError({"writeErrors": [{"code": 11000}]}), AlreadyExistsError),
    (errors.DocumentTooLarge("big"), InvalidRequestError),
    (errors.OperationFailure("big", 10334), InvalidRequestError),
    (InvalidDocument("no"), InvalidRequestError),
    (errors.ConfigurationError("Sessions are not supported by this MongoDB deployment"), StoreUnavailableError),
    (errors.InvalidOperation("Cannot use AsyncMongoClient after close"), StoreUnavailableError),
    (errors.InvalidOperation("something else"), StoreError),
    (errors.ConfigurationError("bad uri"), ConfigError),
    (errors.InvalidURI("bad uri"), ConfigError),
]


@pytest.mark.parametrize(("theirs", "ours"), CASES, ids=lambda one: getattr(one, "__name__", type(one).__name__))
def test_an_error_is_translated_to_what_can_be_done(theirs: Exception, ours: type[Exception]) -> None:
    assert type(translate(theirs, "start it")) is ours


@pytest.mark.parametrize(("code", "words"), [(18, "login"), (13, "login"), (14031, "disk is full"), (59, "failed")])
def test_a_refusal_is_told_with_its_reason(code: int, words: str) -> None:
    translation = translate(errors.OperationFailure("why", code), "start it")
    assert type(translation) is StoreError
    assert words in str(translation)
    assert "why" in str(translation)


def test_the_message_says_what_to_do_and_leaves_the_drivers_pages_out() -> None:
    exc = errors.ServerSelectionTimeoutError("h:1: refused, Timeout: 5s, Topology Description: <many words>")
    assert str(translate(exc, "start it")) == "MongoDB does not answer (h:1: refused); start it"


def test_only_errors_of_the_driver_are_translated() -> None:
    with pytest.raises(KeyError), translated("start it"):
        raise KeyError("ours")
    with pytest.raises(StoreUnavailableError) as caught, translated("start it"):
        raise errors.AutoReconnect("lost")
    assert isinstance(caught.value.__cause__, errors.AutoReconnect)


def test_a_right_that_is_missing_is_named_without_the_command_that_wanted_it() -> None:
    said = 'not authorized on infinite_memory to execute command { insert: "scopes", lsid: { id: UUID("4b5e") } }'
    message = str(translate(errors.OperationFailure(said, 13), ""))
    assert "not authorized on infinite_memory" in message
    assert "readWrite" in message
    assert "lsid" not in message
