"""What runs by itself: missed runs once, each night once, one of several, and a failure that is told."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.engine.maintenance import Operation
from infinite_memory.jobs.runner import Jobs
from infinite_memory.platform_files import RESERVE_BYTES
from infinite_memory.transports.http.api.metrics import Metrics
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Json, Memory, Open

BACKUPS = {"backup.time": "03:00"}


class Clock:
    """A clock that a test sets."""

    def __init__(self, text: str) -> None:
        self.now = dt.datetime.fromisoformat(text)

    def __call__(self) -> dt.datetime:
        return self.now

    def set(self, text: str) -> None:
        """Set the clock."""
        self.now = dt.datetime.fromisoformat(text)


def jobs_of(memory: Memory) -> Jobs:
    """Give the jobs of a running memory."""
    assert memory.app.jobs is not None
    return memory.app.jobs


async def settled(memory: Memory) -> None:
    """Wait until the jobs have started and nothing is due."""
    jobs = jobs_of(memory)
    while jobs._wakeups is None or jobs._due_task is None:
        await asyncio.sleep(0.02)
    if jobs._due_task is not None:
        await jobs._due_task
    await jobs.run_due()


async def figures(memory: Memory) -> str:
    """Give what `/metrics` tells."""
    return (await Metrics(lambda: memory.engine, memory.app.administration).text()).decode()


async def backups(memory: Memory) -> list[str]:
    """List the backups that were made."""
    return [one["backup_file"] for one in (await memory.ok("list_backups"))["backups"]]


async def test_a_missed_run_is_caught_up_once(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        await memory.store("before the gap")
        await settled(memory)
        assert await backups(memory) == []
    clock.set("2026-11-25T03:20:00Z")
    for _ in range(2):
        async with open_memory(flags=BACKUPS, clock=clock) as memory:
            await settled(memory)
            assert await backups(memory) == ["backup_2026-11-25T03-20-00Z.dump"]
            assert (await memory.ok("get_memory_stats"))["stats"]["last_backup"] == "2026-11-25T03:20:00.000Z"
    clock.set("2027-06-01T12:00:00Z")
    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        await settled(memory)
        assert len(await backups(memory)) == 2  # half a year away is one run


async def test_of_two_daemons_one_makes_the_backup(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with (
        open_memory(flags=BACKUPS, clock=clock) as one,
        open_memory(flags=BACKUPS, clock=clock) as other,
    ):
        await settled(one)
        await settled(other)
        clock.set("2026-11-25T03:00:00Z")
        await asyncio.gather(*(jobs_of(memory).run_due() for memory in (one, other)))
        await asyncio.gather(*(jobs_of(memory).run_due() for memory in (one, other)))
        assert await backups(one) == ["backup_2026-11-25T03-00-00Z.dump"]


async def test_a_lease_has_one_holder_until_it_is_given_back(open_memory: Open) -> None:
    async with open_memory() as memory:
        copies, minute = memory.services.store.copies, dt.timedelta(minutes=1)
        assert await copies.take_lease("x", "one", minute)
        assert not await copies.take_lease("x", "other", minute)
        assert await copies.take_lease("x", "one", minute)
        await copies.release_lease("x", "other")
        assert not await copies.take_lease("x", "other", minute)
        await copies.release_lease("x", "one")
        assert await copies.take_lease("x", "other", -minute)  # over at once
        assert await copies.take_lease("x", "one", minute)


async def test_a_scheduled_backup_without_room_leaves_no_more_than_are_kept_and_is_told(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, room = Clock("2026-11-25T02:50:00Z"), [100 << 30]

    monkeypatch.setattr(shutil, "disk_usage", lambda _: (100 << 30, 0, room[0]))
    async with open_memory(
        flags=BACKUPS | {"backup.keep_daily": "2", "backup.keep_weekly": "0"}, clock=clock
    ) as memory:
        await memory.store("kept")
        await settled(memory)
        for day in (25, 26):
            clock.set(f"2026-11-{day}T05:00:00Z")
            await jobs_of(memory).run_due()
        assert len(await backups(memory)) == 2
        folder = Path((await memory.ok("list_backups"))["folder"])
        room[0] = RESERVE_BYTES + max(file.stat().st_size for file in folder.iterdir()) - 1
        clock.set("2026-11-27T05:00:00Z")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: (100 << 30, 0, room[0] - held(folder)))
        room[0] += held(folder)
        await jobs_of(memory).run_due()
        names = ["backup_2026-11-26T05-00-00Z.dump", "backup_2026-11-27T05-00-00Z.dump"]
        assert await backups(memory) == names  # the first one made room
        room[0] = 0
        clock.set("2026-11-28T05:00:00Z")
        await jobs_of(memory).run_due()
        assert await backups(memory) == names
        [failing] = (await memory.ok("get_memory_stats"))["stats"]["failing_jobs"]
        assert failing["failure"].startswith("No space left in the folder backups")


def held(folder: Path) -> int:
    """Sum up the files in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_a_failing_job_is_told_and_stops_no_other(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        await memory.store("kept")
        await settled(memory)
        folder = Path((await memory.ok("list_backups"))["folder"])
        folder.rmdir()
        folder.write_text("not a folder")
        clock.set("2026-11-25T05:00:00Z")
        await jobs_of(memory).run_due()
        [failing] = (await memory.ok("get_memory_stats"))["stats"]["failing_jobs"]
        assert failing["job"] == "backup"
        assert "cannot be written to" in failing["failure"]
        by_name = {job["name"]: job for job in jobs_of(memory).status()}
        assert by_name["tidy"]["last_ok"] == "2026-11-25T05:00:00.000Z"
        assert by_name["backup"]["next_run"] == "2026-11-26T03:00:00.000Z"
        assert 'infinite_memory_job_failed{job="backup"} 1.0' in await figures(memory)
        folder.unlink()
        await jobs_of(memory).run_due()
        assert await backups(memory) == []  # an hour later, not at once
        clock.set("2026-11-25T06:00:00Z")
        await jobs_of(memory).run_due()
        assert len(await backups(memory)) == 1
        assert "failing_jobs" not in (await memory.ok("get_memory_stats"))["stats"]
        told, at = await figures(memory), f"{clock.now.timestamp():.0f}"
        assert 'infinite_memory_job_failed{job="backup"} 0.0' in told
        seconds = re.search(r"^infinite_memory_last_backup_timestamp_seconds (.*)$", told, re.MULTILINE)
        assert seconds is not None
        assert float(seconds[1]) == float(at)
        assert "infinite_memory_mongodb_up 1.0" in told
        assert "infinite_memory_set_aside 0.0" in told
        assert "infinite_memory_free_disk_bytes" in told


async def test_a_restart_keeps_when_a_job_ran_and_a_later_backup_ends_its_failure(
    open_memory: Open, tmp_path: Path
) -> None:
    clock, folder = Clock("2026-11-25T02:50:00Z"), tmp_path / "no folder"
    folder.touch()
    flags = BACKUPS | {"backup.folder": str(folder)}

    async with open_memory(flags=flags, clock=clock) as memory:
        await settled(memory)
        clock.set("2026-11-25T05:00:00Z")
        await jobs_of(memory).run_due()
    clock.set("2026-11-25T05:10:00Z")
    async with open_memory(flags=flags, clock=clock) as memory:
        await settled(memory)
        [failed] = [job for job in jobs_of(memory).status() if job["name"] == "backup"]
        assert failed["last_run"] == "2026-11-25T05:10:00.000Z"  # tried again at once
        folder.unlink()
        clock.set("2026-11-25T05:20:00Z")
        await memory.ok("backup_memory")
        assert "failing_jobs" not in (await memory.ok("get_memory_stats"))["stats"]


async def test_what_was_forgotten_long_ago_is_purged(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        old = await memory.store("old")
        await memory.ok("delete_memory", target={"memory_id": old})
        await settled(memory)
        await jobs_of(memory).run_due()
    for day, left in (("2026-12-24", 1), ("2026-12-26", 1), ("2026-12-27", 0)):  # by what the run before confirms
        clock.set(f"{day}T12:00:00Z")
        async with open_memory(flags=BACKUPS, clock=clock) as memory:
            await settled(memory)
            await jobs_of(memory).run_due()
            assert (await memory.ok("get_memory_stats"))["stats"]["soft_deleted"] == left


@pytest.mark.parametrize("wrong", ["1970-01-05T12:00:00Z", "2027-12-01T12:00:00Z"])
@pytest.mark.parametrize("is_seen", [True, False])
async def test_what_was_forgotten_is_not_purged_by_a_clock_that_is_wrong_for_a_while(
    open_memory: Open, wrong: str, is_seen: bool
) -> None:
    """Whether the daemon sees that the clock is set, or it is away meanwhile."""
    clock = Clock("2026-09-01T12:00:00Z")

    async def forget(memory: Memory, text: str) -> None:
        await memory.ok("delete_memory", target={"memory_id": await memory.store(text)})

    async def soft_deleted(memory: Memory, name: str) -> tuple[str, int]:
        await jobs_of(memory).run_due()
        return name, int((await memory.ok("get_memory_stats"))["stats"]["soft_deleted"])

    async with asyncio.timeout(60):
        for day in ("2026-09-01", "2026-09-25", "2026-10-20", "2026-11-25"):  # a home whose clock is trusted
            clock.set(f"{day}T12:00:00Z")
            async with open_memory(flags=BACKUPS, clock=clock) as memory:
                await settled(memory)
                await jobs_of(memory).run_due()
                if day == "2026-11-25":
                    await forget(memory, "forgotten before")
        clock.set(wrong)
        async with open_memory(flags=BACKUPS, clock=clock) as memory:
            await settled(memory)
            await forget(memory, "forgotten meanwhile")
            assert await soft_deleted(memory, "wrong") == ("wrong", 2)
            if is_seen:
                clock.set("2026-11-26T12:00:00Z")
                wakeups = jobs_of(memory)._wakeups
                assert wakeups is not None
                wakeups.look()
                assert await soft_deleted(memory, "set") == ("set", 2)
        for day in ("2026-11-27", "2026-11-28", "2026-11-30", "2026-12-20"):
            clock.set(f"{day}T12:00:00Z")
            async with open_memory(flags=BACKUPS, clock=clock) as memory:
                await settled(memory)
                assert await soft_deleted(memory, day) == (day, 2)


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_purge_that_is_asked_for_goes_by_the_clock_of_the_nights_before(
    open_memory: Open, is_running: bool
) -> None:
    """By a clock that was set while the daemon runs, or before it starts and catches up on its nights."""
    clock = Clock("2026-09-01T12:00:00Z")

    async def purged(memory: Memory, left: int) -> Json:
        dry = await memory.ok("optimize_memory", dry_run=True)
        done = await memory.ok("optimize_memory")
        assert dry["counts"]["purge_deleted"] == done["counts"]["purge_deleted"]
        assert (await memory.ok("get_memory_stats"))["stats"]["soft_deleted"] == left
        return done

    async with asyncio.timeout(60):
        for day in ("2026-09-01", "2026-09-25", "2026-10-20", "2026-11-25"):
            clock.set(f"{day}T12:00:00Z")
            async with open_memory(flags=BACKUPS, clock=clock) as memory:
                await settled(memory)
                await jobs_of(memory).run_due()
                if day == "2026-09-01":
                    await memory.ok("delete_memory", target={"memory_id": await memory.store("early")})
                    clock.set("2026-11-01T12:00:00Z")
                    assert "note" not in await purged(memory, 1)
                    clock.set(f"{day}T12:00:00Z")
                if day == "2026-11-25":
                    await memory.ok("delete_memory", target={"memory_id": await memory.store("late")})
                    if is_running:
                        clock.set("2027-12-01T12:00:00Z")
                        assert "note" not in await purged(memory, 1)
                        wakeups = jobs_of(memory)._wakeups
                        assert wakeups is not None
                        wakeups.look()
                        await jobs_of(memory).run_due()
                        assert "before 2027-12-31, for the clock was set" in (await purged(memory, 1))["note"]
        clock.set("2027-12-01T13:00:00Z")
        async with open_memory(flags=BACKUPS, clock=clock) as memory:
            await settled(memory)
            await jobs_of(memory).run_due()
            await purged(memory, 1)
            await memory.ok(
                "restore_memory",
                memory_id=(await memory.ok("list_memories", forgotten=True))["results"][0]["memory_id"],
            )


async def test_what_is_brought_back_while_old_deletions_are_purged_stays(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(clock=clock) as memory:
        ids = [await memory.store(text) for text in ("one", "two")]
        for one in ids:
            await memory.ok("delete_memory", target={"memory_id": one})
        clock.set("2027-01-24T12:00:00Z")
        store = memory.services.store
        list_expired = store.deleted_ids

        async def list_and_bring_back(*which: Any, **options: Any) -> Any:
            expired = await list_expired(*which, **options)
            await memory.ok("restore_memory", memory_id=ids[0])
            return expired

        monkeypatch.setattr(store, "deleted_ids", list_and_bring_back)
        [done] = await memory.engine.maintenance.optimize([Operation.PURGE_DELETED])
        assert done.count == 1
        assert (await memory.ok("retrieve_memory", query="one"))["results"][0]["memory_id"] == ids[0]
        assert (await memory.ask("get_memory", memory_id=ids[1]))["error_code"] == "NOT_FOUND"


async def test_a_run_noted_by_a_wrong_clock_does_not_stop_the_jobs(open_memory: Open) -> None:
    clock = Clock("2036-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        await settled(memory)
        clock.set("2026-11-25T04:00:00Z")
        await jobs_of(memory).run_due()
        assert await backups(memory) == ["backup_2026-11-25T04-00-00Z.dump"]


async def test_a_clock_that_jumps_loses_and_doubles_nothing(open_memory: Open) -> None:
    """A flat battery, a wrong zone, a machine that comes back from sleep: years back and forth between two requests."""
    clock = Clock("2026-11-25T12:00:00Z")

    kept: dict[str, str] = {}
    shared = {"mongodb.database": fresh_database()}
    instants = ("2026-11-25T12:00:00Z", "1970-01-01T00:00:01Z", "2026-11-25T11:59:59Z", "2038-02-01T00:00:00Z",
                "2026-11-25T12:00:02Z")  # fmt: skip
    for instant in instants:
        clock.set(instant)
        async with open_memory("one", shared, clock) as memory:
            for _ in range(3):
                kept[await memory.store(f"The lantern {len(kept)} was lit.")] = f"The lantern {len(kept)} was lit."
            hidden = await memory.store(f"Hidden at {instant}.")
            await memory.ok("delete_memory", target={"memory_id": hidden})
            assert await memory.ok("restore_memory", memory_id=hidden)
            await memory.ok("delete_memory", target={"memory_id": hidden}, forget_mode="hard")
            for memory_id in kept:
                assert (await memory.ok("get_memory", memory_id=memory_id))["memory"]["text"] in kept.values()
            listed = await memory.ok("list_memories", limit=100)
            assert {one["memory_id"] for one in listed["results"]} == set(kept)
            found = await memory.ok("retrieve_memory", query="lantern", mode="text", top_k=100)
            assert {one["memory_id"] for one in found["results"]} == set(kept)
    assert len(kept) == 3 * len(instants)


async def test_nothing_is_pruned_for_its_age_by_a_clock_that_is_ahead_for_a_while(open_memory: Open) -> None:
    clock = Clock("2026-11-20T12:00:00Z")
    flags = BACKUPS | {"retention.max_age_days": "100"}

    async def count(memory: Memory) -> int:
        await jobs_of(memory).run_due()
        return int((await memory.ok("get_memory_stats"))["stats"]["total_memories"])

    async with asyncio.timeout(60):
        for day, left in (("2026-11-20", 2), ("2028-01-01", 2), ("2026-11-21", 2), ("2026-11-24", 2), ("2027-02-20", 2),
                          ("2027-03-02", 2), ("2027-03-03", 1)):  # fmt: skip
            clock.set(f"{day}T12:00:00Z")
            async with open_memory(flags=flags, clock=clock) as memory:
                if day == "2026-11-20":
                    await memory.store("the lease was signed")
                    await memory.store("the lease was read", timestamp="2026-11-24T12:00:00Z")
                await settled(memory)
                clock.set(f"{day}T23:00:00Z")
                assert (day, await count(memory)) == (day, left)


async def test_retention_limits_are_kept_by_themselves(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS | {"retention.max_memories": "2"}, clock=clock) as memory:
        for number in range(5):
            await memory.store(f"The lantern {number} was lit.")
        await settled(memory)
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 5
        clock.set("2026-11-25T03:16:00Z")
        await jobs_of(memory).run_due()
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 2
        [job] = [job for job in jobs_of(memory).status() if job["name"] == "retention"]
        assert (job["said"], job["next_run"]) == ("pruned_3_entries", "2026-11-26T03:15:00.000Z")


async def test_without_limits_and_switches_nothing_of_the_users_is_touched(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        for _ in range(2):
            await memory.store("The lantern was lit.")
        await settled(memory)
        clock.set("2027-11-25T12:00:00Z")
        await jobs_of(memory).run_due()
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 2
        assert "retention" not in {job["name"] for job in jobs_of(memory).status()}


async def test_equal_texts_are_merged_each_night_where_the_setting_says_so(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    flags = BACKUPS | {"retention.deduplicate": "true", "retention.summarize": "true"}
    async with open_memory(flags=flags, clock=clock) as memory:
        for _ in range(2):
            await memory.store("The lantern was lit.")
        await settled(memory)
        clock.set("2026-11-25T03:16:00Z")
        await jobs_of(memory).run_due()
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 1
        [job] = [job for job in jobs_of(memory).status() if job["name"] == "retention"]
        assert job["said"] == "removed_1_duplicate_entries, summarized_0_conversations"


async def test_the_job_of_the_night_compacts_the_database(open_memory: Open) -> None:
    clock = Clock("2026-11-25T02:50:00Z")

    async with open_memory(flags=BACKUPS, clock=clock) as memory:
        await settled(memory)
        clock.set("2026-11-25T03:31:00Z")
        await jobs_of(memory).run_due()
        [job] = [job for job in jobs_of(memory).status() if job["name"] == "tidy"]
        assert job["said"].startswith(
            "purges_nothing_until_2026-12-25, compacted_sidecar_dropped_0_rows, compacted_db_freed_"
        )
