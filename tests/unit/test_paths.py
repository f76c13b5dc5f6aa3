"""Where a home is, what lies in it, and where its daemon and clients meet."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infinite_memory.daemon import ipc
from infinite_memory.paths import find_home


def test_the_variable_names_the_home(tmp_path: Path) -> None:
    home = find_home({"INFINITE_MEMORY_HOME": str(tmp_path / "memory")})
    assert home.path == tmp_path / "memory"
    assert home.backups == tmp_path / "memory" / "backups"
    assert not home.path.exists()


def test_a_relative_folder_for_backups_is_one_of_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir("/")
    home = find_home({"INFINITE_MEMORY_HOME": str(tmp_path / "memory")})
    assert home.backup_folder("rel/path") == tmp_path / "memory" / "rel" / "path"
    assert home.backup_folder(str(tmp_path / "elsewhere")) == tmp_path / "elsewhere"
    assert home.backup_folder(None) == home.backups


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_home({"INFINITE_MEMORY_HOME": "memory"}).path == tmp_path / "memory"


def test_without_it_the_platform_decides(tmp_path: Path) -> None:
    assert find_home({"XDG_DATA_HOME": str(tmp_path)}).path.parent in (tmp_path, find_home({}).path.parent)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_home_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    path.mkdir(mode=0o755)
    find_home({"INFINITE_MEMORY_HOME": str(path)}).make()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {one.name for one in path.iterdir()} == {"sidecars", "logs", "backups"}
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o700 for one in path.iterdir())


def test_a_home_too_deep_for_a_socket_has_it_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("r" * 100)))
    (tmp_path / ("r" * 100)).mkdir()
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    path = ipc.socket_path(deep)
    assert len(os.fsencode(path)) < 108
    assert path == ipc.socket_path(deep)
    assert path != ipc.socket_path(deep / "other")
    assert ipc.socket_path(Path("/m")) == Path("/m/daemon.sock")


def test_sockets_of_several_homes_share_one_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Path(tempfile.mkdtemp(prefix="im-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    homes = [tmp_path / ("x" * 120) / name for name in ("one", "two")]
    found = []
    for home in homes:
        home.mkdir(parents=True)
        listening, address = ipc.listen(home, "unix")
        ipc.write_record(home, {"pid": 1} | address)
        found.append((listening, {"pid": 1} | address))
    assert len({record["socket"] for _, record in found}) == 2
    for home, (listening, record) in zip(homes, found, strict=True):
        assert [one.name for one in shared.iterdir()] == [f"infinite-memory-{os.getuid()}"]
        listening.close()
        ipc.remove_record(home, record)
    assert not list(shared.iterdir()), "the last one took the folder away"
    shared.rmdir()


def test_a_runtime_folder_that_is_not_there_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    assert not ipc.socket_path(Path("/" + "x" * 120)).is_relative_to(tmp_path / "missing")


def test_the_socket_and_the_record_are_the_owners_alone(tmp_path: Path) -> None:
    for transport in ("unix", "tcp"):
        listening, address = ipc.listen(tmp_path, transport)
        with listening:
            ipc.write_record(tmp_path, {"pid": os.getpid()} | address)
            assert stat.S_IMODE(ipc.record_path(tmp_path).stat().st_mode) == 0o600
            if transport == "unix":
                assert stat.S_IMODE(Path(address["socket"]).stat().st_mode) == 0o600
            if transport == "unix":  # over TCP somebody has to answer: test_peer_auth.py
                link = ipc.connect(tmp_path, 1.0)
                assert link is not None
                link.close()


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"socket": 5}', '{"socket": "gone.sock"}', '{"port": "no"}', "\0", "{"]
)
def test_a_record_that_makes_no_sense_is_no_daemon(tmp_path: Path, record: str) -> None:
    ipc.record_path(tmp_path).write_text(record)
    with ipc.locked(ipc.lock_path(tmp_path), wait=False):
        assert ipc.connect(tmp_path, 1.0) is None


def test_a_stale_port_that_another_program_has_now_is_not_told_the_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.2)
        ipc.write_record(tmp_path, {"pid": 1, "port": stranger.getsockname()[1], "token": "secret"})
        assert ipc.connect(tmp_path, 1.0) is None
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_a_lock_is_held_by_one_and_let_go_of_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not ipc.is_held(path)
    with ipc.locked(path, wait=False) as first:
        assert first
        assert ipc.is_held(path)
    assert not ipc.is_held(path)


def test_a_record_is_removed_only_by_its_own_daemon(tmp_path: Path) -> None:
    ipc.write_record(tmp_path, {"pid": 1, "port": 1, "token": "x"})
    ipc.remove_record(tmp_path, {"pid": 2})
    assert ipc.read_record(tmp_path) is not None
    ipc.remove_record(tmp_path, {"pid": 1})
    assert ipc.read_record(tmp_path) is None
    assert not ipc.pid_path(tmp_path).exists()


def test_a_daemon_is_out_of_reach_when_its_record_is_gone_or_another_s(tmp_path: Path) -> None:
    mine = {"pid": 1, "port": 1, "token": "x"}
    assert not ipc.is_reachable(tmp_path, mine)
    ipc.write_record(tmp_path, mine)
    assert ipc.is_reachable(tmp_path, mine)
    assert not ipc.is_reachable(tmp_path, {"pid": 2})
    assert not ipc.is_reachable(tmp_path / "moved", mine)
    ipc.record_path(tmp_path).unlink()
    ipc.record_path(tmp_path).symlink_to(tmp_path / "daemon.json")  # cannot be read, as when no file can be opened
    assert ipc.is_reachable(tmp_path, mine)


@pytest.mark.skipif(os.name != "posix", reason="links and owners are POSIX")
def test_a_link_in_the_place_of_a_shared_socket_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Path(tempfile.mkdtemp(prefix="im-"))  # short, as a runtime folder is; a test's own folder is too deep
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    folder = ipc.socket_path(deep).parent
    assert folder.parent.parent == shared
    folder.parent.mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="should be a folder of this user"):
        ipc.listen(deep, "unix")
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o755
    shutil.rmtree(shared)


@pytest.mark.skipif(os.name != "posix", reason="links and owners are POSIX")
def test_somebody_who_takes_the_shared_name_keeps_nobody_from_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Path(tempfile.mkdtemp(prefix="im-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))
    (shared / f"infinite-memory-{os.getuid()}").symlink_to(tmp_path)
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    listening, address = ipc.listen(deep, "unix")
    with listening:
        assert Path(address["socket"]).is_relative_to(shared)
        assert stat.S_IMODE(Path(address["socket"]).parent.stat().st_mode) == 0o700
        assert not list(tmp_path.glob("*.sock"))
        ipc.write_record(deep, {"pid": 1} | address)
        ipc.remove_record(deep, {"pid": 1} | address)
    assert [one.name for one in shared.iterdir()] == [f"infinite-memory-{os.getuid()}"], "nothing is left behind"
    shutil.rmtree(shared)


def test_a_lock_that_is_held_for_a_moment_is_got_with_patience(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    def wait() -> bool:
        with ipc.locked(path, wait=False, patience_s=60) as got:
            return bool(got)

    with ThreadPoolExecutor(1) as others:
        with ipc.locked(path, wait=False), ipc.locked(path, wait=False) as second:
            assert not second
            waiting = others.submit(wait)
        assert waiting.result(30)


def test_naming_the_platforms_own_folder_names_no_home(tmp_path: Path) -> None:
    """A client starts the daemon of the default home with its path in the variable; both must mean one backup folder."""
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    default = find_home(environ)
    assert find_home(environ | {"INFINITE_MEMORY_HOME": str(default.path)}) == default
