"""How a client connects to its home's daemon: it connects and sends a greeting, and starts the daemon if there is none.

Of ten clients that start at once, one starts the daemon; a client waits for a daemon of another version to exit and for one that a
service manager is about to start (`handover`), then connects again. Standard library only: `serve` is built on this.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.daemon import handover, ipc
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.paths import check_home, make_home, unusable
from infinite_memory.platform_files import free_bytes, set_file_aside
from infinite_memory.platform_processes import start_detached

Json = dict[str, Any]

_PREFIX = "INFINITE_MEMORY_"

_PYTHON_VARIABLES = frozenset({"PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONBREAKPOINT"})
"""Variables of the process that starts the daemon; what they name is meant for that program."""

_SYSTEMD_VARIABLES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"})
"""Variables of a service that happens to start the daemon; the daemon would report to systemd as that service."""

_HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Heap in 2 MiB pages, if the system offers them on request: a recall goes through 20 MB of weights and vectors, and takes 3 % less
processor time; memory use is the same. glibc reads this when a process starts, so the daemon cannot set it itself."""

_OF_ANY_VERSION = frozenset({"session", "hook", "status", "stop"})
"""Requests that a daemon of any version answers or exits for. An older daemon may misread any other request."""

START_S = 40.0  # a daemon that is stopping may take half a minute to finish
STARTER_S = 10.0  # how long a client waits for another client that is starting the daemon
GREETING_S = 30.0
LITTLE_BYTES = 64 * 1024  # with less free disk space than this, nothing can be written


def session_greeting(
    environ: Mapping[str, str],
    *,
    contract: str | None = None,
    flags: Mapping[str, str] | None = None,
    carried: Collection[str] = (),
) -> Json:
    """Return the part of a session's greeting about its client: its contract, flags and environment; the daemon validates them.

    Args:
        contract: The contract to speak; None is the native one.
        flags: Settings given to the client itself: ``{"section.name": text}``.
        carried: Names of the contract's own variables, in addition to ours.
    """
    named = {
        name: value for name, value in environ.items() if name.startswith(_PREFIX) or name == "TZ" or name in carried
    }
    greeting: Json = {"kind": "session", "environ": named, "flags": dict(flags or {})}
    return greeting if contract is None else greeting | {"contract": contract}


def greet(home: Path, greeting: Json, *, start: bool = True) -> tuple[socket.socket, Json]:
    """Connect to the home's daemon, starting one if there is none, and send the greeting of this connection.

    Args:
        greeting: ``kind`` and the fields of that kind; version and protocol are added here.

    Returns:
        The open connection and the daemon's answer.

    Raises:
        DaemonError: there is no daemon and none could be started.
        ConfigError: the daemon rejects the settings in the greeting.
    """
    try:
        check_home(home)
    except OSError as exc:
        raise DaemonError(f"the home {home} is not used: {exc.strerror}") from exc
    notes = _replace_other_version(home, greeting) if start and greeting.get("kind") not in _OF_ANY_VERSION else []
    deadline = time.monotonic() + START_S
    line = json.dumps({"protocol": ipc.PROTOCOL, "version": __version__, "pid": os.getpid()} | greeting).encode()
    while time.monotonic() < deadline:
        link = ipc.connect(home, GREETING_S)
        if link is None:
            if not start:
                raise DaemonError("no daemon runs for this home")
            if handover.is_restart_expected(home):
                time.sleep(0.05)
                continue
            _start(home, greeting, deadline)
            continue
        try:
            link.sendall(line + b"\n")
            reply = ipc.read_line(link)
            answer = json.loads(reply) if reply else {}
        except (OSError, ValueError):
            answer = {}
        if answer.get("ok"):
            link.settimeout(None)
            return link, answer | ({"notes": [*notes, *answer.get("notes", ())]} if notes else {})
        link.close()
        if answer.get("error_code") == "config_error":
            raise ConfigError(str(answer.get("error")))
        if answer.get("error"):
            raise DaemonError(str(answer["error"]))
        if not start:
            raise DaemonError(_silent(home, greeting))
        time.sleep(0.05)  # it is stopping, or was asked to exit for this version
    raise DaemonError(f"the daemon of {home} did not answer within {START_S:.0f} s; see {home / 'logs'}")


def _replace_other_version(home: Path, greeting: Json) -> list[str]:
    """Make a daemon of another version exit, as a session does; return its answer if it is a service and stays.

    Why: a 0.1.0 daemon created a token with full access when a later command asked for one that reads the metrics only.

    Raises:
        DaemonError: it does not exit, and speaks another protocol; or no daemon of this version could be started.
        ConfigError: the daemon rejects the settings in the greeting.
    """
    if (ipc.read_record(home) or {}).get("version") in (None, __version__):
        return []
    link, answer = greet(home, greeting | {"kind": "session"})
    link.close()
    return list(answer.get("notes", ())) if answer.get("version") != __version__ else []


def _start(home: Path, greeting: Json, deadline: float) -> None:
    """Start the daemon, unless another client is doing so; return when one listens.

    Raises:
        DaemonError: it cannot be started, or did not listen in time.
        ConfigError: it rejects its settings.
    """
    try:
        make_home(home)
        patient_until = time.monotonic() + STARTER_S
        while True:
            with ipc.locked(ipc.start_lock_path(home), wait=False) as is_locked:
                # A client that is frozen while it holds the lock blocks nobody: of two daemons the second exits by itself.
                if is_locked or time.monotonic() > patient_until:
                    left_behind = ipc.read_record(home)  # read first: a daemon that listens by then wrote another
                    if not _listens(home):
                        _start_alone(home, greeting, deadline, left_behind)
                    return
            if _listens(home):
                return
            time.sleep(0.02)
    except OSError as exc:  # a read-only home, a full disk
        raise DaemonError(f"the daemon cannot be started: {unusable(home, exc)}") from exc


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _start_alone(home: Path, greeting: Json, deadline: float, left_behind: Json | None) -> None:
    """Start the daemon; *left_behind* is the record of the previous one."""
    import subprocess  # needed only by the client that starts a daemon

    logs = home / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    output, keeps = logs / "daemon.out", False
    if output.exists() and (output.stat().st_size or not output.is_file()):  # it may tell why the previous one exited
        keeps = not set_file_aside(output, logs / "daemon.out.1")
    settings = ["--config", greeting["config_file"]] if "config_file" in greeting else []
    with open(output, "ab" if keeps else "wb", opener=_for_the_owner) as file:
        process = start_detached(
            [sys.executable, "-P", "-m", "infinite_memory", "daemon", "run", "--flags-on-stdin", *settings],
            stdin=subprocess.PIPE, stdout=file, stderr=file, cwd=home,
            env=_daemon_environ(home),
        )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin:  # command line arguments would be readable by every user
        process.stdin.write(json.dumps(greeting.get("flags", {})).encode() + b"\n")
    # Reaped when it exits, or it would stay a zombie for the lifetime of this client.
    threading.Thread(target=process.wait, daemon=True).start()
    while time.monotonic() < deadline:
        record = ipc.read_record(home)
        if record is not None and record.get("pid") == process.pid:
            return
        # A daemon started in another way was faster. An older record belongs to a dead daemon, but its socket may be ours.
        if record not in (None, left_behind) and _listens(home):
            process.terminate()
            return
        if (code := process.poll()) is not None:
            # It was killed, and the next attempt starts another; or another daemon was faster.
            if code < 0 or _listens(home):
                return
            last_lines = output.read_text("utf-8", "replace").strip().splitlines()[-3:]
            message = (
                "\n".join(last_lines) or f"it ended with exit code {process.returncode}; {_why_silent(home, output)}"
            )
            raise (ConfigError if process.returncode == 2 else DaemonError)(f"the daemon did not start: {message}")
        time.sleep(0.01)
    raise DaemonError(f"the daemon did not start within {START_S:.0f} s; see {output}")


def _daemon_environ(home: Path) -> Json:
    """Return the daemon's environment: it imports this package and installed ones, nothing from the directory of the starting process."""
    left_out = {*_PYTHON_VARIABLES, *_SYSTEMD_VARIABLES}
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    root = Path(__file__).resolve().parents[2]  # the directory of the package
    if root.name not in ("site-packages", "dist-packages"):  # a checkout, or a folder bundled with a program
        environ["PYTHONPATH"] = str(root)
    # The user's come second: of several with one name the last wins.
    tunables = ":".join(filter(None, (_HUGE_PAGES, environ.get("GLIBC_TUNABLES"))))
    return environ | {"INFINITE_MEMORY_HOME": str(home), "PYTHONSAFEPATH": "1", "GLIBC_TUNABLES": tunables}


def _silent(home: Path, greeting: Json) -> str:
    """Return advice about a daemon that does not answer."""
    record = ipc.read_record(home) or {}
    pid, version = record.get("pid"), record.get("version")
    if pid is None:
        return "the daemon does not answer; it is going, or hangs"
    if greeting.get("kind") not in _OF_ANY_VERSION and version not in (None, __version__):
        return (
            f"the daemon is version {version}, this program is version {__version__}, and it does not answer this; "
            "`infinite-memory daemon start` has it make room"
        )
    return (
        f"the daemon (process {pid}) does not answer; it is going, or hangs. If it does so for minutes, `kill -9 {pid}` ends it: "
        "nothing that was answered is lost, and the next request starts another"
    )


def _why_silent(home: Path, output: Path) -> str:
    """Return where to look if a daemon could not even write why it exited."""
    return f"there is no space left on the disk of {home}" if free_bytes(home) < LITTLE_BYTES else f"see {output}"


def _listens(home: Path) -> bool:
    link = ipc.connect(home, 1.0)
    if link is not None:
        link.close()
    return link is not None
