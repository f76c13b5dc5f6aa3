"""From where assistants may import: the folders of the setting ``import.folders``, and nothing outside them.

Whoever asks over MCP, HTTP or the action loop may have been misled, so that a path outside is refused by its words alone, before
anything is looked at: the answer is the same whether or not something is there. Inside, no link is followed (`formats.sources`). The
command line is free to name any path, for its user can read it anyway.
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
"""The folder in the home, and none of these, of files that were dropped onto the page: no assistant can name one."""
UPLOAD_NAME = re.compile(r"upload-[0-9a-f]{16}")
"""Names of the folders in it, one for each file. Whatever is called otherwise is not of this program."""

_SEPARATORS = re.compile(f"[,{re.escape(os.pathsep)}]")


@dataclass(frozen=True, slots=True)
class ImportFolders:
    """The folders, absolute. ``is_default`` tells that there is one, the home's own, which is made when it is needed."""

    folders: tuple[Path, ...]
    is_default: bool = False

    @classmethod
    def of(cls, setting: str | None, home: Path) -> ImportFolders:
        """Read the setting; relative folders lie in the home."""
        named = [part.strip() for part in _SEPARATORS.split(setting or "") if part.strip()]
        folders = tuple(Path(os.path.normpath(home / Path(part).expanduser())) for part in named)
        return cls(folders) if folders else cls((home / "imports",), is_default=True)

    def locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return the folder in which *path* lies, and the way from there. A relative path is one within the folders.

        Raises:
            InvalidRequestError: it lies in none of them.
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
        except (RuntimeError, ValueError):  # of a user who has no home
            return
        if "\0" in path:
            return
        for folder in self.folders:
            # A path that the user copied may name the folder by another spelling, through a link.
            spellings = dict.fromkeys((folder, Path(os.path.realpath(folder))))
            for base in (folder, folder.parent):
                inside = Path(os.path.normpath(base / expanded))
                for spelling in spellings:
                    if inside.is_relative_to(spelling):
                        yield Path(os.path.realpath(folder)), inside.relative_to(spelling).parts


def locate_anywhere(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder and name of any path, links to it resolved: for who may read it anyway.

    Raises:
        InvalidRequestError: it can be no path.
    """
    try:
        real = Path(os.path.realpath(path.expanduser()))
    except (ValueError, RuntimeError, OSError):
        raise InvalidRequestError("path", "is no path of a file") from None
    return real.parent, (real.name,) if real.name else ()
