"""How a client comes to its home's daemon: it connects and greets, and starts the daemon where there is none.

Of ten clients that start at once one starts the daemon; a daemon of another version is waited for, then met again, and so is one that a
service manager is about to start (`handover`). Standard library only: `serve` is made of this.
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
"""Of who starts the daemon; what they name is for that program."""

_SYSTEMD_VARIABLES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"})
"""Of a service that starts the daemon by chance; the daemon would speak for that service."""

_HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Heap in pages of 2 MiB, where the system has them for who asks: a recall goes through 20 MB of weights and vectors, and takes 3 % less
processor time; as much is in memory as without. glibc reads this when a process starts, so the daemon cannot choose it itself."""

_OF_ANY_VERSION = frozenset({"session", "hook", "status", "stop"})
"""What a daemon of any version answers, or makes room for. What else a command wants, an older one may take for something else."""

START_S = 40.0  # a daemon that is going may take half a minute to finish
STARTER_S = 10.0  # how long a client waits for another that is starting the daemon
GREETING_S = 30.0
LITTLE_BYTES = 64 * 1024  # with less on its disk than this, nothing can be written


def session_greeting(
    environ: Mapping[str, str],
    *,
    contract: str | None = None,
    flags: Mapping[str, str] | None = None,
    carried: Collection[str] = (),
) -> Json:
    """Return what a session's greeting says of its client: its contract, flags and environment; the daemon checks them.

    Args:
        contract: The one that is spoken; None is the native one.
        flags: Settings that were given to the client itself: ``{"section.name": text}``.
        carried: Names of variables that the contract has of its own, beside ours.
    """
    named = {
        name: value for name, value in environ.items() if name.startswith(_PREFIX) or name == "TZ" or name in carried
    }
    greeting: Json = {"kind": "session", "environ": named, "flags": dict(flags or {})}
    return greeting if contract is None else greeting | {"contract": contract}


def greet(home: Path, greeting: Json, *, start: bool = True) -> tuple[socket.socket, Json]:
    """Connect to the home's daemon, starting one if there is none, and say what this connection is for.

    Args:
        greeting: ``kind``, and what that kind needs; version and protocol are added here.

    Returns:
        The open connection and the daemon's answer.

    Raises:
        DaemonError: there is no daemon and none could be started.
        ConfigError: the daemon refuses the settings that came with the greeting.
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
            said = ipc.read_line(link)
            answer = json.loads(said) if said else {}
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
        time.sleep(0.05)  # it is going, or was asked to make room for this version
    raise DaemonError(f"the daemon of {home} did not answer within {START_S:.0f} s; see {home / 'logs'}")


def _replace_other_version(home: Path, greeting: Json) -> list[str]:
    """Have a daemon of another version make room, as a session does; gives what it says where it is a service and stays.

    Why: one of 0.1.0 made a token that opens everything where a later command asked for one that opens the metrics alone.

    Raises:
        DaemonError: it does not go, and speaks another protocol; or none of this version could be started.
        ConfigError: the daemon refuses the settings that came with the greeting.
    """
    if (ipc.read_record(home) or {}).get("version") in (None, __version__):
        return []
    link, answer = greet(home, greeting | {"kind": "session"})
    link.close()
    return list(answer.get("notes", ())) if answer.get("version") != __version__ else []


def _start(home: Path, greeting: Json, deadline: float) -> None:
    """Start the daemon, unless another client does so at this moment; returns when one listens.

    Raises:
        DaemonError: it cannot be started, or did not listen in time.
        ConfigError: it refuses its settings.
    """
    try:
        make_home(home)
        patient_until = time.monotonic() + STARTER_S
        while True:
            with ipc.locked(ipc.start_lock_path(home), wait=False) as held:
                # One that is frozen while it holds the lock stops nobody: of two daemons the second goes by itself.
                if held or time.monotonic() > patient_until:
                    left_behind = ipc.read_record(home)  # read first: whoever listens by then wrote another
                    if not _listens(home):
                        _start_alone(home, greeting, deadline, left_behind)
                    return
            if _listens(home):
                return
            time.sleep(0.02)
    except OSError as exc:  # a home that cannot be written, a full disk
        raise DaemonError(f"the daemon cannot be started: {unusable(home, exc)}") from exc


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _start_alone(home: Path, greeting: Json, deadline: float, left_behind: Json | None) -> None:
    """Start the daemon; *left_behind* is the record of the one before."""
    import subprocess  # only who starts a daemon needs it

    logs = home / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    output, keeps = logs / "daemon.out", False
    if output.exists() and (output.stat().st_size or not output.is_file()):  # it may tell why the one before ended
        keeps = not set_file_aside(output, logs / "daemon.out.1")
    settings = ["--config", greeting["config_file"]] if "config_file" in greeting else []
    with open(output, "ab" if keeps else "wb", opener=_for_the_owner) as file:
        process = start_detached(
            [sys.executable, "-P", "-m", "infinite_memory", "daemon", "run", "--flags-on-stdin", *settings],
            stdin=subprocess.PIPE, stdout=file, stderr=file, cwd=home,
            env=_daemon_environ(home),
        )  # fmt: skip
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin:  # its arguments could be read by everybody
        process.stdin.write(json.dumps(greeting.get("flags", {})).encode() + b"\n")
    # Collected when it ends, or it would stay a zombie for as long as this client lives.
    threading.Thread(target=process.wait, daemon=True).start()
    while time.monotonic() < deadline:
        record = ipc.read_record(home)
        if record is not None and record.get("pid") == process.pid:
            return
        # One that was started by other means was faster. A record from before is a dead daemon's, but its socket may be ours.
        if record not in (None, left_behind) and _listens(home):
            process.terminate()
            return
        if (code := process.poll()) is not None:
            if code < 0 or _listens(
                home
            ):  # somebody killed it, and the next try starts another; or another daemon was faster
                return
            said = output.read_text("utf-8", "replace").strip().splitlines()[-3:]
            message = "\n".join(said) or f"it ended with exit code {process.returncode}; {_why_silent(home, output)}"
            raise (ConfigError if process.returncode == 2 else DaemonError)(f"the daemon did not start: {message}")
        time.sleep(0.01)
    raise DaemonError(f"the daemon did not start within {START_S:.0f} s; see {output}")


def _daemon_environ(home: Path) -> Json:
    """Return the daemon's environment: it imports this package and what is installed, nothing from beside whoever starts it."""
    left_out = {*_PYTHON_VARIABLES, *_SYSTEMD_VARIABLES}
    environ = {name: value for name, value in os.environ.items() if name not in left_out}
    root = Path(__file__).resolve().parents[2]  # where the package lies
    if root.name not in ("site-packages", "dist-packages"):  # a checkout, or a folder that a program brought with it
        environ["PYTHONPATH"] = str(root)
    tunables = ":".join(filter(None, (_HUGE_PAGES, environ.get("GLIBC_TUNABLES"))))  # the last one of a name counts
    return environ | {"INFINITE_MEMORY_HOME": str(home), "PYTHONSAFEPATH": "1", "GLIBC_TUNABLES": tunables}


def _silent(home: Path, greeting: Json) -> str:
    """Return what can be done about a daemon that does not answer."""
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
    """Return where to look when a daemon could not even write why it ended."""
    return f"there is no space left on the disk of {home}" if free_bytes(home) < LITTLE_BYTES else f"see {output}"


def _listens(home: Path) -> bool:
    link = ipc.connect(home, 1.0)
    if link is not None:
        link.close()
    return link is not None
