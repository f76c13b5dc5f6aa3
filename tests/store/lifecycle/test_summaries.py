"""Summaries of conversations: whose they are, and that none says what was forgotten while it was made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infinite_memory.contracts.agentmem.access import make_source
from infinite_memory.contracts.agentmem.table import SCOPE
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.models import Filter
from infinite_memory.transports.http.api.visibility import get_user_visibility
from tests.store.lifecycle.conftest import Memory, Open
from tests.store.lifecycle.planting import plant

SAID = [f"saying {number}" for number in range(12)]


async def summaries(memory: Memory) -> list[dict[str, Any]]:
    """List the summaries."""
    listed: list[dict[str, Any]] = (await memory.ok("search_by_tag", tag="summary"))["results"]
    return listed


async def test_users_who_call_a_session_alike_get_a_summary_each_and_see_it(open_memory: Open) -> None:
    async with open_memory(flags={"retention.summary_hides": "true"}) as memory:
        for user in ("ada", "bob"):
            said = [f"{user} says thing {number}" for number in range(12)]
            await plant(
                memory, SCOPE, said, conversation_id="s1", owners={"user_id": user}, source=make_source(user),
                type="episodic",
            )  # fmt: skip
        await plant(memory, SCOPE, SAID[:7], conversation_id="s1")
        done = await memory.ok("optimize_memory", operations=["summarize"])
        assert done["counts"] == {"summarize": 2}
        for user in ("ada", "bob"):
            view = memory.engine.restricted(get_user_visibility(user, conceals=True))
            [summary] = (await view.memories.list_page(ScopedFilter(None, Filter()), 10)).memories
            assert len(lines := summary.text.split("\n")) == 5
            assert all(line.startswith(f"{user} says") for line in lines)
            [match] = (await view.recall.search("says thing", ScopedFilter(None), 5, mode=Mode.TEXT)).matches
            assert match.memory.memory_id == summary.memory_id
        assert (await memory.ok("optimize_memory", operations=["summarize"]))["counts"] == {"summarize": 0}
        turn = await memory.store("ada says thing 1", SCOPE, conversation_id="s1")
        await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode="hard")
        assert len(await summaries(memory)) == 2


@pytest.mark.parametrize("how", ["soft", "hard", "edit"])
async def test_what_is_forgotten_before_a_summary_is_stored_is_in_none(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The moment is held open by the embedding of the summary."""

    async with open_memory(flags={"retention.summary_hides": "true"}) as memory:
        ids = await plant(memory, "S", SAID, conversation_id="c1")
        await plant(memory, "S", [f"other {text}" for text in SAID], conversation_id="c2")
        embed = memory.services.embeddings.embed_memories

        async def forget_and_embed(texts: list[str]) -> Any:
            for number, text in enumerate(SAID):
                if text in texts[0].split("\n"):
                    if how == "edit":
                        await memory.ok("update_memory", memory_id=ids[number], content=f"edited {number}")
                    else:
                        await memory.ok("delete_memory", target={"memory_id": ids[number]}, forget_mode=how)
                    break
            return await embed(texts)

        with monkeypatch.context() as patched:
            patched.setattr(memory.services.embeddings, "embed_memories", forget_and_embed)
            done = await memory.ok("optimize_memory", operations=["summarize"])
        assert done["counts"] == {"summarize": 1}
        [left] = await summaries(memory)
        assert left["text"].startswith("other")
        [detail] = done["details"]["summarize"]
        assert (left["memory_id"], len(detail["hidden"])) == (detail["summary"], 12)
        said = await memory.ok("list_memories", filter={"conversation_id": "c1", "scope": "S"})
        assert said["total"] == (12 if how == "edit" else 11), "what has no summary is not hidden"


async def test_a_forgetting_that_looked_for_summaries_before_there_was_one_is_waited_for(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        ids = await plant(memory, "S", SAID, conversation_id="c1")
        store, looked, stored = memory.services.store, asyncio.Event(), asyncio.Event()
        soft_delete, insert = store.soft_delete, store.insert

        async def hide_later(located: Any, *arguments: Any, **options: Any) -> Any:
            if set(located) == set(ids):
                looked.set()
                await stored.wait()
            return await soft_delete(located, *arguments, **options)

        async def insert_and_tell(memories: Any) -> None:
            await insert(memories)
            stored.set()

        with monkeypatch.context() as patched:
            patched.setattr(store, "soft_delete", hide_later)  # what goes by a tag for good is hidden first
            patched.setattr(store, "insert", insert_and_tell)
            tag = memory.ok("delete_memory", target={"tag": "conversation:c1"}, forget_mode="hard")
            forgetting = asyncio.create_task(tag)
            await looked.wait()
            await memory.ok("optimize_memory", operations=["summarize"])
            await forgetting
        assert await summaries(memory) == []
