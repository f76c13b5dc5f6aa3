"""The faults of a soak: processes killed, frozen and stopped, sidecars damaged in every way, a disk that is full, silent clients."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from infinite_memory.daemon import ipc
from tests.processes import Installation

DISK_MIB = 1500  # of a disk of its own, where one can be mounted
SILENT = 40


class Faults:
    """What can be done to one installation.

    Args:
        foreign: The sidecars of another home.
        disk: A file system that holds nothing but the home, where there is one: it can be filled.
    """

    def __init__(self, installation: Installation, dice: random.Random, foreign: Path, disk: Path | None) -> None:
        self._installation, self._dice, self._foreign, self._disk = installation, dice, foreign, disk
        self._sidecars = installation.home / "sidecars"
        self._kept = installation.home.parent / "sidecars-kept"
        self._silent: list[socket.socket] = []
        self.all: dict[str, Callable[[], None]] = {
            "kill-daemon": lambda: send_signal(installation.daemon_pid(), signal.SIGKILL),
            "stop-daemon": lambda: send_signal(installation.daemon_pid(), signal.SIGTERM),
            "kill-mongod": lambda: send_signal(installation.mongod_pid(), signal.SIGKILL),
            "freeze-mongod": lambda: _freeze(installation.mongod_pid(), dice.choice((dice.uniform(0.5, 8), 20))),
            "freeze-daemon": lambda: _freeze(installation.daemon_pid(), dice.uniform(0.5, 8)),
            "kill-everything": installation.kill_everything,
            "cut-sidecar": lambda: self._harm_sidecar(self._cut),
            "swap-sidecar": lambda: self._harm_sidecar(self._swap),
            "foreign-sidecar": lambda: self._harm_sidecar(self._put_foreign),
            "old-sidecar": lambda: self._harm_sidecar(self._put_old),
            "silent-clients": self._connect_and_say_nothing,
        }
        if disk is not None:
            self.all["full-disk"] = self._fill_disk

    def close(self) -> None:
        """Let go of what the faults hold."""
        for link in self._silent:
            link.close()

    def _harm_sidecar(self, harm: Callable[[], None]) -> None:
        """Change the files while the daemon cannot, and kill it, so that the next one reads them."""
        pid = self._installation.daemon_pid()
        send_signal(pid, signal.SIGSTOP)
        with contextlib.suppress(OSError):
            harm()
        send_signal(pid, signal.SIGKILL)

    def _files(self) -> list[Path]:
        return sorted(one for one in self._sidecars.rglob("*") if one.is_file() and one.stat().st_size > 200)

    def _cut(self) -> None:
        for file in self._files():
            if self._dice.random() < 0.5:
                os.truncate(file, file.stat().st_size // 2)

    def _swap(self) -> None:
        files = self._files()
        if len(files) < 2:
            return
        first, second = self._dice.sample(files, 2)
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)

    def _put_foreign(self) -> None:
        shutil.rmtree(self._sidecars)
        shutil.copytree(self._foreign, self._sidecars)

    def _put_old(self) -> None:
        """Put back the files that were kept the last time, as a user who copies folders about might; keep those of now."""
        beside = self._kept.with_suffix(".new")
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(self._sidecars, beside)
        if self._kept.exists():
            shutil.rmtree(self._sidecars)
            shutil.copytree(self._kept, self._sidecars)
            shutil.rmtree(self._kept)
        beside.rename(self._kept)

    def _connect_and_say_nothing(self) -> None:
        for link in self._silent:
            link.close()
        found = [ipc.connect(self._installation.home, 5) for _ in range(SILENT)]
        self._silent = [one for one in found if one is not None]

    def _fill_disk(self) -> None:
        assert self._disk is not None
        ballast = self._disk / "ballast"
        try:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(b"\0" * (1 << 20))
            time.sleep(self._dice.uniform(1, 8))
        finally:
            ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def own_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small disk for the home, where this user may; None elsewhere."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def send_signal(pid: int | None, number: int) -> None:
    """Send a signal, if the process is there."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _freeze(pid: int | None, seconds: float) -> None:
    if pid is not None:
        send_signal(pid, signal.SIGSTOP)
        time.sleep(seconds)
        send_signal(pid, signal.SIGCONT)
