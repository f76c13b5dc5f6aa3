"""The variables of other servers: copied to ours, carried as they are, or named as ignored."""

from __future__ import annotations

import pytest

from infinite_memory.cli.foreign_settings import CARRIED, adopt
from infinite_memory.errors import ConfigError
from infinite_memory.web.companion import parse_address


@pytest.mark.parametrize(
    ("contract", "given", "ours", "value"),
    [
        ("memory-server", {"EMBEDDINGS_MODEL": "Xenova/all-MiniLM-L6-v2"}, "EMBEDDING__MODEL", "all-MiniLM-L6-v2"),
        ("memory-server", {"EMBEDDINGS_MODEL": "some/other"}, "EMBEDDING__MODEL", "some/other"),
        ("memory-server", {"LOG_LEVEL": "warn"}, "LOG__LEVEL", "WARNING"),
        ("palace", {"RUST_LOG": "warn,trusty_memory=trace"}, "LOG__LEVEL", "DEBUG"),
        ("palace", {"RUST_LOG": "error"}, "LOG__LEVEL", "ERROR"),
    ],
)
def test_what_we_have_a_setting_for_is_taken_over(contract: str, given: dict[str, str], ours: str, value: str) -> None:
    environ = dict(given)
    assert adopt(contract, environ) == []
    assert environ[f"INFINITE_MEMORY_{ours}"] == value


def test_a_setting_of_ours_wins() -> None:
    environ = {"LOG_LEVEL": "debug", "INFINITE_MEMORY_LOG__LEVEL": "ERROR"}
    adopt("memory-server", environ)
    assert environ["INFINITE_MEMORY_LOG__LEVEL"] == "ERROR"


def test_other_contracts_variables_are_none_of_ours() -> None:
    environ = {"LOG_LEVEL": "debug", "DATABASE_URL": "postgres://"}
    assert adopt("palace", environ) == []
    assert environ == {"LOG_LEVEL": "debug", "DATABASE_URL": "postgres://"}


def test_what_is_not_followed_is_named_and_never_shown() -> None:
    [said] = adopt("memory-server", {"DATABASE_URL": "postgres://user:secret@host"})
    assert said.startswith("DATABASE_URL is ignored")
    assert "secret" not in said
    assert adopt("memory-server", {"EMBEDDINGS_NORMALIZE": "true", "EMBEDDINGS_POOLING": "mean"}) == []
    assert len(adopt("memory-server", {"EMBEDDINGS_NORMALIZE": "false"})) == 1
    assert adopt("memory-server", {"LOG_LEVEL": "loud"}) == ["LOG_LEVEL = 'loud' is not understood and was ignored"]


def test_the_contracts_own_limits_travel() -> None:
    assert "MAX_CONTENT_LENGTH" in CARRIED["memory-server"]
    assert "DATABASE_URL" not in CARRIED["memory-server"]


@pytest.mark.parametrize(("address", "port"), [("127.0.0.1:3031", 3031), ("localhost:0", 0)])
def test_a_companions_address_is_on_this_machine(address: str, port: int) -> None:
    assert parse_address(address) == port


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "[::1]:80", ":80", "80", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:70000"]
)
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="an address of this machine"):
        parse_address(address)
