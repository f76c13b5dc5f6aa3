"""What `doctor` says of clients' servers: who has ours, and what keeps it from starting."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.client_checks import check_clients
from infinite_memory.cli.client_files import find_target


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "INFINITE_MEMORY_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def ask(user: Path) -> dict[str, tuple[bool, str]]:
    """Return what is said of each check, and whether all is well with it."""
    told: dict[str, tuple[bool, str]] = {}
    check_clients(os.environ, user, lambda name, problem, good: told.update({name: (problem is None, problem or good)}))
    return told


def test_without_an_entry_one_line_says_how_to_have_one(user: Path) -> None:
    [(well, says)] = ask(user).values()
    assert well
    assert "infinite-memory connect CLIENT" in says


def test_an_entry_is_told_with_its_file_and_what_it_starts_is_looked_for(user: Path) -> None:
    assert main(["connect", "claude-desktop"]) == 0
    file = find_target("claude-desktop", {}, sys.platform, user).file
    assert ask(user) == {
        "server claude-desktop": (True, f"entered in {file}; where it shows no tools, restart Claude Desktop")
    }
    settings = json.loads(file.read_text("utf-8"))
    settings["mcpServers"]["infinite-memory"]["command"] = str(user / "gone")
    file.write_text(json.dumps(settings), "utf-8")
    well, says = ask(user)["server claude-desktop"]
    assert not well
    assert f"it starts {user / 'gone'}, which is not there; `infinite-memory connect claude-desktop`" in says
    settings["mcpServers"]["infinite-memory"] = {"args": []}
    file.write_text(json.dumps(settings), "utf-8")
    assert "names no command" in ask(user)["server claude-desktop"][1]
    file.write_text("{", "utf-8")
    assert "is not understood" in ask(user)["server claude-desktop"][1]
    file.write_text('{\n  "mcpServers": {}\n  "theme": 1}', "utf-8")
    assert "a comma was expected (line 3, column 3)" in ask(user)["server claude-desktop"][1]


def test_claude_desktop_that_ran_here_and_has_no_entry_is_named(user: Path) -> None:
    file = find_target("claude-desktop", {}, sys.platform, user).file
    file.parent.mkdir(parents=True)
    for text in (None, "{}"):
        if text is not None:
            file.write_text(text, "utf-8")
        well, says = ask(user)["server claude-desktop"]
        assert well
        assert f"not among the servers of {file}" in says
        assert "`infinite-memory connect claude-desktop` enters it" in says


def test_a_command_without_a_folder_may_not_be_found_by_claude_desktop(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    name = Path(sys.executable).name
    file = find_target("claude-desktop", {}, sys.platform, user).file
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"infinite-memory": {"command": name, "args": ["serve"]}}}), "utf-8")
    well, says = ask(user)["server claude-desktop"]
    assert well
    assert f"it starts {name} by its name, which Claude Desktop may not find" in says
    assert "`infinite-memory connect claude-desktop` enters the full path" in says
