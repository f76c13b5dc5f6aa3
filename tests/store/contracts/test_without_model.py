"""Contracts while there is no embedding model: what is written is kept, and the reply says that it gets its vector later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infinite_memory.bootstrap import Application
from tests.store.contracts.conftest import McpClient, server_of, value_of
from tests.store.engine.test_recalling_without_model import opened
from tests.store.lifecycle.conftest import Memory

ENTRY = {"organization": "acme", "scope_type": "organization", "memory_type": "fact", "current_content": "tea"}
UUID = "550e8400-e29b-41d4-a716-446655440000"


async def use(memory: Memory, tool: str, **arguments: Any) -> Any:
    return value_of(await server_of(memory, "laravel").call_tool(tool, arguments, McpClient()))


async def test_laravel_says_of_what_it_wrote_that_it_has_no_vector_yet(mongo_uri: str, tmp_path: Path) -> None:
    async with opened(Application, mongo_uri, tmp_path, **{"embedding.model": "no-such-model"}) as memory:
        written = await use(memory, "memory-write", **ENTRY, id=UUID)
        assert written["note"].startswith("it is found by meaning once it is embedded (")
        changed = await use(memory, "memory-update", id=UUID, current_content="green tea")
        assert "no-such-model" in changed["note"]
        assert "note" not in await use(memory, "memory-update", id=UUID, current_content="green tea")
        batch = await use(memory, "memory-batch-write", items=[ENTRY, {**ENTRY, "id": UUID}])
        assert batch["note"] == "these are found by meaning once they are embedded"
        assert len(await use(memory, "memory-search", query="tea")) == 2


async def test_laravel_has_no_such_note_where_there_is_a_model(open_memory: Any) -> None:
    async with open_memory() as memory:
        assert "note" not in await use(memory, "memory-write", **ENTRY, id=UUID)
        assert "note" not in await use(memory, "memory-update", id=UUID, status="active")
        batch = await use(memory, "memory-batch-write", items=[ENTRY, {**ENTRY, "id": UUID, "importance": 3}])
        assert batch.keys() == {"items"}
        await use(memory, "memory-delete", id=UUID)
        restored = await use(memory, "memory-batch-write", items=[{**ENTRY, "id": UUID}])
        assert restored.keys() == {"items"}
