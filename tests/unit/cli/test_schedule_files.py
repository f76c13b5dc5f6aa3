"""`schedule`: files for the system's scheduler, read back by what is at hand of their readers; none of it is run here."""

from __future__ import annotations

import configparser
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.schedule import NAMESPACE, Schedule, make_schedule, system_of
from infinite_memory.cli.uninstall import _find_units
from tests.processes import ROOT

USER = Path("/home/ada")
COMMAND = ["/opt/my tools/infinite-memory", "backup", "--rotate", "--lock"]
HOME = "/data/100% mine/$memory"


def made(system: str, home: str | None = HOME) -> Schedule:
    return make_schedule(system, COMMAND, (3, 5), home, {}, USER)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("system", ["systemd", "launchd"])
def test_what_starts_programs_is_written_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    before = os.umask(0)
    try:
        assert main(["schedule", "--system", system, "--write"]) == 0
    finally:
        os.umask(before)
    modes = {(one.is_dir(), one.stat().st_mode & 0o777) for one in tmp_path.rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_systemd_starts_the_program_once_a_day() -> None:
    service, timer = (configparser.ConfigParser(interpolation=None, delimiters=("=",)) for _ in range(2))
    for parser in (service, timer):
        parser.optionxform = str  # type: ignore[assignment,method-assign]
    texts = {file.name: data.decode() for file, data in made("systemd").files.items() if file is not None}
    service.read_string(texts["infinite-memory-backup.service"])
    timer.read_string(texts["infinite-memory-backup.timer"])
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(service["Service"]["ExecStart"])]
    assert words == COMMAND
    assert service["Service"]["Environment"] == '"INFINITE_MEMORY_HOME=/data/100%% mine/$$memory"'
    assert service["Service"]["SuccessExitStatus"] == "75"
    assert timer["Timer"]["OnCalendar"] == "*-*-* 03:05:00"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_systemd_itself_finds_nothing_wrong(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not installed")
    command = [sys.executable, "a b", "100%", "$HOME"]
    schedule = make_schedule("systemd", command, (3, 5), HOME, {"XDG_CONFIG_HOME": str(tmp_path)}, USER)
    for file, data in schedule.files.items():
        assert file is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    names = [str(file) for file in schedule.files]
    done = subprocess.run([verify, "verify", "--man=no", *names], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "infinite-memory" in line] == []


def test_systemd_itself_finds_nothing_wrong_with_the_unit_of_the_daemon(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "infinite-memory.service"
    text = (ROOT / "docs" / "systemd" / unit.name).read_text("utf-8")
    unit.write_text(text.replace("%h/infinite-memory/.venv/bin/infinite-memory", sys.executable), "utf-8")
    assert sys.executable in unit.read_text("utf-8")
    done = subprocess.run([verify, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


def test_launchd_reads_its_agent() -> None:
    [(file, data)] = made("launchd").files.items()
    agent = plistlib.loads(data)
    assert file == USER / "Library" / "LaunchAgents" / f"{agent['Label']}.plist"
    assert agent["ProgramArguments"] == COMMAND
    assert agent["StartCalendarInterval"] == {"Hour": 3, "Minute": 5}
    assert agent["EnvironmentVariables"] == {"INFINITE_MEMORY_HOME": HOME}
    assert "EnvironmentVariables" not in plistlib.loads(next(iter(made("launchd", None).files.values())))


def test_the_task_of_windows_is_as_its_schema_has_it() -> None:
    """The order and names of MS-TSCH 2.5: a sequence of start and schedule, and settings in any order."""
    [(file, data)] = made("windows", None).files.items()
    assert data.startswith(b"\xff\xfe")
    task = Xml.fromstring(data)
    space = {"t": NAMESPACE}
    assert task.tag == f"{{{NAMESPACE}}}Task"
    assert [part.tag.partition("}")[2] for part in task] == ["RegistrationInfo", "Triggers", "Settings", "Actions"]
    trigger = task.find("t:Triggers/t:CalendarTrigger", space)
    assert trigger is not None
    assert [part.tag.partition("}")[2] for part in trigger] == ["StartBoundary", "ScheduleByDay"]
    assert task.findtext("t:Triggers/t:CalendarTrigger/t:StartBoundary", namespaces=space) == "2026-01-01T03:05:00"
    assert task.findtext("t:Actions/t:Exec/t:Command", namespaces=space) == COMMAND[0]
    assert task.findtext("t:Actions/t:Exec/t:Arguments", namespaces=space) == "backup --rotate --lock"
    assert task.findtext("t:Settings/t:StartWhenAvailable", namespaces=space) == "true"
    assert str(file) in made("windows", None).turn_on


def test_a_task_of_windows_sets_the_home_that_was_named() -> None:
    [data] = make_schedule(
        "windows", [r"C:\my tools\im.exe", "backup"], (3, 5), r"D:\my memory", {}, USER
    ).files.values()
    task = Xml.fromstring(data)
    assert task.findtext(".//{*}Command") == "cmd.exe"
    assert task.findtext(".//{*}Arguments") == (
        r'/d /s /c "set "INFINITE_MEMORY_HOME=D:\my memory" && "C:\my tools\im.exe" backup"'
    )


def test_a_line_of_a_crontab() -> None:
    [(file, data)] = made("cron").files.items()
    assert file is None
    minute, hour, *days, command = data.decode().split(None, 5)
    assert (minute, hour, days) == ("5", "3", ["*", "*", "*"])
    assert shlex.split(command.replace(r"\%", "%")) == [f"INFINITE_MEMORY_HOME={HOME}", *COMMAND]


@pytest.mark.parametrize(("platform", "system"), [("linux", "systemd"), ("darwin", "launchd"), ("win32", "windows")])
def test_every_platform_has_its_scheduler(platform: str, system: str) -> None:
    assert system_of(platform) == system


@pytest.mark.parametrize("system", ["systemd", "launchd", "windows"])
def test_what_is_written_is_found_by_uninstall(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("INFINITE_MEMORY_HOME", raising=False)
    assert main(["schedule", "--system", system]) == 0
    assert not list(tmp_path.iterdir())
    assert main(["schedule", "--system", system, "--at", "23:59", "--write"]) == 0
    wrote = {
        Path(line.removeprefix("wrote ")) for line in capsys.readouterr().out.splitlines() if line.startswith("wrote ")
    }
    assert wrote == {file for file, _ in _find_units({})}
    assert wrote


def test_a_time_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "--at", "25:00"]) == 2
    assert "--at: '25:00' is no time of day" in capsys.readouterr().err
