"""Which scheduled backups stay."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from infinite_memory.backup.archive import BackupWriter
from infinite_memory.backup.retention import Scheduled, choose_kept, rotate, scheduled_backups
from infinite_memory.platform_files import RESERVE_BYTES
from tests.mongo_server import run

UTC = ZoneInfo("UTC")
START = dt.datetime(2026, 6, 1, 3, tzinfo=dt.UTC)  # a Monday


def nightly(count: int) -> list[Scheduled]:
    """Build a backup for each of some nights."""
    nights = [START + dt.timedelta(days=night) for night in range(count)]
    return [Scheduled(Path(f"{night:%Y%m%d}"), night) for night in nights]


def write_backup(folder: Path, night: int, reason: str = "scheduled", database: str = "mine") -> Path:
    """Write a real, empty backup."""
    created_at = START + dt.timedelta(days=night)
    file = folder / f"backup_{created_at:%Y-%m-%dT%H-%M-%SZ}.dump"
    with file.open("wb") as opened:
        head = {"reason": reason, "database": database, "created_at": created_at.isoformat()}
        BackupWriter(opened, head).finish({})
    return file


def test_seven_days_and_four_weeks_are_kept() -> None:
    kept = sorted(one.created_at.date() for one in choose_kept(nightly(60), 7, 4, UTC))
    daily = [dt.date(2026, 7, day) for day in range(24, 31)]
    assert kept == [dt.date(2026, 7, 12), dt.date(2026, 7, 19), *daily]  # the last two Sundays are among the days


def test_the_newest_of_a_day_is_kept() -> None:
    twice = [*nightly(1), Scheduled(Path("later"), START + dt.timedelta(hours=5))]
    assert {one.file.name for one in choose_kept(twice, 7, 4, UTC)} == {"later"}


def test_days_and_weeks_are_those_of_the_users_zone() -> None:
    auckland = ZoneInfo("Pacific/Auckland")
    late = dt.datetime(2026, 6, 7, 14, tzinfo=auckland)  # a Sunday, missed at night and made up for
    next_night = dt.datetime(2026, 6, 8, 2, 30, tzinfo=auckland)  # the same day in UTC
    both = [
        Scheduled(Path("sunday"), late.astimezone(dt.UTC)),
        Scheduled(Path("monday"), next_night.astimezone(dt.UTC)),
    ]
    assert choose_kept(both, 2, 0, auckland) == set(both)
    assert choose_kept(both, 0, 2, auckland) == set(both)
    assert {one.file.name for one in choose_kept(both, 2, 2, UTC)} == {"monday"}


async def test_old_backups_go_and_others_stay(tmp_path: Path) -> None:
    mine = [write_backup(tmp_path, night) for night in range(20)]
    others = [
        write_backup(tmp_path, 30, reason="asked"),
        write_backup(tmp_path, 31, reason="before_restore"),
        write_backup(tmp_path, 32, database="another"),
    ]
    (tmp_path / "backup_2026-01-01T00-00-00Z.dump").write_bytes(b"not ours")
    (tmp_path / "letter.dump").write_bytes(mine[0].read_bytes())
    removed = await rotate(tmp_path, "mine", 7, 0, UTC, None)
    assert removed == mine[:13]
    left = set(tmp_path.iterdir())
    assert {*mine[13:], *others, tmp_path / "letter.dump", tmp_path / "backup_2026-01-01T00-00-00Z.dump"} == left


async def test_nothing_goes_when_the_newest_is_damaged(tmp_path: Path) -> None:
    mine = [write_backup(tmp_path, night) for night in range(10)]
    mine[-1].write_bytes(mine[-1].read_bytes()[:-3])
    assert len(scheduled_backups(tmp_path, "mine")) == 10
    assert await rotate(tmp_path, "mine", 3, 0, UTC, None) == []
    assert all(file.exists() for file in mine)


async def test_before_a_backup_is_made_only_what_is_too_many_goes(tmp_path: Path) -> None:
    mine = [write_backup(tmp_path, night) for night in range(10)]
    ahead = write_backup(tmp_path, 400)
    now = START + dt.timedelta(days=10)
    assert await rotate(tmp_path, "mine", 7, 0, UTC, None, until=now) == mine[:3]
    assert await rotate(tmp_path, "mine", 7, 0, UTC, None, until=now) == []
    assert sorted(tmp_path.iterdir()) == [*mine[3:], ahead]


def test_only_where_there_is_no_room_goes_what_a_backup_will_replace_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [write_backup(tmp_path, night) for night in range(3)]
    size, now = mine[0].stat().st_size, START + dt.timedelta(days=3)

    def make_room(keep_daily: int, free: int) -> list[Path]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: (100 << 30, 0, RESERVE_BYTES + free))
        return run(rotate(tmp_path, "mine", keep_daily, 0, UTC, None, until=now, makes_room=True))

    assert make_room(3, size) == []  # there is room
    assert make_room(3, -1) == []  # it would not be enough
    assert make_room(3, size - 1) == mine[:1]
    assert make_room(3, size - 1) == []  # once alone, however often there is no room
    assert make_room(1, size - 1) == mine[1:2]
    assert make_room(1, size - 1) == []  # the last one stays
    assert list(tmp_path.iterdir()) == mine[2:]
