"""Files that are not what they seem: each is refused with a reason, or comes in as far as it can; nothing else is harmed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.lifecycle.conftest import Json, Open

MESSAGE = {"id": "m1", "author": {"role": "user"}, "content": {"parts": ["eggs"]}, "create_time": 1700000000.5}


def as_json(name: str, value: object) -> Callable[[Path], Path]:
    """Give what writes a JSON file."""

    def write(folder: Path) -> Path:
        (folder / name).write_text(json.dumps(value), "utf-8")
        return folder / name

    return write


def as_bytes(name: str, data: bytes) -> Callable[[Path], Path]:
    """Give what writes a file."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return write


def lines(*records: object) -> bytes:
    """Write an export."""
    head = {"kind": "header", "format": "infinite-memory-export", "version": 1}
    return "\n".join(json.dumps(one) for one in (head, *records)).encode()


def memory_line(**fields: object) -> Json:
    """Write a memory's line."""
    return {"kind": "memory", "memory_id": "a" * 24, "scope": "Global", "text": "fine"} | fields


REFUSED = [
    (as_bytes("a.json", json.dumps([{"mapping": {}}]).encode("utf-16")), "UTF-8"),
    (as_bytes("export.zip", b"PK\x03\x04" + bytes(100)), "damaged zip archive"),
    (as_bytes("a.json", b"[" * 200_000), "nested too deep|is no JSON"),
    (as_bytes("a.json", b'{"memories": [}'), "line 1, column"),
    (as_bytes("memory.jsonl", b"\xff\xfe" + bytes(50)), "UTF-8"),
    (as_bytes("broken.db", b"SQLite format 3\0" + os.urandom(5000)), "no form"),
    (as_json("a.json", {"memories": "many"}), "no form"),
    (as_json("a.json", 5), "no form"),
    (as_bytes("empty.jsonl", b""), "is empty"),
    (as_bytes("a.csv", b"note,when\ntea,2024\n"), "no one column named text, content or memory in its first line"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
async def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    open_memory: Open, tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    path = str(make(tmp_path))

    async with open_memory() as memory:
        refused = await memory.ask("import_memory", path=path)
        assert refused["error_code"] == "INVALID_REQUEST", refused
        assert any(one in refused["error"] for one in said.split("|")), refused


TAKEN = [
    (as_json("c.json", [{"mapping": {"a": {"message": MESSAGE}, "b": 5, "c": {"message": {"author": "x", "content": []}}}}]),
     1, 0),
    (as_json("c.json", [{"mapping": {"a": {"message": MESSAGE | {"create_time": 1e300}}}}]), 0, 1),
    (as_json("c.json", [{"mapping": []}, {"mapping": {"a": {"message": MESSAGE}}}, 7]), 1, 2),
    (as_json("c.json", [{"chat_messages": [5, {"text": 5, "content": 6}, {"uuid": "u", "text": "boat", "sender": None}]}]), 1, 2),
    (as_json("m.json", {"memories": [5, {"content": 7}, {"content": "ok", "tags": 5, "metadata": "no"},
                                     {"content": "no", "created_at": "?"}]}),
     1, 3),
    (as_json("m.json", {"results": [{"memory": "x", "metadata": {"n": 1 << 70}}, {"memory": "y"}]}), 1, 1),
    (as_bytes("memory.jsonl", b'{"type": "entity", "name": "A", "observations": "text"}\n{"type": "entity", "observations": 5}'),
     1, 1),
    (as_bytes("e.jsonl", lines(memory_line(title="\ud800"), memory_line(text="x" * 1_100_000),
                               memory_line(memory_id="b" * 24, occurrences=5),
                               {"kind": "fact"}, {"kind": "link", "from_id": 5}, {"kind": ["odd"]}, [])), 1, 6),
    (as_bytes("e.jsonl", lines(memory_line(timestamp="0001-01-01T00:00:00+14:00", memory_id="b" * 24),
                               memory_line(importance="many", memory_id="c" * 24), memory_line(revision=1 << 80))), 1, 2),
    (as_bytes("e.jsonl", lines(memory_line(scope="ALL"), memory_line(memory_id="../../x", text="named oddly"))), 1, 1),
    (as_bytes("t.tsv", b"text\timportance\tconfidence\ntea\t7\t.5\ncoffee\t77\t\nmilk\t\t2\n"), 1, 2),
    (as_bytes("e.jsonl", lines(memory_line()) + b"\n" + b'{"kind": "memory", "text": ' + b"[" * 100_000), 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("make", "added", "skipped"), TAKEN)
async def test_what_is_odd_is_left_out_and_the_rest_comes_in(
    open_memory: Open, tmp_path: Path, make: Callable[[Path], Path], added: int, skipped: int
) -> None:
    path = str(make(tmp_path))

    async with open_memory() as memory:
        promised = await memory.ok("import_memory", path=path, dry_run=True)
        done = await memory.ok("import_memory", path=path)
        assert promised == done | {"dry_run": True}
        assert (done["added"], done["skipped"]) == (added, skipped), done
        assert all(one["why"] for one in done.get("skipped_entries", []))
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == added


async def test_a_device_is_no_file(open_memory: Open) -> None:
    async with open_memory() as memory:
        refused = await memory.ask("import_memory", path="/dev/zero")
        assert refused["error_code"] == "INVALID_REQUEST"


async def test_a_format_that_the_file_is_not_in_is_said(open_memory: Open, tmp_path: Path) -> None:
    path = as_json("m.json", {"memories": []})(tmp_path)

    async with open_memory() as memory:
        refused = await memory.ask("import_memory", path=str(path), format="chatgpt")
        assert "not in the form chatgpt" in refused["error"]


async def test_a_scope_that_was_put_away_here_takes_nothing_in(open_memory: Open, tmp_path: Path) -> None:
    path = as_bytes("e.jsonl", lines({"kind": "scope", "name": "Old"}, memory_line(scope="Old")))(tmp_path)

    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Old")
        await memory.ok("delete_memory", target={"scope": "Old"})
        for dry_run in (True, False):
            done = await memory.ok("import_memory", path=str(path), dry_run=dry_run)
            assert (done["added"], done["skipped"]) == (0, 1)
