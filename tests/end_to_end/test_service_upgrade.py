"""A daemon that systemd runs meets clients of another version. systemd itself does not run here: the test stands for it,
listens at its socket, and starts the unit's command again when that ends as `Restart=on-failure` takes for a failure.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.daemon import handover, handshake, ipc
from tests.package_copy import PACKAGE, install
from tests.processes import PATIENCE_S, ROOT, Installation

Json = dict[str, object]
NEW = "9.9.9"


@pytest.fixture
def package() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="im-") as folder:
        yield Path(shutil.copytree(ROOT / PACKAGE, Path(folder) / PACKAGE))  # with what is compiled already


def start_unit(installation: Installation) -> subprocess.Popen[bytes]:
    """Start the unit's command as systemd does, and wait until it says that it is ready."""
    with (
        tempfile.TemporaryDirectory(prefix="im-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel,
    ):
        channel.bind(f"{folder}/notify")
        channel.settimeout(PATIENCE_S)
        unit = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "daemon", "run"],
            env=installation.environ | {"NOTIFY_SOCKET": f"{folder}/notify"}, cwd=installation.home.parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert channel.recv(64) == b"READY=1"
    return unit


def greet(home: Path, **greeting: object) -> Json:
    link = ipc.connect(home, PATIENCE_S)
    assert link is not None
    with link:
        link.sendall(
            json.dumps({"kind": "session", "version": NEW, "protocol": ipc.PROTOCOL} | greeting).encode() + b"\n"
        )
        answer: Json = json.loads(ipc.read_line(link))
    return answer


def test_a_service_comes_back_as_the_new_version_and_stays_down_when_the_user_stops_it(
    package: Path, tmp_path: Path
) -> None:
    with install(package, tmp_path / "home") as installation:
        unit = start_unit(installation)
        # A client of another version, while the unit's own program is as it was: nothing would be won by an end.
        answer = greet(installation.home)
        assert answer["ok"] is True
        assert (
            str(answer["notes"]).count(f"a service of version {__version__} and this program is version '{NEW}'") == 1
        )
        refusal = greet(installation.home, protocol=99)
        assert refusal["ok"] is False
        assert "upgrade the program that the service runs" in str(refusal["error"])
        assert greet(installation.home, kind="hook", what="drain")["ok"] is not None
        assert installation.daemon_pid() == unit.pid

        init = package / "__init__.py"
        init.write_text(init.read_text().replace(f'"{__version__}"', f'"{NEW}"'))
        client = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "call", "ping"],
            env=installation.environ, cwd=installation.home.parent, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert unit.wait(PATIENCE_S) == handover.RESTART_CODE
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(0.5)  # RestartSec: it waits, and starts none itself
        assert installation.daemon_pid() is None
        unit = start_unit(installation)
        assert json.loads(client.communicate(timeout=PATIENCE_S)[0])["pong"]
        assert (installation.status()["pid"], installation.status()["version"]) == (unit.pid, NEW)
        assert not handover.marker_path(installation.home).exists()

        assert installation.command("daemon", "stop").returncode == 0
        assert unit.wait(PATIENCE_S) == 0
        assert not handover.is_restart_expected(installation.home)


def test_a_service_that_is_restarted_meets_its_clients_again_and_takes_over_from_a_daemon_that_they_started(
    tmp_path: Path,
) -> None:
    with Installation(tmp_path / "home") as installation:
        unit = start_unit(installation)
        session = installation.serve()
        assert session.ask("ping")["pong"]
        unit.terminate()  # systemctl restart
        assert unit.wait(PATIENCE_S) == 0
        session.send({"action": "ping"})  # it waits, where it would start a daemon that keeps the service out
        with pytest.raises(AssertionError):
            session.reply(timeout_s=1)
        assert installation.daemon_pid() is None
        unit = start_unit(installation)
        assert session.reply()["pong"]
        assert installation.status()["pid"] == unit.pid

        assert installation.command("daemon", "stop").returncode == 0
        assert unit.wait(PATIENCE_S) == 0
        assert session.ask("ping")["pong"]
        assert installation.daemon_pid() not in (None, unit.pid), "its own, as after a stop"
        unit = start_unit(installation)
        assert session.ask("ping")["pong"]
        assert (installation.status()["pid"], installation.status()["service"]) == (unit.pid, True)
        assert installation.command("daemon", "stop").returncode == 0
        assert unit.wait(PATIENCE_S) == 0


def test_a_client_that_looked_just_before_the_service_listened_meets_it(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[subprocess.Popen[bytes]] = []

    with install(package, tmp_path / "home") as installation:
        for name, value in installation.environ.items():
            monkeypatch.setenv(name, value)

        def look_too_early(home: Path) -> bool:
            if looked:
                return listens(home)
            looked.append(start_unit(installation))
            return False

        listens = handshake._listens
        monkeypatch.setattr(handshake, "_listens", look_too_early)
        handshake._start(installation.home, {"kind": "session"}, time.monotonic() + PATIENCE_S)
        assert installation.daemon_pid() == looked[0].pid
        assert installation.command("daemon", "stop").returncode == 0
        assert looked[0].wait(PATIENCE_S) == 0
