"""A digest that quotes a memory goes in the request that forgets or edits that memory, whoever asks; pruning leaves it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from infinite_memory.engine.quotations import DIGEST, KEY, to_content
from infinite_memory.engine.types import ForgetMode, ForgetTarget, NewMemory
from infinite_memory.engine.visibility import ANYBODYS, Visibility
from infinite_memory.models import MemoryId, MemoryRecord
from infinite_memory.store.id_keys import SUMMARY_OF, make_summary_id
from tests.store.lifecycle.conftest import Memory, Open

SECRET = "The garden shed is opened with the number 4711."


async def quoted(memory: Memory, scope: str = "Work", session: str = "s1") -> tuple[str, str]:
    """Store a turn and a digest that quotes it; returns their ids."""
    turn = await memory.store(SECRET, scope, conversation_id=session, tags=["shed"])
    return turn, await digested(memory, turn, scope, session)


async def digested(memory: Memory, turn: str, scope: str, session: str) -> str:
    """Store a digest that quotes a turn, as those who make digests do; returns its id."""
    text, key = f"About: {SECRET}", f"{scope}/{session}"
    memory_id, *_ = await memory.engine.memories.make_ids(to_content(key, text))
    new = NewMemory(
        text=text, scope=scope, tags=(DIGEST,), type=DIGEST, conversation_id=session, memory_id=memory_id,
        metadata={"sources": [turn], KEY: key},
    )  # fmt: skip
    return (await memory.engine.memories.store(new)).memory.memory_id


async def summed_up(
    memory: Memory, turn: str | None, text: str, scope: str = "Work", metadata: dict[str, Any] | None = None
) -> str:
    """Store a summary that says a turn, as those who make summaries do; returns its id."""
    key = f"{scope} s1 {turn} {len(text)}"
    about = {SUMMARY_OF: key} | ({} if turn is None else {"sources": [turn]}) | (metadata or {})
    new = NewMemory(
        text=text, scope=scope, tags=("summary",), source="summary", conversation_id="s1", metadata=about,
        memory_id=make_summary_id("677514f0", key),
    )  # fmt: skip
    return (await memory.engine.memories.store(new)).memory.memory_id


async def is_there(memory: Memory, memory_id: str) -> bool:
    return (await memory.ask("get_memory", memory_id=memory_id))["status"] == "OK"


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("part", ["memory_id", "tag", "query"])
async def test_a_digest_goes_with_what_it_quotes(open_memory: Open, mode: str, part: str) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        other, unconcerned = await quoted(memory, session="s2")
        told: list[MemoryRecord] = []

        def listen(removed: Sequence[MemoryRecord]) -> None:
            told.extend(removed)

        memory.engine.on_digests_removed(listen)
        targets = {"memory_id": turn, "tag": "shed", "query": SECRET}
        target: dict[str, Any] = {part: targets[part]} | ({"tag": "shed"} if part == "query" else {})
        would = await memory.ok("delete_memory", target=target, forget_mode=mode, dry_run=True)
        assert await is_there(memory, digest)
        gone = await memory.ok("delete_memory", target=target, forget_mode=mode)
        assert sorted(gone["memory_ids"]) == sorted(would["memory_ids"])
        left = {turn: digest, other: unconcerned}
        for one in gone["memory_ids"]:
            assert not await is_there(memory, left.pop(one))
        assert [await is_there(memory, one) for one in left.values()] == [True] * len(left)
        assert {one.memory_id for one in told} == {digest, unconcerned} - set(left.values())


async def test_who_does_not_see_the_digest_takes_it_along_all_the_same(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        await memory.ok("store_memory", content="a", metadata={"scope": "Other"})
        scope = await memory.engine.scopes.find("Work")
        assert scope is not None
        bearer = memory.engine.restricted(Visibility(scope_ids=(scope.scope_id,), owners=ANYBODYS))
        await bearer.forget.matching(ForgetTarget(memory_id=turn), ForgetMode.SOFT)
        assert not await is_there(memory, digest)


async def test_an_edit_takes_the_digest_and_a_new_tag_does_not(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        await memory.ok("update_memory", memory_id=turn, tags=["garden"])
        assert await is_there(memory, digest)
        await memory.ok("update_memory", memory_id=turn, content="The shed has no lock.")
        assert not await is_there(memory, digest)


async def test_what_a_client_made_look_like_a_digest_stays(open_memory: Open) -> None:
    """Type, tag and metadata can be written by anybody, and a copy of a digest's too; its id cannot."""

    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        copied = await memory.engine.memories.get(MemoryId(digest))
        users = await memory.store("the vault code is under the blue anchor", "Work", conversation_id="s1")
        named = {"type": "digest", "sources": [turn], KEY: copied.metadata[KEY]}
        await memory.ok("update_memory", memory_id=users, tags=["digest"], metadata=named)
        entry = {"scope": "Work", "conversation_id": "s1", "tags": ["digest"]} | named
        twin = (await memory.ok("store_memory", content=copied.text, metadata=entry))["memory_id"]
        edited, its_turn = await digested(memory, turn, "Work", "s2"), turn
        await memory.ok("update_memory", memory_id=edited, content="my own words in its place")
        await memory.ok("delete_memory", target={"memory_id": its_turn}, forget_mode="hard")
        assert not await is_there(memory, digest)
        assert [await is_there(memory, one) for one in (users, twin, edited)] == [True] * 3


async def test_a_digest_of_an_archived_scope_goes_as_well(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, _ = await quoted(memory)
        digest = await digested(memory, turn, "Old", "s1")
        await memory.ok("delete_memory", target={"scope": "Old"})
        await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode="hard")
        await memory.ok("restore_memory", scope="Old")
        assert not await is_there(memory, digest)


async def test_a_digest_of_many_conversations_is_found_among_all(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infinite_memory.engine.quotations.NAMED", 3)
    monkeypatch.setattr("infinite_memory.engine.quotations.BATCH", 2)

    async with open_memory() as memory:
        digests = [(await quoted(memory, session=f"s{number}"))[1] for number in range(5)]
        await memory.ok("delete_memory", target={"tag": "shed"}, forget_mode="hard")
        assert [await is_there(memory, one) for one in digests] == [False] * 5


async def test_what_is_pruned_and_purged_stays_in_the_digest(open_memory: Open) -> None:
    async with open_memory(flags={"retention.max_memories": "1", "retention.purge_pruned_days": "1"}) as memory:
        turn, digest = await quoted(memory)
        await memory.store("Something newer.", "Work")
        await memory.ok("optimize_memory", operations=["prune"])
        assert not await is_there(memory, turn)
        assert await is_there(memory, digest)
        hidden = await memory.services.store.locate([MemoryId(turn)])
        await memory.engine.forget.purge(hidden, dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1))
        assert await is_there(memory, digest)


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_what_quotes_a_scope_that_is_forgotten_says_nothing_of_it_in_another_scope(
    open_memory: Open, mode: str
) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        other, unconcerned = await quoted(memory, scope="Home", session="s2")
        text = f"{SECRET}\nThe tea is in the tin."
        summary = await summed_up(memory, turn, text)
        for memory_id in (digest, summary):
            await memory.engine.memories.move(MemoryId(memory_id), "Home")
        await memory.ok("delete_memory", target={"scope": "Work"}, forget_mode=mode)
        assert not await is_there(memory, turn)
        assert not await is_there(memory, digest)
        left = await memory.ok("get_memory", memory_id=summary)
        assert left["memory"]["text"] == "The tea is in the tin."
        assert await is_there(memory, other)
        assert await is_there(memory, unconcerned)


async def test_a_summary_of_very_many_short_lines_holds_nobody_up(open_memory: Open) -> None:
    async with open_memory() as memory:
        lines = 100_000
        summary = await summed_up(memory, None, "a\n" * 2 * lines + "end", "Global")
        turn = await memory.store("a\n" * lines + "b", conversation_id="s1")
        await memory.ok("delete_memory", target={"memory_id": turn})  # `run` fails where the loop is held
        assert await is_there(memory, summary)


@pytest.mark.parametrize("named", [{"sources": ["000000000000000000000000"]}, {}])
@pytest.mark.parametrize("written", [{"written_by": "small"}, {}])
async def test_forgetting_in_one_scope_leaves_the_summaries_of_another_as_they_are(
    open_memory: Open, named: dict[str, Any], written: dict[str, str]
) -> None:
    async with open_memory() as memory:
        text = "The tea is in the tin.\nyes"
        summary = await summed_up(memory, None, text, "Private", {**named, **written})
        other = await memory.store("yes", "Mine", conversation_id="s1")
        for mode in ("soft", "hard"):
            await memory.ok("delete_memory", target={"memory_id": other}, forget_mode=mode)
        left = await memory.ok("get_memory", memory_id=summary)
        assert (left["memory"]["text"], left["memory"]["revision"]) == (text, 1)


async def test_a_scope_that_comes_back_beside_itself_is_forgotten_in_its_summaries_too(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, _ = await quoted(memory)
        await summed_up(memory, turn, f"{SECRET}\nThe tea is in the tin.")
        made = await memory.ok("backup_memory")
        await memory.ok("restore_backup", file=made["backup_file"], scope="Work", as_scope="Copy")
        copied = (await memory.ok("search_by_scope", scope="Copy"))["results"]
        assert len(copied) == 2  # the digest is in the scope that it is of
        [copy] = [one["memory_id"] for one in copied if one["text"] == SECRET]
        await memory.ok("delete_memory", target={"memory_id": copy}, forget_mode="hard")
        [left] = (await memory.ok("search_by_scope", scope="Copy"))["results"]
        assert left["text"] == "The tea is in the tin."
        assert len((await memory.ok("search_by_scope", scope="Work"))["results"]) == 3


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("written", [{}, {"written_by": "small"}])
async def test_a_summary_of_which_nothing_is_left_goes_as_its_turn_does(
    open_memory: Open, mode: str, written: dict[str, str]
) -> None:
    async with open_memory() as memory:
        turn, _ = await quoted(memory)
        summary = await summed_up(memory, turn, SECRET)
        await memory.ok("update_memory", memory_id=summary, metadata=written | {"seen": True})
        await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode=mode)
        assert not await is_there(memory, summary)
        back = await memory.ask("restore_memory", memory_id=summary)
        assert back["status"] == ("OK" if mode == "soft" else "ERROR")


async def test_what_was_forgotten_is_in_no_earlier_version_of_a_summary(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, _ = await quoted(memory)
        summary = await summed_up(memory, turn, f"{SECRET}\nThe tea is in the tin.")
        await memory.ok("update_memory", memory_id=summary, tags=["summary", "kept"])
        await memory.ok("delete_memory", target={"memory_id": turn})
        told = await memory.ok("get_memory", memory_id=summary)
        assert told["memory"]["text"] == "The tea is in the tin."
        assert SECRET not in str(told)


async def test_what_is_hidden_says_nothing_forgotten_when_it_comes_back(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        summary = await summed_up(memory, turn, f"{SECRET}\nThe tea is in the tin.")
        for hidden in (digest, summary):
            await memory.ok("delete_memory", target={"memory_id": hidden})
        await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode="hard")
        back = await memory.ok("restore_memory", memory_id=summary)
        assert back["memory"]["text"] == "The tea is in the tin."
        assert (await memory.ask("restore_memory", memory_id=digest))["error_code"] == "NOT_FOUND"


async def test_what_a_client_made_look_like_a_summary_keeps_its_words_and_its_history(open_memory: Open) -> None:
    async with open_memory() as memory:
        precious = await memory.store("the will lies in the blue box", conversation_id="s1")
        turn = await memory.store("line two", conversation_id="s1")
        real = await summed_up(memory, turn, "line two\nline three", "Global")
        [key] = [(await memory.ok("get_memory", memory_id=real))["memory"]["metadata"][SUMMARY_OF]]
        for about in (
            {"sources": [turn]},
            {"sources": [turn], SUMMARY_OF: key},
            {SUMMARY_OF: None, "sources": None},
        ):
            await memory.ok(
                "update_memory", memory_id=precious, content="line one\nline two", tags=["summary"],
                metadata={"source": "summary", "timestamp": "2024-01-01T00:00:00Z", **about},
            )  # fmt: skip
            await memory.ok("delete_memory", target={"memory_id": turn})
            left = await memory.ok("get_memory", memory_id=precious)
            assert left["memory"]["text"] == "line one\nline two"
            assert left["revisions"][0]["text"] == "the will lies in the blue box"
            await memory.ok("restore_memory", memory_id=turn)
        assert (await memory.ok("get_memory", memory_id=real))["memory"]["text"] == "line three"


async def test_only_those_versions_of_a_summary_go_that_say_what_is_forgotten(open_memory: Open) -> None:
    async with open_memory() as memory:
        turn, _ = await quoted(memory)
        summary = await summed_up(memory, turn, "The tea is in the tin.")
        await memory.ok("update_memory", memory_id=summary, content=f"{SECRET}\nThe tea is in the tin.")
        await memory.ok("update_memory", memory_id=summary, content=f"{SECRET}\nThe tea is on the shelf.")
        await memory.ok("delete_memory", target={"memory_id": turn})
        told = await memory.ok("get_memory", memory_id=summary)
        assert told["memory"]["text"] == "The tea is on the shelf."
        assert [one["text"] for one in told["revisions"]] == ["The tea is in the tin."]


async def test_a_turn_that_was_put_into_another_conversation_is_quoted_no_more_once_it_is_forgotten(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        turn, digest = await quoted(memory)
        summary = await summed_up(memory, turn, f"{SECRET}\nThe tea is in the tin.")
        await memory.ok("update_memory", memory_id=turn, metadata={"conversation_id": "s2"})
        await memory.ok("delete_memory", target={"memory_id": turn}, forget_mode="hard")
        assert not await is_there(memory, digest)
        assert (await memory.ok("get_memory", memory_id=summary))["memory"]["text"] == "The tea is in the tin."
