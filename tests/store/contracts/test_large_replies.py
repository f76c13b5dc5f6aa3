"""What is too large for a reply is cut or refused, as the contract says, and is written in a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infinite_memory.contracts.mcp import RpcError
from infinite_memory.engine import access
from tests.mongo_server import run
from tests.processes import LONG
from tests.store.contracts.conftest import McpClient, server_of, value_of
from tests.store.lifecycle.conftest import Open

COUNT, CHARS = 14, 900_000 if LONG else 200_000


def sized(folder: Path) -> dict[str, str]:
    """Return settings without a model; the limit of a reply is the default one with ``--long``, else smaller, as the texts are."""
    return {"embedding.model": str(folder / "none")} | ({} if LONG else {"limits.reply_bytes": "2000000"})


def test_a_list_of_large_drawers_is_cut(open_memory: Open, tmp_path: Path) -> None:
    async def work() -> None:
        async with open_memory(flags=sized(tmp_path)) as memory:
            palace, client = server_of(memory, "palace"), McpClient()
            await palace.call_tool("palace_create", {"name": "Castle"}, client)
            for number in range(COUNT):
                drawer = {"palace": "Castle", "text": f"{number} ".ljust(CHARS, "x")}
                await palace.call_tool("memory_remember", drawer, client)
            told = value_of(await palace.call_tool("memory_list", {"palace": "Castle", "limit": 1000}, client))
            assert "the answer is cut" in told["truncated_note"]

    run(work())


def test_a_search_that_gives_too_much_is_refused(open_memory: Open, tmp_path: Path) -> None:
    async def work() -> None:
        async with open_memory(flags=sized(tmp_path)) as memory:
            laravel, client = server_of(memory, "laravel"), McpClient()
            written = {"organization": "acme", "scope_type": "system", "memory_type": "fact"}
            for number in range(COUNT):
                text = f"pear {number} ".ljust(CHARS, "x")
                await laravel.call_tool("memory-write", written | {"current_content": text}, client)
            for asked in ({}, {"query": "pear"}):
                with pytest.raises(RpcError, match="narrow the search with a filter"):
                    await laravel.call_tool("memory-search", asked, client)

    run(work())


def test_a_search_that_gives_too_much_is_refused_before_all_of_it_is_read(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, page, count, chars = 50_000, 25_000, 200, 1000
    monkeypatch.setattr(access, "PAGE_CHARS", page)

    async def work() -> None:
        flags = {"embedding.model": str(tmp_path / "none"), "limits.reply_bytes": str(most)}
        async with open_memory(flags=flags) as memory:
            laravel, client = server_of(memory, "laravel"), McpClient()
            written = {"organization": "acme", "scope_type": "system", "memory_type": "fact"}
            texts = [f"pear {number} ".ljust(chars, "x") for number in range(count)]
            memories = [written | {"current_content": text} for text in texts]
            await laravel.call_tool("memory-batch-write", {"items": memories}, client)
            fetch, read = memory.services.store.fetch, list[int]()

            async def fetch_and_count(located: Any, **options: Any) -> Any:
                found = await fetch(located, **options)
                read.extend(len(one.text) for one in found.values())
                return found

            monkeypatch.setattr(memory.services.store, "fetch", fetch_and_count)
            with pytest.raises(RpcError, match="narrow the search with a filter"):
                await laravel.call_tool("memory-search", {"query": "pear"}, client)
            assert most < sum(read) < most + 2 * page < count * chars

    run(work())
