"""`connect`: write this memory into the configuration of an MCP client, or take it out again.

Only our own entry is touched: the file's other servers, its comments and its layout stay as they are (`config_edit`), and a
copy of the file as it was is kept beside it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.cli.config_edit import remove_json_entry, remove_toml_table, set_json_entry, set_toml_table
from infinite_memory.errors import ConfigError

Json = dict[str, Any]

NAME = "infinite-memory"
CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex", "windsurf")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client keeps its servers, and what it calls itself. ``key`` is the member of the file that holds them."""

    title: str
    file: Path
    key: str
    restart: str
    is_toml: bool = False
    needs_type: bool = False


def connect(options: argparse.Namespace) -> int:
    """Enter this memory into a client's configuration; with ``--print`` only show what would be entered."""
    target = find_target(options.client, os.environ, sys.platform, Path.home())
    entry = server_entry(os.environ, scope=options.scope, tools=options.tools, with_type=target.needs_type)
    if options.print:
        print(f"{target.file}:\n{shown_entry(target, entry)}")
        return 0
    before = _read(target.file)
    try:
        after = _edited(target, before or "", None if options.remove else entry)
    except ValueError as problem:
        raise ConfigError(f"{target.file}: {problem}; nothing was changed") from None
    if after == (before or ""):
        already = "has no entry for it" if options.remove else "has this entry already"
        print(f"{target.title} {already}: {target.file}")
        return 0
    backup = _replace(target.file, before, after)
    what = "taken out of" if options.remove else "entered into"
    print(f"{NAME} was {what} {target.file}" + (f"\nthe file as it was: {backup}" if backup else ""))
    print(target.restart)
    return 0


def find_target(client: str, environ: Mapping[str, str], platform: str, user: Path) -> Target:
    """Tell where *client* keeps its servers on *platform* (as in `sys.platform`)."""
    settings = _settings_folder(environ, platform, user)
    match client:
        case "claude-desktop":
            file = settings / "Claude" / "claude_desktop_config.json"
            return Target("Claude Desktop", file, "mcpServers", "Quit Claude Desktop and start it again.")
        case "claude-code":
            return Target(
                "Claude Code", user / ".claude.json", "mcpServers", "Start a new Claude Code session.", needs_type=True
            )
        case "cursor":
            return Target(
                "Cursor",
                user / ".cursor" / "mcp.json",
                "mcpServers",
                "Restart Cursor, or switch the server on in its settings.",
            )
        case "vscode":
            file = settings / "Code" / "User" / "mcp.json"
            return Target(
                "VS Code", file, "servers", 'Run "MCP: List Servers" in VS Code and start it.', needs_type=True
            )
        case "codex":
            folder = Path(environ["CODEX_HOME"]) if environ.get("CODEX_HOME") else user / ".codex"
            return Target("Codex", folder / "config.toml", "mcp_servers", "Start a new Codex session.", is_toml=True)
        case "windsurf":
            file = user / ".codeium" / "windsurf" / "mcp_config.json"
            return Target("Windsurf", file, "mcpServers", "Press refresh in Windsurf's MCP settings, or restart it.")
    raise ConfigError(f"{client} is not a client that is known here; known: {', '.join(CLIENTS)}")


def _settings_folder(environ: Mapping[str, str], platform: str, user: Path) -> Path:
    if platform == "darwin":
        return user / "Library" / "Application Support"
    if platform.startswith("win"):
        return Path(environ["APPDATA"]) if environ.get("APPDATA") else user / "AppData" / "Roaming"
    return Path(environ["XDG_CONFIG_HOME"]) if environ.get("XDG_CONFIG_HOME") else user / ".config"


def server_entry(environ: Mapping[str, str], *, scope: str | None, tools: str | None, with_type: bool) -> Json:
    """Write the entry: an absolute command, because clients start servers with a PATH of their own."""
    command, arguments = _command()
    arguments += ["serve", *(["--scope", scope] if scope else []), *(["--tools", tools] if tools else [])]
    entry: Json = {"type": "stdio"} if with_type else {}
    entry |= {"command": command, "args": arguments}
    if home := environ.get("INFINITE_MEMORY_HOME"):
        entry["env"] = {"INFINITE_MEMORY_HOME": str(Path(home).expanduser().absolute())}
    return entry


def _command() -> tuple[str, list[str]]:
    """Find what starts this installation: the script beside the interpreter, else the interpreter with the module."""
    beside = Path(sys.executable).parent / ("infinite-memory.exe" if os.name == "nt" else "infinite-memory")
    if beside.is_file():
        return str(beside), []
    found = shutil.which("infinite-memory")
    if found:
        return str(Path(found).absolute()), []
    return sys.executable, ["-m", "infinite_memory"]


def shown_entry(target: Target, entry: Json) -> str:
    """Write the entry as it would stand in an empty file."""
    return _edited(target, "", entry)


def _edited(target: Target, text: str, entry: Json | None) -> str:
    if target.is_toml:
        return (
            remove_toml_table(text, target.key, NAME)
            if entry is None
            else set_toml_table(text, target.key, NAME, entry)
        )
    return remove_json_entry(text, target.key, NAME) if entry is None else set_json_entry(text, target.key, NAME, entry)


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{file} cannot be read: {problem}; nothing was changed") from None


def _replace(file: Path, before: str | None, after: str) -> Path | None:
    """Write the file anew, whole or not at all, and keep a copy of what it was; gives the copy's path."""
    file = file.resolve()  # a link to a file elsewhere stays a link
    backup = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if before is not None:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            names = (f"{file.name}.before-{NAME}-{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 1000))))
            backup = next(one for name in names if not (one := file.with_name(name)).exists())
            shutil.copy2(file, backup)
        beside = file.with_name(f"{file.name}.{os.getpid()}.tmp")
        beside.write_bytes(after.encode("utf-8"))
        if before is not None:
            shutil.copymode(file, beside)
        beside.replace(file)
    except OSError as problem:
        raise ConfigError(f"{file} cannot be written: {problem.strerror or problem}") from None
    return backup
