"""Retention of scheduled backups: keep the newest of each of the last days, and of each of the last weeks.

Expired backups are removed after a new one is made, and also before it, in case settings were changed or a file could not be removed
last time. If there is no room for the new backup, those that it will replace are removed first. The newest intact one is always kept.

Only scheduled backups of this memory are ever removed: files with a backup's name whose head says "scheduled" and names this
database. Backups made on request or before a restore stay until somebody removes them.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from infinite_memory.backup.archive import read_head
from infinite_memory.backup.encryption import Secret
from infinite_memory.backup.folder import NAME, display_name, list_names
from infinite_memory.backup.service import Backup, Backups, Checks, verify_file
from infinite_memory.engine.types import Progress
from infinite_memory.errors import BackupError
from infinite_memory.file_work import in_file_thread
from infinite_memory.platform_files import find_shortage, open_regular

log = logging.getLogger(__name__)

SCHEDULED = "scheduled"
CLOCK_SLACK = dt.timedelta(hours=1)  # clocks of machines that share a folder differ
EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled backup of this memory."""

    file: Path
    created_at: dt.datetime


async def scheduled_backup(
    backups: Backups, zone: ZoneInfo, progress: Progress | None = None
) -> tuple[Backup, list[Path]]:
    """Make a scheduled backup and remove expired ones; returns both.

    Raises:
        BackupError: it could not be made; as many others remain as are to be kept, less any that were removed to make room for it.
    """
    settings, now = backups.settings, backups.now()
    rotated = partial(
        rotate, backups.folder, backups.database, settings.keep_daily, settings.keep_weekly, zone, backups.secret
    )
    removed = await rotated(until=now)
    try:
        backup = await backups.create(SCHEDULED, progress)
    except BackupError:
        if not (replaced := await rotated(until=now, makes_room=True)):
            raise
        removed += replaced
        backup = await backups.create(SCHEDULED, progress)
    return backup, [*removed, *await rotated(backup.file)]


async def rotate(
    folder: Path,
    database: str,
    keep_daily: int,
    keep_weekly: int,
    zone: ZoneInfo,
    secret: Secret | None,
    fresh: Path | None = None,
    *,
    until: dt.datetime | None = None,
    makes_room: bool = False,
) -> list[Path]:
    """Remove expired scheduled backups; returns their paths.

    Nothing is removed unless the newest of the remaining ones is intact.

    Args:
        fresh: The backup that was just written and read back. Files that claim to be newer were not written by this memory, or
            with a wrong clock: they are ignored, so that they neither stop the rotation nor are kept instead of others.
        until: Now, if no backup has been made yet; files that claim to be newer are ignored, too.
        makes_room: Whether to remove the backups that the one of *until* will replace before it is made; only if there is not
            enough room without that, and enough with it.
    """
    backups = await in_file_thread(lambda: scheduled_backups(folder, database))
    if fresh is not None:
        until = next((backup.created_at for backup in backups if backup.file == fresh), EARLIEST)
    if until is not None:
        backups = _not_after(backups, until)
    retained = choose_kept(backups, keep_daily, keep_weekly, zone)
    if makes_room and until is not None and backups:
        upcoming = Scheduled(folder, until)
        retained = choose_kept([*backups, upcoming], keep_daily, keep_weekly, zone) - {upcoming} | {backups[-1]}
        if not await in_file_thread(lambda: _makes_room(folder, backups, retained)):
            return []
    return await in_file_thread(lambda: _remove_surplus(backups, retained, secret, fresh))


def _makes_room(folder: Path, backups: Sequence[Scheduled], retained: set[Scheduled]) -> bool:
    """True if a backup as large as the last one does not fit now, but does once the expired ones are removed."""
    try:
        size = backups[-1].file.stat().st_size
        freed = sum(backup.file.stat().st_size for backup in backups if backup not in retained)
        return find_shortage(folder, size) is not None and find_shortage(folder, size - freed) is None
    except OSError:
        return False


def _remove_surplus(
    backups: Sequence[Scheduled], retained: set[Scheduled], secret: Secret | None, fresh: Path | None
) -> list[Path]:
    surplus = [backup for backup in backups if backup not in retained]
    if not surplus:
        return []
    newest = max(retained, key=lambda backup: backup.created_at).file
    if newest != fresh:
        try:
            verify_file(newest, Checks(secret))
        except BackupError as exc:
            log.warning("no old backup is removed: %s", exc, extra={"event": "rotation_refused"})
            return []
    removed = []
    for backup in surplus:
        try:
            backup.file.unlink()
            removed.append(backup.file)
        except OSError as exc:
            log.warning(
                "%s was not removed: %s", display_name(backup.file), exc.strerror, extra={"event": "rotation_failed"}
            )
    log.info("%d old backups were removed", len(removed), extra={"event": "backups_rotated"})
    return removed


def find_dated_ahead(folder: Path, now: dt.datetime) -> list[Path]:
    """Return the scheduled backups, of any database, that a clock which was ahead has dated; rotation leaves them until that day."""
    return [backup.file for backup in scheduled_backups(folder, None) if backup.created_at > now + CLOCK_SLACK]


def scheduled_backups(folder: Path, database: str | None) -> list[Scheduled]:
    """Return the scheduled backups of one database, or of all, oldest first; other files are ignored."""
    backups = []
    for file in list_names(folder):
        if NAME.fullmatch(file.name) is None:
            continue
        try:
            with open_regular(file, follow_links=False) as opened:  # we never write links
                head = read_head(opened, display_name(file))
            created_at = dt.datetime.fromisoformat(head["created_at"])
            created_at.astimezone(dt.UTC)  # rejects times of year 1 or 9999 that are out of range in UTC
        except (BackupError, OSError, KeyError, TypeError, ValueError, OverflowError):
            continue
        is_ours = database is None or head.get("database") == database
        if head.get("reason") == SCHEDULED and is_ours and created_at.tzinfo is not None:
            backups.append(Scheduled(file, created_at))
    return sorted(backups, key=lambda backup: backup.created_at)


def _not_after(backups: Sequence[Scheduled], instant: dt.datetime) -> list[Scheduled]:
    """Leave out backups that claim to be newer than *instant*, the time of the backup of this run."""
    for backup in backups:
        if backup.created_at > instant:
            log.warning(
                "%s says that it is newer than the backup of this run, and does not count for rotation",
                display_name(backup.file),
                extra={"event": "rotation_skipped"},
            )
    return [backup for backup in backups if backup.created_at <= instant]


def choose_kept(backups: Sequence[Scheduled], keep_daily: int, keep_weekly: int, zone: ZoneInfo) -> set[Scheduled]:
    """Choose the newest of each of the last *keep_daily* days of *zone* that have one, and of the last *keep_weekly* weeks."""
    days: dict[dt.date, Scheduled] = {}
    weeks: dict[tuple[int, int], Scheduled] = {}
    for backup in sorted(backups, key=lambda backup: backup.created_at):
        day = backup.created_at.astimezone(zone).date()
        days[day] = backup
        weeks[day.isocalendar()[:2]] = backup
    kept_days = [days[day] for day in sorted(days, reverse=True)[:keep_daily]]
    kept_weeks = [weeks[week] for week in sorted(weeks, reverse=True)[:keep_weekly]]
    return {*kept_days, *kept_weeks}
