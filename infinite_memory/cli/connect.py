"""`connect`: add this memory to the configuration of an MCP client, with its hooks if it has any, or remove it again.

Only our own entry is changed, and in an existing one only the command, its arguments and the options of `connect`: the user's
``env``, ``timeout`` and the like, the file's other servers, its comments and its layout stay as they are (`config_edit`). The original
file is kept as a copy next to it. Such files hold keys: neither copy nor new file ever has wider permissions than the original.
"""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infinite_memory.cli import client_hooks, outcome, plugin
from infinite_memory.cli.client_files import CLIENTS, Target, find_target
from infinite_memory.cli.config_edit import (
    find_entry,
    merged,
    remove_json_entry,
    remove_toml_table,
    set_json_entry,
    set_toml_table,
)
from infinite_memory.errors import ConfigError
from infinite_memory.platform_files import make_folder, read_regular_text

Json = dict[str, Any]

NAME = "infinite-memory"
HOOK_PROGRAM = "from infinite_memory.hooks.run import main; main()"


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    connecting = commands.add_parser("connect", help="enter this memory into an MCP client's configuration")
    connecting.add_argument(
        "client", choices=CLIENTS, metavar="CLIENT", help=f"{', '.join(CLIENTS[:-1])} or {CLIENTS[-1]}",
    )  # fmt: skip
    connecting.add_argument("--print", action="store_true", help="only show what would be entered, and where")
    connecting.add_argument("--remove", action="store_true", help="take it out again")
    connecting.add_argument("--scope", metavar="NAME", help="the scope that is active at first")
    connecting.add_argument("--tools", choices=("core", "all"), help="which tools the client is offered")
    connecting.add_argument(
        "--plugin", action="store_true",
        help="claude-code: install the plugin, with hooks and slash commands beside the server",
    )  # fmt: skip
    connecting.add_argument(
        "--no-hooks", action="store_true",
        help=f"{', '.join(client_hooks.CLIENTS)}: the server alone, without hooks that store what is said",
    )  # fmt: skip
    outcome.add_option(connecting)


def connect(options: argparse.Namespace) -> int:
    """Add this memory to a client's configuration; with ``--print`` only show what would be added."""
    with outcome.collect_outcome(options) as result:
        result |= {"client": options.client, "changed": False, "files": []}
        _connect(options, result)
    return 0


def _connect(options: argparse.Namespace, result: Json) -> None:
    try:
        user = Path.home()
    except RuntimeError:  # neither HOME nor an entry in the user database
        raise ConfigError("HOME is not set: it is not known where the client keeps its settings") from None
    target = find_target(options.client, os.environ, sys.platform, user)
    entry = server_entry(os.environ, scope=options.scope, tools=options.tools, with_type=target.needs_type)
    if options.plugin:
        if options.client != "claude-code":
            raise ConfigError(f"--plugin is for claude-code; {target.title} has no plugin of ours")
        _connect_plugin(options, target, entry, user, result)
        return
    hook_file = None if options.no_hooks else client_hooks.find_hook_file(options.client, os.environ, user)
    commands = {} if hook_file is None else _hook_commands(options.client, entry)
    if options.print:
        entries = {target.file: render_entry(target, entry)}
        if hook_file is not None:
            entries[hook_file.file] = client_hooks.with_hooks(hook_file, entries.get(hook_file.file, ""), commands)
        print("\n".join(f"{file}:\n{text}" for file, text in entries.items()), end="")
        result["files"] = [{"file": str(file), "text": text} for file, text in entries.items()]
        return
    edits = _edits(target, hook_file, None if options.remove else entry, commands)
    changed = {file: (before, after) for file, (before, after) in edits.items() if after != (before or "")}
    if not changed:
        already = "has no entry for it" if options.remove else "has this entry already"
        print(f"{target.title} {already}: {target.file}")
        return
    for file, (before, after) in changed.items():
        backup = _replace(file, before, after, result)
        action = "taken out of" if options.remove else "entered into"
        print(f"{NAME} was {action} {file}" + (f"\nthe file as it was: {backup}" if backup else ""))
    if hook_file is not None and not options.remove:
        print(client_hooks.describe(options.client, target.title))
        print(hook_file.after, end="\n" if hook_file.after else "")
    print(target.restart)
    if note := target.farewell if options.remove else target.hint:
        print(note)


def _replace(file: Path, before: str | None, after: str, result: Json) -> Path | None:
    """Write a client's file, record it in *result*, and return the copy of the original, if there was one."""
    backup = replace_text(file, after, keep_copy=before is not None)
    result["changed"] = True
    result["files"].append({"file": str(file), "copy": str(backup) if backup else None})
    return backup


def _hook_commands(client: str, entry: Json) -> dict[str, str]:
    environ = entry.get("env")
    home = environ.get("INFINITE_MEMORY_HOME") if isinstance(environ, dict) else None
    return client_hooks.hook_commands(client, find_hook_command(), home, is_windows=os.name == "nt")


def _edits(
    target: Target, place: client_hooks.HookFile | None, entry: Json | None, commands: Mapping[str, str]
) -> dict[Path, tuple[str | None, str]]:
    """Return for each file the text before and after; without *entry* our parts are removed.

    Raises:
        ConfigError: a file cannot be read, parsed or changed safely.
    """
    files: dict[Path, tuple[str | None, str]] = {}
    for file in dict.fromkeys([target.file, *([place.file] if place is not None else [])]):
        before = _read(file)
        text = before or ""
        try:
            if file == target.file:
                text = _edited(target, text, entry)
            if place is not None and file == place.file:
                add, take = client_hooks.with_hooks, client_hooks.without_hooks
                text = take(place, text) if entry is None else add(place, text, commands)
        except ValueError as exc:
            raise ConfigError(f"{file}: {exc}; nothing was changed") from None
        files[file] = (before, text)
    return files


def _connect_plugin(options: argparse.Namespace, target: Target, entry: Json, user: Path, result: Json) -> None:
    """Install the Claude Code plugin, or remove it.

    The plugin includes the server, so the separate server entry is removed, and the user's members of it (``env``, ``timeout``) are kept.
    """
    folder, settings = plugin.plugin_folder(os.environ, user), plugin.settings_file(os.environ, user)
    if options.remove:
        was_there = remove_claude_plugin(os.environ, user, dry_run=options.print)
        verb = "would be" if options.print else "was"
        print(
            f"the plugin {verb} taken out of {settings}, and {folder} removed"
            if was_there
            else f"{target.title} does not have the plugin: {settings}"
        )
        result["changed"] = was_there and not options.print
        result["files"] = [{"file": str(file)} for file in (settings, folder) if was_there]
        return
    plugin.check_folder(folder)
    servers = _read(target.file)
    try:
        existing = find_entry(servers or "", target.key, NAME, is_toml=False)
        without = _edited(target, servers or "", None)
    except ValueError as exc:
        raise ConfigError(f"{target.file}: {exc}; nothing was changed") from None
    try:
        entry = merged(existing or plugin.read_server(folder), entry)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{folder / plugin.SERVERS}: {exc}; nothing was changed") from None
    environ = entry.get("env")
    home = environ.get("INFINITE_MEMORY_HOME") if isinstance(environ, dict) else None
    files = plugin.render_plugin(*find_command(), find_hook_command(), entry, home if isinstance(home, str) else None)
    before = _read(settings)
    try:
        after = plugin.enabled(before or "", folder)
    except ValueError as exc:
        raise ConfigError(f"{settings}: {exc}; nothing was changed") from None
    if options.print:
        print(f"{folder}:\n" + "".join(f"  {name}\n" for name in files) + f"{settings}:\n{plugin.enabled('', folder)}")
        result["files"] = [{"file": str(folder / name), "text": text} for name, text in files.items()]
        result["files"].append({"file": str(settings), "text": plugin.enabled("", folder)})
        return
    try:
        plugin.write_plugin(folder, files)
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be written: {exc.strerror or exc}") from None
    result |= {"changed": True, "files": [{"file": str(folder / name), "copy": None} for name in files]}
    backup = _replace(settings, before, after, result) if after != (before or "") else None
    if without != (servers or ""):
        copy = _replace(target.file, servers, without, result)
        print(f"the plugin brings the server: its entry was taken out of {target.file}\nthe file as it was: {copy}")
    print(
        f"the plugin is in {folder}, and turned on in {settings}"
        + (f"\nthe file as it was: {backup}" if backup else "")
    )
    print(plugin.explain_start(folder))


def remove_claude_plugin(environ: Mapping[str, str], user: Path, *, dry_run: bool = False) -> bool:
    """Remove the plugin from Claude Code's settings, and its files; True if any part of it existed.

    Raises:
        ConfigError: a file cannot be read, parsed, written or removed.
    """
    folder, settings = plugin.plugin_folder(environ, user), plugin.settings_file(environ, user)
    before = _read(settings)
    try:
        after = plugin.disabled(before or "")
    except ValueError as exc:
        raise ConfigError(f"{settings}: {exc}; nothing was changed") from None
    is_there = after != (before or "") or plugin.has_plugin(folder)
    if not dry_run:
        if after != (before or ""):
            replace_text(settings, after, keep_copy=before is not None)
        try:
            plugin.remove_plugin(folder)
        except OSError as exc:
            raise ConfigError(f"{folder} cannot be removed: {exc.strerror or exc}") from None
    return is_there


def disconnect(client: str, environ: Mapping[str, str], user: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove our entries from a client's configuration, hooks included, and return the files that had any.

    Raises:
        ConfigError: a file cannot be read, parsed or written.
    """
    target = find_target(client, environ, sys.platform, user)
    edits = _edits(target, client_hooks.find_hook_file(client, environ, user), None, {})
    had = {file: (before, after) for file, (before, after) in edits.items() if after != (before or "")}
    for file, (before, after) in had.items():
        if not dry_run:
            replace_text(file, after, keep_copy=before is not None)
    return list(had)


def server_entry(environ: Mapping[str, str], *, scope: str | None, tools: str | None, with_type: bool) -> Json:
    """Return the server entry. Its command is absolute, because clients start servers with their own PATH."""
    command, arguments = find_command()
    arguments += ["serve", *(["--scope", scope] if scope else []), *(["--tools", tools] if tools else [])]
    entry: Json = {"type": "stdio"} if with_type else {}
    entry |= {"command": command, "args": arguments}
    if home := environ.get("INFINITE_MEMORY_HOME"):
        entry["env"] = {"INFINITE_MEMORY_HOME": str(Path(home).expanduser().absolute())}
    return entry


def find_command() -> tuple[str, list[str]]:
    """Return the command of this installation: uvx if uv created it for one run, else the script next to the interpreter, or the module."""
    if (run_once := uvx_command(Path(sys.prefix), os.environ)) is not None:
        return run_once
    beside = Path(sys.executable).parent / ("infinite-memory.exe" if os.name == "nt" else "infinite-memory")
    if beside.is_file():
        return str(beside), []
    executable = shutil.which("infinite-memory")
    if executable:
        return str(Path(executable).absolute()), []
    return sys.executable, ["-P", "-m", "infinite_memory"]


def find_hook_command() -> list[str]:
    """Return the command of a hook: the interpreter with the hook's module, or `find_command` if that is in another folder.

    The script written by an installer takes 1.5 times as long, because of its own imports.
    """
    command, arguments = find_command()
    if Path(command).parent == Path(sys.executable).parent:
        return [sys.executable, "-P", "-c", HOOK_PROGRAM]
    return [command, *arguments]


def uvx_command(prefix: Path, environ: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """Return the uvx command if *prefix* is an environment in uv's cache, which uv may remove; otherwise None."""
    if not any(name.startswith("archive-v") for name in prefix.parts) or not environ.get("UV"):
        return None
    uvx = Path(environ["UV"]).with_name("uvx.exe" if os.name == "nt" else "uvx")
    source = _installed_from()
    return str(uvx), [*(["--from", source] if source else []), NAME]


def _installed_from() -> str | None:
    """Return the URL that this package was installed from; None if it was the package index."""
    import importlib.metadata
    import json

    try:
        url = json.loads(importlib.metadata.distribution(NAME).read_text("direct_url.json") or "{}").get("url")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return str(url) if url else None


def render_entry(target: Target, entry: Json) -> str:
    """Return the entry as it would be written to an empty file."""
    return _edited(target, "", entry)


def _edited(target: Target, text: str, entry: Json | None) -> str:
    if entry is not None:
        entry = merged(find_entry(text, target.key, NAME, is_toml=target.is_toml), entry)
    if target.is_toml:
        return (
            remove_toml_table(text, target.key, NAME)
            if entry is None
            else set_toml_table(text, target.key, NAME, entry)
        )
    return remove_json_entry(text, target.key, NAME) if entry is None else set_json_entry(text, target.key, NAME, entry)


def _read(file: Path) -> str | None:
    try:
        return read_regular_text(file)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{file} cannot be read: {exc}; nothing was changed") from None


def replace_text(file: Path, after: str, *, keep_copy: bool = False) -> Path | None:
    """Rewrite a file atomically, keeping its permissions, and return the path of the copy, if one is kept.

    Raises:
        ConfigError: the file cannot be written.
    """
    file = file.resolve()  # a symbolic link stays a link
    backup = None
    try:
        make_folder(file.parent)
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600
        if keep_copy:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            names = (
                f"{file.name}.before-{NAME}-{stamp}{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 1000)))
            )
            backup = next(
                candidate for name in names if _create(candidate := file.with_name(name), file.read_bytes(), mode)
            )
        temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}.tmp")
        # JSON may contain a lone surrogate, which cannot be encoded; it is written as the escape that it was.
        if not _create(temporary, after.encode("utf-8", "backslashreplace"), mode):
            raise FileExistsError(errno.EEXIST, f"{temporary} is there already")
        temporary.replace(file)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror or exc}") from None
    return backup


def _create(file: Path, data: bytes, mode: int) -> bool:
    """Write a new file whose permissions never exceed *mode*; False if the name is taken."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 & mode)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        if os.name == "posix":
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    return True


COMMANDS = {"connect": connect}
