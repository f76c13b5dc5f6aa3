"""What is forgotten, how far, and what an archived scope hides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infinite_memory.engine import forget
from infinite_memory.engine.types import ForgetMode, ForgetTarget, ScopedFilter
from infinite_memory.engine.visibility import ANYBODYS, Visibility
from infinite_memory.errors import InvalidRequestError, ScopeNotFoundError
from infinite_memory.models import MemoryId
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Open


async def test_a_memory_of_an_archived_scope_is_found_by_nobody_not_even_by_its_id(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = await memory.store("The code of the safe is 4711.", "Old")
        await memory.ok("delete_memory", target={"scope": "Old"})
        assert (await memory.ask("get_memory", memory_id=one))["error_code"] == "NOT_FOUND"
        assert (await memory.ask("update_memory", memory_id=one, content="a"))["error_code"] == "NOT_FOUND"
        assert (await memory.ok("delete_memory", target={"memory_id": one}))["deleted_count"] == 0
        await memory.ok("restore_memory", scope="Old")
        assert (await memory.ok("get_memory", memory_id=one))["memory"]["text"].startswith("The code")


async def test_removing_a_tag_for_good_takes_what_archived_scopes_hide(open_memory: Open) -> None:
    async with open_memory() as memory:
        hidden = await memory.store("Hidden with its scope.", "Old", tags=["secret"])
        forgotten = await memory.store("Forgotten by itself.", tags=["secret"])
        live = await memory.store("There for all to see.", tags=["secret"])
        await memory.ok("delete_memory", target={"scope": "Old"})
        await memory.ok("delete_memory", target={"memory_id": forgotten})
        soft = await memory.ok("delete_memory", target={"tag": "secret"}, dry_run=True)
        assert soft["memory_ids"] == [live]
        gone = await memory.ok("delete_memory", target={"tag": "secret"}, forget_mode="hard")
        assert set(gone["memory_ids"]) == {hidden, forgotten, live}
        await memory.ok("restore_memory", scope="Old")
        assert (await memory.ask("get_memory", memory_id=hidden))["error_code"] == "NOT_FOUND"


async def test_forgetting_by_words_leaves_no_copy_of_what_it_takes(open_memory: Open) -> None:
    """Confidence falls with rank, so that of two equal texts the second one was left where the first one was just sure enough."""

    async with open_memory() as memory:
        copies = {await memory.store("The lease ends in May", scope) for scope in ("Home", "Home, before", "Archive")}
        await memory.store("The lease of the garage ends in autumn", "Home")
        target = {"query": "lease ends in May"}
        for mode in ("soft", "hard"):
            would = await memory.ok("delete_memory", target=target, forget_mode=mode, dry_run=True)
            assert set(would["memory_ids"]) == copies, mode
        one = await memory.ok("delete_memory", target=target, limit=1, dry_run=True)
        assert one["would_delete"] == 1


async def test_what_was_forgotten_is_listed_latest_first_page_by_page(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            ids = [await memory.store(f"Number {n}", "Work" if n % 2 else "Home", tags=["n"]) for n in range(6)]
            for one in ids[:5]:
                await memory.ok("delete_memory", target={"memory_id": one})
            first = await memory.ok("list_memories", forgotten=True, scope="ALL", limit=3)
            assert [one["memory_id"] for one in first["results"]] == ids[4:1:-1]
            assert first["total"] == 5
            assert "forgotten_at" in first["results"][0]
            rest = await memory.ok("list_memories", forgotten=True, scope="ALL", limit=3, cursor=first["next_cursor"])
            assert [one["memory_id"] for one in rest["results"]] == [ids[1], ids[0]]
            assert rest["next_cursor"] is None
            work = await memory.ok("list_memories", forgotten=True, scope="Work")
            assert [one["memory_id"] for one in work["results"]] == [ids[3], ids[1]]
            narrow = await memory.ask("list_memories", forgotten=True, filter={"tags": ["n"]})
            assert narrow["error"] == "filter: only its scope narrows what was forgotten"
            wrong = await memory.ask("list_memories", forgotten=True, cursor="1-2")
            assert wrong["error"].startswith("cursor: ")
            bearer = memory.engine.restricted(
                Visibility(scope_ids=((await memory.engine.scopes.get("Home")).scope_id,), owners=ANYBODYS)
            )
            seen = await bearer.forget.list_forgotten(ScopedFilter(), 1)
            assert [one.memory_id for one in seen.memories] == [ids[4]]
            assert (seen.total, seen.next_cursor is None) == (3, False)
            await memory.ok("restore_memory", memory_id=ids[4])
            assert (await memory.ok("list_memories", forgotten=True, scope="ALL"))["total"] == 4

    await work()


async def test_a_dry_run_counts_all_and_reads_only_what_it_tells(open_memory: Open) -> None:
    async with open_memory() as memory:
        many = [{"content": f"Number {n}", "tags": ["n"]} for n in range(1000)]
        for entries in (many, [{"content": "One more", "tags": ["n"]}]):
            await memory.ok("store_memories", memories=entries)
        would = await memory.ok("delete_memory", target={"tag": "n"}, dry_run=True)
        assert would["would_delete"] == 1001
        assert len(would["memory_ids"]) == len(would["memories"]) == forget.MAX_REPORTED_IDS
        assert "the first 1,000 ids are listed" in would["note"]


async def test_a_bound_on_matches_without_a_query_is_refused_and_nothing_goes(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("tea", tags=["a"])
        for bound in ({"limit": 1}, {"min_confidence": 0.9}):
            refused = await memory.ask("delete_memory", target={"tag": "a"}, **bound)
            assert refused["error_code"] == "INVALID_REQUEST"
            assert "goes with a query" in refused["error"]
        assert (await memory.ok("delete_memory", target={"tag": "a"}))["deleted_count"] == 1


async def test_an_emptied_global_scope_comes_back_by_its_name(open_memory: Open) -> None:
    async with open_memory() as memory:
        kept = {await memory.store(f"Fact {number}.") for number in range(3)}
        emptied = await memory.ok("delete_memory", target={"scope": "Global"})
        assert set(emptied["memory_ids"]) == kept
        restored = await memory.ok("restore_memory", scope="Global")
        assert restored["restored_count"] == 3
        listed = await memory.ok("list_memories", filter={"scope": "Global"})
        assert {one["memory_id"] for one in listed["results"]} == kept


async def test_restoring_where_nothing_was_hidden_says_so(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("There all the time.", "Here")
        restored = await memory.ok("restore_memory", scope="Here")
        assert restored["restored_count"] == 0
        assert "nothing was hidden" in restored["note"]


@pytest.mark.parametrize("by", ["one", "two"])
async def test_what_is_brought_back_while_others_are_forgotten_is_found(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open, by: str
) -> None:
    async with asyncio.timeout(20):
        shared = {"mongodb.database": fresh_database()}
        async with open_memory("one", shared) as one, open_memory("two", shared) as two:
            kept = await one.store("The kettle whistles.", tags=["kitchen"])
            gone = await one.store("The pan is black.", tags=["kitchen"])
            store, sidecar = one.services.store, await one.services.index.sidecar()
            soft_delete = store.soft_delete

            async def slow_soft_delete(*arguments: Any, **options: Any) -> Any:
                hidden = await soft_delete(*arguments, **options)
                await (one if by == "one" else two).ok("restore_memory", memory_id=kept)
                while sidecar.get_revisions([MemoryId(kept)]).get(MemoryId(kept), 0) < 3:
                    await asyncio.sleep(0.02)
                return hidden

            monkeypatch.setattr(store, "soft_delete", slow_soft_delete)
            await one.ok("delete_memory", target={"tag": "kitchen"})
            for mode in ("semantic", "text"):
                found = await one.ok("retrieve_memory", query="the kettle and the pan", mode=mode)
                assert [each["memory_id"] for each in found["results"]] == [kept], gone


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("target", [{"tag": "junk"}, {"query": "The umbrella is in the hall."}])
async def test_what_is_edited_while_many_are_forgotten_is_no_longer_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open, mode: str, target: dict[str, Any]
) -> None:
    async with asyncio.timeout(20):
        async with open_memory() as memory:
            gone = await memory.store("The umbrella is in the hall.", "Hall", tags=["junk"])
            edited = await memory.store("The umbrella is in the hall.", "Car", tags=["junk"])
            noted = await memory.store("The umbrella is in the hall.", "Cellar", tags=["junk"])
            store, edits = memory.services.store, [True]
            find_quoting = store.find_quoting

            async def edit_before_it_goes(*arguments: Any, **options: Any) -> Any:
                if edits:
                    edits.clear()
                    await memory.ok("update_memory", memory_id=edited, content="My bicycle is green.", tags=["kept"])
                    await memory.ok("update_memory", memory_id=noted, metadata={"seen": True})
                return await find_quoting(*arguments, **options)

            monkeypatch.setattr(store, "find_quoting", edit_before_it_goes)
            result = await memory.ok("delete_memory", target=target, forget_mode=mode)
            assert (result["deleted_count"], set(result["memory_ids"])) == (2, {gone, noted})
            kept = (await memory.ok("get_memory", memory_id=edited))["memory"]
            assert (kept["text"], kept["tags"]) == ("My bicycle is green.", ["kept"])
            assert [
                one["memory_id"] for one in (await memory.ok("search_by_tag", tag="kept", scope="ALL"))["results"]
            ] == [edited]
            for one in (gone, noted):
                assert (await memory.ask("get_memory", memory_id=one))["error_code"] == "NOT_FOUND"
            assert len((await memory.engine.memories.history(MemoryId(edited))).revisions) == 1


async def test_the_undo_of_archiving_restores_a_scope_only_while_it_is_archived(open_memory: Open) -> None:
    async with open_memory() as memory:
        kept, gone = await memory.store("The key hangs left.", "Old"), await memory.store("It is rusty.", "Old")
        await memory.ok("delete_memory", target={"scope": "Old"})
        scope, count = await memory.engine.scopes.restore("old", only_archived=True)
        assert (scope.name, count) == ("Old", 2)
        await memory.ok("delete_memory", target={"memory_id": gone})
        with pytest.raises(InvalidRequestError, match="'Old' is not archived any more; nothing was changed"):
            await memory.engine.scopes.restore("Old", only_archived=True)
        listed = await memory.ok("list_memories", scope="Old")
        assert [one["memory_id"] for one in listed["results"]] == [kept]
        with pytest.raises(ScopeNotFoundError):
            await memory.engine.scopes.restore("Gone", only_archived=True)


async def test_what_a_tag_forgot_is_restored_in_scopes_archived_since_and_those_are_named(open_memory: Open) -> None:
    async with open_memory() as memory:
        before = await memory.store("The old errand.", tags=["errand"])
        await memory.ok("delete_memory", target={"memory_id": before})
        here = await memory.store("Buy bread.", tags=["errand"])
        hidden = await memory.store("Buy tea.", "Old", tags=["errand"])
        await memory.store("Something else.", "Old")
        await asyncio.sleep(0.002)  # instants are milliseconds
        forgotten = await memory.engine.forget.matching(ForgetTarget(tag="errand"), ForgetMode.SOFT)
        assert forgotten.hidden_at is not None
        await memory.ok("delete_memory", target={"scope": "Old"})
        count, archived = await memory.engine.scopes.restore_hidden_at(forgotten.hidden_at)
        assert (count, [scope.name for scope in archived]) == (2, ["Old"])
        found = await memory.ok("search_by_tag", tag="errand", scope="ALL")
        assert [one["memory_id"] for one in found["results"]] == [here]
        await memory.ok("restore_memory", scope="Old")
        found = await memory.ok("search_by_tag", tag="errand", scope="ALL")
        assert {one["memory_id"] for one in found["results"]} == {here, hidden}
        assert await memory.engine.scopes.restore_hidden_at(forgotten.hidden_at) == (0, [])


@pytest.mark.parametrize("dry_run", [True, False])
async def test_forgetting_by_a_tag_that_no_memory_has_says_so_and_names_a_similar_one(
    open_memory: Open, *, dry_run: bool
) -> None:
    async with open_memory() as memory:
        await memory.store("Buy bread.", "Home", tags=["errands"])
        gone = await memory.store("Buy tea.", tags=["errandz"])
        await memory.ok("delete_memory", target={"memory_id": gone}, forget_mode="hard")  # its tag is not suggested

        async def ask(**target: str) -> str:
            reply = await memory.ok("delete_memory", target=target, dry_run=dry_run)
            assert (reply["deleted_count"], reply["memory_ids"]) == (0, [])
            return str(reply["note"])

        assert await ask(tag="errnads") == (
            "no memory has the tag 'errnads' (did you mean 'errands'?); nothing was changed"
        )
        assert await ask(tag="errands", scope="Global") == (
            "no memory of 'Global' has the tag 'errands'; nothing was changed"
        )
        home = (await memory.engine.scopes.get("Home")).scope_id
        narrow = memory.engine.restricted(Visibility(scope_ids=(home,), owners=ANYBODYS))
        result = await narrow.forget.matching(ForgetTarget(tag="errnads"), ForgetMode.SOFT, dry_run=dry_run)
        assert result.note == "no memory has the tag 'errnads'; nothing was changed"
