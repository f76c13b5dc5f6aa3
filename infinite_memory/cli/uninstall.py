"""`uninstall`: undo what this program did outside its own package, and print where the data is.

Removed are the entries and the plugin that `connect` added to clients' configurations, systemd and launchd units, and what can be
recreated (the models in the cache). Memories and backups stay, unless ``--delete-data`` is given and confirmed a second time; files that
this program did not write always stay (`own_files`). The package itself is removed by its installer. The thin client imports this
module too, for its arguments: heavy imports are lazy.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.cli import outcome, schedule
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.paths import Home, cache_folder, check_home_owner, find_home

if TYPE_CHECKING:
    from infinite_memory.cli.own_files import Removal

Json = dict[str, Any]

UNCONFIRMED = 2
CONFIRMATION = "delete my memories"

_SYSTEMD_UNITS = ("infinite-memory.service", f"{schedule.UNIT}.timer", f"{schedule.UNIT}.service")
_LAUNCHD_LABELS = ("org.infinitememory.daemon", schedule.LABEL)
_UNIT_S = 150.0  # the daemon may take up to two minutes to stop


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    parser = commands.add_parser(
        "uninstall", parents=[common], help="undo connect and units, and say where the data is; keeps all memories"
    )
    parser.add_argument("--delete-data", action="store_true", help="delete memories and backups too; asks once more")
    parser.add_argument("--yes", action="store_true", help="with --delete-data: do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    outcome.add_option(parser)


def run(options: argparse.Namespace) -> int:
    """Undo what can be undone; 0 if nothing failed, 2 if deleting the data was not confirmed."""
    home = find_home(os.environ)
    with outcome.collect_outcome(options) as result:
        result |= {"dry_run": options.dry_run, "removed": [], "stays": [], "elsewhere": [], "problems": []}
        result |= {"home": str(home.path), "backups": str(home.backups), "remove_program": _removal_command()}
        if options.delete_data and not options.dry_run and not _is_confirmed(options, home):
            print("infinite-memory uninstall: not confirmed, nothing was removed", file=sys.stderr)
            result |= {"status": "ERROR", "error": "not confirmed, nothing was removed"}
            return UNCONFIRMED
        return _uninstall(options, home, result)


def _uninstall(options: argparse.Namespace, home: Home, result: Json) -> int:
    elsewhere = _find_elsewhere(home)  # depends on the settings, which are removed with the home
    problems = [
        *_remove_units(os.environ, result),
        *_disconnect(result),
        *_stop_daemon(result),
        *_remove_cache(home, result),
    ]
    if options.delete_data and not problems:
        problems += _delete_home(home, result)
    else:
        _report_data(home)
    for line in elsewhere:
        print(line)
    for problem in problems:
        print(f"infinite-memory uninstall: {problem}", file=sys.stderr)
    print(f"the program itself is removed by what installed it: {result['remove_program']}")
    result |= {"status": "ERROR" if problems else "OK", "elsewhere": elsewhere, "problems": problems}
    return 1 if problems else 0


def _is_confirmed(options: argparse.Namespace, home: Home) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        print("infinite-memory uninstall: --delete-data asks on a terminal; elsewhere say --yes too", file=sys.stderr)
        return False
    print(f"This deletes every memory and backup in {home.path}. There is no way back. --dry-run lists what goes.")
    return input(f'Type "{CONFIRMATION}" to go on: ').strip().casefold() == CONFIRMATION


def _remove_units(environ: Mapping[str, str], result: Json) -> Iterator[str]:
    """Stop, disable and remove the units of ``docs/`` and `schedule`; yield the failures."""
    import subprocess

    for unit, command in _find_units(environ):
        print(f"{'would remove' if result['dry_run'] else 'removed'} {unit}")
        if result["dry_run"]:
            result["removed"].append(str(unit))
            continue
        try:
            subprocess.run(command, capture_output=True, timeout=_UNIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:  # no service manager is running, as in a container
            print(f"infinite-memory uninstall: {command[0]} did not answer: {exc}", file=sys.stderr)
        try:
            unit.unlink(missing_ok=True)
            result["removed"].append(str(unit))
        except OSError as exc:
            yield f"{unit} cannot be removed: {exc.strerror}"


def _find_units(environ: Mapping[str, str]) -> list[tuple[Path, list[str]]]:
    """Return the unit files of this user, each with the command that stops and disables it."""
    user = Path.home()
    folder = schedule.systemd_folder(environ, user)
    units = [(folder / name, ["systemctl", "--user", "disable", "--now", name]) for name in _SYSTEMD_UNITS]
    for label in _LAUNCHD_LABELS:
        file = user / "Library" / "LaunchAgents" / f"{label}.plist"
        units.append((file, ["launchctl", "bootout", f"gui/{os.getuid() if hasattr(os, 'getuid') else 0}/{label}"]))
    task = user / f"{schedule.TASK}.xml"
    units.append((task, ["schtasks", "/Delete", "/TN", schedule.TASK, "/F"]))
    return [(file, command) for file, command in units if file.is_file()]


def _disconnect(result: Json) -> Iterator[str]:
    """Remove our entry from every client's configuration; yield the failures."""
    dry_run = result["dry_run"]
    result["disconnected"] = []
    from infinite_memory.cli.client_files import CLIENTS
    from infinite_memory.cli.connect import disconnect, remove_claude_plugin

    for client in CLIENTS:
        try:
            for file in disconnect(client, os.environ, Path.home(), dry_run=dry_run):
                print(f"{'would take' if dry_run else 'took'} the entry out of {file} ({client})")
                result["disconnected"].append({"client": client, "file": str(file)})
        except ConfigError as exc:
            yield str(exc)
    try:
        if remove_claude_plugin(os.environ, Path.home(), dry_run=dry_run):
            print(f"{'would take' if dry_run else 'took'} the plugin out of Claude Code")
            result["disconnected"].append({"client": "claude-code", "file": None})
    except ConfigError as exc:
        yield str(exc)


def _stop_daemon(result: Json) -> Iterator[str]:
    from infinite_memory.cli.daemon import stop_daemon
    from infinite_memory.cli.daemon_requests import ask_daemon

    try:
        if result["dry_run"]:
            if ask_daemon("status"):
                print("would stop the daemon")
        elif not stop_daemon():
            yield "the daemon is still finishing; run this again in a minute"
    except DaemonError as exc:
        yield str(exc)


def _remove_cache(home: Home, result: Json) -> Iterator[str]:
    """Remove the models, which can be recreated; yield the failures."""
    from infinite_memory.cli.own_files import find_cache_parts

    try:
        cache = cache_folder(os.environ)
    except ConfigError:
        return
    try:
        removal = find_cache_parts(cache, home.path)
    except OSError as exc:
        yield f"{cache} cannot be read: {exc.strerror}"
        return
    yield from _remove(removal, "remove", result)


def _delete_home(home: Home, result: Json) -> Iterator[str]:
    """Delete this program's files from the home; yield the failures."""
    from infinite_memory.cli.own_files import find_home_parts, is_home

    try:
        if not is_home(home.path):
            yield f"{home.path} is not the home of a memory; nothing was deleted there"
            return
        check_home_owner(home.path)
        removal = find_home_parts(home.path)
    except OSError as exc:
        yield f"{home.path} is not deleted: {exc.strerror}"
        return
    yield from _remove(removal, "delete", result)


def _remove(removal: Removal, verb: str, result: Json) -> Iterator[str]:
    """Remove the parts, print what was removed and what stays, and yield the failures."""
    from infinite_memory.cli.own_files import remove

    dry_run = result["dry_run"]
    problems = [] if dry_run else list(remove(removal))
    done = f"would {verb}" if dry_run else f"{verb}d"
    # A folder that is removed whole is printed as one line; otherwise each part is.
    parts = removal.parts if removal.others or problems else removal.folders[-1:] or removal.parts
    for path in parts:
        if dry_run or not os.path.lexists(path):
            print(f"{done} {in_one_line(path)}")
            result["removed"].append(str(path))
    for foreign_path in removal.others:
        print(f"{in_one_line(foreign_path)} stays: this program did not make it")
        result["stays"].append(str(foreign_path))
    yield from problems


def _report_data(home: Home) -> None:
    if home.path.is_dir():
        print(f"your memories stay in {home.path}, backups in {home.backups} (--delete-data deletes the home)")


def _find_elsewhere(home: Home) -> list[str]:
    """Return what always stays outside the home: documents on a server, and backups in another folder."""
    from infinite_memory.config import load_config

    try:
        config = load_config(home.config_file, os.environ, {})
    except ConfigError as exc:
        return [f"what lies outside {home.path} is not known: {exc}"]
    lines = []
    if config.mongodb.uri:
        lines.append(
            f"memories and tokens stay on the server that mongodb.uri names; drop its database {config.mongodb.database} there if "
            "you want them gone"
        )
    for folder in dict.fromkeys((home.backup_folder(config.backup.folder), home.backups)):
        if not folder.is_relative_to(home.path) and any(folder.glob("*.dump")):
            lines.append(f"backups stay in {in_one_line(folder)}; delete them there if you want them gone")
    return lines


def _removal_command() -> str:
    """Return the command that removes the package, guessed from its location."""
    parts = Path(sys.prefix).parts
    if "uv" in parts and "tools" in parts:
        return "uv tool uninstall infinite-memory"
    if "pipx" in parts:
        return "pipx uninstall infinite-memory"
    return f"{in_one_line(sys.executable)} -m pip uninstall infinite-memory"


COMMANDS = {"uninstall": run}
