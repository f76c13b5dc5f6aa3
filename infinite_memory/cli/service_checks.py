"""Service checks of `doctor`: backups, nightly jobs, HTTP port and database.

A failing backup or an occupied port does not stop memories from being stored, so nothing else in the daemon fails, and it is only
reported here.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.errors import BackupError, format_count
from infinite_memory.paths import Home

if TYPE_CHECKING:
    from infinite_memory.cli.hook_checks import AddFinding
    from infinite_memory.config import Config

Json = dict[str, Any]
MAX_AGE = dt.timedelta(days=2)  # of the last backup, if the daemon has run for that long
BACKUP = "backup"
MAX_NAMED = 3  # backups
FREE_BYTES = 500 * 1024 * 1024  # below this `doctor` reports a shortage
FREE_INODES = 1000  # likewise: saving the index creates about 25 files, and a scope has four files in MongoDB


def check_backups(settings: Config, home: Home, stats: Json, status: Json, add_finding: AddFinding) -> None:
    """Check that backups are made, can be written, and are encrypted as configured; and that no other job fails.

    Args:
        stats: The reply of `get_memory_stats`; empty if it failed.
        status: The daemon's status, likewise.
    """
    folder = home.backup_folder(settings.backup.folder)
    failing = {job["job"]: job["failure"] for job in stats.get("failing_jobs", ())}
    faults = [
        *_find_lock_faults(settings, stats),
        *_find_folder_faults(folder, home.path),
        *([f"the last one failed: {failing.pop(BACKUP)}"] if BACKUP in failing else []),
        *_find_age_faults(settings, stats, status),
    ]
    last = stats.get("last_backup") or "none yet"
    ahead = _describe_dated_ahead(folder)
    add_finding(
        "backups",
        "; ".join(faults + ahead) if faults else None,
        "; ".join([f"last: {last}, {_describe_lock(settings)}, in {folder}", *ahead]),
    )
    if stats:
        others = "; ".join(f"{name} failed: {failure}" for name, failure in failing.items())
        add_finding("jobs", others or None, "none failed")


def check_http(settings: Config, status: Json, add_finding: AddFinding) -> None:
    """Check that HTTP is served if the settings ask for it."""
    http = status.get("http")
    if http is None and settings.http.port is None:
        return
    if http is None:
        add_finding("http", f"http.port = {settings.http.port} was set after the daemon began; restart it", "")
    else:
        add_finding("http", describe_http_fault(status), str(http.get("url")))


def describe_http_fault(status: Json) -> str | None:
    """Return why HTTP is not served although it is configured; None if it is served or not configured."""
    error = (status.get("http") or {}).get("error")
    return None if error is None else f"there is no HTTP: {error}"


def describe_database(settings: Config, home: Home, stats: Json) -> str:
    """Describe a working database, from the statistics if there are any."""
    server = stats.get("mongodb")
    description = "works" if server is None else f"works: version {server['version']}, {server['deployment']}"
    unused = home.path / "mongodb"
    if settings.mongodb.uri and unused.is_dir():
        description += f"; {unused} holds what was stored before mongodb.uri was set, and is not used"
    return description


def _find_lock_faults(settings: Config, stats: Json) -> list[str]:
    from infinite_memory.backup.encryption import find_secret

    try:
        find_secret(settings.backup)
    except BackupError as exc:
        return [f"{exc} ({settings.backup.key_file or settings.backup.passphrase_file})"]
    names = ("backup.key_file", "backup.passphrase_file", "backup.folder")
    others = [note for note in stats.get("ignored_settings", ()) if note.startswith(names)]
    file = settings.backup.key_file or settings.backup.passphrase_file
    if file is not None and os.name == "posix" and (mode := Path(file).expanduser().stat().st_mode & 0o777) & 0o077:
        others.append(f"{file} is open to others (mode {mode:o}); chmod 600 it")
    return others


def _find_folder_faults(folder: Path, home: Path) -> list[str]:
    """Return why the folder is not writable or almost full; a missing one is created when needed."""
    existing = folder
    while not os.access(existing, os.F_OK) and existing != existing.parent:
        existing = existing.parent
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        return [f"{folder} cannot be written to"]
    if existing.stat().st_dev == home.stat().st_dev:
        return []  # the `disk` check covers that one
    return [f"only {short} are free for {folder}" for short in find_shortages(existing)]


def _describe_dated_ahead(folder: Path) -> list[str]:
    """Return a note on backups that a wrong clock dated ahead: they are whole, so this is not a fault; rotation leaves them."""
    from infinite_memory.backup.retention import find_dated_ahead

    if not (ahead := find_dated_ahead(folder, dt.datetime.now(dt.UTC))):
        return []
    return [
        f"{format_count(len(ahead), 'scheduled backup')} dated ahead, by a clock that was wrong then or is now, not removed before that"
        f" day: {', '.join(file.name for file in ahead[:MAX_NAMED])}{', …' if len(ahead) > MAX_NAMED else ''}"
    ]


def find_shortages(folder: Path) -> list[str]:
    """Return what is short on a folder's disk: space, or inodes, without which no file can be created however much space is free."""
    short = []
    if (free := shutil.disk_usage(folder).free) < FREE_BYTES:
        short.append(f"{free / 2**20:,.0f} MiB")
    if (inodes := count_free_inodes(folder)) is not None and inodes < FREE_INODES:
        short.append(format_count(inodes, "inode"))
    return short


def count_free_inodes(folder: Path) -> int | None:
    """Return how many files can still be created on a folder's disk; None if its file system has no such limit."""
    if os.name != "posix":
        return None
    status = os.statvfs(folder)
    return status.f_favail if status.f_files else None


def _find_age_faults(settings: Config, stats: Json, status: Json) -> list[str]:
    last = stats.get("last_backup")
    if last is None or not settings.backup.time or status.get("uptime_s", 0) < MAX_AGE.total_seconds():
        return []  # a missed backup is made soon after a start
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(last)
    return [f"the last one is {age.days} days old"] if age > MAX_AGE else []


def _describe_lock(settings: Config) -> str:
    return "locked" if settings.backup.key_file or settings.backup.passphrase_file else "not locked"
