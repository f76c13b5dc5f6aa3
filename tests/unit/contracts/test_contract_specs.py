"""What contracts say of themselves before they are loaded; the variables of other servers are copied to ours, carried or ignored."""

from __future__ import annotations

import pytest

from infinite_memory.contracts.memory_server.spec import SPOKEN_VERSIONS
from infinite_memory.contracts.registry import get_spec
from infinite_memory.errors import ConfigError
from infinite_memory.transports.http.session_server import parse_address
from infinite_memory.transports.mcp import HANDSHAKE_VERSIONS


@pytest.mark.parametrize(
    ("contract", "given", "ours", "value"),
    [
        ("memory-server", {"EMBEDDINGS_MODEL": "Xenova/all-MiniLM-L6-v2"}, "EMBEDDING__MODEL", "all-MiniLM-L6-v2"),
        ("memory-server", {"EMBEDDINGS_MODEL": "some/other"}, "EMBEDDING__MODEL", "some/other"),
        ("memory-server", {"LOG_LEVEL": "warn"}, "LOG__LEVEL", "WARNING"),
        ("memory-server", {"DB_QUERY_TIMEOUT": "30000"}, "MONGODB__TIMEOUT_S", "30"),
        ("memory-server", {"DB_QUERY_TIMEOUT": "2500"}, "MONGODB__TIMEOUT_S", "2.5"),
        ("memory-server", {"DB_QUERY_TIMEOUT": "1"}, "MONGODB__TIMEOUT_S", "0.1"),
        ("palace", {"RUST_LOG": "warn,trusty_memory=trace"}, "LOG__LEVEL", "DEBUG"),
        ("palace", {"RUST_LOG": "error"}, "LOG__LEVEL", "ERROR"),
    ],
)
def test_what_we_have_a_setting_for_is_taken_over(contract: str, given: dict[str, str], ours: str, value: str) -> None:
    environ = dict(given)
    assert get_spec(contract).adopt(environ) == []
    assert environ[f"INFINITE_MEMORY_{ours}"] == value


def test_a_setting_of_ours_wins() -> None:
    environ = {"LOG_LEVEL": "debug", "INFINITE_MEMORY_LOG__LEVEL": "ERROR"}
    get_spec("memory-server").adopt(environ)
    assert environ["INFINITE_MEMORY_LOG__LEVEL"] == "ERROR"


def test_other_contracts_variables_are_none_of_ours() -> None:
    environ = {"LOG_LEVEL": "debug", "DATABASE_URL": "postgres://"}
    assert get_spec("palace").adopt(environ) == []
    assert environ == {"LOG_LEVEL": "debug", "DATABASE_URL": "postgres://"}


def test_what_is_not_followed_is_named_and_never_shown() -> None:
    [said] = get_spec("memory-server").adopt({"DATABASE_URL": "postgres://user:secret@host"})
    assert said.startswith("DATABASE_URL is ignored")
    assert "secret" not in said
    assert get_spec("memory-server").adopt({"EMBEDDINGS_NORMALIZE": "true", "EMBEDDINGS_POOLING": "mean"}) == []
    assert len(get_spec("memory-server").adopt({"EMBEDDINGS_NORMALIZE": "false"})) == 1
    for odd in ("soon", "-1", "0", "1e3"):
        assert get_spec("memory-server").adopt({"DB_QUERY_TIMEOUT": odd}) == [
            f"DB_QUERY_TIMEOUT = {odd!r} is not understood and was ignored"
        ]
    assert get_spec("memory-server").adopt({"LOG_LEVEL": "loud"}) == [
        "LOG_LEVEL = 'loud' is not understood and was ignored"
    ]


def test_a_version_that_is_not_spoken_is_named() -> None:
    assert SPOKEN_VERSIONS == HANDSHAKE_VERSIONS
    assert get_spec("memory-server").adopt({"MCP_PROTOCOL_VERSION": "2025-03-26"}) == []
    assert get_spec("palace").adopt({"MCP_PROTOCOL_VERSION": "1999-01-01"}) == []
    [said] = get_spec("memory-server").adopt({"MCP_PROTOCOL_VERSION": "1999-01-01"})
    assert said.startswith("MCP_PROTOCOL_VERSION = '1999-01-01' is not spoken and was ignored")


def test_the_contracts_own_limits_travel() -> None:
    assert "MAX_CONTENT_LENGTH" in get_spec("memory-server").carried
    assert "DATABASE_URL" not in get_spec("memory-server").carried


@pytest.mark.parametrize(("address", "port"), [("127.0.0.1:3031", 3031), ("localhost:0", 0)])
def test_a_companions_address_is_on_this_machine(address: str, port: int) -> None:
    assert parse_address(address) == port


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "[::1]:80", ":80", "80", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:70000"]
)
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="an address of this machine"):
        parse_address(address)
