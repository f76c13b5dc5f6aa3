"""`doctor` about a memory that runs as a service: what keeps a backup from being made, a port that is taken, a server's database."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infinite_memory.backup.archive import BackupWriter
from infinite_memory.cli.service_checks import check_backups, check_http, describe_database, find_shortages
from infinite_memory.config import load_config
from infinite_memory.paths import Home

Json = dict[str, Any]


def look(tmp_path: Path, flags: dict[str, str], stats: Json, status: Json) -> dict[str, str | None]:
    """Give the fault of each check, None where there is none."""
    faults: dict[str, str | None] = {}
    settings, home = load_config(tmp_path / "no file", {}, flags), Home(tmp_path, explicit=True)

    def found(name: str, fault: str | None, good: str) -> None:
        faults[name] = fault

    check_backups(settings, home, stats, status, found)
    check_http(settings, status, found)
    return faults


def write_scheduled(folder: Path, created_at: dt.datetime) -> Path:
    """Write a scheduled backup without contents, made at that time."""
    file = folder / f"backup_{created_at:%Y-%m-%dT%H-%M-%SZ}.dump"
    head = {"created_at": created_at.isoformat(), "reason": "scheduled", "database": "mine"}
    with file.open("wb") as opened:
        BackupWriter(opened, head).finish({})
    return file


def test_backups_that_can_be_made_are_well(tmp_path: Path) -> None:
    assert look(tmp_path, {}, {"last_backup": None}, {}) == {"backups": None, "jobs": None}


def test_a_backup_that_is_dated_ahead_is_named_and_is_not_a_fault(tmp_path: Path) -> None:
    goods: list[str] = []

    def found(name: str, fault: str | None, good: str) -> None:
        assert fault is None
        goods.append(good)

    settings, home = load_config(tmp_path / "no file", {}, {}), Home(tmp_path, explicit=True)
    folder = home.backup_folder(settings.backup.folder)
    folder.mkdir(parents=True)
    now = dt.datetime.now(dt.UTC)
    write_scheduled(folder, now - dt.timedelta(days=1))
    check_backups(settings, home, {}, {}, found)
    ahead = write_scheduled(folder, now + dt.timedelta(days=400))
    check_backups(settings, home, {}, {}, found)
    assert "ahead" not in goods[0]
    assert goods[1].endswith(f"not removed before that day: {ahead.name}")


def test_what_keeps_a_backup_from_being_made_is_said(tmp_path: Path) -> None:
    phrase, no_folder = tmp_path / "phrase", tmp_path / "file"
    flags = {"backup.passphrase_file": str(phrase), "backup.folder": str(no_folder / "backups")}
    no_folder.touch()
    stats = {
        "last_backup": "2026-11-20T03:00:00.000Z",
        "failing_jobs": [{"job": "backup", "failure": "no room"}, {"job": "tidy", "failure": "no rights"}],
    }
    told = look(tmp_path, flags, stats, {"uptime_s": dt.timedelta(days=3).total_seconds()})
    said = str(told["backups"])
    assert f"(backup.passphrase_file) cannot be read: No such file or directory ({phrase})" in said
    assert "file/backups cannot be written to" in said
    assert "the last one failed: no room" in said
    assert "days old" in said
    assert told["jobs"] == "tidy failed: no rights"
    phrase.write_text("a secret of many words")
    phrase.chmod(0o644)
    stats = {"ignored_settings": ["backup.passphrase_file = 'x' is ignored, the daemon runs with None"]}
    said = str(look(tmp_path, {"backup.passphrase_file": str(phrase)}, stats, {})["backups"])
    assert "is ignored, the daemon runs with None" in said
    assert "open to others (mode 644)" in said


@pytest.mark.parametrize(
    ("device", "free", "fault"), [(7, 3 << 20, "only 3 MiB are free for"), (7, 1 << 40, None), (0, 3 << 20, None)]
)
def test_a_disk_of_backups_that_is_nearly_full_is_said(
    device: int, free: int, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path / "other disk", tmp_path.stat()
    folder.mkdir()
    real = Path.stat

    def stat(path: Path, **options: bool) -> Any:
        found = real(path, **options)
        return SimpleNamespace(st_dev=home.st_dev + device, st_mode=found.st_mode) if path == folder else found

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free if path == folder else 1 << 40))
    said = look(tmp_path, {"backup.folder": str(folder)}, {"last_backup": None}, {})["backups"]
    assert (fault in str(said)) if fault else (said is None)


def test_a_backup_is_not_called_old_by_a_daemon_that_has_just_begun(tmp_path: Path) -> None:
    assert look(tmp_path, {}, {"last_backup": "2020-01-01T03:00:00.000Z"}, {"uptime_s": 60})["backups"] is None


@pytest.mark.parametrize(
    ("http", "fault"),
    [(None, "restart it"), ({"error": "port 8765 is in use"}, "port 8765 is in use"), ({"url": "http://x"}, None)],
)
def test_http_that_is_not_served_is_a_fault(tmp_path: Path, http: Json | None, fault: str | None) -> None:
    told = look(tmp_path, {"http.port": "8765"}, {}, {} if http is None else {"http": http})
    assert (fault in str(told["http"])) if fault else (told["http"] is None)


def test_the_database_is_described_and_what_is_not_used_any_more(tmp_path: Path) -> None:
    (tmp_path / "mongodb").mkdir()
    settings = load_config(tmp_path / "no file", {}, {"mongodb.uri": "mongodb://db1.example/"})
    stats = {"mongodb": {"version": "8.0.4", "deployment": "replica set"}}
    said = describe_database(settings, Home(tmp_path, explicit=True), stats)
    assert said.startswith("works: version 8.0.4, replica set; ")
    assert said.endswith("mongodb holds what was stored before mongodb.uri was set, and is not used")


@pytest.mark.parametrize(
    ("inodes", "left", "short"),
    [(400, 12, ["12 inodes"]), (400, 1, ["1 inode"]), (10_000, 5_000, []), (0, 0, [])],  # 0 of 0: there is no limit
)
def test_a_disk_without_inodes_is_told_though_it_has_room(
    inodes: int, left: int, short: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_files=inodes, f_favail=left))
    assert find_shortages(tmp_path) == short
