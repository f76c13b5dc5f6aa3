"""Commands for the whole memory. `verify` only needs the file; the others use the daemon.

None of them is interactive. Exit codes: 0 done, 1 it failed, 2 usage or configuration error, 75 another backup is running
(`backup --lock` only).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.cli import daemon_requests
from infinite_memory.cli.progress import add_option, asking
from infinite_memory.cli.tables import local_day, shorten
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import format_count
from infinite_memory.paths import Home
from infinite_memory.platform_files import lock_file

if TYPE_CHECKING:
    from infinite_memory.config import Config

Json = dict[str, Any]
Ask = Callable[[Json], Json]
BUSY = 75  # sysexits.h: try again later


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `infinite-memory`."""
    backup = commands.add_parser("backup", parents=[common], help="write a backup, and read it back")
    backup.add_argument("--rotate", action="store_true", help="count it as scheduled, and remove what is too old")
    backup.add_argument("--lock", action="store_true", help="do nothing while another such backup runs (exit code 75)")
    backup.add_argument("--json", action="store_true")
    verify = commands.add_parser("verify", parents=[common], help="read a whole backup and check every part")
    checked = verify.add_mutually_exclusive_group(required=True)
    checked.add_argument("file", nargs="?", metavar="FILE", help="a name in the backup folder, or a path")
    checked.add_argument("--newest", action="store_true", help="the newest one in the backup folder")
    verify.add_argument("--json", action="store_true")
    unlocked_about = "take a backup that is not locked though the settings name a passphrase or key file"
    verify.add_argument("--allow-unlocked", action="store_true", help=unlocked_about)
    restore = commands.add_parser(
        "restore",
        parents=[common],
        help="restore a backup; over existing memories it adds what is missing, unless --replace is given",
    )
    restore.add_argument("file", metavar="FILE", help="a name in the backup folder, or a path")
    how = restore.add_mutually_exclusive_group()
    how.add_argument("--replace", action="store_true", help="put it in the place of what is there, backed up first")
    how.add_argument("--merge", action="store_true", help="add what is missing, change nothing (the default)")
    how.add_argument("--only-scope", metavar="NAME", help="add this scope of the backup alone, as a new scope")
    restore.add_argument("--as-scope", metavar="NAME", help="with --only-scope: name of the new scope")
    restore.add_argument(
        "--dry-run", action="store_true", help="check everything and tell what would change; change nothing"
    )
    restore.add_argument("--allow-unlocked", action="store_true", help=unlocked_about)
    restore.add_argument("--json", action="store_true")
    export = commands.add_parser("export", parents=[common], help="write what is remembered as text")
    export.add_argument("--format", choices=("jsonl", "markdown", "csv"), default="jsonl")
    export.add_argument("--only-scope", metavar="NAME", help="only this scope")
    export.add_argument("--include-deleted", action="store_true", help="soft-deleted memories too")
    export.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help="a new file; for markdown a folder, one file a scope; - is standard output",
    )
    export.add_argument("--json", action="store_true", help="with --output: print what was written, as JSON")
    importing = commands.add_parser("import", parents=[common], help="read what was exported here or elsewhere")
    source = importing.add_mutually_exclusive_group(required=True)
    source.add_argument("path", nargs="?", type=Path, metavar="PATH", help="a file or a folder")
    source.add_argument(
        "--mongodb",
        metavar="URI",
        help="the server of an older InfiniteMemoryMCP's database; - reads the URI from standard input",
    )
    importing.add_argument("--database", metavar="NAME", help="with --mongodb: the database; default: the URI's")
    importing.add_argument("--format", metavar="NAME", help="what it is; default: found by looking")
    importing.add_argument("--into-scope", metavar="NAME", help="where everything goes")
    importing.add_argument("--dry-run", action="store_true", help="only tell what would be added")
    importing.add_argument("--json", action="store_true")
    for command in (backup, restore, export, importing):
        add_option(command)


def backup(options: argparse.Namespace, ask: Ask, home: Home) -> int:
    """Write a backup and print its path: one line, or one JSON object."""
    with _lock(home) if options.lock else contextlib.nullcontext(True) as free:
        if not free:
            print("infinite-memory backup: another backup is under way", file=sys.stderr)
            return BUSY
        reply = ask({"action": "backup_memory"} | ({"scheduled": True} if options.rotate else {}))
    if options.json or reply["status"] != "OK":
        code = daemon_requests.report(reply)
        # The request has no fields of the user's, so if it is invalid, the settings are at fault.
        return 2 if reply.get("error_code") == "INVALID_REQUEST" else code
    counts = reply["counts"]
    locked = ", encrypted" if reply.get("encrypted") else ""
    removed = f", {len(reply['removed'])} older removed" if reply.get("removed") else ""
    size, memories = format_count(reply["size_bytes"], "byte"), format_count(counts.get("memories", 0), "memory")
    print(f"{reply['path']}  {size}  {memories}{locked}{removed}")
    return 0


def verify(options: argparse.Namespace, folder: Path, config: Config) -> int:
    """Check a backup file; 0 if it is intact. Needs no daemon and no MongoDB."""
    from infinite_memory.backup.encryption import find_secret
    from infinite_memory.backup.folder import display_name, find_backup, find_newest
    from infinite_memory.backup.service import Checks, verify_file

    checks = Checks.of(config, find_secret(config.backup), allow_unlocked=options.allow_unlocked)
    backup = verify_file(find_newest(folder) if options.newest else find_backup(folder, options.file), checks)
    if options.json:
        fields = {
            "whole": True,
            "file": str(backup.file),
            "size_bytes": backup.size_bytes,
            "counts": dict(backup.counts),
        }
        print(json.dumps(fields))
    else:
        size = f"{format_count(backup.memories, 'memory')} in {format_count(backup.scopes, 'scope')}"
        print(f"{display_name(backup.file)} is whole: {size}, made {backup.created_at}")
    return 0


def restore(options: argparse.Namespace, ask: Ask, folder: Path) -> int:
    """Restore a backup; with existing memories it merges, which leaves those unchanged."""
    from infinite_memory.backup.folder import find_backup

    request: Json = {"action": "restore_backup", "file": str(find_backup(folder, options.file).absolute())}
    request |= {"scope": options.only_scope} if options.only_scope else {}
    request |= {"as_scope": options.as_scope} if options.as_scope else {}
    if options.replace or not options.only_scope:
        request["mode"] = "replace" if options.replace else "merge"
    request |= {"dry_run": True} if options.dry_run else {}
    request |= {"allow_unlocked": True} if options.allow_unlocked else {}
    reply = ask(request)
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    would = "would restore" if options.dry_run else "restored"
    changes = [
        f"{format_count(reply[name], noun) if noun else format(reply[name], ',')} {label}"
        for name, noun, label in (
            ("skipped_memories", None, "already there"),
            ("replaced_memories", None, "of them in the place of what is there now"),
            ("removed_memories", "other", "removed"),
            ("dropped_scopes", "scope", "removed"),
        )
        if reply.get(name)
    ]
    saved = f"; what was there before is in {reply['saved_before']}" if "saved_before" in reply else ""
    suffix = "".join(f", {change}" for change in changes)
    memories = format_count(reply["restored_memories"], "memory")
    print(f"{would} {memories} in {format_count(reply['restored_scopes'], 'new scope')}{suffix}{saved}")
    return 0


def import_(options: argparse.Namespace, ask: Ask) -> int:
    """Import a file or folder, and print what was added and what was not."""
    request: Json = {"action": "import_memory", "dry_run": options.dry_run}
    if options.mongodb is not None:
        uri = sys.stdin.readline().strip() if options.mongodb == "-" else options.mongodb
        request |= {"mongodb_uri": uri} | ({"database": options.database} if options.database else {})
    else:
        request["path"] = str(options.path.absolute())
    request |= {"format": options.format} if options.format else {}
    request |= {"scope": options.into_scope} if options.into_scope else {}
    reply = ask(request)
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    would = "would be " if options.dry_run else ""
    print(
        f"{reply['format']}: {reply['added']:,} {would}added, {reply['present']:,} already there, {reply['skipped']:,} skipped"
    )
    if "note" in reply:
        print(f"  {reply['note']}")
    if also_added := reply.get("also_added"):
        additions = ", ".join(f"{count:,} {kind}" for kind, count in also_added.items())
        print(f"  {'would also be' if options.dry_run else 'also'} added: {additions}")
    if preview := reply.get("preview"):
        _print_preview(preview)
    for entry in (listed := reply.get("skipped_entries", [])):
        value = f": {in_one_line(str(entry['value']))}" if "value" in entry else ""
        print(f"  skipped {in_one_line(entry['entry'])}: {in_one_line(entry['why'])}{value}", file=sys.stderr)
    if len(listed) < reply["skipped"]:
        for reason, count in reply.get("skipped_reasons", {}).items():
            print(f"  {count:,} in all: {in_one_line(reason)}", file=sys.stderr)
    return 0


def _print_preview(preview: Json) -> None:
    """Print the result of a dry run: target scopes, time range, and the first memories."""
    names = [
        f"{in_one_line(scope['name'])}{' (new)' if scope['is_new'] else ''} {scope['added']:,}"
        for scope in preview["scopes"]
    ]
    others = [f"others {preview['in_other_scopes']:,}"] if preview["in_other_scopes"] else []
    print(f"  into the scopes: {', '.join(names + others)}")
    if preview["earliest"]:
        print(f"  from {local_day(preview['earliest'])} to {local_day(preview['latest'])}")
    for name, message in (
        ("undated", "without a date, which get the time of the import"),
        ("forgotten", "of them forgotten where they come from, and then here"),
    ):
        if preview[name]:
            print(f"  {preview[name]:,} {message}")
    for sample in preview["samples"]:
        day = local_day(sample["timestamp"]) or "no date"
        about = ", ".join([sample["scope"], *(f"#{tag}" for tag in sample["tags"])])
        text = f"{sample['speaker']}: {sample['text']}" if "speaker" in sample else sample["text"]
        print(f"  for example: {day}  {in_one_line(about)}  {shorten(in_one_line(text))}")


def _backup(options: argparse.Namespace) -> int:
    return backup(options, asking(options, "backup"), daemon_requests.home_and_config(options)[0])


def _verify(options: argparse.Namespace) -> int:
    folder, config = _folder(options)
    return verify(options, folder, config)


def _restore(options: argparse.Namespace) -> int:
    return restore(options, asking(options, "restore"), _folder(options)[0])


def _export(options: argparse.Namespace) -> int:
    from infinite_memory.cli.export import export

    return export(options, asking(options, "export"))


def _import(options: argparse.Namespace) -> int:
    return import_(options, asking(options, "import", any_path=True))


def _folder(options: argparse.Namespace) -> tuple[Path, Config]:
    home, config = daemon_requests.home_and_config(options)
    return home.backup_folder(config.backup.folder), config


COMMANDS = {
    "backup": _backup,
    "verify": _verify,
    "restore": _restore,
    "export": _export,
    "import": _import,
}


@contextlib.contextmanager
def _lock(home: Home) -> Iterator[bool]:
    """Take the lock against overlapping backups; False if another process holds it. It is released when this process ends."""
    home.make()
    with (home.path / "backup.lock").open("ab") as file:
        yield lock_file(file.fileno(), wait=False)
