"""Entries of one name or id that say different things are all kept; the same, imported again, adds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory.transfer.formats.types import Json
from infinite_memory.transfer.known import OTHER
from tests.import_files import write_files
from tests.store.lifecycle.conftest import Memory, Open

NAMES = ("README", "Ideas", "2026-01-01")


def vault(folder: Path, about: str) -> Path:
    """Write a vault of three notes about something."""
    return write_files(folder / about, {f"{name}.md": f"{about} says of {name}\n" for name in NAMES})


def lines(folder: Path, about: str) -> Path:
    """Write three numbered lines about something."""
    rows = [json.dumps({"id": number, "text": f"{about} line {number}"}) for number in range(3)]
    return write_files(folder, {f"{about}.jsonl": "\n".join(rows)}) / f"{about}.jsonl"


def mem0(folder: Path, about: str) -> Path:
    """Write an export of Mem0 of one user."""
    rows = [{"id": str(number), "memory": f"{about} memory {number}", "user_id": about} for number in range(3)]
    return write_files(folder, {f"{about}.json": json.dumps({"results": rows})}) / f"{about}.json"


async def counts(memory: Memory, path: Path) -> tuple[int, int, int]:
    """Import, also as a dry run; returns how many were added, were there and were left out."""
    promised = await memory.ok("import_memory", path=str(path), dry_run=True)
    done = await memory.ok("import_memory", path=str(path))
    assert {**promised, "preview": None} == {**done, "dry_run": True, "preview": None}
    return done["added"], done["present"], done["skipped"]


async def texts(memory: Memory) -> set[str]:
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    return {one["text"] for one in listed["results"]}


@pytest.mark.parametrize("make", [vault, lines, mem0])
async def test_a_second_source_with_the_same_names_is_taken_whole(
    open_memory: Open, tmp_path: Path, make: Callable[[Path, str], Path]
) -> None:
    async with open_memory() as memory:
        for about in ("Private", "Work"):
            assert await counts(memory, make(tmp_path, about)) == (3, 0, 0)
        assert len(await texts(memory)) == 6
        for about in ("Private", "Work"):
            assert await counts(memory, make(tmp_path, about)) == (0, 3, 0)


async def test_a_note_that_was_changed_is_added_and_one_that_was_edited_here_is_not(
    open_memory: Open, tmp_path: Path
) -> None:
    async with open_memory() as memory:
        folder = vault(tmp_path, "Private")
        await counts(memory, folder)
        listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
        edited, forgotten = (
            next(one["memory_id"] for one in listed["results"] if name in one["text"]) for name in NAMES[:2]
        )
        await memory.ok("update_memory", memory_id=edited, content="said otherwise here")
        await memory.ok("delete_memory", target={"memory_id": forgotten}, forget_mode="soft")
        assert await counts(memory, folder) == (0, 3, 0)
        (folder / "2026-01-01.md").write_text("the day after")
        done = await memory.ok("import_memory", path=str(folder))
        assert (done["added"], done["present"]) == (1, 2)
        assert "1 of them bear" in done["note"]
        assert await texts(memory) == {"said otherwise here", "Private says of 2026-01-01", "the day after"}
        assert await counts(memory, folder) == (0, 3, 0)


async def test_texts_of_one_id_in_one_file_are_all_taken(open_memory: Open, tmp_path: Path) -> None:
    said = ["one", "two", "one", "three"]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"id": "x", "text": text}) for text in said))

    async with open_memory() as memory:
        assert await counts(memory, tmp_path / "a.jsonl") == (3, 1, 0)
        assert await texts(memory) == {"one", "two", "three"}
        assert await counts(memory, tmp_path / "a.jsonl") == (0, 4, 0)


async def test_what_bears_an_id_of_ours_and_says_something_else_is_told(open_memory: Open, tmp_path: Path) -> None:
    def exported(*said: str) -> Path:
        rows: list[Json] = [{"kind": "header", "format": "infinite-memory-export", "version": 1}]
        rows += [{"kind": "memory", "memory_id": "65f0c0ffee0000000000000a", "text": text} for text in said]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        return tmp_path / "a.jsonl"

    async with open_memory() as memory:
        assert await counts(memory, exported("as it is")) == (1, 0, 0)
        assert await counts(memory, exported("as it is", "as it is elsewhere")) == (0, 1, 1)
        done = await memory.ok("import_memory", path=str(exported("as it is elsewhere")))
        assert (done["added"], done["present"], done["skipped_reasons"]) == (0, 0, {OTHER: 1})
