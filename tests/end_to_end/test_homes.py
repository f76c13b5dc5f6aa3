"""Homes of every kind: deep, full, not writable, left behind by a crash, two side by side."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.daemon import ipc
from tests.processes import LONG, Installation, need_parts, until


def test_a_home_too_deep_for_a_socket_works_all_the_same(tmp_path: Path) -> None:
    need_parts()
    runtime = Path(tempfile.mkdtemp(prefix="im-run-", dir="/tmp"))  # short, as the system's own is
    deep = tmp_path / ("d" * 100) / ("e" * 100) / "home"
    deep.parent.mkdir(parents=True)
    with Installation(deep, {"XDG_RUNTIME_DIR": str(runtime)}) as installation:
        client = installation.serve()
        assert client.ask("store_memory", content="My favorite color is blue")["status"] == "OK"
        assert client.ask("retrieve_memory", query="which colour")["results"]
        [socket] = [one for one in runtime.rglob("*.sock") if "mongod" not in one.name]
        assert socket.stat().st_mode & 0o777 == 0o600
        assert socket.parent.stat().st_mode & 0o777 == 0o700
        assert client.close() == 0
        # a client with another environment finds it too
        elsewhere = installation.serve(environ={"XDG_RUNTIME_DIR": ""})
        assert elsewhere.ask("list_memories")["total"] == 1
    shutil.rmtree(runtime)


def test_a_home_whose_name_is_no_plain_text_works(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "h ö%20m'e $(x) 家") as installation:
        assert installation.call("store_memory", content="tea")["status"] == "OK"
        assert installation.call("list_memories")["total"] == 1
        assert installation.command("daemon", "stop").returncode == 0


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder one that cannot be written, for root as well where mounting is allowed."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(0o700)
        return
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], check=False, capture_output=True
    ).returncode:
        pytest.skip("root writes everywhere, and may not mount here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_home_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    need_parts()
    place = tmp_path / "place"
    place.mkdir()
    with read_only(place), Installation(place / "home", {"HOME": str(tmp_path)}) as installation:
        for command in (
            ["serve"],
            ["daemon", "start"],
            ["daemon", "run"],
            ["call", "ping"],
            ["stats"],
            ["serve", "--in-process"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "infinite_memory", *command], cwd=tmp_path,
                env=installation.environ, capture_output=True, text=True, input="", timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 1, command
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert str(place) in done.stderr
        installation.home = tmp_path / "none"  # nothing is to be stopped


def test_a_file_in_the_place_of_the_home_is_told_in_one_line(tmp_path: Path) -> None:
    need_parts()
    (tmp_path / "home").write_text("not a folder")
    installation = Installation(tmp_path / "home")
    done = installation.command("serve", input='{"action": "ping"}\n')
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "home") in done.stderr


def test_what_a_crash_left_behind_is_no_hindrance(installation: Installation) -> None:
    assert installation.call("store_memory", content="tea")["status"] == "OK"
    installation.kill_everything()
    assert (installation.home / "daemon.json").exists()
    assert (installation.home / "daemon.sock").exists()
    assert installation.command("daemon", "status").returncode == 1
    assert installation.command("daemon", "stop").stdout == "no daemon runs\n"
    assert installation.call("list_memories")["total"] == 1


@pytest.mark.parametrize(
    "left",
    ["{", '{"pid": 1, "socket": "/nowhere"}', '{"pid": 1, "port": 1, "token": "x"}', *(["", "[]"] if LONG else [])],
)
def test_a_record_that_leads_nowhere_is_no_hindrance(shared: Installation, left: str) -> None:
    assert shared.command("daemon", "stop").returncode == 0
    (shared.home / "daemon.json").write_text(left)
    (shared.home / "daemon.sock").write_text("no socket")
    (shared.home / "daemon.pid").write_text("1")
    assert shared.call("ping")["pong"]


@pytest.mark.parametrize("damage", ["", '{"pi', "[]"])
def test_a_daemon_whose_record_is_damaged_while_it_runs_is_found_again(shared: Installation, damage: str) -> None:
    assert shared.call("ping")["pong"]
    record = shared.home / "daemon.json"
    before = json.loads(record.read_text())
    record.write_text(damage)
    assert shared.call("ping")["pong"]
    until(lambda: record.read_text() != damage, "the daemon mends its record")
    assert json.loads(record.read_text()) == before


def test_a_daemon_that_others_start_is_used(installation: Installation) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "daemon", "run"],
        env=installation.environ,
        cwd=installation.home.parent,
    )
    clients = [installation.serve() for _ in range(3)]
    assert all(client.ask("ping")["pong"] for client in clients)
    pids = {installation.daemon_pid()}
    assert len(installation.processes()) <= 2 + (running.poll() is None)
    for client in clients:
        assert client.ask("store_memory", content="tea")["status"] == "OK"
    assert pids == {installation.daemon_pid()}
    running.terminate()  # it serves, or waits for its turn
    running.wait(60)
    assert installation.command("daemon", "stop").returncode == 0
    until(lambda: not installation.processes(), "all are gone")


def test_two_homes_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "one") as one, Installation(tmp_path / "two") as two:
        first, second = one.serve(), two.serve()
        assert first.ask("store_memory", content="tea")["status"] == "OK"
        assert second.ask("store_memory", content="coffee")["status"] == "OK"
        assert [m["text"] for m in first.ask("list_memories")["results"]] == ["tea"]
        assert [m["text"] for m in second.ask("list_memories")["results"]] == ["coffee"]
        assert one.daemon_pid() != two.daemon_pid()
        assert one.command("daemon", "stop").returncode == 0
        assert second.ask("list_memories")["total"] == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=0700", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system of its own takes root and leave to mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, spare: int = 0) -> Path:
    """Fill the file system of a folder but for some bytes."""
    ballast = folder / "ballast"
    free = os.statvfs(folder)
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        left = free.f_bavail * free.f_frsize - spare
        while left > 0:
            left -= file.write(b"\0" * min(left, 1 << 20))
    return ballast


def test_a_full_disk_is_a_clear_error_and_loses_nothing(small_disk: Path) -> None:
    need_parts()
    with Installation(small_disk / "home", {"INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "1"}) as installation:
        client = installation.serve()
        kept = {}
        for number in range(20):
            reply = client.ask("store_memory", content=f"before {number}")
            kept[reply["memory_id"]] = f"before {number}"
        ballast = fill(small_disk)
        refused = 0
        for number in range(30):  # large ones, so that MongoDB's journal must grow
            text = f"during {number} " + os.urandom(100_000).hex()
            reply = client.ask("store_memory", content=text)
            if reply["status"] == "OK":
                kept[reply["memory_id"]] = text
            else:
                refused += 1
                assert reply["error_code"] == "CONNECTION_ERROR", reply
                assert "MongoDB" in reply["error"] or "no space left" in reply["error"], reply
                if refused == 3:
                    break
        assert refused, "the disk was not full"
        ballast.unlink()
        until(
            lambda: client.ask("store_memory", content="after", tags=["after"])["status"] == "OK", "there is room again"
        )
        for memory_id, text in kept.items():
            assert client.ask("get_memory", memory_id=memory_id)["memory"]["text"] == text
        assert client.ask("search_by_tag", tag="after")["results"]


def test_a_sidecar_that_cannot_be_saved_on_a_full_disk_is_saved_later(small_disk: Path, tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "1"}) as installation:
        installation.home.mkdir()
        (installation.home / "sidecars").symlink_to(small_disk)
        client = installation.serve()
        assert client.ask("store_memory", content="My favorite color is blue")["status"] == "OK"
        until(lambda: list(small_disk.glob("generation-*")), "a first generation is there")
        ballast = fill(small_disk)
        for number in range(50):
            assert client.ask("store_memory", content=f"memory {number}")["status"] == "OK"
        log = installation.home / "logs" / "infinite-memory.log"
        until(lambda: "was not saved" in log.read_text(), "saving has failed")
        assert client.ask("retrieve_memory", query="which colour do I like")["results"][0]["text"].endswith("blue")
        for action in ("optimize_memory", "reindex"):
            refused = client.ask(action)
            assert refused["error_code"] == "STORAGE_ERROR", refused
            folder = installation.home / "sidecars"
            assert f"cannot be saved in the folder {folder}: No space left on device" in refused["error"], refused
        installation.kill_everything()
        ballast.unlink()
        assert client.ask("optimize_memory")["status"] == "OK"
        assert client.ask("list_memories")["total"] == 51
        assert client.ask("retrieve_memory", query="which colour do I like")["results"][0]["text"].endswith("blue")
        stats = client.ask("get_memory_stats")["stats"]
        assert stats["sidecar"]["count"] == stats["total_memories"] == 51


def test_a_full_disk_at_start_is_told_in_a_line(small_disk: Path) -> None:
    need_parts()
    home = small_disk / "home"
    with Installation(home) as installation:
        assert installation.call("store_memory", content="tea")["status"] == "OK"
        assert installation.command("daemon", "stop").returncode == 0
        fill(small_disk)
        done = installation.command("call", "list_memories")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        said = done.stderr or json.loads(done.stdout)["error"]
        assert "space" in said or "MongoDB" in said, said
        (small_disk / "ballast").unlink()
        assert installation.call("list_memories")["total"] == 1


def test_a_token_of_a_dead_daemon_is_not_given_away(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_DAEMON__TRANSPORT": "tcp"}) as installation:
        assert installation.call("store_memory", content="tea")["status"] == "OK"
        pid = installation.daemon_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: not ipc.is_held(installation.home / "daemon.lock"), "its lock is free")
        assert installation.call("list_memories")["total"] == 1
