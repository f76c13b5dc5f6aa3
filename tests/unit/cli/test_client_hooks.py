"""Hooks of Codex, Cursor and Gemini CLI: what `connect` writes into their files, once, and that nothing of anybody else's is lost."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.client_hooks import CLIENTS, find_hook_file, hook_commands, installed_events, with_hooks
from infinite_memory.hooks.clients import EVENTS

EVENTS_OF = {
    "codex": ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"],
    "gemini": ["SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"],
    "cursor": ["sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "sessionEnd"],
}
FILES = {"codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "cursor": ".cursor/hooks.json"}
THEIRS = {
    "codex": """{
  "hooks": {
    "Stop": [ {"hooks": [ {"type": "command", "command": "say done"} ]} ] // mine
  }
}
""",
    "gemini": """{
  "theme": "x", // mine
  "hooks": {
    "AfterAgent": [ {"matcher": "*", "hooks": [ {"type": "command", "command": "a"} ]} ]
  }
}
""",
    "cursor": """{
  "version": 1,
  "hooks": {
    "stop": [ {"command": "./audit.sh"} ], // mine
    "sessionEnd": [ {"command": "./b"} ]
  }
}
""",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, with the memory's home named."""
    for name in ("CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "my memory"))
    return tmp_path


def read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text().replace("// mine", "")))


def commands_in(client: str, text: dict[str, Any]) -> dict[str, list[str]]:
    """List the commands of each event."""
    hooks: dict[str, Any] = text["hooks"]
    if client == "cursor":
        return {event: [entry["command"] for entry in entries] for event, entries in hooks.items()}
    return {event: [one["command"] for entry in entries for one in entry["hooks"]] for event, entries in hooks.items()}


@pytest.mark.parametrize("client", CLIENTS)
def test_connect_enters_a_hook_for_each_event_beside_the_server(client: str, home: Path) -> None:
    assert main(["connect", client]) == 0
    text = read(home / FILES[client])
    commands = commands_in(client, text)
    assert list(commands) == EVENTS_OF[client]
    for event, [command] in commands.items():
        words = shlex.split(command)
        assert Path(words[0]).is_absolute()
        assert words[words.index("hook") :] == ["hook", event, "--client", client, "--home", str(home / "my memory")]
        assert event in EVENTS[client]
    assert (home / FILES[client]).stat().st_mode & 0o777 == 0o600
    if client == "codex":
        assert set(text) == {"hooks"}  # Codex refuses a file with anything else at its root
        assert {event: text["hooks"][event][0]["hooks"][0]["timeout"] for event in commands} == {
            "SessionStart": 5, "UserPromptSubmit": 5, "Stop": 5, "PreCompact": 5, "SessionEnd": 3}  # fmt: skip
    if client == "gemini":
        assert "infinite-memory" in text["mcpServers"]
        assert {text["hooks"][event][0]["hooks"][0]["timeout"] for event in commands} == {5000}
    if client == "cursor":
        assert text["version"] == 1
        assert {tuple(entry) for entries in text["hooks"].values() for entry in entries} == {("command",)}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_connect_changes_nothing_and_remove_brings_the_file_back(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / FILES[client]
    file.parent.mkdir()
    file.write_text(THEIRS[client])
    before = read(file)
    assert main(["connect", client]) == 0
    assert "capture pause" in capsys.readouterr().out
    entered = file.read_text()
    assert "// mine" in entered
    commands = commands_in(client, read(file))
    for event, others in commands_in(client, before).items():
        assert commands[event][: len(others)] == others
    assert main(["connect", client]) == 0
    assert file.read_text() == entered
    assert "already" in capsys.readouterr().out
    assert main(["connect", client, "--remove"]) == 0
    left = read(file)
    left.pop("mcpServers", None)
    assert left == before
    assert "// mine" in file.read_text()


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_of_another_installation_is_replaced(client: str, home: Path) -> None:
    file, event = home / FILES[client], EVENTS_OF[client][0]
    file.parent.mkdir()
    old = {"command": f"/gone/infinite-memory hook {event} --client {client}"}
    other = {"command": "say infinite-memory"}
    entries = [old, other] if client == "cursor" else [{"hooks": [{"type": "command", **one} for one in (old, other)]}]
    file.write_text(json.dumps({"hooks": {event: entries}}))
    assert main(["connect", client]) == 0
    commands = commands_in(client, read(file))[event]
    assert commands[0] == "say infinite-memory"
    assert len(commands) == 2
    assert "/gone" not in file.read_text()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("text", ["[]", "{", '{"hooks": []}', '{"hooks": {"SessionStart": 1, "sessionStart": 1}}'])
def test_a_file_that_is_not_understood_stays_as_it_is(
    client: str, text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / FILES[client]
    file.parent.mkdir()
    file.write_text(text)
    assert main(["connect", client]) != 0
    assert "nothing was changed" in capsys.readouterr().err
    assert [path for path in file.parent.iterdir() if path.is_file()] == [file]
    assert file.read_text() == text


def test_the_server_can_be_entered_alone(home: Path) -> None:
    assert main(["connect", "codex", "--no-hooks"]) == 0
    assert not (home / FILES["codex"]).exists()
    assert (home / ".codex" / "config.toml").exists()


def test_printing_shows_the_hooks_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "gemini", "--print"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown.partition("\n")[2]).keys() == {"mcpServers", "hooks"}
    assert not (home / ".gemini").exists()


def test_the_environment_moves_the_files() -> None:
    codex = find_hook_file("codex", {"CODEX_HOME": "/x"}, Path("/home/ada"))
    gemini = find_hook_file("gemini", {"GEMINI_CLI_HOME": "/y"}, Path("/home/ada"))
    assert codex is not None
    assert codex.file == Path("/x/hooks.json")
    assert gemini is not None
    assert gemini.file == Path("/y/.gemini/settings.json")
    assert find_hook_file("windsurf", {}, Path("/home/ada")) is None


def test_commands_for_the_shells_of_windows() -> None:
    """Never run there: Codex starts them by cmd.exe, the others by PowerShell, which calls a quoted path by ``&`` alone."""
    program = [r"C:\Program Files\im\infinite-memory.exe"]
    start = '"C:\\Program Files\\im\\infinite-memory.exe" hook '
    codex, cursor = (hook_commands(client, program, r"D:\my memory", is_windows=True) for client in ("codex", "cursor"))
    assert codex["Stop"] == f'{start}Stop --client codex --home "D:\\my memory"'
    assert cursor["sessionStart"] == f'& {start}sessionStart --client cursor --home "D:\\my memory"'
    plain = hook_commands("gemini", [r"C:\im\infinite-memory.exe"], None, is_windows=True)
    assert plain["AfterAgent"] == r"C:\im\infinite-memory.exe hook AfterAgent --client gemini"
    place = find_hook_file("cursor", {}, Path("/u"))
    assert place is not None
    assert installed_events(place, with_hooks(place, "", cursor)) == cursor
