"""Files that are made to do harm, or are broken: what they cost is bounded, and what is whole in them is taken."""

from __future__ import annotations

import io
import json
import os
import resource
import sqlite3
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.formats import Budget
from infinite_memory.transfer.formats.caps import CapReachedError
from tests.import_files import FILES, left_out, memories, read_entries, write_files
from tests.processes import LONG

MIB = 1 << 20
ROWS = 100_000 if LONG else 10_000


def texts(path: Path) -> list[str]:
    return [one.text for one in memories(read_entries(path)[1])]


# JSON


def test_a_list_that_breaks_off_gives_what_came_before(tmp_path: Path) -> None:
    whole = json.dumps({"results": [{"memory": f"number {n}"} for n in range(5)]}).encode()
    (tmp_path / "a.json").write_bytes(whole[: whole.index(b"number 3") + 4])
    _, entries = read_entries(tmp_path / "a.json")
    assert [one.text for one in memories(entries)] == ["number 0", "number 1", "number 2"]
    assert any("is no JSON from line 1" in why for why in left_out(entries))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"memory": "a", "memory": "b"}', "names a key twice"),
        ('{"memory": ' + "[" * 200 + "]" * 200 + "}", "nested deeper"),
        ('{"memory": "a", "n": ' + "9" * 5000 + "}", "too long"),
        ('{"memory": "a", "metadata": {"n": 1e999}}', "out of range"),
        ('{"memory": "\\ud800"}', "no valid text"),
        ('{"memory": nonsense}', "is no JSON"),
        ('{"memory": "LARGE"}', "larger than"),
    ],
)
def test_a_record_that_is_no_good_is_refused_by_itself(tmp_path: Path, bad: str, why: str) -> None:
    bad = bad.replace("LARGE", "x" * (33 * MIB))
    (tmp_path / "a.json").write_text(f'[{{"memory": "first"}}, {bad}, {{"memory": "last"}}]')
    _, entries = read_entries(tmp_path / "a.json")
    assert [one.text for one in memories(entries)] == ["first", "last"]
    assert [why in one for one in left_out(entries)] == [True], left_out(entries)


def test_a_record_that_is_not_utf_8_is_refused_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"memory": "first"}, {"memory": "\xff"}, {"memory": "last"}]' + b" " * 70_000)
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        read_entries(tmp_path / "a.json")
    padding = json.dumps([{"memory": f"padding {n:05}"} for n in range(5000)]).encode()[:-1]
    (tmp_path / "a.json").write_bytes(padding + b', {"memory": "\xff"}, {"memory": "last"}]')
    assert texts(tmp_path / "a.json")[-1] == "last"


def test_strings_and_numbers_across_the_chunks_in_which_a_file_is_read_are_whole(tmp_path: Path) -> None:
    for shift in range(5):
        odd = ['say "no"\\', "\\\\", "é" * 3, "[{,}]", "tab\t"]
        records = [{"memory": "x" * (MIB - 40 + shift)}, *({"memory": one} for one in odd), {"memory": "y" * MIB}]
        (tmp_path / "a.json").write_text(json.dumps(records))
        assert texts(tmp_path / "a.json") == [one["memory"] for one in records]


# tables


def table(folder: Path, content: bytes) -> list[str]:
    (folder / "t.csv").write_bytes(content)
    return texts(folder / "t.csv")


def test_a_quote_that_is_never_closed_costs_its_own_line_alone(tmp_path: Path) -> None:
    content = b'text,tags\nfirst,a\n"open,b\nsecond,c\n"third, with a comma",d\n'
    (tmp_path / "t.csv").write_bytes(b'text,tags\nfirst,a\n"open,b\nsecond,c\nthird,d\n')
    _, entries = read_entries(tmp_path / "t.csv")
    assert [one.text for one in memories(entries)] == ["first", "second", "third"]
    assert left_out(entries) == {"opens a quote that is never closed": 1}
    assert "first" in table(tmp_path, content)


def test_null_bytes_and_bytes_that_are_no_text_cost_their_own_line_alone(tmp_path: Path) -> None:
    padding = b"".join(b"row %06d,p\n" % number for number in range(8000))  # beyond the look at the beginning
    found = table(tmp_path, b"text,tags\n" + padding + b"\xff\xfe,b\nlast,c\n")
    assert (len(found), found[-1]) == (8001, "last")


def test_a_cell_that_is_too_large_costs_its_own_line_alone(tmp_path: Path) -> None:
    assert table(tmp_path, b"text,tags\nfirst,a\n" + b"x" * (5 * MIB) + b",b\nlast,c\n") == ["first", "last"]
    assert table(tmp_path, b'text,tags\nfirst,a\n"' + b"x" * 1000 * 5000 + b'",b\nlast,c\n') == ["first", "last"]


# archives


def archive(folder: Path, write: Callable[[zipfile.ZipFile], object]) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as one:
        one.writestr("good.json", json.dumps([{"memory": "good"}]))
        write(one)
    return folder / "a.zip"


def _link(one: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("link.json")
    info.external_attr = 0o120777 << 16
    one.writestr(info, "/etc/passwd")


def _nested(one: zipfile.ZipFile) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as other:
        other.writestr("m.json", json.dumps([{"memory": "inner"}]))
    one.writestr("inner.zip", inner.getvalue())


BAD = json.dumps([{"memory": "bad"}])


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda one: one.writestr("../up.json", BAD), "leads out of the archive"),
        (lambda one: one.writestr("/etc/up.json", BAD), "leads out of the archive"),
        (lambda one: one.writestr("C:\\up.json", BAD), "leads out of the archive"),
        (lambda one: one.writestr("a\x1b[31m.json", BAD), "control characters"),
        (lambda one: one.writestr("good.json", BAD), "stands twice"),
        (lambda one: one.writestr("/".join("d" * 40) + "/x.json", BAD), "folders deep"),
        (lambda one: one.writestr("z.json", BAD, zipfile.ZIP_BZIP2), "compressed by a method"),
        (_link, "is a link"),
        (_nested, "is an archive inside another"),
    ],
)
def test_what_an_archive_should_not_hold_is_told_and_the_rest_is_read(
    tmp_path: Path, write: Callable[[zipfile.ZipFile], object], why: str
) -> None:
    _, entries = read_entries(archive(tmp_path, write))
    assert [one.text for one in memories(entries)] == ["good"]
    assert [why in one for one in left_out(entries)] == [True], left_out(entries)


def test_nothing_of_a_file_with_a_wrong_checksum_is_taken(tmp_path: Path) -> None:
    records = json.dumps([{"memory": f"number {n}"} for n in range(20_000)])
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as one:
        one.writestr("bad.json", records)
        one.writestr("good.json", json.dumps([{"memory": "good"}]))
    raw = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(raw.replace(b"number 19000", b"number 6666x"))
    _, entries = read_entries(tmp_path / "a.zip")
    assert [one.text for one in memories(entries)] == ["good"]
    assert left_out(entries) == {"is damaged: its checksum is wrong": 1}


def test_an_encrypted_file_is_told(tmp_path: Path) -> None:
    path = archive(tmp_path, lambda one: one.writestr("secret.json", BAD))
    raw = bytearray(path.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.rindex(magic)
        raw[at + offset] |= 1
    path.write_bytes(raw)
    _, entries = read_entries(path)
    assert left_out(entries) == {"is encrypted": 1}


def test_a_bomb_is_not_unfolded(tmp_path: Path) -> None:
    path = archive(tmp_path, lambda one: one.writestr("bomb.json", b"[" + b" " * (100 * MIB) + b"]"))
    _, entries = read_entries(path)
    assert [one.text for one in memories(entries)] == ["good"]
    assert len(left_out(entries)) == 1
    records = b"[" + b'{"memory": "a"},' * (6 * MIB) + b"{}]"  # in a form that is read
    with pytest.raises(CapReachedError, match="unfolds to more"):
        read_entries(archive(tmp_path, lambda one: one.writestr("a_bomb.json", records)))


def test_an_archive_that_is_damaged_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InvalidRequestError, match="damaged zip archive"):
        read_entries(tmp_path / "a.zip")


# databases

_TABLE = (
    "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, tags TEXT, memory_type TEXT,"
    " metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL)"
)
_INSERT = (
    "INSERT INTO memories (content_hash, content, tags, metadata, created_at) VALUES (?, ?, 'a,b', '{}', 1700000000.0)"
)


def service(folder: Path, rows: int, *statements: str) -> Path:
    file = folder / "sqlite_vec.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(_TABLE)
        database.executemany(_INSERT, ((f"h{n}", f"memory number {n}") for n in range(rows)))
        for statement in statements:
            database.execute(statement)
        database.commit()
    return file


@pytest.mark.timeout(300)
def test_an_honest_database_of_many_rows_is_read_whole(tmp_path: Path) -> None:
    form, entries = read_entries(service(tmp_path, ROWS))
    assert form == "mcp-memory-service-sqlite"
    assert len(memories(entries)) == ROWS
    assert not left_out(entries)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memories SET content = CAST(x'fffe' AS TEXT) WHERE id = 2",
        "UPDATE memories SET content = zeroblob(5000000) WHERE id = 2",
        "UPDATE memories SET created_at = 'soon' WHERE id = 2",
        "UPDATE memories SET deleted_at = 5 WHERE id = 2",
    ],
)
def test_a_row_that_is_no_good_is_refused_by_itself(tmp_path: Path, statement: str) -> None:
    _, entries = read_entries(service(tmp_path, 3, statement))
    assert [one.text for one in memories(entries)] == ["memory number 0", "memory number 2"]
    assert sum(left_out(entries).values()) == 1


ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS content, x AS content_hash FROM n"
)


@pytest.mark.parametrize(
    "statements",
    [
        (f"CREATE VIEW memories AS {ENDLESS}",),
        ("CREATE VIRTUAL TABLE memories USING fts5(content, content_hash)",),
        ("CREATE TABLE m (content, content_hash AS (zeroblob(1000000)))", "ALTER TABLE m RENAME TO memories"),
    ],
)
def test_what_is_no_plain_table_is_not_read(tmp_path: Path, statements: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(tmp_path / "m.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    before = time.monotonic()
    with pytest.raises(InvalidRequestError, match="is in no form"):
        read_entries(tmp_path / "m.db")
    assert time.monotonic() - before < 30


def test_rows_whose_numbers_are_hidden_by_a_column_are_not_left_out_silently(tmp_path: Path) -> None:
    _, entries = read_entries(service(tmp_path, 3, "ALTER TABLE memories ADD COLUMN rowid TEXT DEFAULT 'x'"))
    assert not memories(entries)
    assert sum(left_out(entries).values()) == 1


def test_triggers_views_and_computed_columns_beside_the_table_do_nothing(tmp_path: Path) -> None:
    path = service(
        tmp_path, 2, f"CREATE VIEW v AS {ENDLESS}", "ALTER TABLE memories ADD COLUMN superseded_by AS (hex(zeroblob(9)))",
        "CREATE TRIGGER t AFTER INSERT ON memories BEGIN SELECT * FROM v; END",
    )  # fmt: skip
    assert texts(path) == ["memory number 0", "memory number 1"]


def test_a_damaged_database_gives_what_can_be_read(tmp_path: Path) -> None:
    path = service(tmp_path, 5000)
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = os.urandom(4096)
    path.write_bytes(raw)
    _, entries = read_entries(path)
    assert 500 < len(memories(entries)) < 5000
    assert left_out(entries)


def test_a_reader_that_is_cancelled_ends_soon(tmp_path: Path) -> None:
    path, budget = service(tmp_path, 50_000), Budget()
    threading.Timer(0.2, budget.cancel).start()
    before = time.monotonic()
    with pytest.raises((CapReachedError, InvalidRequestError)):
        while True:
            read_entries(path, budget=budget)
    assert time.monotonic() - before < 30


def test_a_reader_that_finds_nothing_for_too_long_ends(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"memory": "first"}, [' + b"[]," * (MIB // 3) + b"[]]]")
    with pytest.raises(CapReachedError, match="nothing was found"):
        read_entries(tmp_path / "a.json", budget=Budget(max_silent_s=0.05))


def test_more_than_an_import_may_read_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(json.dumps([{"memory": "x" * 1000}] * 5000).encode())
    with pytest.raises(CapReachedError, match="reads 2 MiB at most"):
        read_entries(tmp_path / "a.json", budget=Budget(max_bytes=2 * MIB))


# files


def test_links_pipes_and_devices_are_not_followed(tmp_path: Path) -> None:
    write_files(tmp_path, {"notes/a.md": "mine", "outside/b.md": "not mine", "outside/c/d.md": "nor this"})
    (tmp_path / "notes/link.md").symlink_to(tmp_path / "outside/b.md")
    (tmp_path / "notes/folder").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "notes/pipe.md")
    _, entries = read_entries(tmp_path / "notes")
    assert [one.text for one in memories(entries)] == ["mine"]
    assert left_out(entries) == {"is a link, and links are not followed": 2, "is not a regular file": 1}


@pytest.mark.parametrize("name", ["pipe", "missing", "x" * 300, "nul\0l"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidRequestError, match="path"):
        read_entries(tmp_path / name)


def test_a_folder_that_is_too_deep_is_told(tmp_path: Path) -> None:
    write_files(tmp_path, {"top.md": "top", "/".join("d" * 40) + "/deep.md": "deep"})
    _, entries = read_entries(tmp_path)
    assert [one.text for one in memories(entries)] == ["top"]
    assert left_out(entries) == {"lies more than 32 folders deep": 1}


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for name in ("vault", "chatgpt", "mem0-results.json"):
        read_entries(FILES / name)
    with pytest.raises(InvalidRequestError):
        read_entries(FILES / "vault", "chatgpt")
    after = len(list(Path("/proc/self/fd").iterdir())) if before else 0
    assert after <= before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
