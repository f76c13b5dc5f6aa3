"""Where a home folder is and what lies in it; standard library only, for the thin client uses it too.

`INFINITE_MEMORY_HOME` decides everything. Without it the platform's data folder is the home.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HOME_VARIABLE = "INFINITE_MEMORY_HOME"
SOCKET_PATH_LIMIT = 100  # bytes; sockaddr_un holds 108 on Linux and 104 on macOS
_CHECKOUT = Path(__file__).resolve().parent.parent


class Home(NamedTuple):  # no dataclass: importing those costs the thin client 10 ms and 2 MB
    """The folders of one memory. ``explicit`` tells whether the user named the home."""

    path: Path
    explicit: bool

    @property
    def sidecars(self) -> Path:
        """Derived files; may be deleted at any time."""
        return self.path / "sidecars"

    @property
    def logs(self) -> Path:
        """Rotating logs; ids and counts, never memory text."""
        return self.path / "logs"

    @property
    def backups(self) -> Path:
        """Backup files. A checkout that runs without a named home keeps them in its own ``backups/``."""
        if not self.explicit and (_CHECKOUT / "setup.cfg").is_file() and (_CHECKOUT / "backups").is_dir():
            return _CHECKOUT / "backups"
        return self.path / "backups"

    @property
    def config_file(self) -> Path:
        """The user's settings; need not exist."""
        return self.path / "config.toml"

    def make(self) -> None:
        """Create the home and its folders, for the owner alone."""
        for folder in (self.path, self.sidecars, self.logs, self.backups):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and self.path.stat().st_mode & 0o077:
            self.path.chmod(0o700)


def find_home(environ: Mapping[str, str]) -> Home:
    """Tell which home *environ* names; nothing is created."""
    default = _platform_data_folder(environ)
    if named := environ.get(HOME_VARIABLE):
        path = Path(named).expanduser().absolute()
        # The daemon of the default home is started with its path in the variable: that is the same home, not a named one.
        return Home(path, explicit=path != default)
    return Home(default, explicit=False)


def make_own_folder(folder: Path) -> None:
    """Make a private folder in a place that all share, where somebody else may have put another thing of that name.

    Raises:
        OSError: it cannot be made, or what is there is no folder (a link to one, say) or belongs to somebody else.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()  # a link could be turned elsewhere between this look and the use
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, f"{folder} should be a folder of this user, and is not")
    folder.chmod(0o700)


def place_of_socket(folder: Path, name: str) -> Path:
    """Choose the folder of a socket called *name*: *folder*, or one of its own in the user's runtime folder if the path is too long.

    Raises:
        OSError: no path is short enough.
    """
    if len(os.fsencode(folder / name)) <= SOCKET_PATH_LIMIT:
        return folder
    import hashlib  # here: only some need these, and a client is to be small
    import tempfile

    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    mine = f"infinite-memory-{os.getuid()}"
    bases = [Path(base) for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if base]
    for base in (base for base in bases if base.is_absolute() and base.is_dir()):
        # The second where somebody else took the first: all may write here.
        for place in (base / mine / digest, base / f"{mine}-{digest}"):
            fits = len(os.fsencode(place / name)) <= SOCKET_PATH_LIMIT
            if fits and _is_free_or_own(place.parent if place.parent != base else place):
                return place
    raise OSError(
        errno.ENAMETOOLONG,
        f"there is no path for a socket of {folder}; set XDG_RUNTIME_DIR to a short path of your own",
    )


def _is_free_or_own(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def make_socket_folder(folder: Path) -> None:
    """Make the folder that `place_of_socket` chose in the user's runtime folder.

    Raises:
        OSError: as in `make_own_folder`.
    """
    if folder.parent.name == f"infinite-memory-{os.getuid()}":
        make_own_folder(folder.parent)
    make_own_folder(folder)


def remove_socket_folder(folder: Path) -> None:
    """Take away a folder that `place_of_socket` chose in the user's runtime folder, if nothing is in it any more."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        if folder.parent.name == f"infinite-memory-{os.getuid()}":
            folder.parent.rmdir()  # unless other homes have theirs in it


def _platform_data_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "InfiniteMemory"
    if os.name == "nt":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "InfiniteMemory"
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "infinite-memory"
