"""Files appear under their names whole, or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from infinite_memory.backup.folder import atomic_write, find_backup, find_newest, list_names
from infinite_memory.errors import BackupError, BackupNotFoundError
from infinite_memory.platform_files import RESERVE_BYTES


def write(folder: Path, content: bytes) -> Path:
    """Write one file called "x.dump", or what it is called when that is taken."""
    with atomic_write(folder, "x", ".dump") as target:
        target.file.write(content)
        target.sync()
        return target.publish()


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    files = [write(tmp_path, str(number).encode()) for number in range(4)]
    assert [file.name for file in files] == ["x.dump", "x-2.dump", "x-3.dump", "x-4.dump"]
    assert [file.read_bytes() for file in list_names(tmp_path)] == [b"0", b"1", b"2", b"3"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path, "x", ".dump") as target:
        target.file.write(b"half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it is nearly full before, nor by what is written; what a user exports elsewhere is their own affair."""
    total, size = 100 << 30, 17 << 20
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (total, 0, RESERVE_BYTES - 1))
    with pytest.raises(BackupError, match=f"No space left in the folder {tmp_path.name}:") as refused:
        write(tmp_path, b"x")
    assert f"No space left in the folder {tmp_path}:" in refused.value.in_full()
    with atomic_write(tmp_path, "y", ".jsonl", is_ours=False) as target:
        target.file.write(b"x")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (total, 0, RESERVE_BYTES + size))
    assert write(tmp_path, bytes(size)).stat().st_size == size
    with pytest.raises(BackupError, match="No space left"):
        write(tmp_path, bytes(size + 1))
    assert [file.name for file in tmp_path.iterdir()] == ["x.dump"]


def test_an_unfinished_file_is_no_backup(tmp_path: Path) -> None:
    with atomic_write(tmp_path, "x", ".dump") as target:
        target.file.write(b"half")
        assert list_names(tmp_path) == []
        assert target.part.stat().st_mode & 0o077 == 0


def test_what_a_dead_process_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    old, new = tmp_path / ".x-00112233445a.part", tmp_path / ".x-00112233445b.part"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1_000_000, 1_000_000))
    write(tmp_path, b"whole")
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "backups").write_text("not a folder")
    with pytest.raises(BackupError, match="cannot be written to"):
        write(tmp_path / "backups", b"x")


@pytest.mark.parametrize("name", ["none.dump", "../x.dump/..", "a\0b", "", "x" * 5000, "/" + "x" * 300])
def test_a_backup_that_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(BackupNotFoundError):
        find_backup(tmp_path, name)


def test_a_backup_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    file = write(tmp_path, b"x")
    assert find_backup(tmp_path, "x.dump") == find_backup(tmp_path / "elsewhere", str(file)) == file


def test_the_newest_is_the_latest_by_name_and_no_other_file(tmp_path: Path) -> None:
    with pytest.raises(BackupNotFoundError, match="no backup in the folder"):
        find_newest(tmp_path)
    for name in ("backup_2026-11-29T10-00-00Z-2.dump", "backup_2026-11-29T10-00-00Z.dump", "renamed.dump"):
        (tmp_path / name).touch()
    assert find_newest(tmp_path).name == "backup_2026-11-29T10-00-00Z-2.dump"
