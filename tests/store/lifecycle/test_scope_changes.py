"""Scopes renamed, described and merged."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any, cast

import pytest

from infinite_memory.cli import scopes as command
from infinite_memory.store.mongo import restore_steps
from tests.store.lifecycle.conftest import Json, Memory, Open


async def test_a_scope_gets_another_name_and_keeps_what_is_in_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("plan A", "Project")
        await memory.ok("change_memory_scope", scope="project", new_name="$where — Ö", description="about it")
        [found] = (await memory.ok("search_by_scope", scope="$WHERE — ö"))["results"]
        assert found["text"] == "plan A"
        assert (await memory.ask("search_by_scope", scope="Project"))["error_code"] == "NOT_FOUND"
        for wrong in ({"new_name": "ALL"}, {"new_name": "global"}, {}):
            refused = await memory.ask("change_memory_scope", scope="$where — Ö", **wrong)
            assert refused["status"] == "ERROR"
        assert (await memory.ask("change_memory_scope", scope="Global", new_name="X"))[
            "error_code"
        ] == "INVALID_REQUEST"


async def test_a_merged_scope_brings_everything_along(open_memory: Open) -> None:
    async with open_memory() as memory:
        moved = await memory.store("the cellar key hangs in the hall", "Old")
        await memory.ok("update_memory", memory_id=moved, content="the cellar key hangs in the porch")
        hidden = await memory.store("hidden", "Old")
        await memory.ok("delete_memory", target={"memory_id": hidden})
        await memory.store("there before", "New")
        promised = await memory.ok("merge_memory_scopes", scope="Old", into="New", dry_run=True)
        done = await memory.ok("merge_memory_scopes", scope="Old", into="New")
        assert promised["would_move"] == done["moved"] == 2
        assert (await memory.ask("search_by_scope", scope="Old"))["error_code"] == "NOT_FOUND"
        near = await memory.ok("retrieve_memory", query="where is the key?", filter={"scope": "New"}, top_k=1)
        assert (near["results"][0]["memory_id"], near["results"][0]["scope"]) == (moved, "New")
        kept = await memory.ok("get_memory", memory_id=moved)
        assert [one["text"] for one in kept["revisions"]] == ["the cellar key hangs in the hall"]
        await memory.ok("restore_memory", memory_id=hidden)
        assert (await memory.ok("get_memory_stats"))["stats"]["scopes"] == {"Global": 0, "New": 3}
    async with open_memory() as memory:
        assert (await memory.ok("search_by_scope", scope="New"))["total"] == 3


async def test_merging_with_itself_or_into_an_archived_scope_is_refused(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("x", "One")
        await memory.store("y", "Away")
        await memory.ok("delete_memory", target={"scope": "Away"})
        for source, target in (("One", "one"), ("Global", "One"), ("One", "Away")):
            refused = await memory.ask("merge_memory_scopes", scope=source, into=target)
            assert refused["error_code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_merge_that_dies_is_finished_at_the_next_start(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    carry_out = restore_steps._carry_out

    async def some_steps(database: Any, steps: list[Any], **options: Any) -> None:
        await carry_out(database, steps[:after], **options)
        raise RuntimeError

    async with open_memory() as memory:
        ids = [await memory.store(f"note {number}", "Old") for number in range(5)]
        await memory.store("there", "New")
        with monkeypatch.context() as dying:
            dying.setattr(restore_steps, "_carry_out", some_steps)
            assert (await memory.ask("merge_memory_scopes", scope="Old", into="New"))["error_code"] == "INTERNAL_ERROR"
    async with open_memory() as memory:
        found = await memory.ok("search_by_scope", scope="New")
        assert {one["memory_id"] for one in found["results"]} > set(ids)
        assert found["total"] == 6
        assert (await memory.ok("get_memory_stats"))["stats"]["scopes"] == {"Global": 0, "New": 6}


async def let_go(memory: Memory, happens: str, scope: str) -> None:
    """Merge a scope into Global, or remove it."""
    if happens == "merge":
        await memory.ok("merge_memory_scopes", scope=scope, into="Global")
    else:
        await memory.ok("delete_memory", target={"scope": scope}, forget_mode="hard")


@pytest.mark.parametrize("happens", ["merge", "remove"])
@pytest.mark.parametrize("after_writing", [False, True])
async def test_what_is_stored_while_its_scope_goes_is_there_once(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, happens: str, after_writing: bool
) -> None:
    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Source")
        scopes: Any = cast("Any", memory.services.store)._scopes
        check, calls = scopes.check, list[int]()

        async def check_while_it_goes(*given: Any, **options: Any) -> None:
            calls.append(1)
            if len(calls) == 1 + after_writing:
                await let_go(memory, happens, "Source")
            await check(*given, **options)

        monkeypatch.setattr(scopes, "check", check_while_it_goes)
        stored = await memory.ok("store_memory", content="tea", metadata={"scope": "Source"})
        assert len(calls) >= 1 + after_writing
        listed = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert [(one["memory_id"], one["text"]) for one in listed["results"]] == [(stored["memory_id"], "tea")]


@pytest.mark.parametrize("after_writing", [False, True])
async def test_what_is_edited_while_its_scope_is_merged_is_changed_once(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, after_writing: bool
) -> None:
    async with open_memory() as memory:
        edited = await memory.store("before", "Source")
        store: Any = memory.services.store
        part, name = (store._scopes, "check") if after_writing else (store._writer, "replace")
        goes_on = getattr(part, name)

        async def merged_at_this_moment(*given: Any, **options: Any) -> Any:
            monkeypatch.undo()
            await let_go(memory, "merge", "Source")
            return await goes_on(*given, **options)

        monkeypatch.setattr(part, name, merged_at_this_moment)
        await memory.ok("update_memory", memory_id=edited, content="after")
        found = await memory.ok("get_memory", memory_id=edited)
        assert found["memory"]["text"] == "after"
        page = await store.get_revisions(edited)
        assert [one.text for one in page.revisions] == ["before"]


def parsed(*words: str) -> argparse.Namespace:
    """Read arguments of `infinite-memory scopes`."""
    parser = argparse.ArgumentParser()
    command.add_parsers(parser.add_subparsers(), argparse.ArgumentParser(add_help=False))
    return parser.parse_args(["scopes", *words])


async def test_the_command_asks_for_yes_where_there_is_no_terminal(
    open_memory: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_memory() as memory:
        loop = asyncio.get_running_loop()

        def ask(request: Json) -> Json:
            return asyncio.run_coroutine_threadsafe(memory.contract.handle(request), loop).result(60)

        async def code(*words: str) -> int:
            return await asyncio.to_thread(command.scopes, parsed(*words), ask)

        await memory.store("x", "[bold]One")
        assert await code("delete", "[bold]One") == command.UNCONFIRMED
        assert await code("delete", "[bold]One", "--dry-run") == 0
        assert "1 memory would be" in capsys.readouterr().out
        assert await code("archive", "[bold]One", "--yes") == 0
        assert await code("list") == 0
        assert "[bold]One" in capsys.readouterr().out
        assert await code("list", "--json") == 0
        assert {one["scope_name"]: one["archived"] for one in json.loads(capsys.readouterr().out)} == {
            "Global": False,
            "[bold]One": True,
        }
        assert await code("unarchive", "[bold]One") == 0
        assert await code("rename", "[bold]One", "Two") == 0
        assert await code("delete", "Two", "--yes") == 0  # softly: it comes back
        assert await code("unarchive", "Two") == 0
        assert await code("delete", "Two", "--hard", "--yes") == 0
        assert await code("unarchive", "Two") == 1
        assert await code("delete", "Two", "--hard", "--yes") == 1
