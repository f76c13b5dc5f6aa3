"""`schedule`: unit files for a nightly backup by the system: systemd, launchd, Windows Task Scheduler, cron.

A running daemon makes that backup itself; the system also makes it if the memory has not been used for days. A file names this
installation by its absolute path, and the home if the user named one. Files are only printed, or with ``--write`` written where the
system looks for them; the command that enables them is printed and never run. `uninstall` removes them by the same names.
"""

from __future__ import annotations

import argparse
import os
import plistlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from infinite_memory.cli import outcome
from infinite_memory.errors import ConfigError
from infinite_memory.platform_files import make_folder

SYSTEMS = (SYSTEMD, LAUNCHD, WINDOWS, CRON) = "systemd", "launchd", "windows", "cron"
UNIT, LABEL, TASK = "infinite-memory-backup", "org.infinite-memory.backup", "infinite-memory-backup"
ARGUMENTS = ("backup", "--rotate", "--lock")
BUSY = 75  # exit code of `backup --lock` while another backup is running
NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Files by path, and the command that enables them. A crontab line is not a file: its path is None."""

    files: Mapping[Path | None, bytes]
    turn_on: str


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    parser = commands.add_parser("schedule", help="show the files that have the system make a backup each night")
    parser.add_argument("--system", choices=SYSTEMS, help="default: that of this machine")
    parser.add_argument("--at", default="03:00", metavar="HH:MM", help="when; default: 03:00")
    parser.add_argument("--write", action="store_true", help="put them where the system looks for them")
    outcome.add_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show the files, or write them and print how to enable them."""
    from infinite_memory.cli.connect import find_command

    match = _TIME.fullmatch(options.at)
    if match is None:
        raise ConfigError(f"--at: {options.at!r} is no time of day such as 03:00")
    command, arguments = find_command()
    home = os.environ.get("INFINITE_MEMORY_HOME")
    named = str(Path(home).expanduser().absolute()) if home else None
    system = options.system or system_of(sys.platform)
    time_of_day = int(match[1]), int(match[2])
    schedule = make_schedule(system, [command, *arguments, *ARGUMENTS], time_of_day, named, os.environ, Path.home())
    with outcome.collect_outcome(options) as result:
        result |= {"system": system, "at": options.at, "files": [], "turn_on": schedule.turn_on}
        for file, data in schedule.files.items():
            result["files"].append(_show_or_write(file, data, write=options.write))
        print(f"# turn it on: {schedule.turn_on}", file=sys.stderr)
    return 0


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _show_or_write(file: Path | None, data: bytes, *, write: bool) -> dict[str, Any]:
    """Print a file, or write it if *write* is true, and return its entry for the outcome."""
    text = data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8")
    is_written = file is not None and write
    if file is None or not write:
        print(f"# {file}" if file else "# a line of your crontab (crontab -e)", file=sys.stderr)
        sys.stdout.write(text)
    else:
        make_folder(file.parent)  # whoever can write there can run programs as this user
        with open(file, "wb", opener=_for_the_owner) as opened:
            opened.write(data)
        print(f"wrote {file}")
    return {"file": str(file) if file else None, "text": text, "written": is_written}


def system_of(platform: str) -> str:
    """Return the scheduler of a platform, as in `sys.platform`."""
    return {"darwin": LAUNCHD, "win32": WINDOWS}.get(platform, SYSTEMD)


def make_schedule(
    system: str,
    command: Sequence[str],
    time_of_day: tuple[int, int],
    home: str | None,
    environ: Mapping[str, str],
    user: Path,
) -> Schedule:
    """Return the schedule that makes *system* run *command* each day.

    Args:
        time_of_day: Hour and minute, in the system's zone.
        home: The home of the memory, if the user named one.
    """
    match system:
        case "systemd":
            return _for_systemd(command, time_of_day, home, systemd_folder(environ, user))
        case "launchd":
            return _for_launchd(command, time_of_day, home, user)
        case "windows":
            return _for_windows(command, time_of_day, home, user)
    line = f"{time_of_day[1]} {time_of_day[0]} * * *  {_with_home_posix(command, home)}\n".replace("%", r"\%")
    return Schedule({None: line.encode()}, "crontab -e")


def systemd_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return the folder of the user's units."""
    config = Path(environ["XDG_CONFIG_HOME"]) if environ.get("XDG_CONFIG_HOME") else user / ".config"
    return config / "systemd" / "user"


def _for_systemd(command: Sequence[str], time_of_day: tuple[int, int], home: str | None, folder: Path) -> Schedule:
    environment = f"Environment={_systemd_word(f'INFINITE_MEMORY_HOME={home}')}\n" if home else ""
    service = (
        "[Unit]\nDescription=Backup of InfiniteMemory\n\n[Service]\nType=oneshot\n"
        f"{environment}ExecStart={' '.join(map(_systemd_word, command))}\n"
        f"# another backup is under way\nSuccessExitStatus={BUSY}\nNice=10\n"
    )
    timer = (
        "[Unit]\nDescription=Nightly backup of InfiniteMemory\n\n[Timer]\n"
        f"OnCalendar=*-*-* {time_of_day[0]:02}:{time_of_day[1]:02}:00\n"
        "# A night that the machine slept through is made up for at the next start.\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    files: dict[Path | None, bytes] = {
        folder / f"{UNIT}.service": service.encode(),
        folder / f"{UNIT}.timer": timer.encode(),
    }
    return Schedule(files, f"systemctl --user enable --now {UNIT}.timer")


def _systemd_word(text: str) -> str:
    """Quote a word of a unit: ``%`` and ``$`` are expanded there, even inside quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _for_launchd(command: Sequence[str], time_of_day: tuple[int, int], home: str | None, user: Path) -> Schedule:
    log = str(user / "Library" / "Logs" / f"{UNIT}.log")
    agent: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "StartCalendarInterval": {"Hour": time_of_day[0], "Minute": time_of_day[1]},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "ProcessType": "Background",
    }
    if home:
        agent["EnvironmentVariables"] = {"INFINITE_MEMORY_HOME": home}
    file = user / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    return Schedule(
        {file: plistlib.dumps(agent, sort_keys=False)}, f"launchctl bootstrap gui/$(id -u) {shlex.quote(str(file))}"
    )


def _for_windows(command: Sequence[str], time_of_day: tuple[int, int], home: str | None, user: Path) -> Schedule:
    """Return a task; tasks have no environment variables, so a named home is set by ``cmd``."""
    program, arguments = command[0], subprocess.list2cmdline(command[1:])
    if home:
        program, arguments = (
            "cmd.exe",
            f'/d /s /c "set "INFINITE_MEMORY_HOME={home}" && {subprocess.list2cmdline(command)}"',
        )
    task = Xml.Element("Task", {"version": "1.2", "xmlns": NAMESPACE})
    _add(task, {
        "RegistrationInfo": {"Description": "Nightly backup of InfiniteMemory", "URI": f"\\{TASK}"},
        "Triggers": {"CalendarTrigger": {
            "StartBoundary": f"2026-01-01T{time_of_day[0]:02}:{time_of_day[1]:02}:00", "ScheduleByDay": {"DaysInterval": "1"},
        }},
        "Settings": {
            "MultipleInstancesPolicy": "IgnoreNew", "DisallowStartIfOnBatteries": "false", "StopIfGoingOnBatteries": "false",
            "StartWhenAvailable": "true", "ExecutionTimeLimit": "PT2H",
        },
        "Actions": {"Exec": {"Command": program, "Arguments": arguments}},
    })  # fmt: skip
    Xml.indent(task)
    text = f'<?xml version="1.0" encoding="UTF-16"?>\n{Xml.tostring(task, encoding="unicode")}\n'
    file = user / f"{TASK}.xml"
    return Schedule({file: text.encode("utf-16")}, f'schtasks /Create /TN {TASK} /XML "{file}"')


def _add(parent: Xml.Element, parts: Mapping[str, Any]) -> None:
    for name, value in parts.items():
        child = Xml.SubElement(parent, name)
        if isinstance(value, str):
            child.text = value
        else:
            _add(child, value)


def _with_home_posix(command: Sequence[str], home: str | None) -> str:
    set_home = f"INFINITE_MEMORY_HOME={shlex.quote(home)} " if home else ""
    return f"{set_home}{shlex.join(command)}"


COMMANDS = {"schedule": run}
