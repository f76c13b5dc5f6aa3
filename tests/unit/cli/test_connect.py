"""`connect`: where each client keeps its servers, what is written, and that nothing else is lost."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.connect import CLIENTS, find_target

USER = Path("/home/ada")
TOML = '# mine\n[mcp_servers.files]\ncommand = "x"\n'
JSON = '{\n  "a": 1, // mine\n  "SERVERS": {\n    "files": {"command": "x"}\n  }\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, with the memory's home named."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "memory"))
    return tmp_path


@pytest.mark.parametrize(
    ("client", "platform", "file"),
    [
        ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", ".claude.json"),
        ("cursor", "darwin", ".cursor/mcp.json"),
        ("vscode", "linux", ".config/Code/User/mcp.json"),
        ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "AppData/Roaming/Code/User/mcp.json"),
        ("codex", "linux", ".codex/config.toml"),
        ("windsurf", "win32", ".codeium/windsurf/mcp_config.json"),
    ],
)
def test_every_client_has_its_place_on_every_system(client: str, platform: str, file: str) -> None:
    assert find_target(client, {}, platform, USER).file == USER / file


def test_the_environment_may_move_a_place() -> None:
    assert find_target("vscode", {"XDG_CONFIG_HOME": "/x"}, "linux", USER).file == Path("/x/Code/User/mcp.json")
    assert find_target("codex", {"CODEX_HOME": "/y"}, "linux", USER).file == Path("/y/config.toml")


@pytest.mark.parametrize("client", CLIENTS)
def test_connecting_and_removing_leaves_the_file_as_it_was(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = find_target(client, os.environ, sys.platform, home)
    target.file.parent.mkdir(parents=True, exist_ok=True)
    before = TOML if target.is_toml else JSON.replace("SERVERS", target.key)
    target.file.write_text(before)
    target.file.chmod(0o600)
    assert main(["connect", client, "--scope", "Work", "--tools", "core"]) == 0
    said = capsys.readouterr().out
    assert str(target.file) in said
    assert target.restart in said
    text = target.file.read_text()
    entry = (tomllib.loads(text) if target.is_toml else json.loads(text.replace("// mine", "")))[target.key][
        "infinite-memory"
    ]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-5:] == ["serve", "--scope", "Work", "--tools", "core"]
    assert entry["env"] == {"INFINITE_MEMORY_HOME": str(home / "memory")}
    [backup] = target.file.parent.glob("*.before-infinite-memory-*")
    assert backup.read_text() == before
    assert target.file.stat().st_mode & 0o777 == 0o600
    assert main(["connect", client, "--scope", "Work", "--tools", "core"]) == 0
    assert "already" in capsys.readouterr().out
    assert main(["connect", client, "--remove"]) == 0
    assert target.file.read_text() == before


def test_printing_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "cursor", "--print"]) == 0
    said = capsys.readouterr().out
    assert "mcpServers" in said
    assert "infinite-memory" in said
    assert not (home / ".cursor").exists()


def test_a_file_that_cannot_be_read_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").mkdir()
    file = home / ".cursor" / "mcp.json"
    file.write_text("{ this is no JSON")
    assert main(["connect", "cursor"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert file.read_text() == "{ this is no JSON"
    assert list(file.parent.iterdir()) == [file]
