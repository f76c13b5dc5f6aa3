"""Who starts the next daemon: the file that says so, how long it counts, and the version on the disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.daemon import handover, ipc
from infinite_memory.daemon.sd_notify import Supervisor


def test_the_version_on_the_disk_is_read_and_not_the_one_in_memory() -> None:
    assert handover.find_installed_version() == __version__


def test_a_restart_is_expected_while_it_was_announced_a_moment_ago(tmp_path: Path) -> None:
    assert not handover.is_restart_expected(tmp_path)
    handover.announce_restart(tmp_path)
    handover.announce_restart(tmp_path)
    assert handover.is_restart_expected(tmp_path)
    assert handover.marker_path(tmp_path).stat().st_mode & 0o777 == 0o600
    handover.withdraw_restart(tmp_path)
    handover.withdraw_restart(tmp_path)
    assert not handover.is_restart_expected(tmp_path)


@pytest.mark.parametrize("age_s", [handover.RESTART_S + 1, -3600])
def test_an_old_announcement_counts_while_the_daemon_finishes_only(tmp_path: Path, age_s: float) -> None:
    handover.announce_restart(tmp_path)
    instant = time.time() - age_s  # or the clock was set back
    os.utime(handover.marker_path(tmp_path), (instant, instant))
    assert not handover.is_restart_expected(tmp_path)
    with ipc.locked(ipc.lock_path(tmp_path), wait=True):
        assert handover.is_restart_expected(tmp_path)


def test_a_home_that_takes_no_file_stops_nothing(tmp_path: Path) -> None:
    handover.announce_restart(tmp_path / "missing")
    assert not handover.is_restart_expected(tmp_path / "missing")


@pytest.mark.parametrize(
    ("environ", "restarts"),
    [
        ({}, False),
        ({"NOTIFY_SOCKET": "/nowhere"}, True),
        ({"SYSTEMD_EXEC_PID": str(os.getpid())}, True),
        ({"SYSTEMD_EXEC_PID": "1", "INVOCATION_ID": "0123"}, False),  # of the terminal that systemd started
        ({"XPC_SERVICE_NAME": "org.infinitememory.daemon"}, True),
        ({"XPC_SERVICE_NAME": "application.com.apple.Terminal.1"}, False),
    ],
)
def test_a_service_is_known_by_what_its_manager_says(environ: dict[str, str], restarts: bool) -> None:
    assert Supervisor(environ).restarts is restarts
