"""The hooks that `connect` adds for Codex, Cursor and Gemini CLI besides the MCP server, and removes again.

Each client has its own file format, and the file belongs to the user: in the list of an event only our entry is written or removed,
recognised by its command; every other entry, comment and member stays (`config_edit`). Claude Code's hooks come with its plugin
(`plugin`).
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.cli.config_edit import find_entry, remove_empty_object, remove_json_entry, set_json_entry
from infinite_memory.hooks.clients import EVENTS
from infinite_memory.hooks.files import CODEX, CURSOR, GEMINI

Json = dict[str, Any]

NAME = "infinite-memory"
HOOKS = "hooks"
CLIENTS = (CODEX, CURSOR, GEMINI)
_OURS = re.compile(
    r"infinite[-_]memory.*\bhook[\s\"']+\w+[\s\"']+--client[\s=\"']+(?:codex|cursor|gemini)\b", re.DOTALL
)
# Clients that are not listed have all known events.
_EVENTS_OF = {CODEX: ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")}
_POWERSHELL = (CURSOR, GEMINI)  # these run commands with PowerShell on Windows; Codex with cmd.exe


@dataclass(frozen=True, slots=True)
class HookFile:
    """Where a client keeps its hooks, their timeouts in the client's unit (s or ms), and the layout of its entries.

    ``is_flat``: an event's list holds commands, not groups of them. ``begins`` is the initial content of a new file.
    """

    file: Path
    timeouts: Mapping[str, int]
    is_flat: bool = False
    begins: str = ""
    after: str = ""


def find_hook_file(client: str, environ: Mapping[str, str], user: Path) -> HookFile | None:
    """Return where *client* keeps its hooks; None for a client without hooks, or with a plugin for them."""
    match client:
        case "codex":
            folder = Path(environ["CODEX_HOME"]) if environ.get("CODEX_HOME") else user / ".codex"
            asks = "Codex asks whether you trust these hooks: /hooks shows them."
            return HookFile(folder / "hooks.json", {"": 5, "SessionEnd": 3}, after=asks)  # Codex warns above 3 s there
        case "gemini":
            return HookFile(gemini_folder(environ, user) / "settings.json", {"": 5000})
        case "cursor":
            # No timeout: the documentation is inconsistent about its unit, and the hook ends itself after 1.2 s.
            return HookFile(user / ".cursor" / "hooks.json", {}, is_flat=True, begins='{\n  "version": 1\n}\n')
    return None


def gemini_folder(environ: Mapping[str, str], user: Path) -> Path:
    """Return the folder of Gemini CLI's settings."""
    return (Path(environ["GEMINI_CLI_HOME"]) if environ.get("GEMINI_CLI_HOME") else user) / ".gemini"


def describe(client: str, title: str) -> str:
    """Return a description of what the hooks do, and how to stop them."""
    return (
        f"What is said in {title} is stored from now on, and recalled in later sessions. `{NAME} capture pause` stops that for a while;\n"
        f"`{NAME} connect {client} --remove`, then `{NAME} connect {client} --no-hooks` for good."
    )


def hook_commands(client: str, command: Sequence[str], home: str | None, *, is_windows: bool = False) -> dict[str, str]:
    """Return the shell command for each of the client's events.

    Args:
        command: The command that starts this installation.
        home: The home of the memory, if the user named one.
    """
    named = ["--home", home] if home else []

    def line(event: str) -> str:
        arguments = [*command, "hook", event, "--client", client, *named]
        if not is_windows:
            return shlex.join(arguments)
        text = subprocess.list2cmdline(arguments)
        return f"& {text}" if client in _POWERSHELL and text.startswith('"') else text

    return {event: line(event) for event in _EVENTS_OF.get(client, tuple(EVENTS[client]))}


def with_hooks(hook_file: HookFile, text: str, commands: Mapping[str, str]) -> str:
    """Return the file's text with our hooks in it, each once.

    Raises:
        ValueError: the text is not a JSON object, holds something else where hooks belong, or cannot be changed safely.
    """
    text = text if text.strip() else hook_file.begins
    for event, command in commands.items():
        entries = _entries(text, event)
        others = _without_ours(entries, is_flat=hook_file.is_flat)
        if [command] == [
            our_command for entry in entries for our_command in _our_commands(entry, is_flat=hook_file.is_flat)
        ]:
            continue
        text = set_json_entry(text, HOOKS, event, [*others, _entry(hook_file, event, command)])
    return text


def without_hooks(hook_file: HookFile, text: str) -> str:
    """Return the file's text without our hooks, unchanged if it has none. Errors as in `with_hooks`."""
    for event in sorted(installed_events(hook_file, text)):
        others = _without_ours(_entries(text, event), is_flat=hook_file.is_flat)
        text = set_json_entry(text, HOOKS, event, others) if others else remove_json_entry(text, HOOKS, event)
    return remove_empty_object(text, HOOKS)


def installed_events(hook_file: HookFile, text: str) -> dict[str, str]:
    """Return the events in a file that have our hook, with its command. Errors as in `with_hooks`."""
    if not text.strip():
        return {}
    names = sorted({event for events in EVENTS.values() for event in events})
    by_event = {
        event: [
            command for entry in _entries(text, event) for command in _our_commands(entry, is_flat=hook_file.is_flat)
        ]
        for event in names
    }
    return {event: commands[-1] for event, commands in by_event.items() if commands}


def _entries(text: str, event: str) -> list[Any]:
    entries = find_entry(text, HOOKS, event, is_toml=False)
    if entries is not None and not isinstance(entries, list):
        raise ValueError(f"{HOOKS}.{event} is not a list")
    return entries or []


def _entry(hook_file: HookFile, event: str, command: str) -> Json:
    if hook_file.is_flat:
        return {"command": command}
    hook: Json = {"type": "command", "command": command}
    return {HOOKS: [hook | {"timeout": hook_file.timeouts.get(event, hook_file.timeouts[""])}]}


def _handlers(entry: Any, *, is_flat: bool) -> list[Any]:
    """Return the commands of an event's entry; an entry of unknown form has none."""
    if is_flat:
        return [entry]
    handlers = entry.get(HOOKS) if isinstance(entry, dict) else None
    return handlers if isinstance(handlers, list) else []


def _is_ours(handler: Any) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def _our_commands(entry: Any, *, is_flat: bool) -> list[str]:
    return [handler["command"] for handler in _handlers(entry, is_flat=is_flat) if _is_ours(handler)]


def _without_ours(entries: Sequence[Any], *, is_flat: bool) -> list[Any]:
    """Return the entries of an event without ours; other hooks in the same group stay."""
    remaining: list[Any] = []
    for entry in entries:
        if not _our_commands(entry, is_flat=is_flat):
            remaining.append(entry)
        elif not is_flat and (
            others := [handler for handler in _handlers(entry, is_flat=False) if not _is_ours(handler)]
        ):
            remaining.append({**entry, HOOKS: others})
    return remaining
