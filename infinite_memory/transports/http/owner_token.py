"""The owner's token: in a file of the home, reread when the file changes, replaced at once by `tokens rotate`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

from infinite_memory.errors import ConfigError
from infinite_memory.platform_files import open_regular

MAX_BYTES = 1000  # of the file: a token has 44


class OwnerToken:
    """The token of ``http.token``, and a signal that any token has changed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._value, self._mark = "", (0, 0, 0)
        self._changed = asyncio.Event()

    def read(self) -> str:
        """Return the token, created on first use; only the owner can read the file.

        Raises:
            ConfigError: the file is empty or unreadable.
        """
        try:
            mark = self._look()
            if mark is None:
                self._write(exclusive=True)
                mark = self._look()
            if mark is not None and mark != self._mark:
                self._value, self._mark = self._load(), mark
        except OSError as exc:
            if not self._value:
                raise ConfigError(f"{self.file}: {exc.strerror or exc}") from exc
        return self._value

    def rotate(self) -> str:
        """Replace the token; the old one is invalid from now on.

        Raises:
            ConfigError: the file cannot be written.
        """
        try:
            self._write(exclusive=False)
        except OSError as exc:
            raise ConfigError(f"{self.file}: {exc.strerror or exc}") from exc
        self._mark = (0, 0, 0)
        value = self.read()
        self.announce()
        return value

    def announce(self) -> None:
        """Make all running requests check their tokens again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def news(self) -> asyncio.Event:
        """Return the event that is set at the next change of a token."""
        return self._changed

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _load(self) -> str:
        with open_regular(self.file, follow_links=False) as stream:
            if os.name == "posix":
                os.fchmod(stream.fileno(), 0o600)
            token = stream.read(MAX_BYTES + 1).strip()
        if not token:
            raise ConfigError(f"{self.file} is empty; remove it, and a new token is made")
        if len(token) > MAX_BYTES or not all(0x20 < byte < 0x7F for byte in token):
            raise ConfigError(f"{self.file} holds no token; remove it, and a new one is made")
        return token.decode("ascii")

    def _write(self, *, exclusive: bool) -> None:
        """Write a new token atomically, so that a reader sees a complete one."""
        temporary = self.file.with_name(f"{self.file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(secrets.token_urlsafe(32) + "\n")
                stream.flush()
                os.fsync(descriptor)
            if exclusive:
                with contextlib.suppress(FileExistsError):  # another process was faster
                    _put_new(temporary, self.file)
            else:
                temporary.replace(self.file)
        finally:
            temporary.unlink(missing_ok=True)


def _put_new(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        source.replace(target)
