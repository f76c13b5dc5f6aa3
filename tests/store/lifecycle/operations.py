"""Long operations, what they start from, and what must be true of a memory at whichever moment one of them was ended."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infinite_memory.backup.service import verify_file
from infinite_memory.models import Fact, FactId, Link, MemoryRecord
from tests.store.lifecycle.conftest import Json, Memory, Open, staged_names
from tests.store.lifecycle.planting import LONG_AGO, plant

SOME = 400  # memories: enough that each piece of work takes some hundred milliseconds


@dataclass
class Case:
    """One operation: its request, the settings it needs, and the check after it was ended or has ended."""

    request: Json
    check: Callable[[Memory, bool], Awaitable[None]]
    flags: dict[str, str] = field(default_factory=dict)
    done_already: frozenset[str] = frozenset()  # what a second run may answer when the first was ended too late


Prepare = Callable[[Open, Path], Awaitable[Case]]


async def live(memory: Memory) -> list[MemoryRecord]:
    """List all live memories, by the store and not by the index."""
    return [one async for one in memory.services.store.stream()]


async def texts(memory: Memory) -> Counter[str]:
    """Count the texts of live memories."""
    return Counter(one.text for one in await live(memory))


async def check_soundness(memory: Memory) -> None:
    """Check what holds of every memory: index and database agree, and nothing is left of unfinished work."""
    assert (await memory.ok("optimize_memory", operations=["check_sidecar"]))["counts"] == {"check_sidecar": 0}
    assert await staged_names(memory) == []
    store: Any = memory.services.store
    scopes = {one.scope_id for one in memory.services.scopes.all()}
    async with store._connection.operation() as database:
        assert [one["_id"] async for one in database["meta"].find({"_id": {"$regex": "^restore"}})] == []
        names = await database.list_collection_names()
        held = {name.removeprefix("mem_") for name in names if name.startswith("mem_")}
        assert held == scopes
        there = {
            one["_id"] for name in names if name.startswith("mem_") async for one in database[name].find({}, {"_id": 1})
        }
        versions = {one["memory_id"] async for one in database["revisions"].find({}, {"memory_id": 1})}
        assert versions <= there


async def backup(open_memory: Open, folder: Path) -> Case:
    """A backup is whole, or not there."""
    async with open_memory() as memory:
        await plant(memory, "S", [f"note {number}" for number in range(SOME)])
        before = await texts(memory)

    async def check(memory: Memory, is_done: bool) -> None:
        assert await texts(memory) == before
        listed = (await memory.ok("list_backups"))["backups"]
        for one in listed:
            assert (await memory.ok("verify_backup", file=one["backup_file"]))["counts"]["memories"] == SOME
        last = (await memory.ok("get_memory_stats"))["stats"]["last_backup"]
        if is_done:
            assert last == listed[-1]["created_at"]
            assert not verify_file(folder / "home" / "backups" / listed[-1]["backup_file"]).is_encrypted

    return Case({"action": "backup_memory"}, check)


async def _backed_up(open_memory: Open) -> tuple[Counter[str], Counter[str], str]:
    async with open_memory() as memory:
        for place in range(2):
            await plant(memory, f"S{place}", [f"in the backup {place} {number}" for number in range(SOME // 2)])
        old = await texts(memory)
        made = await memory.ok("backup_memory")
        await memory.ok("delete_memory", target={"scope": "S1"}, forget_mode="hard")
        await plant(memory, "S0", [f"stored later {number}" for number in range(50)])
        await plant(memory, "Late", ["stored elsewhere later"])
        return old, await texts(memory), made["path"]


def restore(mode: str) -> Prepare:
    """A restore is whole, or has changed nothing."""

    async def prepare(open_memory: Open, folder: Path) -> Case:
        old, now, path = await _backed_up(open_memory)
        after = old if mode == "replace" else now | old

        async def check(memory: Memory, is_done: bool) -> None:
            found = await texts(memory)
            assert found == after if is_done else found in (now, after)
            listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=1000)
            assert Counter(one["text"] for one in listed["results"]) == found

        return Case({"action": "restore_backup", "file": path, "mode": mode}, check)

    return prepare


async def restore_scope(open_memory: Open, folder: Path) -> Case:
    """A scope comes back whole under another name, once."""
    old, now, path = await _backed_up(open_memory)
    copied = Counter(text for text in old if text.startswith("in the backup 1"))

    async def check(memory: Memory, is_done: bool) -> None:
        found = await texts(memory)
        assert found == now + copied if is_done else found in (now, now + copied)

    request = {"action": "restore_backup", "file": path, "scope": "S1", "as_scope": "Copy"}
    return Case(request, check, done_already=frozenset({"ALREADY_EXISTS"}))


async def compact(open_memory: Open, folder: Path) -> Case:
    """Maintenance changes no memory; what was hidden long ago is there or gone, with all that belongs to it."""
    async with open_memory() as memory:
        await plant(memory, "S", [f"kept {number}" for number in range(SOME)])
        expired = await plant(memory, "S", [f"expired {number}" for number in range(100)], deleted_at=LONG_AGO)
        store = memory.services.store
        versions = [
            dataclasses.replace(one, revision=1)
            for one in (await store.fetch(await store.locate(expired), deleted=True)).values()
        ]
        await store.copies.add_revisions(versions)
        before = await texts(memory)

    async def check(memory: Memory, is_done: bool) -> None:
        assert await texts(memory) == before
        left = await memory.services.store.locate(expired)
        assert not (is_done and left)

    return Case({"action": "optimize_memory"}, check)


async def deduplicate(open_memory: Open, folder: Path) -> Case:
    """Every time and every tag of what was the same stays, and one of each is seen."""
    return await _merging(open_memory, "deduplicate", [f"bins go out on day {number}" for number in range(80)] * 3)


async def merge_similar(open_memory: Open, folder: Path) -> Case:
    """As with duplicates, for what differs in case only."""
    said = [f"bins go out on day {number}" for number in range(60)]
    return await _merging(open_memory, "merge_similar", said + [text.upper() for text in said])


async def _merging(open_memory: Open, operation: str, said: list[str]) -> Case:
    async with open_memory() as memory:
        await plant(memory, "S", said, tags=lambda number: (f"t{number}",))
        every = len(await live(memory))
    groups = {text.casefold() for text in said}

    async def check(memory: Memory, is_done: bool) -> None:
        found = await live(memory)
        tags: dict[str, set[str]] = {}
        times: dict[str, set[dt.datetime]] = {}
        for one in found:
            tags.setdefault(one.text.casefold(), set()).update(one.tags)
            times.setdefault(one.text.casefold(), set()).update(one.occurrences)
        assert tags.keys() == groups
        assert {tag for of in tags.values() for tag in of} == {f"t{number}" for number in range(len(said))}
        assert sum(map(len, times.values())) == len(said)
        assert len(found) + await memory.services.store.count_deleted() == every
        if is_done:
            assert len(found) == len(groups)

    return Case({"action": "optimize_memory", "operations": [operation]}, check)


async def prune(open_memory: Open, folder: Path) -> Case:
    """What goes is hidden, never lost, and what stays is what should."""
    async with open_memory() as memory:
        await plant(memory, "S", [f"note {number}" for number in range(SOME)], importance=lambda number: number % 5)
        every = await texts(memory)

    async def check(memory: Memory, is_done: bool) -> None:
        found = await live(memory)
        assert len(found) + await memory.services.store.count_deleted() == every.total()
        assert len(found) >= SOME // 4
        if is_done:
            assert len(found) == SOME // 4
            assert min(one.importance or 0 for one in found) >= 3

    flags = {"retention.max_memories": str(SOME // 4)}
    return Case({"action": "optimize_memory", "operations": ["prune"]}, check, flags)


async def summarize(open_memory: Open, folder: Path) -> Case:
    """Each old conversation gets one summary, and keeps its words."""
    talks, long = 25, 12
    said = [f"saying {number}" for number in range(talks * long)]
    async with open_memory() as memory:
        await plant(memory, "S", said, conversation_id=lambda number: f"c{number // long}")

    async def check(memory: Memory, is_done: bool) -> None:
        found = await live(memory)
        summaries = Counter(one.conversation_id for one in found if one.source == "summary")
        assert {one.text for one in found if one.source != "summary"} == set(said)
        assert set(summaries.values()) <= {1}
        assert not is_done or len(summaries) == talks

    return Case({"action": "optimize_memory", "operations": ["summarize"]}, check)


async def merge_scopes(open_memory: Open, folder: Path) -> Case:
    """Memories are all in the one scope, or all in the other."""
    async with open_memory() as memory:
        await plant(memory, "From", [f"moved {number}" for number in range(SOME)])
        await plant(memory, "Into", ["there before"])
        every = await texts(memory)

    async def check(memory: Memory, is_done: bool) -> None:
        assert await texts(memory) == every
        counts = {
            one: count for one, count in (await memory.ok("get_memory_stats"))["stats"]["scopes"].items() if count
        }
        merged = {"Into": SOME + 1}
        assert counts == merged if is_done else counts in (merged, {"From": SOME, "Into": 1})

    return Case({"action": "merge_memory_scopes", "scope": "From", "into": "Into"}, check, {}, frozenset({"NOT_FOUND"}))


async def import_(open_memory: Open, folder: Path) -> Case:
    """What came in stays, each once; what belongs to it comes with the next run."""
    async with open_memory("elsewhere") as memory:
        ids = [
            one
            for place in range(2)
            for one in await plant(memory, f"S{place}", [f"in {place} {n}" for n in range(100)])
        ]
        parts = memory.services
        for one in ids[:50]:
            await memory.ok("update_memory", memory_id=one, tags=["changed"])
        scope = await parts.scopes.get("S0")
        now = parts.clock()
        for number in range(50):
            await parts.store.facts.put(Fact(FactId(""), scope.scope_id, f"s{number}", "is", "here", now))
            await parts.store.links.put(Link(ids[number], ids[number + 1], "follows", now), scope.scope_id)
        await memory.ok("delete_memory", target={"scope": "S1"})
        written = await memory.ok("export_memory")
        wanted = await texts(memory)
    async with open_memory() as memory:
        await plant(memory, "Own", ["own"])
    wanted["own"] += 1

    async def check(memory: Memory, is_done: bool) -> None:
        found = await texts(memory)
        assert found == wanted if is_done else found <= wanted
        assert found["own"] == 1
        if is_done:
            parts = memory.services
            assert await parts.store.facts.count() == 50
            assert len(await parts.store.links.of(ids)) == 50
            assert sum([len((await parts.store.get_revisions(one)).revisions) for one in ids]) == 50
            assert [one.name for one in parts.scopes.all() if one.archived_at] == ["S1"]

    folder = {"import.folders": str(Path(written["path"]).parent)}
    return Case({"action": "import_memory", "path": written["path"]}, check, folder)


PREPARE: dict[str, Prepare] = {
    "backup": backup,
    "replace": restore("replace"),
    "merge": restore("merge"),
    "restore_scope": restore_scope,
    "compact": compact,
    "deduplicate": deduplicate,
    "merge_similar": merge_similar,
    "prune": prune,
    "summarize": summarize,
    "merge_scopes": merge_scopes,
    "import": import_,
}


def as_json(value: object) -> str:
    """Write an argument of `killed`."""
    return json.dumps(value)
