"""Location and layout of a home folder. Standard library only: the thin client uses it too.

`INFINITE_MEMORY_HOME` sets the home; the default is the platform's data folder.
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

from infinite_memory.errors import ConfigError

HOME_VARIABLE = "INFINITE_MEMORY_HOME"
PAGE_PORT_FILE = "page.port"  # the last free port found by `open`
SOCKET_PATH_LIMIT = 100  # bytes; sockaddr_un holds 108 on Linux and 104 on macOS
_CHECKOUT = Path(__file__).resolve().parent.parent
CHECKOUT_CONFIG_FILE = _CHECKOUT / "config" / "infinite-memory.toml"
"""Settings of a checkout, overridden by those of its homes; an installed package has no such file."""


class Home(NamedTuple):  # not a dataclass: importing `dataclasses` costs the thin client 10 ms and 2 MB
    """The folders of one memory. ``explicit``: whether the user named the home."""

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
        """Backup files. A checkout without a named home keeps them in its own ``backups/``."""
        if not self.explicit and (_CHECKOUT / "setup.cfg").is_file() and (_CHECKOUT / "backups").is_dir():
            return _CHECKOUT / "backups"
        return self.path / BACKUPS

    def backup_folder(self, named: str | None) -> Path:
        """Return the folder of the setting ``backup.folder``, relative to the home, or `backups` if it is not set."""
        return self.path / Path(named).expanduser() if named else self.backups

    @property
    def config_file(self) -> Path:
        """The user's settings; need not exist."""
        return self.path / "config.toml"

    def make(self) -> None:
        """Create the home and its folders, private to the owner."""
        make_home(self.path)
        for folder in (self.sidecars, self.logs, self.backups):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def find_home(environ: Mapping[str, str]) -> Home:
    """Return the home that *environ* names; nothing is created."""
    try:
        default = _platform_data_folder(environ)
    except RuntimeError:  # neither HOME nor a passwd entry, as in some containers
        default = None
    named = environ.get(HOME_VARIABLE)
    if named:
        try:
            path = Path(named).expanduser().absolute()
        except (RuntimeError, OSError) as exc:
            raise ConfigError(f"{HOME_VARIABLE} = {named!r}: write the path in full, {exc}") from None
        # The daemon of the default home is started with its path in the variable: that is not a named home.
        return Home(path, explicit=path != default)
    if default is None:
        raise ConfigError(
            f"this user has no home folder (HOME is not set): set {HOME_VARIABLE} to the folder of the memory"
        )
    return Home(default, explicit=False)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder, mainly for models, shared by all homes of a user; nothing is created.

    Raises:
        ConfigError: the user has no home folder, and no home is named.
    """
    try:
        return _platform_cache_folder(environ)
    except RuntimeError:  # as in some containers
        return find_home(environ).path / "cache"


BACKUPS = "backups"
"""The one part of a home that may belong to another user: if a secret is set, writers there cannot forge a backup."""


def make_home(path: Path) -> None:
    """Create a home, or make an existing one private, before anything in it is used.

    Raises:
        OSError: it cannot be created, or is refused as by `check_home`.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_home_owner(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o700)
    check_home(path)


def check_home(path: Path) -> None:
    """Refuse a home that belongs to another user, or contains something of theirs.

    They can have put it there while the home was writable for others: a settings file, a token that they know, a link. A home that does
    not exist yet is accepted.

    Raises:
        PermissionError: it, or something in it, belongs to another user.
    """
    check_home_owner(path)
    if os.name != "posix":
        return
    try:
        own, parts = (0, os.geteuid(), path.stat().st_uid), list(path.iterdir())
    except OSError:
        return
    for entry in parts:
        with contextlib.suppress(FileNotFoundError):  # a running daemon creates and removes files
            if entry.name != BACKUPS and (uid := entry.lstat().st_uid) not in own:
                raise PermissionError(errno.EPERM, f"{entry.name!r} in it belongs to another user ({_user_name(uid)})")


def check_home_owner(path: Path) -> None:
    """Refuse a home that belongs to another user; one that does not exist yet is accepted.

    Root may use a home of another user (a folder mounted into a container, for example) if only root could have put it there.

    Raises:
        PermissionError: it belongs to another user.
    """
    if os.name != "posix":
        return
    try:
        status = path.stat()
    except OSError:
        return
    if status.st_uid == os.geteuid():
        return
    folder = path.resolve().parent
    if os.geteuid() == 0 and is_safe_folder(folder) and not folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    raise PermissionError(errno.EPERM, f"it belongs to another user ({_user_name(status.st_uid)})")


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_safe_folder(folder: Path) -> bool:
    """True if no other user except root can replace this user's files in *folder*, including by way of a parent folder."""
    own = (0, os.geteuid())
    try:
        real = folder.resolve(strict=True)
        statuses = [path.stat() for path in (real, *real.parents)]
    except OSError:
        return False
    for status in statuses:
        by_all = status.st_mode & stat.S_IWOTH
        by_group = status.st_mode & stat.S_IWGRP and status.st_uid != os.geteuid()  # in its own, the user decides
        if status.st_uid not in own or ((by_all or by_group) and not status.st_mode & stat.S_ISVTX):
            return False
    return True


def check_private_folder(folder: Path) -> None:
    """Refuse a folder in which another user except root could replace, or create first, files that this user executes.

    Raises:
        PermissionError: it belongs to another user, others may write to it, or a parent folder lets them replace it.
        OSError: it does not exist.
    """
    if os.name != "posix":
        return
    # The sticky bit keeps others from replacing files, not from creating them first.
    if folder.stat().st_mode & stat.S_IWOTH or not is_safe_folder(folder):
        raise PermissionError(
            errno.EPERM, "another user of this machine can write to it, or to a folder above it", str(folder)
        )


def make_own_folder(folder: Path) -> None:
    """Create a private folder in a shared folder, where another user may have created something of that name.

    Raises:
        OSError: it cannot be created, or the name is taken by something else than a folder (a link to one, for example), or by a folder
            of another user.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    if os.name != "posix":  # its access list controls who may write to it
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise PermissionError(errno.EPERM, f"{folder} should be a folder, and is not", str(folder))
        return
    if not _is_own_folder(folder):
        raise PermissionError(errno.EPERM, f"{folder} should be a folder of this user, and is not", str(folder))
    # By descriptor: a link could replace it between check and use.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"{folder} should be a folder of this user, and is not", str(folder))
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def check_socket(path: Path, home: Path) -> None:
    """Refuse a socket that another user may have created, before anything is sent over it.

    Raises:
        OSError: it is not a socket of this user, or is in a folder that others can write to.
    """
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"{path} is no socket of this user")
    folder = path.parent
    if folder == home:
        check_home(home)
        return
    folders = [folder, *([folder.parent] if folder.parent.name == _shared_name() else [])]
    for directory in folders:
        if not _is_own_folder(directory) or directory.lstat().st_mode & 0o077:
            raise PermissionError(errno.EPERM, f"{directory} is no private folder of this user")
    if not is_safe_folder(folders[-1].parent):
        raise PermissionError(errno.EPERM, f"{folders[-1].parent} is a folder in which others can exchange files")


def place_of_socket(folder: Path, name: str) -> Path:
    """Return the folder for a socket called *name*: *folder*, or a separate one in the user's runtime folder if the path is too long.

    Raises:
        OSError: no path is short enough.
    """
    if len(os.fsencode(folder / name)) <= SOCKET_PATH_LIMIT:
        return folder
    import hashlib  # lazily: few need these, and a client must be small
    import tempfile

    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    mine = _shared_name()
    bases = [Path(base) for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if base]
    # A runtime folder may be another user's: `sudo` keeps the variable.
    for base in (base.resolve() for base in bases if base.is_absolute() and base.is_dir() and is_safe_folder(base)):
        # The second if another user took the first: anybody may write here.
        for directory in (base / mine / digest, base / f"{mine}-{digest}"):
            fits = len(os.fsencode(directory / name)) <= SOCKET_PATH_LIMIT
            if fits and _is_free_or_own(directory.parent if directory.parent != base else directory):
                return directory
    raise OSError(
        errno.ENAMETOOLONG,
        f"there is no path for a socket of {folder}; set XDG_RUNTIME_DIR to a short path of your own",
    )


def http_socket_name(port: int) -> str:
    """Return the name of the Unix socket on which the HTTP server of a port listens too."""
    return f"http-{port}.sock"


def _shared_name() -> str:
    """Return the name of the parent folder for the socket folders of all homes of this user."""
    return f"infinite-memory-{os.geteuid()}"


def unusable(home: Path, exc: OSError) -> str:
    """Return an error message that names the unusable path: the home, a part of it, or another path."""
    reason = exc.strerror or str(exc)
    if exc.filename is None or not isinstance(exc.filename, str):
        return f"the home {home} cannot be used: {reason}"
    if Path(exc.filename) != home and Path(exc.filename).is_relative_to(home):
        named = exc.filename2 if isinstance(exc.filename2, str) else exc.filename  # of two, the one to be replaced
        inner_path = Path(named).relative_to(home) if Path(named).is_relative_to(home) else named
        return f"the home {home} cannot be used: {str(inner_path)!r} in it: {reason}"
    if home.is_relative_to(exc.filename):
        return f"the home {home} cannot be used: {reason}"
    return f"{exc.filename} cannot be used: {reason}" if exc.filename not in reason else reason


def _is_free_or_own(folder: Path) -> bool:
    try:
        folder.lstat()
    except OSError:
        return True
    return _is_own_folder(folder)


def _is_own_folder(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def make_socket_folder(folder: Path) -> None:
    """Create the folder that `place_of_socket` chose in the user's runtime folder.

    Raises:
        OSError: as in `make_own_folder`.
    """
    if folder.parent.name == _shared_name():
        make_own_folder(folder.parent)
    make_own_folder(folder)


def remove_socket_folder(folder: Path) -> None:
    """Remove a folder that `place_of_socket` chose in the user's runtime folder, if it is empty."""
    if not (folder.name.startswith(_shared_name()) or folder.parent.name == _shared_name()):
        return  # a home is not a socket folder
    with contextlib.suppress(OSError):
        folder.rmdir()
        if folder.parent.name == _shared_name():
            folder.parent.rmdir()  # fails if other homes have theirs in it


def _platform_data_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "InfiniteMemory"
    if os.name == "nt":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "InfiniteMemory"
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "infinite-memory"


def _platform_cache_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "InfiniteMemory"
    if os.name == "nt":
        return _platform_data_folder(environ) / "cache"
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache") / "infinite-memory"
