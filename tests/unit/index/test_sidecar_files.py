"""Saving and loading: same answers, nothing damaged is served, no failure costs the generation before."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pytest

from infinite_memory.errors import SidecarDamagedError, SidecarUnsavedError
from infinite_memory.index.base import VectorIndexFiles
from infinite_memory.index.vector import files as saved_module
from infinite_memory.index.vector import table
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import Filter
from tests.unit.index.builders import (
    DATABASE,
    DIM,
    SPACE,
    make_pending_row,
    make_row,
    make_sidecar,
    make_varied_rows,
    memory_id,
    revisions,
    scope_id,
    unit_vectors,
)

TOKEN = b"\x00resume\xff"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sidecars"


def make_varied_sidecar() -> FaissIndex:
    """Make a sidecar in which something of everything is there: removed, replaced, pending, long, tagged memories."""
    sidecar = make_sidecar(make_varied_rows("ünï \ud800"))
    sidecar.upsert(make_pending_row(number) for number in range(300, 310))
    sidecar.remove(memory_id(number) for number in range(0, 300, 7))
    sidecar.upsert(make_row(number, revision=2, tags=["second"]) for number in range(100, 120))
    return sidecar


def answers(sidecar: FaissIndex) -> list[object]:
    filters = [
        Filter(),
        Filter(tag_keys=frozenset({"t3"})),
        Filter(tag_keys=frozenset({"ünï \ud800"}), speaker="ada"),
        Filter(scope_ids=frozenset({scope_id(2), scope_id(3)}), type="note"),
        Filter(min_stored_confidence=0.4, conversation_id="C2"),
    ]
    found: list[object] = [revisions(sidecar), list(sidecar.pending(1000)), sidecar.count_by_scope()]
    for where in filters:
        found.append(sidecar.search(unit_vectors(999, 1)[0], 40, where))
        found.append(sidecar.list_page(where, 50, None, newest_first=True))
        found.append(sidecar.count_conversations(where))
    return found


def load(folder: Path, database: str = DATABASE, space: str = SPACE, dim: int = DIM) -> tuple[FaissIndex, bytes]:
    return FaissIndexFiles(folder).load(database, space, dim)


def generations(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def only_generation(folder: Path) -> Path:
    (entry,) = folder.iterdir()
    return entry


def test_what_was_saved_answers_the_same_when_loaded(folder: Path) -> None:
    files: VectorIndexFiles = FaissIndexFiles(folder)
    sidecar = make_varied_sidecar()
    files.save(sidecar, DATABASE, TOKEN)
    loaded, token = load(folder)
    assert token == TOKEN
    assert answers(loaded) == answers(sidecar)
    assert loaded.frozen().alive.all()


def test_a_loaded_sidecar_goes_on_like_one_that_was_never_saved(folder: Path) -> None:
    sidecar = make_varied_sidecar()
    FaissIndexFiles(folder).save(sidecar, DATABASE, TOKEN)
    loaded, _ = load(folder)
    for one in (sidecar, loaded):
        one.upsert(make_row(number, revision=3, tags=["third", "t3"]) for number in range(90, 130))
        one.upsert(make_row(number, tags=["t3"]) for number in range(1000, 1020))
        one.remove([memory_id(5), memory_id(1003)])
        one.remove_scope(scope_id(4))
    assert answers(loaded) == answers(sidecar)
    FaissIndexFiles(folder).save(loaded, DATABASE, b"later")
    again, token = load(folder)
    assert token == b"later"
    assert answers(again) == answers(sidecar)
    assert answers(loaded) == answers(sidecar), "the files it was loaded from are gone, its answers are not"


def test_an_empty_sidecar_is_saved_too(folder: Path) -> None:
    FaissIndexFiles(folder).save(make_sidecar(), DATABASE, b"")
    loaded, token = load(folder)
    assert (loaded.count(Filter()), token) == (0, b"")
    loaded.upsert([make_row(1)])
    assert len(loaded.search(unit_vectors(1, 1)[0], 3, Filter())) == 1


def test_vectors_of_several_segments_come_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SEGMENT_ROWS", 64)
    sidecar = make_varied_sidecar()
    FaissIndexFiles(folder).save(sidecar, DATABASE, TOKEN)
    assert len(list(only_generation(folder).glob("*.faiss"))) > 5
    assert answers(load(folder)[0]) == answers(sidecar)


def test_the_vectors_are_a_file_that_faiss_reads(folder: Path) -> None:
    FaissIndexFiles(folder).save(make_sidecar(make_row(number) for number in range(50)), DATABASE, TOKEN)
    index = faiss.read_index(str(only_generation(folder) / "vectors-0000.faiss"))
    scores, rows = index.search(unit_vectors(7, 1), 1)
    assert (index.ntotal, rows[0, 0]) == (50, 7)
    assert scores[0, 0] == pytest.approx(1, abs=1e-3)


def test_nothing_of_a_removed_memory_is_in_the_files(folder: Path) -> None:
    sidecar = make_sidecar(
        [make_row(1, tags=["kept"]), make_row(0xABCDEF, tags=["forgotten"], speaker="Mallory", scope=9)]
    )
    sidecar.remove([memory_id(0xABCDEF)])
    FaissIndexFiles(folder).save(sidecar, DATABASE, TOKEN)
    content = b"".join(entry.read_bytes() for entry in only_generation(folder).iterdir())
    vector = unit_vectors(0xABCDEF, 1).astype(np.float16).tobytes()
    assert b"kept" in content
    for trace in (b"forgotten", b"mallory", scope_id(9).encode(), bytes.fromhex(memory_id(0xABCDEF)), vector):
        assert trace not in content


def test_only_the_newest_generation_stays_and_only_its_owner_may_read_it(folder: Path) -> None:
    files = FaissIndexFiles(folder)
    for number in range(4):
        files.save(make_sidecar([make_row(number)]), DATABASE, bytes([number]))
    assert generations(folder) == ["generation-00000004"]
    assert load(folder)[1] == b"\x03"
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
        assert only_generation(folder).stat().st_mode & 0o077 == 0


def test_what_an_interrupted_save_left_is_swept(folder: Path) -> None:
    FaissIndexFiles(folder).save(make_sidecar([make_row(1)]), DATABASE, TOKEN)
    (folder / "generation-00000002.tmp").mkdir()
    (folder / "generation-00000002.tmp" / "column-key.npy").write_bytes(b"half")
    (folder / "text").mkdir()
    assert load(folder)[1] == TOKEN
    assert generations(folder) == ["generation-00000001", "text"]


def test_without_a_generation_there_is_nothing_to_load(folder: Path) -> None:
    with pytest.raises(SidecarDamagedError, match="no sidecar was saved"):
        load(folder)


@pytest.mark.parametrize(
    ("other", "named"),
    [({"database": "database-two"}, "database-two"), ({"space": "model-b"}, "model-b"), ({"dim": 32}, "32")],
)
def test_another_database_space_or_dimension_is_refused_by_name(
    folder: Path, other: dict[str, str], named: str
) -> None:
    FaissIndexFiles(folder).save(make_sidecar([make_row(1)]), DATABASE, TOKEN)
    with pytest.raises(SidecarDamagedError, match=named):
        load(folder, **other)


def rewrite_header(folder: Path, change: Callable[[dict], object]) -> None:
    """Change the header and seal it again, as another program would."""
    path = only_generation(folder) / "header.json"
    body = json.loads(path.read_bytes().partition(b"\n")[0])
    change(body)
    line = json.dumps(body).encode()
    path.write_bytes(line + b"\n%08x\n" % zlib.crc32(line))


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(format=2),
        lambda body: body.update(magic="something else"),
        lambda body: body.update(generation=7),
        lambda body: body.update(count=1),
        lambda body: body.update(vector_count=1),
        lambda body: body.update(token="§"),
        lambda body: body.pop("space"),
        lambda body: body.pop("files"),
        lambda body: body["files"].pop("vectors-0000.faiss"),
        lambda body: body["files"].pop("column-scope.npy"),
    ],
)
def test_a_header_that_says_something_else_is_refused(folder: Path, change: Callable[[dict], object]) -> None:
    FaissIndexFiles(folder).save(make_varied_sidecar(), DATABASE, TOKEN)
    rewrite_header(folder, lambda body: None)
    load(folder)
    rewrite_header(folder, change)
    with pytest.raises(SidecarDamagedError):
        load(folder)


@pytest.mark.parametrize(
    "name", ["header.json", "column-key.npy", "column-tag.npy", "strings.json", "vectors-0000.faiss"]
)
@pytest.mark.parametrize("harm", ["flip first", "flip middle", "flip last", "truncate", "empty", "extend", "remove"])
def test_a_damaged_file_is_never_served(folder: Path, name: str, harm: str) -> None:
    FaissIndexFiles(folder).save(make_varied_sidecar(), DATABASE, TOKEN)
    path = only_generation(folder) / name
    content = bytearray(path.read_bytes())
    if harm.startswith("flip"):
        content[{"flip first": 0, "flip middle": len(content) // 2, "flip last": len(content) - 1}[harm]] ^= 0x10
    changed = {"truncate": content[:-1], "empty": b"", "extend": content + b"\x00"}.get(harm, content)
    path.unlink()
    if harm != "remove":
        path.write_bytes(changed)
    with pytest.raises(SidecarDamagedError):
        load(folder)


def test_after_damage_the_next_save_puts_all_right(folder: Path) -> None:
    files = FaissIndexFiles(folder)
    files.save(make_sidecar([make_row(1)]), DATABASE, TOKEN)
    (only_generation(folder) / "column-key.npy").write_bytes(b"")
    files.save(make_sidecar([make_row(2)]), DATABASE, b"after")
    assert load(folder)[1] == b"after"
    assert generations(folder) == ["generation-00000002"]


posix_only = pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")


@posix_only
def test_a_save_that_meets_a_limit_leaves_the_generation_before(folder: Path) -> None:
    import resource  # there is none on Windows

    files = FaissIndexFiles(folder)
    files.save(make_sidecar([make_row(1)]), DATABASE, TOKEN)
    large = make_sidecar(make_row(number) for number in range(3000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (100, 30_000, 90_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(SidecarUnsavedError, match="cannot be saved") as refused:
                files.save(large, DATABASE, b"too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert f"in the folder {folder}:" in refused.value.in_full()
        assert f"in the folder {folder.name}:" in str(refused.value)
        assert generations(folder) == ["generation-00000001"]
        assert load(folder)[1] == TOKEN
    files.save(large, DATABASE, b"there is room")
    assert load(folder)[1] == b"there is room"


@posix_only
def test_a_full_disk_leaves_the_generation_before(folder: Path) -> None:
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=300k", "sidecar-test", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs rights that this account lacks")
    try:
        files = FaissIndexFiles(folder)
        files.save(make_sidecar([make_row(1)]), DATABASE, TOKEN)
        for _ in range(3):
            with pytest.raises(SidecarUnsavedError, match="No space left"):
                files.save(make_sidecar(make_row(number) for number in range(5000)), DATABASE, b"too large")
        assert generations(folder) == ["generation-00000001"]
        assert load(folder)[1] == TOKEN
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


SAVE_WITHOUT_END = """
    import sys
    from pathlib import Path
    from tests.unit.index.builders import DATABASE, make_row, make_sidecar
    from infinite_memory.index.vector.files import FaissIndexFiles

    files = FaissIndexFiles(Path(sys.argv[1]))
    number = int(sys.argv[2])
    sidecar = make_sidecar(make_row(one) for one in range(2000))
    while True:
        number += 1
        sidecar.upsert([make_row(10_000 + number)])
        files.save(sidecar, DATABASE, str(number).encode())
        print(number, flush=True)
"""


@posix_only
def test_a_kill_in_mid_save_leaves_the_old_or_the_new_generation(folder: Path) -> None:
    import_path = os.pathsep.join(sys.path)
    draw = random.Random(5)
    number = 0
    for _ in range(5):
        command = [sys.executable, "-c", textwrap.dedent(SAVE_WITHOUT_END), str(folder), str(number)]
        environment = {**os.environ, "PYTHONPATH": import_path}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as child:
            assert child.stdout is not None
            for _ in range(draw.randint(1, 4)):
                number = int(child.stdout.readline())
            try:
                child.wait(draw.uniform(0, 0.03))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
            number = max([number, *map(int, child.stdout.read().split())])
        loaded, token = load(folder)
        assert int(token) in (number, number + 1)
        number = int(token)
        assert memory_id(10_000 + number) in revisions(loaded)
        assert len(generations(folder)) == 1


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_what_is_written_in_pieces_is_the_same_file(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    sidecar = make_varied_sidecar()
    FaissIndexFiles(folder / "whole").save(sidecar, DATABASE, TOKEN)
    monkeypatch.setattr(saved_module, "PIECE_ROWS", rows)
    FaissIndexFiles(folder / "pieces").save(sidecar, DATABASE, TOKEN)
    whole, pieces = (next((folder / one).glob("generation-*")) for one in ("whole", "pieces"))
    for file in whole.iterdir():
        assert (pieces / file.name).read_bytes() == file.read_bytes()
    loaded, _ = FaissIndexFiles(folder / "pieces").load(DATABASE, SPACE, DIM)
    assert answers(loaded) == answers(sidecar)


def test_a_column_is_written_as_numpy_writes_it_and_strings_as_json_does(folder: Path) -> None:
    FaissIndexFiles(folder).save(make_varied_sidecar(), DATABASE, TOKEN)
    generation = next(folder.glob("generation-*"))
    for file in generation.glob("column-*.npy"):
        again = folder / file.name
        np.save(again, np.load(file))
        assert again.read_bytes() == file.read_bytes()
    written = (generation / "strings.json").read_text("utf-8")
    assert json.dumps(json.loads(written)) == written


def test_strings_that_no_memory_uses_any_more_leave_with_a_save(folder: Path) -> None:
    sidecar = make_sidecar([make_row(1, tags=["gone", "kept"]), make_row(2, tags=["kept"])])
    sidecar.remove([memory_id(1)])
    FaissIndexFiles(folder).save(sidecar, DATABASE, TOKEN)
    assert json.loads((next(folder.glob("generation-*")) / "strings.json").read_text("utf-8"))["tag"] == ["kept"]
