"""Hook checks of `doctor`: where hooks are installed, whether they would run, their last results, and how to fix them.

They read the files that `connect` writes and those of the home, and change nothing. A client file that cannot be parsed is a
finding, not a failure.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from infinite_memory import __version__
from infinite_memory.cli import client_hooks, plugin
from infinite_memory.cli.capture import describe_event, malformed_files
from infinite_memory.cli.config_edit import find_entry, read_json
from infinite_memory.hooks.clients import EVENTS
from infinite_memory.hooks.control import ON, read_control
from infinite_memory.hooks.files import CLAUDE_CODE, CODEX, GEMINI, last_events, waiting
from infinite_memory.platform_files import read_regular_text


class AddFinding(Protocol):
    """Adds the result of a check to the report: its name, the problem or None, and the text to show if there is no problem.

    With *wait* the check cannot be made yet, which is not a problem.
    """

    def __call__(self, name: str, problem: str | None, good: str, *, wait: bool = False) -> None: ...


FIX = "`infinite-memory connect {}` puts that right"
_ADVICE = (
    (
        "did not answer within",
        "the machine or the database was slow: `infinite-memory daemon status` tells how it is now",
    ),
    (
        "the transcript is not there",
        "the client keeps no file of such a session, or removed it: what was said there is not stored",
    ),
    ("archived", "`infinite-memory scopes unarchive` brings the project's scope back"),
    ("No space left", "make room on the disk: what waits is stored then"),
    ("Permission denied", "the home must be yours and writable"),
)
"""Substring of a failure, and the advice for it."""


def check_hooks(home: Path, environ: Mapping[str, str], user: Path, add_finding: AddFinding) -> None:
    """Report the state of each assistant's hooks; one line if none has any."""
    installed = [*_check_plugin(environ, user, add_finding), *_check_clients(environ, user, add_finding)]
    events = last_events(home)
    for client in EVENTS:
        own = [event for event in events if event["client"] == client]
        if own:
            failing = [f"{describe_event(event)}{_advice(str(event['failure']))}" for event in own if event["failure"]]
            add_finding(f"hooks {client}", "; ".join(failing) or None, "; ".join(map(describe_event, own)))
        elif client in installed:
            add_finding(f"hooks {client}", None, "none came yet: they begin with the client's next session")
    state, queued = read_control(home).state, len(waiting(home))
    status = f"capture is {state}" + ("" if state == ON else "; `infinite-memory capture resume` turns it on")
    if queued:
        status += f"; {queued} events wait for the daemon, which `infinite-memory daemon start` starts"
    if installed or events or queued:
        add_finding("capture", malformed_files(home), status)
    else:
        add_finding(
            "hooks",
            malformed_files(home),
            "no assistant has any: `infinite-memory connect claude-code --plugin` installs them",
        )


def _advice(failure: str) -> str:
    return next((f": {advice}" for phrase, advice in _ADVICE if phrase in failure), "")


def _check_plugin(environ: Mapping[str, str], user: Path, add_finding: AddFinding) -> Iterator[str]:
    """Check the plugin of Claude Code; yield the client's name if it is turned on."""
    folder, file = plugin.plugin_folder(environ, user), plugin.settings_file(environ, user)
    try:
        settings = _read_json(file)
        is_there, is_on = plugin.has_plugin(folder), settings.get("enabledPlugins", {}).get(plugin.PLUGIN_ID)
        if not is_there and is_on is None:
            return
        version = _read_json(folder / plugin.MANIFEST).get("version", "") if is_there else ""
        problems = [*_plugin_problems(folder, settings)] if is_there else [f"{folder} is gone"]
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as exc:
        add_finding(
            "plugin", f"{file} or {folder} is not as it was written: {exc}; {FIX.format('claude-code --plugin')}", ""
        )
        return
    if is_there and is_on is None:
        problems.append(f"it is not turned on in {file}")
    problem = f"{'; '.join(problems)}; {FIX.format('claude-code --plugin')}" if problems else None
    state = "turned on" if is_on else "turned off"
    add_finding(
        "plugin",
        problem,
        f"version {version} in {folder}, {state} in {file}, with hooks for {len(EVENTS[CLAUDE_CODE])} events",
    )
    if is_on:
        yield CLAUDE_CODE


def _plugin_problems(folder: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    version = str(_read_json(folder / plugin.MANIFEST).get("version", ""))
    if version.partition("+")[0] != __version__:
        yield f"it is of version {version or 'none'}, and this program is {__version__}"
    hooks = _read_json(folder / "hooks" / "hooks.json")["hooks"]
    missing = [event for event in EVENTS[CLAUDE_CODE] if event not in hooks]
    if missing:
        yield f"it has no hooks for {', '.join(missing)}"
    commands = {str(hook["command"]) for groups in hooks.values() for group in groups for hook in group["hooks"]}
    yield from _find_missing(commands)
    source = settings.get("extraKnownMarketplaces", {}).get(plugin.NAME, {}).get("source", {}).get("path")
    if source is not None and Path(source) != folder:
        yield f"the settings name {source} for it"
    if settings.get("disableAllHooks") is True:
        yield "disableAllHooks in the settings turns all hooks off"


def _check_clients(environ: Mapping[str, str], user: Path, add_finding: AddFinding) -> Iterator[str]:
    """Check the hooks of the other clients; yield the names of those that have ours."""
    for client in client_hooks.CLIENTS:
        target = client_hooks.find_hook_file(client, environ, user)
        if target is None or not target.file.is_file():
            continue
        try:
            text = target.file.read_bytes().decode("utf-8-sig")
            installed = client_hooks.installed_events(target, text)
            off = _switch(client, target.file, text)
        except (OSError, ValueError) as exc:
            add_finding(f"{client}", f"{target.file} is not understood: {exc}", "")
            continue
        if not installed:
            continue
        expected = client_hooks.hook_commands(client, [plugin.NAME], None)
        missing = [event for event in expected if event not in installed]
        problems = [f"it has no hooks for {', '.join(missing)}"] if missing else []
        problems += [
            *_find_missing({shlex.split(command)[0] for command in installed.values()} if os.name == "posix" else set())
        ]
        problem = f"{'; '.join(problems)}; {FIX.format(client)}" if problems else None
        add_finding(client, problem or off, f"hooks for {len(installed)} events in {target.file}")
        yield client


def _switch(client: str, file: Path, text: str) -> str | None:
    """Return where the client's own settings turn all hooks off; None if they do not."""
    if client == GEMINI and find_entry(text, "hooksConfig", "enabled", is_toml=False) is False:
        return f"hooksConfig.enabled in {file} turns all hooks off"
    config = file.with_name("config.toml")
    if client == CODEX and config.is_file():
        features = tomllib.loads(config.read_text("utf-8")).get("features", {})
        if isinstance(features, dict) and features.get("hooks", features.get("codex_hooks")) is False:
            return f"features.hooks in {config} turns all hooks off"
    return None


def _find_missing(commands: set[str]) -> Iterator[str]:
    for command in sorted(commands):
        if Path(command).is_absolute() and not os.access(command, os.X_OK):
            yield f"it starts {command}, which is not there"


def _read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file, {} if the file does not exist.

    Raises:
        OSError: the file cannot be read.
        ValueError: it does not contain an object.
    """
    try:
        return read_json(read_regular_text(file))
    except FileNotFoundError:
        return {}
