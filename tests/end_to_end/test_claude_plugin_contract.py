"""A fresh configuration of Claude Code, made by `connect claude-code --plugin`: each event's hook as it is written there is run as the
client runs it, with the event's own JSON, and answers with the documented envelope or with nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook_sessions import HookSession, new_session, wait_for
from tests.processes import LONG, PATIENCE_S, Installation, need_parts, until

Json = dict[str, Any]

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon is warm, and a user whose Claude Code has the plugin and nothing else."""
    need_parts()
    with Installation(tmp_path_factory.mktemp("plugin") / "home", is_stopped=LONG) as one:
        assert one.command("connect", "claude-code", "--plugin").returncode == 0
        assert one.command("daemon", "start").returncode == 0
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def plugin_of(memory: Installation) -> Path:
    """Find the plugin as the client does: from the settings by way of the marketplace."""
    claude = memory.home.parent / ".claude"
    settings = json.loads((claude / "settings.json").read_text())
    [(plugin_id, is_on)] = settings["enabledPlugins"].items()
    assert is_on is True
    plugin, market = plugin_id.split("@")
    source = settings["extraKnownMarketplaces"][market]["source"]
    assert source["source"] == "directory"
    listed = json.loads((Path(source["path"]) / ".claude-plugin" / "marketplace.json").read_text())
    assert listed["name"] == market
    [entry] = [one for one in listed["plugins"] if one["name"] == plugin]
    return Path(source["path"]) / entry["source"]


def run_event(memory: Installation, session: HookSession, event: str, **more: Any) -> Json | None:
    """Run an event's hook without a shell and without the variables that name the home; returns what the client is given."""
    groups = json.loads((plugin_of(memory) / "hooks" / "hooks.json").read_text())["hooks"][event]
    [hook] = [hook for group in groups for hook in group["hooks"]]
    assert hook["type"] == "command"
    assert hook["timeout"] > 0
    environ = {name: value for name, value in memory.environ.items() if not name.startswith("INFINITE_MEMORY")}
    done = subprocess.run(
        [hook["command"], *hook["args"]], input=json.dumps(session.event(event, **more)), env=environ, cwd=session.project,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else None


def test_every_event_of_a_fresh_configuration_keeps_the_contract(memory: Installation) -> None:
    first = new_session(memory, "shop")
    for event in EVENTS:
        assert run_event(memory, first, event) is None, event
    first.say("Which port does the staging server listen on?", "The staging server listens on port 8443.")
    first.say("#remember Deployments need Maria's approval", "Noted.")
    assert run_event(memory, first, "Stop") is None
    wait_for(memory, first, 4)
    second = new_session(memory, "shop")
    asked = {"prompt": "Which port does the staging server listen on?"}
    for event, more, expected in (
        ("SessionStart", {}, "Deployments need Maria's approval"),
        ("UserPromptSubmit", asked, "8443"),
    ):
        envelope = run_event(memory, second, event, **more)
        assert envelope is not None, event
        assert set(envelope) == {"hookSpecificOutput"}
        assert set(envelope["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
        assert envelope["hookSpecificOutput"]["hookEventName"] == event
        assert expected in envelope["hookSpecificOutput"]["additionalContext"]
    for event in ("Stop", "SubagentStop", "PreCompact", "SessionEnd"):
        assert run_event(memory, second, event) is None, event


def test_the_server_of_the_plugin_starts_and_speaks(memory: Installation) -> None:
    server = json.loads((plugin_of(memory) / ".mcp.json").read_text())["mcpServers"]["infinite-memory"]
    environ = {name: value for name, value in memory.environ.items() if not name.startswith("INFINITE_MEMORY")}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    done = subprocess.run(
        [server["command"], *server["args"]], input=json.dumps(request) + "\n", env=environ | server["env"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    result = json.loads(done.stdout.splitlines()[0])["result"]
    assert "Before answering" in result["instructions"]
    assert "prompts" in result["capabilities"]


def test_the_commands_of_the_plugin_name_a_program_that_is_there(memory: Installation) -> None:
    text = (plugin_of(memory) / "commands" / "pause.md").read_text()
    command = text.split("Run `", 1)[1].split("`", 1)[0].replace("capture pause", "capture status")
    done = subprocess.run(["/bin/sh", "-c", command], env=memory.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hooks store what is said" in done.stdout
    assert Path(sys.executable).parent.as_posix() in command
