"""Merging, pruning and summaries: what was promised is done, nothing else, and it can be undone."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infinite_memory.engine.maintenance import Operation
from infinite_memory.models import MemoryId
from tests.model_server import model_server, openai
from tests.store.lifecycle.conftest import Memory, Open
from tests.store.lifecycle.planting import LONG_AGO, plant

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
OPERATIONS = ["deduplicate", "merge_similar", "prune", "summarize"]
TEXTS = ["tea at 5", "tea at 6", "the tea at 5", "do not run", "do run", "roses", "Roses", "rose", "  roses "]


async def texts(memory: Memory) -> list[str]:
    """List the texts of live memories."""
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    return sorted(one["text"] for one in listed["results"])


async def tidy(memory: Memory, *operations: str, **fields: Any) -> dict[str, Any]:
    """Ask for operations."""
    return await memory.ok("optimize_memory", operations=list(operations), **fields)


async def test_by_default_no_words_are_touched(open_memory: Open) -> None:
    async with open_memory() as memory:
        for _ in range(3):
            await memory.store("the same")
        done = await memory.ok("optimize_memory")
        assert set(done["counts"]) == {"compact", "check_sidecar", "purge_deleted"}
        assert await texts(memory) == ["the same"] * 3


async def test_merging_duplicates_keeps_every_time_and_tag_and_is_undone(open_memory: Open) -> None:
    async with open_memory() as memory:
        ids = [
            await memory.store("bins go out", tags=[f"t{day}"], timestamp=f"2024-01-0{day}T00:00:00Z")
            for day in (1, 2, 3)
        ]
        await memory.store("bins go out", "Elsewhere")
        await memory.store("bins go out", speaker="Ada")
        done = await tidy(memory, "deduplicate")
        assert done["operations"] == ["removed_2_duplicate_entries"]
        assert done["details"]["deduplicate"] == [{"kept": ids[0], "merged": ids[1:]}]
        kept = await memory.ok("get_memory", memory_id=ids[0])
        assert kept["memory"]["tags"] == ["t1", "t2", "t3"]
        assert [one[:10] for one in kept["memory"]["occurrences"]] == ["2024-01-01", "2024-01-02", "2024-01-03"]
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 3
        assert (await tidy(memory, "deduplicate"))["counts"] == {"deduplicate": 0}
        await memory.ok("restore_memory", memory_id=ids[2])
        assert (await memory.ok("get_memory", memory_id=ids[2]))["memory"]["tags"] == ["t3"]


async def test_what_is_edited_while_duplicates_are_merged_stays(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        ids = [await memory.store("bins go out", tags=[f"t{number}"]) for number in range(3)]
        store = memory.services.store
        replace = store.replace

        async def edit_and_replace(*which: Any, **options: Any) -> Any:
            monkeypatch.setattr(store, "replace", replace)
            await memory.ok("update_memory", memory_id=ids[2], content="the key is under the mat")
            return await replace(*which, **options)

        monkeypatch.setattr(store, "replace", edit_and_replace)
        done = await tidy(memory, "deduplicate")
        assert done["details"]["deduplicate"] == [{"kept": ids[0], "merged": ids[1:2]}]
        assert await texts(memory) == ["bins go out", "the key is under the mat"]
        found = await memory.ok("retrieve_memory", query="where is the key")
        assert found["results"][0]["memory_id"] == ids[2]


async def test_what_is_edited_while_old_memories_are_pruned_stays(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(flags={"retention.max_memories": "1"}) as memory:
        ids = await plant(memory, "S", ["older", "old", "newest"])
        store = memory.services.store
        soft_delete = store.soft_delete

        async def edit_and_hide(*which: Any, **options: Any) -> Any:
            await memory.ok("update_memory", memory_id=ids[0], content="as good as new")
            return await soft_delete(*which, **options)

        monkeypatch.setattr(store, "soft_delete", edit_and_hide)
        assert (await tidy(memory, "prune"))["counts"] == {"prune": 1}
        assert await texts(memory) == ["as good as new", "newest"]
        found = await memory.ok("retrieve_memory", query="good as new")
        assert found["results"][0]["memory_id"] == ids[0]


@pytest.mark.parametrize("is_noted", [True, False])
async def test_what_is_removed_for_good_is_not_kept_by_its_hidden_doubles(open_memory: Open, is_noted: bool) -> None:
    """Those that were merged before it was noted into what are known by their text."""

    async with open_memory() as memory:
        first = await memory.store("the safe opens with 4711", "House")
        doubles = [await memory.store("the safe opens with 4711", "House") for _ in range(2)]
        other = await memory.store("the safe opens with 4711", "House", speaker="Ada")
        await tidy(memory, "deduplicate")
        await memory.ok("delete_memory", target={"memory_id": other})
        if is_noted:
            newer = await memory.store("The safe opens with 4711!", "House")
            doubles.append(first)
            assert (await tidy(memory, "merge_similar"))["counts"] == {"merge_similar": 1}
            await memory.store("other", "Elsewhere")
            await memory.engine.memories.move(MemoryId(newer), "Elsewhere")
            first = newer
        else:
            store: Any = memory.services.store
            async with store._connection.operation() as database:
                for name in await database.list_collection_names(filter={"name": {"$regex": "^mem_"}}):
                    await database[name].update_many({}, {"$unset": {"merged_into": ""}})
        ids = {first, *doubles}
        target = {"memory_id": first}
        tried = await memory.ok("delete_memory", target=target, forget_mode="hard", dry_run=True)
        assert (tried["would_delete"], set(tried["memory_ids"])) == (len(ids), ids)
        assert f"{len(doubles)} of them were hidden as duplicates" in tried["note"]
        done = await memory.ok("delete_memory", target=target, forget_mode="hard")
        assert (done["deleted_count"], set(done["memory_ids"])) == (len(ids), ids)
        every = [MemoryId(one) for one in (*ids, other)]
        assert list(await memory.services.store.locate(every)) == [other]


async def test_similar_memories_are_merged_when_asked_and_facts_are_kept_apart(open_memory: Open) -> None:
    async with open_memory() as memory:
        apart = ["The router address is 192.0.2.7", "The router address is 192.0.2.9", "Do NOT restart the pump",
                 "Do restart the pump", "Meeting moved to 3 May", "Meeting moved to 8 May"]  # fmt: skip
        for text in [*apart, "Please water the roses every evening", "water the roses every evening."]:
            await memory.store(text)
        promised = await tidy(memory, "merge_similar", dry_run=True)
        assert len(await texts(memory)) == 8
        done = await tidy(memory, "merge_similar")
        assert promised["details"] == done["details"]
        assert await texts(memory) == sorted([*apart, "water the roses every evening."])


async def test_what_was_to_be_remembered_is_never_pruned_nor_hidden_by_a_summary(open_memory: Open) -> None:
    flags = {"retention.max_memories": "1", "retention.max_age_days": "1", "retention.summary_hides": "true"}

    async with open_memory(flags=flags) as memory:
        await plant(memory, "Talk", [f"saying {number}" for number in range(12)], conversation_id="c")
        await plant(memory, "Talk", ["we deploy on Fridays"], conversation_id="c", tags=("Remember",))
        await tidy(memory, "summarize")
        left = await memory.ok("list_memories", scope="Talk", filter={"tags": ["remember"]})
        assert [one["text"] for one in left["results"]] == ["we deploy on Fridays"]
        await tidy(memory, "prune")
        left = await memory.ok("list_memories", scope="Talk")
        assert {one["text"] for one in left["results"] if one["source"] != "summary"} == {"we deploy on Fridays"}


MEMORIES = st.lists(
    st.tuples(
        st.sampled_from(TEXTS),
        st.sampled_from(["Global", "B", "Réunion"]),
        st.sampled_from([None, "t", "u"]),
        st.sampled_from([None, 0.0, 5.0]),
        st.sampled_from(["live", "live", "live", "hidden long ago", "hidden now"]),
        st.integers(0, 3 * 365),
    ),
    max_size=14,
)


async def everything(memory: Memory) -> dict[str, Any]:
    """Read every memory there is, hidden ones too, but for what reading them costs nothing to change."""
    parts = memory.services
    ids = [one.memory_id async for one in parts.store.stream()] + list(await parts.store.deleted_ids(None, None))
    return {
        one: repr(found)
        for one, found in (await parts.store.fetch(await parts.store.locate(ids), deleted=None)).items()
    }


@settings(max_examples=60 if LONG else 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=MEMORIES, talk=st.integers(10, 14), most=st.integers(1, 6), days=st.sampled_from([None, 400, 900]))
async def test_a_dry_run_promises_what_the_run_then_does(
    open_memory: Open, kept: list[tuple[Any, ...]], talk: int, most: int, days: int | None
) -> None:
    count = test_a_dry_run_promises_what_the_run_then_does.__dict__.setdefault("count", [0])
    count[0] += 1
    now = LONG_AGO + dt.timedelta(days=3 * 365)
    flags = {"retention.max_memories": str(most)} | ({"retention.max_age_days": str(days)} if days else {})

    async def fill(memory: Memory) -> None:
        hidden = {"hidden long ago": LONG_AGO, "hidden now": now}
        for number, (text, scope, tag, weight, fate, day) in enumerate(kept):
            await plant(
                memory, scope, [text], tags=(tag,) if tag else (), importance=weight, deleted_at=hidden.get(fate),
                occurred_at=LONG_AGO + dt.timedelta(days=day, seconds=number),
            )  # fmt: skip
        said = [f"saying {number}" for number in range(talk)]
        await plant(memory, "Talk", said, conversation_id="c")

    async with asyncio.timeout(300):
        async with open_memory(f"home-{count[0]}", flags, lambda: now) as memory:
            await fill(memory)
            for operation in [*OPERATIONS, "purge_deleted", "compact", "check_sidecar"]:
                before = await everything(memory)
                promised = await tidy(memory, operation, dry_run=True)
                assert await everything(memory) == before
                done = await tidy(memory, operation)
                assert (promised["counts"], promised.get("details")) == (done["counts"], done.get("details"))
                after = await everything(memory)
                gone = {one for one in before if "deleted_at=None" in before[one]} - {
                    one for one in after if "deleted_at=None" in after[one]
                }
                told = done.get("details", {}).get(operation, [])
                named = {one for entry in told for one in entry.get("merged", [entry.get("memory_id")])} - {None}
                assert gone == named
                new = after.keys() - before.keys()
                assert new == {entry["summary"] for entry in told if "summary" in entry}
                if operation == "purge_deleted":
                    assert len(before) - len(after) == done["counts"][operation]
                else:
                    assert before.keys() <= after.keys()
                again = await tidy(memory, operation)
                assert again["counts"] == {operation: 0}  # once is enough


async def test_pruning_takes_the_least_important_then_the_oldest(open_memory: Open) -> None:
    async with open_memory(flags={"retention.max_memories": "2"}) as memory:
        await memory.store("old and important", importance=9, timestamp="2020-01-01T00:00:00Z")
        gone = await memory.store("old", timestamp="2020-01-01T00:00:00Z")
        await memory.store("new", timestamp="2024-01-01T00:00:00Z")
        assert (await tidy(memory, "prune"))["details"]["prune"] == [{"memory_id": gone}]
        await memory.ok("restore_memory", memory_id=gone)


async def test_what_was_an_answer_is_pruned_after_what_never_was(open_memory: Open) -> None:
    async with open_memory(flags={"retention.max_memories": "1"}) as memory:
        used = await memory.store("the harbour master is Ada", timestamp="2020-01-01T00:00:00Z")
        idle = await memory.store("bread needs salt", timestamp="2024-01-01T00:00:00Z")
        await memory.ok("retrieve_memory", query="who is the harbour master?", top_k=1)
        promised = await tidy(memory, "prune", dry_run=True)
        done = await tidy(memory, "prune")
        assert promised["details"] == done["details"] == {"prune": [{"memory_id": idle}]}
        assert await texts(memory) == ["the harbour master is Ada"]
        await memory.ok("delete_memory", target={"memory_id": used}, forget_mode="hard")
        scope = await memory.services.scopes.get("Global")
        assert await memory.services.store.uses.of_scope(scope.scope_id) == {}


async def test_an_answer_of_a_layered_recall_counts_and_what_is_merely_weighty_does_not(open_memory: Open) -> None:
    async with open_memory() as memory:
        used = await memory.store("the harbour master is Ada")
        await memory.store("bread needs salt", importance=10)
        await memory.engine.layers.search("who is the harbour master?", "Global", 1)
        assert memory.services.uses is not None
        await memory.services.uses.write()
        scope = await memory.services.scopes.get("Global")
        assert await memory.services.store.uses.of_scope(scope.scope_id) == {used: 1}


async def test_how_often_memories_were_answers_is_in_a_backup(open_memory: Open) -> None:
    async def counts(memory: Memory) -> list[int]:
        parts = memory.services
        await parts.index.sidecar()
        found = [await parts.store.uses.of_scope(scope.scope_id) for scope in parts.scopes.all()]
        return sorted(count for of in found for count in of.values())

    async with open_memory("old") as old:
        await old.store("tea at five", "Work")
        for _ in range(3):
            await old.ok("retrieve_memory", query="tea", scope="Work")
    async with open_memory("old") as old:
        assert await counts(old) == [3]
        made = await old.ok("backup_memory")
        await old.ok("restore_backup", file=made["backup_file"], scope="Work", as_scope="Copy")
        assert await counts(old) == [3, 3]
        await old.ok("merge_memory_scopes", scope="Copy", into="Global")
        await old.ok("delete_memory", target={"scope": "Work"}, forget_mode="hard")
        assert await counts(old) == [3]
    async with open_memory("new") as new:
        await new.ok("restore_backup", file=made["path"])
        assert await counts(new) == [3]


async def test_pruning_by_size_leaves_what_fits(open_memory: Open) -> None:
    async with open_memory(flags={"retention.max_text_mb": "0.01"}) as memory:  # 10,485 bytes
        await plant(memory, "S", [f"{number} {'x' * 3000}" for number in range(6)])
        assert (await tidy(memory, "prune"))["counts"] == {"prune": 3}
        assert [text[0] for text in await texts(memory)] == ["3", "4", "5"]
        assert (await tidy(memory, "prune"))["counts"] == {"prune": 0}


async def prune_one_of_two(memory: Memory) -> list[MemoryId]:
    """Store two, of which the older is pruned, and a third that is forgotten; gives their ids."""
    ids = await plant(memory, "S", ["older", "newer", "deleted"])
    await memory.ok("delete_memory", target={"memory_id": ids[2]})
    await tidy(memory, "prune")
    return ids


async def purge(memory: Memory) -> None:
    """Purge by the clock as it is, which a request trusts no more than the nightly job does."""
    await memory.engine.maintenance.optimize([Operation.PURGE_DELETED])


async def test_what_was_pruned_is_kept_when_other_deletions_are_purged(open_memory: Open) -> None:
    now = LONG_AGO

    async with open_memory("home", {"retention.max_memories": "1"}, lambda: now) as memory:
        ids = await prune_one_of_two(memory)
        now += dt.timedelta(days=300)
        await purge(memory)
        assert (await memory.ask("restore_memory", memory_id=ids[2]))["error_code"] == "NOT_FOUND"
        assert (await memory.ok("restore_memory", memory_id=ids[0]))["memory"]["text"] == "older"
        await tidy(memory, "prune")
    now += dt.timedelta(days=300)
    flags = {"retention.max_memories": "1", "retention.purge_pruned_days": "200"}
    async with open_memory("home", flags, lambda: now) as memory:
        await purge(memory)
        assert (await memory.ask("restore_memory", memory_id=ids[0]))["error_code"] == "NOT_FOUND"


async def test_what_was_pruned_is_still_known_as_such_where_an_export_was_taken_in(open_memory: Open) -> None:
    now = LONG_AGO

    async with open_memory("old", {"retention.max_memories": "1"}, lambda: now) as old:
        ids = await prune_one_of_two(old)
        written = await old.ok("export_memory", include_deleted=True)
    async with open_memory("new", clock=lambda: now) as new:
        assert (await new.ok("import_memory", path=written["path"]))["added"] == 3
        now += dt.timedelta(days=300)
        await purge(new)
        assert (await new.ask("restore_memory", memory_id=ids[2]))["error_code"] == "NOT_FOUND"
        assert (await new.ok("restore_memory", memory_id=ids[0]))["memory"]["text"] == "older"
        [[kept]] = [
            list((await new.services.store.fetch({ids[0]: one.scope_id})).values())
            for one in new.services.scopes.all()
            if one.name == "S"
        ]
        assert not kept.is_pruned


async def test_a_summary_hides_what_it_sums_up_where_that_is_wanted_and_it_comes_back(open_memory: Open) -> None:
    async with open_memory(flags={"retention.summary_hides": "true"}) as memory:
        ids = await plant(memory, "S", [f"saying {number}" for number in range(12)], conversation_id="c1")
        promised = await tidy(memory, "summarize", dry_run=True)
        assert len(await texts(memory)) == 12
        done = await tidy(memory, "summarize")
        assert promised["details"] == done["details"]
        assert done["details"]["summarize"][0]["hidden"] == ids
        assert len(await texts(memory)) == 1
        assert (await tidy(memory, "summarize"))["counts"] == {"summarize": 0}
        back = await memory.ok("restore_memory", memory_id=ids[3])
        assert back["memory"]["text"] == "saying 3"


async def test_a_configured_model_writes_the_summary(open_memory: Open) -> None:
    with model_server() as server:
        server.answers.append(openai("They planned the boat trip."))
        flags = {
            "retention.summary_by_model": "true", "model.api": "openai", "model.name": "small",
            "model.url": server.url,
        }  # fmt: skip
        async with open_memory(flags=flags) as memory:
            await plant(memory, "S", [f"saying {number}" for number in range(12)], conversation_id="c1")
            await tidy(memory, "summarize")
            [summary] = (await memory.ok("search_by_tag", tag="summary"))["results"]
            assert summary["text"] == "They planned the boat trip."
            assert summary["metadata"]["written_by"] == "small"
            assert len(await texts(memory)) == 13
            await memory.ok("delete_memory", target={"query": "saying 3"}, forget_mode="hard")
            assert (await memory.ok("search_by_tag", tag="summary"))["results"] == []
            gone = await memory.ask("restore_memory", memory_id=summary["memory_id"])
            assert gone["error_code"] == "NOT_FOUND"


@pytest.mark.parametrize("mode", ["soft", "hard", "edit"])
async def test_a_summary_no_longer_says_what_was_forgotten(open_memory: Open, mode: str) -> None:
    """The lines of that turn go; what else it says stays, for it may be all that is left of the conversation."""

    async with open_memory() as memory:
        said = [f"the gate of shed {number} opens\nwith pin 47{number}" for number in range(14)]
        ids = await plant(memory, "S", said, conversation_id="c1")
        await tidy(memory, "summarize")
        [summary] = [
            one for one in (await memory.ok("search_by_tag", tag="summary"))["results"] if one["source"] == "summary"
        ]
        mine = await memory.store(said[0], "S", conversation_id="c1", tags=["summary"])
        quoted = [number for number, text in enumerate(said) if text in summary["text"]]
        for number in quoted[1:3]:
            if mode == "edit":
                await memory.ok("update_memory", memory_id=ids[number], content="the gate has no pin")
            else:
                await memory.ok("delete_memory", target={"memory_id": ids[number]}, forget_mode=mode)
        left = (await memory.ok("get_memory", memory_id=summary["memory_id"]))["memory"]["text"]
        assert left == "\n".join(said[number] for number in quoted if number not in quoted[1:3])
        assert (await memory.ok("get_memory", memory_id=mine))["memory"]["text"] == said[0]
        for number in (quoted[0], *quoted[3:]):
            await memory.ok("delete_memory", target={"memory_id": ids[number]}, forget_mode="hard")
        assert (await memory.ask("get_memory", memory_id=summary["memory_id"]))["status"] == "ERROR"


async def test_old_conversations_get_a_summary_once_and_keep_their_words(open_memory: Open) -> None:
    async with open_memory() as memory:
        for number in range(15):
            await memory.store(
                f"boat trip detail {number}", conversation_id="c1", timestamp=f"2024-01-01T00:{number:02}:00Z"
            )
        assert (await tidy(memory, "summarize"))["operations"] == ["summarized_1_conversations"]
        assert (await tidy(memory, "summarize"))["counts"] == {"summarize": 0}
        [summary] = (await memory.ok("search_by_tag", tag="summary"))["results"]
        said = [f"boat trip detail {number}" for number in range(15)]
        lines = summary["text"].split("\n")
        assert [said.index(line) for line in lines] == sorted(said.index(line) for line in lines)
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 16
