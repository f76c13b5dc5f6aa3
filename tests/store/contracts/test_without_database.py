"""That nothing was found is said by a database that answers: while it does not, every contract says that instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from infinite_memory.contracts.mcp import RpcError
from infinite_memory.errors import InfiniteMemoryError, StoreUnavailableError
from infinite_memory.store.mongo.client import Connection
from tests.store.contracts.conftest import McpClient, server_of, value_of
from tests.store.lifecycle.conftest import Open

REASON = "the plug was pulled"
UNKNOWN = "60f7b1e77c4c9b001a3e9a4f"


class Unplugged:
    """A database with which nothing comes through."""

    def __getattr__(self, name: str) -> Any:
        raise StoreUnavailableError(REASON)

    def __getitem__(self, name: str) -> Any:
        raise StoreUnavailableError(REASON)


@contextmanager
def unplugged() -> Iterator[None]:
    """Have the store begin its operations, and none come through."""

    @asynccontextmanager
    async def operation(*_: Any, **__: Any) -> AsyncIterator[Unplugged]:
        yield Unplugged()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "operation", operation)
        yield


async def test_the_native_contract_finds_nothing_only_in_a_database_that_answers(open_memory: Open) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("retrieve_memory", {"query": "tea", "filter": {"tags": ["none"]}}),
        ("search_by_tag", {"tag": "none", "scope": "Global"}),
        ("search_by_scope", {"scope": "Global"}),
        ("list_memories", {"filter": {"tags": ["none"]}}),
        ("recall_memory_by_time", {"range": {"to": "1999-01-01"}}),
        ("get_memory", {"memory_id": UNKNOWN}),
        ("delete_memory", {"target": {"memory_id": UNKNOWN}}),
        *(
            ("delete_memory", {"target": target, "forget_mode": mode, "dry_run": dry_run})
            for target in ({"tag": "none"}, {"tag": "none", "scope": "Global"}, {"scope": "Global"}, {"query": "tea"})
            for mode in ("soft", "hard")
            for dry_run in (False, True)
        ),
    ]

    async with open_memory() as memory:
        for action, fields in requests:  # what is read once is known from then on
            reply = await memory.ask(action, **fields)
            assert (action == "get_memory") == (reply["status"] == "ERROR")
            assert reply.get("deleted_count", 0) == 0
        with unplugged():
            for action, fields in requests:
                reply = await memory.ask(action, **fields)
                assert (reply.get("error_code"), action, fields) == ("CONNECTION_ERROR", action, fields)


@pytest.mark.parametrize(
    ("contract", "tool", "arguments"),
    [
        ("palace", "memory_list", {"palace": "Global"}),
        ("palace", "memory_recall", {"palace": "Global", "query": "tea"}),
        ("palace", "kg_query", {"palace": "Global", "subject": "tea"}),
        ("memory-server", "memory_list", {"tags": ["none"]}),
        ("memory-server", "memory_search", {"query": "tea", "tags": ["none"]}),
        ("laravel", "memory-search", {}),
        ("laravel", "memory-search", {"query": "tea"}),
        ("laravel", "memory-vector-search", {"query": "tea"}),
        ("agentmem", "agentmem_search_memories", {"query": "tea", "user_id": "ada", "search_type": "bm25"}),
        ("agentmem", "agentmem_get_system_prompt", {"user_id": "ada"}),
    ],
)
async def test_other_contracts_find_nothing_only_in_a_database_that_answers(
    open_memory: Open, contract: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with open_memory() as memory:
        scope = {"laravel": "Laravel", "agentmem": "AgentMem"}.get(contract)
        if scope is not None:
            await memory.ok("create_memory_scope", scope_name=scope)
        server = server_of(memory, contract)
        await server.call_tool(tool, arguments, McpClient())
        with unplugged():
            try:
                said = str(value_of(await server.call_tool(tool, arguments, McpClient())))
            except (RpcError, InfiniteMemoryError) as exc:
                said = str(exc)
        assert REASON in said
