"""The files of this program in a home and in the cache, by name: `uninstall` removes these and nothing else.

Why by name: ``INFINITE_MEMORY_HOME`` and ``XDG_CACHE_HOME`` may name folders that also hold other files, or each other. A folder is
removed when it is empty; anything else in it stays and is listed.
"""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from infinite_memory.backup.archive_format import MAGIC
from infinite_memory.backup.folder import NAME, PART_NAME, SUFFIX
from infinite_memory.cli import editor, open_page
from infinite_memory.embedding.manifest import is_exported
from infinite_memory.mongod.first_start import ASIDE_NAME
from infinite_memory.paths import PAGE_PORT_FILE
from infinite_memory.platform_files import open_regular
from infinite_memory.transfer.import_folders import UPLOAD_NAME, UPLOADS

HOME_FILES = (
    "config.toml", "backup.lock", "daemon.json", "daemon.lock", "daemon.pid", "daemon.restarting", "daemon.sock", "daemon.starting",
    "daemon.tmp", "forgotten.json", "forgotten.json.*", "http.token", ".http.token*", "http-*.sock",
    PAGE_PORT_FILE, f"{PAGE_PORT_FILE}.*", open_page.FILE, f"{editor.UNSAVED}*.txt",
)  # fmt: skip
FOLDER_FILES = {
    "logs": ("infinite-memory.log*", "mongod.log*", "mongod.out*", "daemon.out*"),
    "hooks": (
        "control.json",
        "control.lock",
        ".control.json.*.tmp",
        "events",
        "recalled",
        "sessions",
        "spool",
        "stored",
    ),
    "sidecars": ("*",),
}
"""Files, and folders that only this program writes to, in subfolders of the home."""
_EXPORT = re.compile(r"export_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?\.(jsonl|md|csv)")
_BESIDE_MODEL = re.compile(r"\..+(\.lock|\.work|-[a-z0-9_]{8}(-old)?)")
MONGODB_MARK = "owner.lock"
MARKS = (f"mongodb/{MONGODB_MARK}", "logs/infinite-memory.log", "sidecars/generation-*/header.json")
"""Files that only this program writes: every used home has at least one of them."""


class Removal(NamedTuple):
    """What to remove: files, whole folders, folders to remove if they are empty then, and the other contents of those, which stay."""

    parts: list[Path]
    folders: list[Path]
    others: list[Path]


def is_home(folder: Path) -> bool:
    """True if *folder* is or was the home of a memory."""
    return any(next(folder.glob(mark), None) is not None for mark in MARKS)


def holds_home(folder: Path, home: Path) -> bool:
    """True if *folder* is or contains *home* or any other home."""
    if home.resolve().is_relative_to(folder.resolve()) or is_home(folder):
        return True
    return any(is_home(path) for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())


def find_home_parts(home: Path) -> Removal:
    """Return what to remove from a home: documents, indexes, logs, backups, settings and the daemon's files."""
    home = home.resolve()
    parts = [path for pattern in HOME_FILES for path in home.glob(pattern) if not _is_folder(path)]
    folders = [home]
    for name, patterns in FOLDER_FILES.items():
        if _is_folder(home / name):
            parts += [path for pattern in patterns for path in (home / name).glob(pattern)]
            folders.insert(0, home / name)
    if _is_folder(home / "backups"):
        parts += filter(_is_backup, (home / "backups").iterdir())
        folders.insert(0, home / "backups")
    if _is_folder(home / UPLOADS):
        parts += [
            folder for folder in (home / UPLOADS).iterdir() if UPLOAD_NAME.fullmatch(folder.name) and _is_folder(folder)
        ]
        folders.insert(0, home / UPLOADS)
    if _is_folder(home / "imports"):  # its contents were put there by the user
        folders.insert(0, home / "imports")
    if (home / "mongodb" / MONGODB_MARK).is_file():
        parts += [folder for folder in (home / "mongodb", home / ASIDE_NAME) if _is_folder(folder)]
    return _make_removal(parts, folders)


def find_cache_parts(cache: Path, home: Path) -> Removal:
    """Return what to remove from the cache: models, complete or not; never a folder that is or contains a home."""
    models = cache / "models"
    folders = [folder for folder in (models, cache) if _is_folder(folder) and not holds_home(folder, home)]
    entries = models.iterdir() if _is_folder(models) else ()
    parts = [path for path in entries if _is_model(path) and not (path.is_dir() and holds_home(path, home))]
    return _make_removal(parts, folders)


def _make_removal(parts: list[Path], folders: list[Path]) -> Removal:
    going = {*parts, *folders}
    return Removal(parts, folders, sorted(path for folder in folders for path in folder.iterdir() if path not in going))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _is_backup(path: Path) -> bool:
    if _is_folder(path):
        return False
    if any(pattern.fullmatch(path.name) for pattern in (NAME, PART_NAME, _EXPORT)):
        return True
    if path.suffix != SUFFIX:
        return False
    try:
        with open_regular(path, follow_links=False) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _is_model(path: Path) -> bool:
    """True for a model's folder, and for the hidden temporary files next to one."""
    if path.is_symlink():
        return False
    return is_exported(path) or _BESIDE_MODEL.fullmatch(path.name) is not None


def remove(removal: Removal) -> Iterator[str]:
    """Remove the parts, then the empty folders; yield a message for each failure."""
    for path in removal.parts:
        try:
            if _is_folder(path):
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as exc:
            yield f"{exc.filename or path} cannot be removed: {exc.strerror or exc}"
    for folder in removal.folders:
        try:
            if not any(folder.iterdir()):
                folder.rmdir()
        except OSError as exc:
            yield f"{folder} cannot be removed: {exc.strerror or exc}"
