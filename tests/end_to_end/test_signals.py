"""What a shell, a terminal or an init system does to commands and to the daemon: signals, closed descriptors, missing variables."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.processes import LONG as ALL
from tests.processes import PATIENCE_S, Installation, until

LONG = "tea and biscuits at noon. " * 2000  # seconds of a core: the command waits while it is embedded
UNLISTED = 54321  # a user of whom the system's list knows nothing


def started(installation: Installation, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", *arguments],
        env=installation.environ, cwd=installation.home.parent, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def interrupted(call: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Interrupt a command as Ctrl-C does and return its exit code and what it printed."""
    call.send_signal(signal.SIGINT)
    printed = call.communicate(timeout=PATIENCE_S)
    return (call.returncode, *printed)


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="how a process waits is read from /proc")
def test_a_command_that_is_interrupted_while_it_waits_for_its_input_ends_with_130(shared: Installation) -> None:
    call = started(shared, "call", "store_memory", "-")
    until(lambda: _reads_input(call.pid), "it reads its input")
    assert interrupted(call) == (130, "", "")


def test_a_command_that_is_interrupted_while_it_waits_for_the_daemon_ends_with_130(shared: Installation) -> None:
    pid = shared.daemon_pid()
    assert pid is not None
    before = shared.status()["sessions"]
    call = started(shared, "call", "store_memories", "-")
    assert call.stdin is not None
    call.stdin.write(json.dumps({"memories": [{"content": LONG}]}))
    call.stdin.close()
    call.stdin = None
    until(lambda: shared.status()["sessions"] > before, "its session is there")
    assert interrupted(call) == (130, "", "")
    assert shared.daemon_pid() == pid


def test_a_daemon_goes_on_after_sighup_and_writes_its_log_anew(shared: Installation) -> None:
    assert shared.call("ping")["status"] == "OK"
    pid = shared.daemon_pid()
    assert pid is not None
    log = shared.home / "logs" / "infinite-memory.log"
    log.rename(log.with_suffix(".moved"))
    os.kill(pid, signal.SIGHUP)
    until(lambda: log.exists() and "log_reopened" in log.read_text(), "the log is opened again")
    assert shared.call("ping")["status"] == "OK"
    assert shared.daemon_pid() == pid


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)] if ALL else [(1,), (0, 1, 2)])
def test_a_daemon_that_is_started_with_closed_descriptors_works(
    installation: Installation, closed: tuple[int, ...]
) -> None:
    shut = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    daemon = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -m infinite_memory daemon run {shut}'],
        env=installation.environ, cwd=installation.home.parent,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: installation.daemon_pid() == daemon.pid, "it listens")
        assert installation.call("store_memory", content="tea")["status"] == "OK"
        assert installation.call("retrieve_memory", query="tea")["status"] == "OK"
    finally:
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0


def test_systemd_hears_that_the_daemon_listens_turns_and_goes(installation: Installation) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="im-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
    ):
        systemd.bind(f"{folder}/notify")
        systemd.settimeout(PATIENCE_S)
        variables = {"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "300000"}
        daemon = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "daemon", "run"],
            env=installation.environ | variables, cwd=installation.home.parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            messages = [systemd.recv(64)]
            while messages[-1] != b"READY=1":
                messages.append(systemd.recv(64))
            assert installation.daemon_pid() == daemon.pid
            assert systemd.recv(64) == b"WATCHDOG=1"
            daemon.terminate()
            while messages[-1] != b"STOPPING=1":
                messages.append(systemd.recv(64))
            assert set(messages) == {b"WATCHDOG=1", b"READY=1", b"STOPPING=1"}
        finally:
            daemon.terminate()
            assert daemon.wait(PATIENCE_S) == 0


def test_a_user_without_home_and_entry_works_where_the_home_is_named() -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        pytest.skip("only root may become a user that the system does not know")
    prefix = [setpriv, f"--reuid={UNLISTED}", f"--regid={UNLISTED}", "--clear-groups",
              "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # this checkout may be root's own  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="im-", dir="/tmp") as name:
        os.chown(name, UNLISTED, UNLISTED)
        installation = Installation(Path(name) / "home")
        del installation.environ["HOME"]
        try:
            for arguments in (["doctor"], ["call", "store_memory", '{"content": "tea"}'], ["daemon", "stop"]):
                done = subprocess.run(
                    [*prefix, sys.executable, "-m", "infinite_memory", *arguments],
                    env=installation.environ, cwd=name, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                )  # fmt: skip
                assert (done.returncode, done.stderr) == (0, ""), done.stdout
        finally:
            installation.kill_everything()


def test_a_refused_temporary_folder_is_named_and_the_home_is_not_blamed(tmp_path: Path) -> None:
    refused = tmp_path / "shared"
    refused.write_text("")
    home = tmp_path / ("d" * 100) / "home"  # too long for a socket, which goes to a temporary folder then
    home.parent.mkdir()
    with Installation(home, {"TMPDIR": str(refused)}) as installation:
        done = installation.command("call", "ping")
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or (str(refused) in done.stderr and str(home) not in done.stderr), done.stderr


def _reads_input(pid: int) -> bool:
    """True if a process waits in a read of its standard input."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == ["0", "0x0"]
    except OSError:
        return False
