"""`daemon run|start|stop|status`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.cli.daemon_requests import ask_daemon, build_greeting, home_and_config, report_notes
from infinite_memory.cli.service_checks import describe_http_fault
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import ConfigError
from infinite_memory.paths import find_home

STOP_S = 110.0  # maximum shutdown time of the daemon (`daemon`): answers, writes, the index, MongoDB


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    actions = commands.add_parser("daemon", help="run, start, stop or show the daemon").add_subparsers(
        dest="what", required=True, metavar="run|start|stop|status"
    )
    running = actions.add_parser("run", parents=[common], help="run it here, for systemd, launchd and containers")
    running.add_argument("--flags-on-stdin", action="store_true", help=argparse.SUPPRESS)  # for `greeting`
    for name, about in (
        ("start", "start it, if it does not run"),
        ("stop", "let it finish and go"),
        ("status", "show it"),
    ):
        actions.add_parser(name, parents=[common], help=about).add_argument("--json", action="store_true")


def daemon(options: argparse.Namespace) -> int:
    """Run, start, stop or show the daemon of the home."""
    return {"run": _run, "start": _start, "stop": _stop, "status": _status}[options.what](options)


def _run(options: argparse.Namespace) -> int:
    from infinite_memory.daemon.server import run

    if options.flags_on_stdin:
        options.set += _flags_of_starter()
    home, config = home_and_config(options)
    return run(config, home)


def _flags_of_starter() -> list[str]:
    """Read the settings from the arguments of the client that starts this daemon."""
    try:
        flags = json.loads(sys.stdin.buffer.readline() or b"{}")
    except ValueError:
        raise ConfigError("standard input holds no settings") from None
    finally:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return [f"{name}={value}" for name, value in flags.items()]


def _start(options: argparse.Namespace) -> int:
    from infinite_memory.daemon.handshake import greet

    link, answer = greet(find_home(os.environ).path, build_greeting(options))
    link.close()
    report_notes(answer)
    if options.json:
        print(json.dumps({"running": True, "pid": answer.get("pid")}))
    else:
        print(f"the daemon runs (process {answer.get('pid')})")
    if fault := describe_http_fault((ask_daemon("status") or {}).get("status", {})):
        print(f"infinite-memory daemon start: {fault}", file=sys.stderr)
    return 0


def _stop(options: argparse.Namespace) -> int:
    if not options.json:
        return 0 if stop_daemon() else 1
    pid = ask_to_go()
    is_running = pid is not None and not wait_until_gone(pid)
    print(json.dumps({"running": is_running, "pid": pid}))
    return 1 if is_running else 0


def stop_daemon() -> bool:
    """Stop the daemon, if one is running, and print the result; False if it is still running after `STOP_S`.

    Raises:
        DaemonError: a daemon is running but does not answer.
    """
    pid = ask_to_go()
    if pid is None:
        print("no daemon runs")
        return True
    if not wait_until_gone(pid):
        print(f"the daemon (process {pid}) is still finishing")
        return False
    print("the daemon has stopped")
    return True


def ask_to_go() -> int | None:
    """Ask a running daemon to stop, and return its process id; None if none is running."""
    answer = ask_daemon("stop")
    return None if answer is None else int(answer["pid"])


def wait_until_gone(pid: int) -> bool:
    """Wait for a daemon that was asked to stop; False if it is still running after `STOP_S`."""
    end = time.monotonic() + STOP_S
    while _is_alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _status(options: argparse.Namespace) -> int:
    answer = ask_daemon("status")
    if answer and answer["status"].get("version") != __version__:
        print(
            f"infinite-memory: the daemon is version {in_one_line(str(answer['status'].get('version')))}, this program is "
            f"version {__version__}; its next client has it make room, and so does a restart of the service",
            file=sys.stderr,
        )
    if options.json:
        print(json.dumps(answer["status"] if answer else {"running": False}))
        return 0 if answer else 1
    if answer is None:
        print("no daemon runs")
        return 1
    for name, value in answer["status"].items():
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            print(f"{'' if index else name:<12} {in_one_line(_format_value(item))}")
    return 0


def _format_value(value: Any) -> str:
    """Return one value of the status on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {'never' if item is None else item}" for key, item in value.items())
    return "none" if value is None else str(value)


def _is_alive(pid: int) -> bool:
    """True if a process is running; a zombie is not."""
    with contextlib.suppress(OSError, IndexError):
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
            return False
    if os.name != "posix":  # os.kill ends the process there, whatever the signal
        import psutil

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


COMMANDS = {"daemon": daemon}
