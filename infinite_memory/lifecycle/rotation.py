"""Which scheduled backups are kept: the newest of each of the last days, and of each of the last weeks.

Only what this memory wrote by schedule is ever removed: a file that bears our name, whose head says "scheduled" and names this
database. Backups that somebody asked for, or that were made before a restore, stay until somebody removes them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from infinite_memory.engine.parts import Parts, Progress
from infinite_memory.errors import BackupError
from infinite_memory.lifecycle.backup import Backup, Backups, verify_file
from infinite_memory.lifecycle.ciphers import Secret
from infinite_memory.lifecycle.folder import NAME, list_names
from infinite_memory.lifecycle.format import read_head

log = logging.getLogger(__name__)

SCHEDULED = "scheduled"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled backup of this memory."""

    file: Path
    created_at: dt.datetime


async def scheduled_backup(
    parts: Parts, backups: Backups, zone: ZoneInfo, progress: Progress | None = None
) -> tuple[Backup, list[Path]]:
    """Make a backup that counts as scheduled, then remove those that are too old; returns both.

    Raises:
        BackupError: it could not be made; nothing was removed.
    """
    made = await backups.create(SCHEDULED, progress)
    settings = parts.config.backup
    removed = await rotate(
        backups.folder, parts.store.identity, settings.keep_daily, settings.keep_weekly, zone, backups.secret
    )
    return made, removed


async def rotate(
    folder: Path, database: str, keep_daily: int, keep_weekly: int, zone: ZoneInfo, secret: Secret | None
) -> list[Path]:
    """Remove scheduled backups that are not kept; returns them.

    Nothing is removed unless the newest of those that stay is whole.
    """
    return await asyncio.to_thread(_rotate, folder, database, keep_daily, keep_weekly, zone, secret)


def _rotate(
    folder: Path, database: str, keep_daily: int, keep_weekly: int, zone: ZoneInfo, secret: Secret | None
) -> list[Path]:
    found = scheduled_backups(folder, database)
    kept = choose_kept(found, keep_daily, keep_weekly, zone)
    surplus = [one for one in found if one not in kept]
    if not surplus:
        return []
    try:
        verify_file(max(kept, key=lambda one: one.created_at).file, secret)
    except BackupError as problem:
        log.warning("no old backup is removed: %s", problem, extra={"event": "rotation_refused"})
        return []
    removed = []
    for one in surplus:
        try:
            one.file.unlink()
            removed.append(one.file)
        except OSError as problem:
            log.warning("%s was not removed: %s", one.file.name, problem, extra={"event": "rotation_failed"})
    log.info("%d old backups were removed", len(removed), extra={"event": "backups_rotated"})
    return removed


def scheduled_backups(folder: Path, database: str) -> list[Scheduled]:
    """List the scheduled backups of one database, oldest first; whatever else lies there is none of them."""
    found = []
    for file in list_names(folder):
        if NAME.fullmatch(file.name) is None:
            continue
        try:
            head = read_head(file)
            created_at = dt.datetime.fromisoformat(head["created_at"])
        except (BackupError, KeyError, TypeError, ValueError):
            continue
        if head.get("reason") == SCHEDULED and head.get("database") == database and created_at.tzinfo is not None:
            found.append(Scheduled(file, created_at))
    return sorted(found, key=lambda one: one.created_at)


def choose_kept(found: Sequence[Scheduled], keep_daily: int, keep_weekly: int, zone: ZoneInfo) -> set[Scheduled]:
    """Choose the newest of each of the last *keep_daily* days that have one, and of the last *keep_weekly* weeks."""
    days: dict[dt.date, Scheduled] = {}
    weeks: dict[tuple[int, int], Scheduled] = {}
    for one in sorted(found, key=lambda one: one.created_at):
        day = one.created_at.astimezone(zone).date()
        days[day] = one
        weeks[day.isocalendar()[:2]] = one
    kept_days = [days[day] for day in sorted(days, reverse=True)[:keep_daily]]
    kept_weeks = [weeks[week] for week in sorted(weeks, reverse=True)[:keep_weekly]]
    return {*kept_days, *kept_weeks}
