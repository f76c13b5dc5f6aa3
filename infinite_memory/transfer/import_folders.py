"""The folders that assistants may import from: those of the setting ``import.folders``, and nothing outside them.

A caller over MCP, HTTP or the action loop may have been misled, so a path outside is refused by its text alone, before the disk
is accessed: the answer is the same whether or not something exists there. Inside, no link is followed (`formats.sources`). The command
line may name any path, because its user can read it anyway.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infinite_memory.errors import InvalidRequestError

UPLOADS = "uploads"
"""The folder in the home for files dropped onto the page. It is not one of the import folders: no assistant can name a file in it."""
UPLOAD_NAME = re.compile(r"upload-[0-9a-f]{16}")
"""Names of the folders in it, one for each file. Anything with another name was not made by this program."""

_SEPARATORS = re.compile(f"[,{re.escape(os.pathsep)}]")


@dataclass(frozen=True, slots=True)
class ImportFolders:
    """The folders, absolute. ``is_default`` means the home's own folder alone, which is created when needed."""

    folders: tuple[Path, ...]
    is_default: bool = False

    @classmethod
    def of(cls, setting: str | None, home: Path) -> ImportFolders:
        """Read the setting; relative folders are inside the home."""
        named = [name.strip() for name in _SEPARATORS.split(setting or "") if name.strip()]
        folders = tuple(Path(os.path.normpath(home / Path(name).expanduser())) for name in named)
        return cls(folders) if folders else cls((home / "imports",), is_default=True)

    def locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return the folder that contains *path*, and the path relative to it. A relative *path* is looked up in the folders.

        Raises:
            InvalidRequestError: it is in none of them.
        """
        if self.is_default:
            with contextlib.suppress(OSError):
                self.folders[0].mkdir(mode=0o700, exist_ok=True)
        places = list(self._places(path))
        if not places:
            named = ", ".join(map(str, self.folders))
            raise InvalidRequestError(
                "path",
                f"imports asked for in this way come from these folders alone: {named}. The setting import.folders names them; "
                "the command line reads any path: infinite-memory import PATH",
            )
        return next((position for position in places if os.path.lexists(position[0].joinpath(*position[1]))), places[0])

    def _places(self, path: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
        try:
            expanded = Path(path).expanduser()
        except (RuntimeError, ValueError):  # for a user without a home folder
            return
        if "\0" in path:
            return
        for folder in self.folders:
            # A copied path may reach the folder through a link.
            spellings = dict.fromkeys((folder, Path(os.path.realpath(folder))))
            for base in (folder, folder.parent):
                inside = Path(os.path.normpath(base / expanded))
                for spelling in spellings:
                    if inside.is_relative_to(spelling):
                        yield Path(os.path.realpath(folder)), inside.relative_to(spelling).parts


def locate_anywhere(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder and name of any path, links resolved: for callers who may read it anyway.

    Raises:
        InvalidRequestError: it is not a valid path.
    """
    try:
        real = Path(os.path.realpath(path.expanduser()))
    except (ValueError, RuntimeError, OSError):
        raise InvalidRequestError("path", "is no path of a file") from None
    return real.parent, (real.name,) if real.name else ()
