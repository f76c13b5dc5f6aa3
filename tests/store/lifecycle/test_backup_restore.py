"""Backup and restore of whole memories: the same answers afterwards, all or nothing, and nothing lost on the way."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infinite_memory.backup.archive import BackupWriter
from infinite_memory.backup.archive_format import Part
from infinite_memory.models import MAX_MEMORY_TAGS, Fact, FactId, Link, MemoryId
from infinite_memory.normalization import is_blank
from tests.store.lifecycle.conftest import Json, Memory, Open, staged_names

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda text: not is_blank(text)
)
NAMES = st.sampled_from(["Global", "Work", "Réunion — 会議", "$where", "a/b\\c"])


async def asked(memory: Memory, ids: list[str]) -> Json:
    """Ask a fixed set of questions whose answers depend on everything that is stored."""
    stats = (await memory.ok("get_memory_stats"))["stats"]
    kept = (
        "total_memories",
        "scopes",
        "archived_scopes",
        "conversation_count",
        "soft_deleted",
        "pending_embeddings",
        "facts",
    )
    scopes = (await memory.ok("list_memory_scopes"))["scopes"]
    every: Json = {"filter": {"scope": "ALL"}}
    answers: Json = {
        "stats": {name: stats[name] for name in kept},
        "scopes": scopes,
        "listed": await memory.ok("list_memories", **every, limit=100),
        "page": await memory.ok("list_memories", **every, limit=2),
        "tagged": await memory.ok("search_by_tag", tag="t"),
        "tagged and asked": await memory.ok("search_by_tag", tag="t", query="tea"),
        "timed": await memory.ok(
            "recall_memory_by_time", scope="ALL", range={"from": "1970-01-01", "to": "2100-01-01"}
        ),
        "in words": await memory.ok(
            "recall_memory_by_time",
            scope="ALL",
            time_query="in 2024",
            now="2026-05-05T05:05:05Z",
            timezone="Asia/Tokyo",
        ),
        "dry": [
            await memory.ok("delete_memory", target={"tag": "t"}, forget_mode=mode, dry_run=True)
            for mode in ("soft", "hard")
        ],
        "tidying": await memory.ok(
            "optimize_memory", operations=["deduplicate", "merge_similar", "prune", "summarize"], dry_run=True
        ),
    }
    for mode in ("hybrid", "semantic", "text", "fuzzy"):
        answers[mode] = await memory.ok("retrieve_memory", query="what about tea", **every, top_k=50, mode=mode)
    for scope in scopes:
        answers[f"in {scope['scope_name']}"] = await memory.ok("search_by_scope", scope=scope["scope_name"])
    for one in ids:
        answers[one] = await memory.ask("get_memory", memory_id=one)
    for deleted in (False, True):
        written = await memory.ok("export_memory", include_deleted=deleted)
        lines = Path(written["path"]).read_text("utf-8").splitlines()[1:]  # the first says when it was written
        Path(written["path"]).unlink()
        answers[f"exported {deleted}"] = sorted(lines)
    return answers


async def filled(memory: Memory, items: list[tuple[str, str, str, bool]], day: int) -> list[str]:
    """Store memories, then change, hide or remove some of them, put a scope away, assert facts, link what is there."""
    ids = []
    for number, (text, scope, fate, tagged) in enumerate(items):
        given: Json = (
            {"tags": ["t", text[:20]], "importance": number % 10, "title": text[:9], "speaker": "Ada"} if tagged else {}
        )
        one = await memory.store(
            text, scope, conversation_id=f"c{number % 2}", a_dotted={"key.with$": [1, None]},
            timestamp=f"2024-02-{1 + (day + number) % 29:02}T10:00:00.{number:03}Z", **given,
        )  # fmt: skip
        ids.append(one)
        if fate == "changed":
            await memory.ok("update_memory", memory_id=one, content=f"{text} anew", tags=["t", "later"])
            await memory.ok("update_memory", memory_id=one, metadata={"more": text})
        elif fate != "kept":
            await memory.ok("delete_memory", target={"memory_id": one}, forget_mode=fate)
    await memory.ok("create_memory_scope", scope_name="Empty — 空", description="nothing in it")
    parts = memory.services
    scope_id = (await parts.scopes.get("Empty — 空")).scope_id
    for number, (text, *_) in enumerate(items):
        now = parts.clock() + dt.timedelta(seconds=number)
        await parts.store.facts.put(Fact(FactId(""), scope_id, text[:3] or "x", "is", text, now, provenance=text))
        if number:
            link = Link(MemoryId(ids[number - 1]), MemoryId(ids[number]), text[:10], now)
            await parts.store.links.put(link, scope_id)
    if any(scope == "Work" for _, scope, _, _ in items):
        await memory.ok("delete_memory", target={"scope": "Work"})
    return ids


@settings(max_examples=60 if LONG else 4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(
        st.tuples(ANY_TEXT, NAMES, st.sampled_from(["kept", "kept", "changed", "soft", "hard"]), st.booleans()),
        max_size=8,
    ),
    day=st.integers(0, 28),
)
async def test_a_new_home_answers_as_the_old_one_did(
    open_memory: Open, items: list[tuple[str, str, str, bool]], day: int
) -> None:
    number = test_a_new_home_answers_as_the_old_one_did.__dict__.setdefault("count", [0])
    number[0] += 1

    async def graph(memory: Memory, ids: list[str]) -> Json:
        parts = memory.services
        scope_id = (await parts.scopes.get("Empty — 空")).scope_id
        told = [await parts.store.facts.of_subject(scope_id, text[:3] or "x", None) for text, *_ in items]
        return {"facts": told, "links": await parts.store.links.of([MemoryId(one) for one in ids])}

    async with asyncio.timeout(240):
        async with open_memory(f"old-{number[0]}") as old:
            ids = await filled(old, items, day)
            before, known = await asked(old, ids), await graph(old, ids)
            made = await old.ok("backup_memory")
        async with open_memory(f"new-{number[0]}") as new:
            await new.ok("restore_backup", file=made["path"])
            after = await asked(new, ids)
            assert after.keys() == before.keys()
            for question, answer in before.items():
                assert after[question] == answer, question
            assert await graph(new, ids) == known
            for one in ids:  # what was hidden can still be brought back there
                if (await new.ask("get_memory", memory_id=one))["status"] == "ERROR":
                    await new.ask("restore_memory", memory_id=one)


async def test_restoring_twice_changes_nothing_more(open_memory: Open) -> None:
    async with open_memory() as memory:
        ids = [await memory.store(f"ledger row {number}", tags=["k"]) for number in range(5)]
        made = await memory.ok("backup_memory")
        await memory.ok("delete_memory", target={"memory_id": ids[0]}, forget_mode="hard")
        await memory.store("newer one")
        first = await memory.ok("restore_backup", file=made["backup_file"], mode="merge")
        again = await memory.ok("restore_backup", file=made["backup_file"], mode="merge")
        assert (first["restored_memories"], first["skipped_memories"]) == (1, 4)
        assert (again["restored_memories"], again["skipped_memories"]) == (0, 5)
        found = await memory.ok("search_by_tag", tag="k")
        assert sorted(one["memory_id"] for one in found["results"]) == sorted(ids)
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 6


async def test_over_existing_memories_a_mode_is_needed(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("there")
        made = await memory.ok("backup_memory")
        refused = await memory.ask("restore_backup", file=made["backup_file"])
        assert refused["error_code"] == "INVALID_REQUEST"
        assert "merge" in refused["error"]


async def test_what_is_replaced_is_backed_up_first(open_memory: Open) -> None:
    async with open_memory() as memory:
        old = await memory.store("the first form")
        made = await memory.ok("backup_memory")
        await memory.ok("update_memory", memory_id=old, content="the second form")
        late = await memory.store("stored later", "Later")
        done = await memory.ok("restore_backup", file=made["backup_file"], mode="replace")
        listed = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert [one["text"] for one in listed["results"]] == ["the first form"]
        found = await memory.ok("retrieve_memory", query="the first form", top_k=1)
        assert found["results"][0]["text"] == "the first form"
        assert (await memory.ask("get_memory", memory_id=late))["error_code"] == "NOT_FOUND"
        await memory.ok("restore_backup", file=done["saved_before"], mode="replace")
        listed = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert {one["text"] for one in listed["results"]} == {"the second form", "stored later"}


async def test_a_restore_is_told_in_the_log(open_memory: Open, caplog: pytest.LogCaptureFixture) -> None:
    async with open_memory() as memory:
        for text in ("tea", "coffee"):
            await memory.store(text)
        made = await memory.ok("backup_memory")
        with caplog.at_level(logging.INFO, "infinite_memory.backup"):
            await memory.ok("restore_backup", file=made["backup_file"], mode="replace")
        told = [one for one in caplog.records if getattr(one, "event", "") == "backup_restored"]
        assert [one.getMessage() for one in told] == [f"restored {made['backup_file']}: 2 memories"]


async def test_the_index_and_then_its_words_tell_how_far_they_are(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("tea")
        told: list[tuple[int, int]] = []
        await memory.services.index.rebuild(words=True, progress=lambda *at: told.append(at))
        assert told == [(1, 1), (1, 1)]


async def test_a_replaced_memory_survives_a_restart_of_the_index(open_memory: Open) -> None:
    """A restore sets memories back; an index that was saved before must not bring the later form back."""

    async with open_memory() as memory:
        one = await memory.store("the harbour is in the north")
        made = await memory.ok("backup_memory")
        await memory.ok("update_memory", memory_id=one, content="an elephant sleeps")
        await memory.ok("restore_backup", file=made["backup_file"], mode="replace")
    async with open_memory() as memory:
        near = await memory.ok("retrieve_memory", query="where is the harbour?", min_confidence=0.5)
        assert [found["memory_id"] for found in near["results"]] == [one]


async def test_another_process_sees_what_was_restored(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as one, open_memory() as other:
            memory_id = await one.store("the cellar key hangs in the hall")
            made = await one.ok("backup_memory")
            await one.ok("update_memory", memory_id=memory_id, content="bread needs salt")
            await one.ok("restore_backup", file=made["backup_file"], mode="replace")
            for _ in range(100):
                near = await other.ok("retrieve_memory", query="where is the cellar key?", min_confidence=0.5)
                if [found["text"] for found in near["results"]] == ["the cellar key hangs in the hall"]:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(near)

    await work()


async def test_one_scope_comes_back_under_a_new_name(open_memory: Open) -> None:
    async with open_memory() as memory:
        first = await memory.store("plan A", "Project")
        await memory.ok("update_memory", memory_id=first, content="plan B")
        await memory.store("elsewhere", "Other")
        made = await memory.ok("backup_memory")
        taken = await memory.ask("restore_backup", file=made["backup_file"], scope="Project")
        assert taken["error_code"] == "ALREADY_EXISTS"
        gone = await memory.ask("restore_backup", file=made["backup_file"], scope="Nowhere", as_scope="X")
        assert gone["error_code"] == "NOT_FOUND"
        for wish, field in (({"scope": "Project", "mode": "replace"}, "mode"), ({"as_scope": "X"}, "as_scope")):
            refused = await memory.ask("restore_backup", file=made["backup_file"], **wish)
            assert refused["error_code"] == "INVALID_REQUEST"
            assert refused["error"].startswith(f"{field}:")
        await memory.ok("restore_backup", file=made["backup_file"], scope="project", as_scope="Copy")
        [copied] = (await memory.ok("search_by_scope", scope="Copy"))["results"]
        assert copied["text"] == "plan B"
        assert copied["memory_id"] != first
        kept = await memory.ok("get_memory", memory_id=copied["memory_id"])
        assert [one["text"] for one in kept["revisions"]] == ["plan A"]
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 3


@pytest.mark.parametrize("mode", ["replace", "merge"])
async def test_a_damaged_file_leaves_everything_as_it_was(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        for number in range(30):
            await memory.store(f"note {number}", f"S{number % 3}")
        made = await memory.ok("backup_memory")
        await memory.store("one more")
        before = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
        whole = Path(made["path"]).read_bytes()
        damaged = Path(made["path"]).with_name("damaged.dump")
        for at in (len(whole) // 2, len(whole) - 30):
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            for action in ("verify_backup", "restore_backup"):
                extra = {"mode": mode} if action == "restore_backup" else {}
                refused = await memory.ask(action, file="damaged.dump", **extra)
                assert refused["error_code"] == "BACKUP_ERROR"
                assert "byte" in refused["error"]
        assert await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100) == before
        names = await staged_names(memory)
        assert names == []


@pytest.mark.parametrize("name", ["system.users", "../../etc/passwd", "mem_zz", "tombstones", "admin.$cmd"])
async def test_names_from_inside_a_file_are_not_trusted(open_memory: Open, tmp_path: Path, name: str) -> None:
    file = tmp_path / "odd.dump"
    with file.open("wb") as opened:
        writer = BackupWriter(opened, {"schema_version": 1})
        writer.add(Part(name, 1, b"\x05\x00\x00\x00\x00"))
        writer.finish({})

    async with open_memory() as memory:
        refused = await memory.ask("restore_backup", file=str(file))
        assert refused["error_code"] == "BACKUP_ERROR"
        assert "no backup of ours does" in refused["error"]


async def test_requests_go_on_while_a_backup_is_written(open_memory: Open) -> None:
    async with open_memory() as memory:
        for number in range(50):
            await memory.store(f"note {number}")
        making = [asyncio.create_task(memory.ok("backup_memory")) for _ in range(3)]
        for number in range(10):
            await memory.store(f"later {number}", f"New{number}")
        names = {(await one)["backup_file"] for one in making}
        assert len(names) == 3
        for name in names:
            whole = await memory.ok("verify_backup", file=name)
            assert 50 <= whole["counts"]["memories"] <= 60


async def test_nothing_is_lost_that_is_stored_during_a_replacement(open_memory: Open) -> None:
    """What is acknowledged while a restore replaces everything is either in the backup made before, or there afterwards."""

    async with open_memory() as memory:
        await memory.ok("store_memories", memories=[{"content": f"note {number}"} for number in range(300)])
        made = await memory.ok("backup_memory")
        restoring = asyncio.create_task(memory.ok("restore_backup", file=made["backup_file"], mode="replace"))
        stored = []
        while not restoring.done():
            stored.append(await memory.store(f"meanwhile {len(stored)}"))
            await asyncio.sleep(0)
        saved = (await restoring)["saved_before"]
        await memory.ok("restore_backup", file=saved, mode="merge")
        for one in stored:
            assert (await memory.ask("get_memory", memory_id=one))["status"] == "OK"


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.4])
async def test_a_restore_whose_client_leaves_is_whole_or_not_at_all(open_memory: Open, after_s: float) -> None:
    async with open_memory() as memory:
        for number in range(3):
            await memory.store(f"old {number}", f"S{number}")
        made = await memory.ok("backup_memory")
        await memory.ok("delete_memory", target={"scope": "S1"}, forget_mode="hard")
        await memory.store("new", "Late")
        restoring = asyncio.create_task(
            memory.ask("restore_backup", file=made["backup_file"], mode="replace"), name="client"
        )
        await asyncio.sleep(after_s)
        restoring.cancel()
        await asyncio.gather(restoring, return_exceptions=True)
        found = {one.text async for one in memory.services.store.stream()}
        assert found in ({"old 0", "old 2", "new"}, {"old 0", "old 1", "old 2"})
        listed = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert {one["text"] for one in listed["results"]} == found
        assert await staged_names(memory) == []
        await memory.store("afterwards")  # the index follows again, and nothing is held up
        again = await memory.ok("retrieve_memory", query="afterwards", top_k=1)
        assert again["results"][0]["text"] == "afterwards"


async def test_a_locked_backup_opens_with_its_key_only(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "one.key").write_bytes(os.urandom(32))
    (tmp_path / "other.txt").write_text("a passphrase\n")

    async with open_memory("a", {"backup.key_file": str(tmp_path / "one.key")}) as memory:
        await memory.store("the secret harbour")
        made = await memory.ok("backup_memory")
        assert made["encrypted"]
        assert b"harbour" not in Path(made["path"]).read_bytes()
    async with open_memory("b", {"backup.passphrase_file": str(tmp_path / "other.txt")}) as memory:
        assert (await memory.ask("restore_backup", file=made["path"]))["error_code"] == "BACKUP_ERROR"
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 0
    async with open_memory("b", {"backup.key_file": str(tmp_path / "one.key")}) as memory:
        assert (await memory.ok("restore_backup", file=made["path"]))["restored_memories"] == 1


async def test_a_failed_backup_is_an_error_and_leaves_nothing(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("kept")
        folder = Path((await memory.ok("list_backups"))["folder"])
        folder.rmdir()
        folder.write_text("not a folder")
        assert (await memory.ask("backup_memory"))["error_code"] == "BACKUP_ERROR"
        assert (await memory.ok("get_memory_stats"))["stats"]["last_backup"] is None
        folder.unlink()
        made = await memory.ok("backup_memory")
        assert (await memory.ok("get_memory_stats"))["stats"]["last_backup"] == made["created_at"]
        assert [one.name for one in folder.iterdir()] == [made["backup_file"]]


async def test_what_was_removed_for_good_is_in_no_backup_and_no_export(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = await memory.store("sentinel KX-4471-QQ")
        await memory.ok("update_memory", memory_id=one, content="sentinel KX-4471-QQ again")
        await memory.store("bystander")
        await memory.ok("delete_memory", target={"memory_id": one}, forget_mode="hard")
        made = await memory.ok("backup_memory")
        written = await memory.ok("export_memory", include_deleted=True)
        assert made["counts"]["memories"] == 1
        assert "revisions" not in made["counts"]
        text = Path(written["path"]).read_text("utf-8")
        assert "bystander" in text
        assert "KX-4471" not in text


async def test_the_largest_that_can_be_stored_comes_back(open_memory: Open) -> None:
    async with open_memory(flags={"limits.tags": str(MAX_MEMORY_TAGS)}) as memory:
        tags = [f"t{number}" for number in range(MAX_MEMORY_TAGS)]
        one = await memory.store("tea", tags=tags)
        backup = await memory.ok("backup_memory")
        assert "note" not in backup
        await memory.ok("delete_memory", target={"memory_id": one}, forget_mode="hard")
        await memory.ok("restore_backup", file=backup["backup_file"], mode="merge")
        [found] = (await memory.ok("search_by_tag", tag=tags[-1]))["results"]
        assert len(found["tags"]) == MAX_MEMORY_TAGS
