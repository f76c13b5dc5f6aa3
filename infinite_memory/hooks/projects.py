"""The project of a session: its folder, the scope of its memories, and what a file in the folder turns off.

A scope is named after its folder, and the engine treats names that differ by case, Unicode form or spaces as equal. Two such folders
are still two projects: the one that the scope is named after has it; the other's scope gets a suffix after ``//``, which no path contains.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.engine.engine import Engine
from infinite_memory.errors import without_surrogates
from infinite_memory.normalization import normalize
from infinite_memory.platform_files import open_regular

MAX_SCOPE_CHARS = 200
PREFIX = "project "
MARK_CHARS = 8
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Project:
    """A project: its folder, the scope of its memories, and what its own file turns off."""

    root: Path
    scope: str
    captures: bool = True
    recalls: bool = True


PROJECT_FILE = ".infinite-memory.toml"
MAX_SETTINGS_BYTES = 64 * 1024


def find_project(cwd: str) -> Project:
    """Return the project of a folder.

    It is the repository that contains it (a worktree belongs to its repository), else the folder above that has a project file, else the
    folder itself.
    """
    import tomllib

    folder = Path(cwd)
    around = (folder, *folder.parents)
    repository = next((folder for folder in around if (folder / ".git").exists()), None)
    inside = around if repository is None else around[: around.index(repository) + 1]
    marked = next((folder for folder in inside if (folder / PROJECT_FILE).is_file()), None)
    settings: Any = {}
    if marked is not None:
        try:
            settings = tomllib.loads(_read_small(marked / PROJECT_FILE))
        except (OSError, ValueError, RecursionError):  # an unreadable file may have turned it off
            settings = {"capture": {"enabled": False}, "recall": {"enabled": False}}
    root = _repository(repository or marked or folder)
    return Project(root, _scope_name(root), *(_is_enabled(settings, name) for name in ("capture", "recall")))


def _repository(root: Path) -> Path:
    """Return the folder of a worktree's repository; for any other folder, the folder itself.

    A ``.git`` file is trusted only if the repository points back to it, as git itself checks: any archive can contain such a file,
    and would be shown another project's memories.
    """
    link = root / ".git"
    try:
        gitdir = _read_small(link).partition("gitdir:")[2].strip() if link.is_file() else ""
        git = (root / gitdir).resolve() if gitdir else root
        if not gitdir or git.parent.name != "worktrees" or git.parents[1].name != ".git":
            return root
        is_its_own = Path(_read_small(git / "gitdir").strip()).resolve() == link.resolve()
    except (OSError, ValueError):
        return root
    return git.parents[2] if is_its_own else root


def _read_small(file: Path) -> str:
    """Return the text of a settings file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not UTF-8, or larger than `MAX_SETTINGS_BYTES`.
    """
    with open_regular(file) as source:
        data = source.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise ValueError(f"{file.name} is too large")
    return data.decode("utf-8")


def _scope_name(root: Path) -> str:
    """Return a project's scope name: its folder as the user would write it."""
    written = str(root)
    home = str(Path.home())
    if written.startswith(home + os.sep):
        written = "~" + written[len(home) :]
    if len(written) > MAX_SCOPE_CHARS:
        written = f"{_digest(written)[:8]}…{written[-MAX_SCOPE_CHARS:]}"
    return f"{PREFIX}{written}"


async def find_scope(engine: Engine, project: Project) -> str:
    """Return the name of a project's scope, always the same for a folder; the scope may not exist.

    The suffix is keyed with the database's secret, so nobody can craft a folder that gets another's suffix.
    """
    plain = project.scope
    is_name = plain == normalize("NFC", plain.strip()) and plain == _printable(plain)
    bearer = await engine.scopes.find(plain) if plain == _printable(plain) else None
    if bearer is not None and (bearer.name == plain or _is_same_folder(bearer.name, project.root)):
        return bearer.name
    ids = await engine.memories.make_ids(f"hook-project/{project.root}")
    marked = [f"{_printable(plain).strip()}//{project_id[:MARK_CHARS]}" for project_id in ids]
    for name in marked:  # the scope with the plain name may be gone since, or the secret may have changed
        if await engine.scopes.find(name) is not None:
            return name
    return plain if bearer is None and is_name else marked[0]


def _printable(text: str) -> str:
    """Return *text* without characters that are invalid in scope names."""
    return without_surrogates(_UNPRINTABLE.sub("\ufffd", text))


def _is_same_folder(name: str, root: Path) -> bool:
    """True if a scope is named after *root* in another spelling, on a file system where both are the same folder."""
    try:
        return Path(name.removeprefix(PREFIX)).expanduser().samefile(root)
    except (OSError, ValueError, RuntimeError):
        return False


def _is_enabled(settings: Any, section: str) -> bool:
    """True unless the project's file turns *section* off; any value but true counts as off."""
    table = settings.get(section, {})
    return isinstance(table, dict) and table.get("enabled", True) is True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
