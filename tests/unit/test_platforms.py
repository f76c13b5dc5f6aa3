"""What is different on Windows and macOS, with the platform's values put in; what needs the machine itself is said in docs/install.md."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from infinite_memory import logging_setup, platform_files, platform_processes
from infinite_memory.daemon import ipc
from infinite_memory.paths import Home, find_home
from infinite_memory.platform_files import free_bytes, lock_file, replace_file, set_file_aside
from infinite_memory.platform_processes import detaching_options, start_detached


class Msvcrt(types.ModuleType):
    """``msvcrt.locking`` as Microsoft's C run-time documents it, over locks of this process: one byte, and an error where it is locked."""

    LK_UNLCK, LK_LOCK, LK_NBLCK = range(3)

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], int] = {}
        self.positions: list[int] = []

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        self.positions.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        assert (mode, count) == (self.LK_NBLCK, 1)
        if self.held.setdefault(key, descriptor) != descriptor:
            raise PermissionError(13, "Permission denied")


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> Msvcrt:
    """A system without ``fcntl`` and with ``msvcrt``."""
    module, real = Msvcrt(), builtins.__import__

    def import_(name: str, *more: Any) -> Any:
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setitem(sys.modules, "msvcrt", module)
    monkeypatch.setattr(builtins, "__import__", import_)
    return module


def test_a_byte_is_locked_where_files_cannot_be(
    tmp_path: Path, msvcrt: Msvcrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "daemon.lock"
    file.write_bytes(b"some text")
    with file.open("rb+") as one, file.open("rb+") as other:
        one.seek(5)
        assert lock_file(one.fileno(), wait=False)
        assert not lock_file(other.fileno(), wait=False)
        assert msvcrt.positions == [0, 0]  # both lock the same byte
        tries = []

        def sleep(seconds: float) -> None:  # the lock comes free after more than the ten tries that the system makes
            tries.append(seconds)
            if len(tries) == 12:
                msvcrt.held.clear()

        monkeypatch.setattr(platform_files.time, "sleep", sleep)
        assert lock_file(other.fileno(), wait=True)
        assert len(tries) == 12


def test_one_daemon_starts_where_a_byte_is_locked(tmp_path: Path, msvcrt: Msvcrt) -> None:
    with ipc.locked(tmp_path / "x", wait=False) as first, ipc.locked(tmp_path / "x", wait=False) as second:
        assert (first, second) == (True, False)


def test_a_file_that_somebody_reads_is_replaced_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    real, tries = Path.replace, []

    def replace(self: Path, other: Path) -> Path:
        tries.append(other)
        if len(tries) < 3:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        return real(self, other)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(PermissionError):
        replace_file(source, target, system="posix")
    replace_file(source, target, system="nt")
    assert target.read_text() == "new"


def test_output_of_a_daemon_that_still_runs_stays_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "daemon.out"
    file.write_text("x")

    def replace(self: Path, other: Path) -> Path:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(PermissionError):
        set_file_aside(file, tmp_path / "daemon.out.1")
    monkeypatch.setattr(platform_files.os, "name", "nt")
    assert set_file_aside(file, tmp_path / "daemon.out.1") is False


PRINTING = """\
import os, sys
from pathlib import Path
from infinite_memory import logging_setup
from infinite_memory.paths import Home
home = Home(Path(sys.argv[1]), explicit=True)
print("x" * 5000, file=sys.stderr, flush=True)
os.name = sys.argv[2]
logging_setup.bound_printed(home, 1000)
print("after", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("system", ["posix", "nt"])
def test_what_a_daemon_prints_is_bounded_also_where_no_open_file_is_renamed(tmp_path: Path, system: str) -> None:
    logs = Home(tmp_path, explicit=True).logs
    logs.mkdir()
    with (logs / "daemon.out").open("wb") as output:
        subprocess.run([sys.executable, "-c", PRINTING, str(tmp_path), system], stderr=output, check=True)
    assert (logs / "daemon.out").read_text() == "after\n"
    assert (logs / "daemon.out.1").read_text() == "x" * 5000 + "\n"
    assert sorted(file.name for file in logs.iterdir()) == ["daemon.out", "daemon.out.1"]
    assert logging_setup.PRINTED_BYTES > 1000


def test_a_process_outlives_its_parent_by_a_session_or_by_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    assert detaching_options("posix") == [{"start_new_session": True}]
    flags = [one["creationflags"] for one in detaching_options("nt")]
    assert [flag & platform_processes.CREATE_BREAKAWAY_FROM_JOB != 0 for flag in flags] == [True, False]
    assert all(flag & 0x08000200 == 0x08000200 for flag in flags)
    started: list[int] = []

    def refuse_breakaway(_command: object, *, creationflags: int, stdin: int) -> str:
        started.append(creationflags)
        if creationflags & platform_processes.CREATE_BREAKAWAY_FROM_JOB:
            raise PermissionError(5, "Access is denied")
        return "started"

    monkeypatch.setattr(subprocess, "Popen", refuse_breakaway)
    done: Any = start_detached(["x"], system="nt", stdin=subprocess.DEVNULL)
    assert (done, started) == ("started", flags)


def test_a_detached_process_has_a_session_of_its_own() -> None:
    process = start_detached(
        [sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid())"], stdout=subprocess.PIPE
    )
    assert process.communicate()[0] == b"True\n"


def test_free_space_is_told_without_what_only_posix_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_bytes(tmp_path) > 0
    with pytest.raises(OSError, match="not"):
        free_bytes(tmp_path / "not-there")


@pytest.mark.parametrize(
    ("platform", "system", "environ", "folder"),
    [
        ("darwin", "posix", {}, "Library/Application Support/InfiniteMemory"),
        ("win32", "nt", {"LOCALAPPDATA": "/x/Local"}, "/x/Local/InfiniteMemory"),
        ("linux", "posix", {"XDG_DATA_HOME": "/d"}, "/d/infinite-memory"),
    ],
)
def test_the_home_lies_where_the_platform_keeps_data(
    platform: str, system: str, environ: dict[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    if system == "nt":
        from infinite_memory import paths

        monkeypatch.setattr(paths, "os", types.SimpleNamespace(**{**vars(os), "name": "nt"}))
    assert find_home(environ).path == tmp_path / folder
