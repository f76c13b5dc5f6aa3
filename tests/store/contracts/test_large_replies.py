"""What is too large for a reply is cut or refused, as the contract says, and is written in a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infinite_memory.contracts.mcp import RpcError
from infinite_memory.engine import access
from tests.processes import LONG
from tests.store.contracts.conftest import McpClient, server_of, value_of
from tests.store.lifecycle.conftest import Open

COUNT, CHARS = 14, 900_000 if LONG else 200_000


def sized(folder: Path) -> dict[str, str]:
    """Return settings without a model; the limit of a reply is the default one with ``--long``, else smaller, as the texts are."""
    return {"embedding.model": str(folder / "none")} | ({} if LONG else {"limits.reply_bytes": "2000000"})


async def test_a_list_of_large_drawers_is_cut(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory(flags=sized(tmp_path)) as memory:
        palace, client = server_of(memory, "palace"), McpClient()
        await palace.call_tool("palace_create", {"name": "Castle"}, client)
        for number in range(COUNT):
            drawer = {"palace": "Castle", "text": f"{number} ".ljust(CHARS, "x")}
            await palace.call_tool("memory_remember", drawer, client)
        told = value_of(await palace.call_tool("memory_list", {"palace": "Castle", "limit": 1000}, client))
        assert "the answer is cut" in told["truncated_note"]
        assert "are shown" not in told["truncated_note"]  # all of them are, each cut
        tags = [f"tag {number} ".ljust(90, "x") for number in range(100)]
        for number in range(COUNT):
            drawer = {"palace": "Castle", "text": f"drawer {number}", "tags": tags}
            await palace.call_tool("memory_remember", drawer, client)
        told = value_of(await palace.call_tool("memory_list", {"palace": "Castle", "limit": 1000}, client))
        assert f"the first {len(told['drawers'])} of {2 * COUNT} drawers are shown" in told["truncated_note"]


async def test_a_large_listing_says_how_it_goes_on(open_memory: Open, tmp_path: Path) -> None:
    """Whichever tool lists: the pages together have every memory once, in order."""

    async with open_memory(flags={"embedding.model": str(tmp_path / "none")}) as memory:
        native, client = server_of(memory, "native"), McpClient()
        tags = ["pear", *(f"tag {number} ".ljust(90, "x") for number in range(6))]
        ids = [await memory.store(f"pear {number}", tags=tags) for number in range(120)]
        forgotten = ids[:60]

        async def list_all(tool: str, fields: dict[str, Any]) -> list[str]:
            listed: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = value_of(await native.call_tool(tool, fields | {"limit": 1000} | cursor, client))
                listed += [one["memory_id"] for one in page["results"]]
                if page["next_cursor"] is None:
                    return listed
                assert f"the first {len(page['results'])} of results are shown" in page["truncated_note"]
                cursor = {"cursor": page["next_cursor"]}

        everything = {
            "list_memories": {"scope": "ALL"}, "search_by_tag": {"tag": "pear", "scope": "ALL"},
            "search_by_scope": {"scope": "ALL"},
        }  # fmt: skip
        for tool, fields in everything.items():
            assert await list_all(tool, fields) == ids[::-1]
        assert await list_all("recall_memory_by_time", {"time_query": "today"}) == ids
        for one in forgotten:
            await memory.ok("delete_memory", target={"memory_id": one})
        listed = await list_all("list_memories", {"scope": "ALL", "forgotten": True})
        assert sorted(listed) == sorted(forgotten)


async def test_a_search_that_gives_too_much_is_refused(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory(flags=sized(tmp_path)) as memory:
        laravel, client = server_of(memory, "laravel"), McpClient()
        written = {"organization": "acme", "scope_type": "system", "memory_type": "fact"}
        for number in range(COUNT):
            text = f"pear {number} ".ljust(CHARS, "x")
            await laravel.call_tool("memory-write", written | {"current_content": text}, client)
        for asked in ({}, {"query": "pear"}):
            with pytest.raises(RpcError, match="narrow the search with a filter"):
                await laravel.call_tool("memory-search", asked, client)


async def test_a_search_that_gives_too_much_is_refused_before_all_of_it_is_read(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, page, count, chars = 50_000, 25_000, 200, 1000
    monkeypatch.setattr(access, "PAGE_CHARS", page)

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
