"""`connect`: where each client keeps its servers, what is written, and that nothing else is lost."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.client_checks import check_clients
from infinite_memory.cli.client_files import CLIENTS, find_target
from infinite_memory.cli.connect import uvx_command

USER = Path("/home/ada")
TOML = '# mine\n[mcp_servers.files]\ncommand = "x"\n'
JSON = '{\n  "a": 1, // mine\n  "SERVERS": {\n    "files": {"command": "x"}\n  }\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, with the memory's home named."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "VSCODE_PORTABLE", "VSCODE_APPDATA"):
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
    assert find_target("claude-code", {"CLAUDE_CONFIG_DIR": "/z"}, "linux", USER).file == Path("/z/.claude.json")
    assert find_target("vscode", {"VSCODE_PORTABLE": "/p"}, "linux", USER).file == Path("/p/user-data/User/mcp.json")
    assert find_target("vscode", {"VSCODE_APPDATA": "/a"}, "win32", USER).file == Path("/a/Code/User/mcp.json")
    assert find_target("vscode", {"XDG_CONFIG_HOME": ""}, "linux", USER).file == USER / ".config/Code/User/mcp.json"


def test_who_takes_it_out_is_told_what_to_undo_and_not_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", "claude-desktop"]) == 0
    assert "add to Settings, Profile" in capsys.readouterr().out
    assert main(["connect", "claude-desktop", "--remove"]) == 0
    said = capsys.readouterr().out
    assert "take them out again" in said
    assert "add to Settings" not in said


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_connect_keeps_what_the_user_added(
    client: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = find_target(client, os.environ, sys.platform, home)
    target.file.parent.mkdir(parents=True, exist_ok=True)
    env = {"INFINITE_MEMORY_HOME": "/old", "MY TOKEN": "x", "HF_HUB_OFFLINE": "1"}
    old = {"command": "/gone", "args": ["serve"], "env": env, "timeout": 60, "alwaysAllow": ["store_memory"]}
    if target.is_toml:
        text = (
            '[mcp_servers.infinite-memory]\ncommand = "/gone"\nargs = ["serve"]\ntimeout = 60\nalwaysAllow = ["store_memory"]\n'
            '[mcp_servers.infinite-memory.env]\nINFINITE_MEMORY_HOME = "/old"\n"MY TOKEN" = "x"\nHF_HUB_OFFLINE = "1"\n'
        )
    else:
        text = json.dumps({target.key: {"infinite-memory": old}}, indent=4).replace('"x",', '"x", // mine')
    target.file.write_text(text)

    def entry() -> dict[str, Any]:
        text = target.file.read_text()
        assert target.is_toml or "// mine" in text
        read = tomllib.loads(text) if target.is_toml else json.loads(text.replace("// mine", ""))
        return dict(read[target.key]["infinite-memory"])

    assert main(["connect", client, "--scope", "Work"]) == 0
    new = entry()
    assert new["command"] != "/gone"
    assert new["args"][-3:] == ["serve", "--scope", "Work"]
    assert new["env"] == env | {"INFINITE_MEMORY_HOME": str(home / "memory")}
    assert (new["timeout"], new["alwaysAllow"]) == (60, ["store_memory"])
    monkeypatch.delenv("INFINITE_MEMORY_HOME")
    assert main(["connect", client]) == 0
    assert entry()["env"] == new["env"]


def test_no_file_is_more_open_than_the_users_at_any_moment(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a hostile reading: a file of mode 0600 was written through a temporary one of 0644."""
    target = find_target("claude-code", os.environ, sys.platform, home)
    modes = []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(str(home / ".claude.json")) and arguments[2] & os.O_CREAT:
            before = set(home.iterdir())
            modes.append((arguments[2] & os.O_EXCL, before))

    before = os.umask(0)
    try:
        sys.addaudithook(watch)
        for mode in (0o600, 0o644, None):
            target.file.unlink(missing_ok=True)
            if mode is not None:
                target.file.write_text('{"secret": 1}')
                target.file.chmod(mode)
            modes.clear()
            assert main(["connect", "claude-code"]) == 0
            assert len(modes) == (1 if mode is None else 2)
            assert all(exclusive for exclusive, _ in modes)
            files = [file for file in home.iterdir() if file.name.startswith(".claude.json")]
            assert {file.stat().st_mode & 0o777 for file in files} == {0o600 if mode is None else mode}
            for file in files:
                file.unlink()
    finally:
        os.umask(before)


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


@pytest.mark.parametrize(
    ("client", "where"),
    [("claude-code", ".claude.json"), ("codex", ".codex/config.toml"), ("cursor", ".cursor/mcp.json")],
)
def test_a_pipe_is_not_waited_for(home: Path, capsys: pytest.CaptureFixture[str], client: str, where: str) -> None:
    pipe = home / where
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    assert main(["connect", client]) == 2
    assert f"{pipe} cannot be read" in capsys.readouterr().err
    told: dict[str, str | None] = {}
    check_clients(os.environ, home, lambda name, problem, good: told.update({name: problem}))
    assert f"{pipe} is not understood" in str(told[f"server {client}"])
    assert pipe.is_fifo()


def test_half_a_surrogate_pair_stays_the_escape_that_it_was(home: Path) -> None:
    (home / ".cursor").mkdir()
    file = home / ".cursor" / "mcp.json"
    file.write_text('{"mcpServers": {"infinite-memory": {"command": "x", "env": {"A": "\\ud800"}}}}')
    assert main(["connect", "cursor"]) == 0
    assert json.loads(file.read_text("utf-8"))["mcpServers"]["infinite-memory"]["env"]["A"] == "\ud800"


def test_what_uv_made_for_one_run_is_entered_as_uvx(tmp_path: Path) -> None:
    """uv may remove such an environment at any time."""
    cached = tmp_path / "uv" / "archive-v0" / "v1F_w1"
    uvx = str(tmp_path / "bin" / ("uvx.exe" if os.name == "nt" else "uvx"))
    command = uvx_command(cached, {"UV": str(tmp_path / "bin" / "uv")})
    assert command is not None
    assert (command[0], command[1][-1]) == (uvx, "infinite-memory")
    assert uvx_command(tmp_path / "venv", {"UV": str(tmp_path / "bin" / "uv")}) is None
    assert uvx_command(cached, {}) is None
