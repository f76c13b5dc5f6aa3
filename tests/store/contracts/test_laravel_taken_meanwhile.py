"""A memory that becomes somebody's own while another caller writes to it: the write ends, nothing of hers is shown or replaced."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from infinite_memory.contracts.laravel import write
from infinite_memory.contracts.mcp import RpcError
from infinite_memory.models import MemoryRecord
from tests.store.contracts.conftest import Json, McpClient, server_of, session_of, value_of
from tests.store.lifecycle.conftest import Memory, Open

GIVEN = {"organization": "acme", "scope_type": "system", "memory_type": "fact"}
HERS = "what alice keeps for herself"


async def use(memory: Memory, who: str, tool: str, **arguments: Any) -> Any:
    session = session_of(memory, contracts={"laravel": {"organization": "acme", "user": who}})
    return value_of(await server_of(memory, "laravel", session).call_tool(tool, arguments, McpClient()))


async def take(memory: Memory, uuid: str) -> None:
    await use(memory, "alice", "memory-update", id=uuid, scope_type="user", current_content=HERS)


WRITES: list[tuple[str, Json, str]] = [
    ("memory-update", {"importance": 7}, "visible"),
    ("memory-update", {"current_content": "the old"}, "visible"),
    ("memory-delete", {}, "visible"),
    ("memory-write", {**GIVEN, "current_content": "of bob"}, "_known"),
    ("memory-batch-write", {"items": [{**GIVEN, "current_content": "of bob"}]}, "_known"),
    ("memory-restore", {}, "find_visible"),
]


@pytest.mark.parametrize(("tool", "given", "look"), WRITES)
async def test_a_write_ends_at_what_has_become_somebody_elses(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, tool: str, given: Json, look: str
) -> None:
    seen, uuid, taken = getattr(write, look), str(uuid4()), False

    async with open_memory() as memory:
        await use(memory, "alice", "memory-write", id=uuid, current_content="the old", **GIVEN)

        async def look_and_lose(*args: Any, **named: Any) -> MemoryRecord | None:
            nonlocal taken
            found: MemoryRecord | None = await seen(*args, **named)
            if not taken:
                taken = True
                await take(memory, uuid)
            return found

        monkeypatch.setattr(write, look, look_and_lose)
        items = [{**one, "id": uuid} for one in given.get("items", [])]
        arguments = {"items": items} if items else {**given, "id": uuid}
        with pytest.raises(RpcError, match=f"Memory {uuid} not found"):
            await use(memory, "bob", tool, **arguments)
        kept = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert [one["text"] for one in kept["results"]] == [HERS]
