"""`daemon run|start|stop|status`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from infinite_memory.cli.reach import ask_daemon, greeting_of, home_and_config, tell_notes
from infinite_memory.home import find_home

STOP_S = 45.0


def daemon(options: argparse.Namespace) -> int:
    """Run, start, stop or show the daemon of the home."""
    return {"run": _run, "start": _start, "stop": _stop, "status": _status}[options.what](options)


def _run(options: argparse.Namespace) -> int:
    from infinite_memory.daemon import run

    home, config = home_and_config(options)
    return run(config, home)


def _start(options: argparse.Namespace) -> int:
    from infinite_memory.greeting import greet

    link, answer = greet(find_home(os.environ).path, greeting_of(options))
    link.close()
    tell_notes(answer)
    print(f"the daemon runs (process {answer.get('pid')})")
    return 0


def _stop(options: argparse.Namespace) -> int:
    answer = ask_daemon("stop")
    if answer is None:
        print("no daemon runs")
        return 0
    end = time.monotonic() + STOP_S
    while _is_alive(int(answer["pid"])):
        if time.monotonic() > end:
            print(f"the daemon (process {answer['pid']}) is still finishing")
            return 1
        time.sleep(0.02)
    print("the daemon has stopped")
    return 0


def _status(options: argparse.Namespace) -> int:
    answer = ask_daemon("status")
    if options.json:
        print(json.dumps(answer["status"] if answer else {"running": False}))
        return 0 if answer else 1
    if answer is None:
        print("no daemon runs")
        return 1
    for name, value in answer["status"].items():
        for at, one in enumerate(value if isinstance(value, list) else [value]):
            print(f"{'' if at else name:<12} {_shown(one)}")
    return 0


def _shown(value: Any) -> str:
    """Write one value of the status on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {'never' if one is None else one}" for key, one in value.items())
    return "none" if value is None else str(value)


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended and that its parent did not collect yet does not."""
    with contextlib.suppress(OSError, IndexError):
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
