"""What is stored and changed while another process merges its scope: it is done once, and answered so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infinite_memory.store.mongo import restore_steps
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import open_store
from tests.store.lifecycle.conftest import Json, Memory, Open

MOMENTS = (3, 4, 6)
"""Of a merge's six steps: before it copies for the last time, when the scope is marked as gone; after that; and after the last step."""


async def merge_meanwhile(
    memory: Memory, other: MongoStore, number: int, requests: list[Json], patch: pytest.MonkeyPatch
) -> list[Json]:
    """Merge Source into Target by another process, and send requests before one of its steps; give their replies."""
    carry_out, sent = restore_steps._carry_out, list[asyncio.Task[Json]]()
    places = {scope.name: scope.scope_id for scope in await other.list_scopes()}

    async def one_by_one(database: Any, steps: list[Any], **options: Any) -> None:
        for step_number, step in enumerate([*steps, None]):
            if step_number == number:
                sent.extend(asyncio.create_task(memory.ask(**request)) for request in requests)
                await asyncio.wait(sent, timeout=0.15)  # as far as they get
            if step is not None:
                await carry_out(database, [step], **options)

    with patch.context() as patched:
        patched.setattr(restore_steps, "_carry_out", one_by_one)
        await other.copies.merge_scopes(places["Source"], places["Target"])
        await other.drop_scope(places["Source"])
    return list(await asyncio.gather(*sent))


async def test_what_is_stored_and_edited_while_its_scope_is_merged_is_there_once_and_acknowledged(
    open_memory: Open, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_memory() as memory,
        open_store(mongo_uri, memory.app.config.mongodb.database, "pymongo") as other,
    ):
        await memory.ok("create_memory_scope", scope_name="Target")
        for number in MOMENTS:
            edited = await memory.store("before", "Source")
            requests: list[Json] = [
                {"action": "store_memory", "content": f"new {number}", "metadata": {"scope": "Source"}},
                {"action": "store_memories", "memories": [{"content": f"one of {number}", "scope": "Source"}]},
                {"action": "update_memory", "memory_id": edited, "content": f"edited {number}"},
            ]
            replies = await merge_meanwhile(memory, other, number, requests, monkeypatch)
            assert [reply["status"] for reply in replies] == ["OK"] * 3, (number, replies)
            [found] = (await other.fetch(await other.locate([edited]))).values()  # type: ignore[list-item]
            assert found.text == f"edited {number}"
        texts = [one.text async for one in other.stream()]
        assert sorted(one for one in texts if one.startswith(("new", "one"))) == sorted(
            [f"new {number}" for number in MOMENTS] + [f"one of {number}" for number in MOMENTS]
        )
