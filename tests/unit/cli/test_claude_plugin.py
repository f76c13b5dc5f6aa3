"""The plugin of Claude Code: what the package holds, what is written, and that it goes again without a trace."""

from __future__ import annotations

import configparser
import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from infinite_memory.cli import main, plugin
from infinite_memory.hooks.client import CAPTURING, RECALLING

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
COMMANDS = {"forget.md", "pause.md", "remember.md", "search.md", "why.md"}


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, with the memory's home named."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "my memory"))
    return tmp_path


def read(file: Path) -> Json:
    value: Json = json.loads(file.read_text("utf-8"))
    return value


def test_the_package_ships_every_file_of_the_plugin() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = [one.strip() for one in settings["options.package_data"]["infinite_memory"].split(",")]
    files = [path.relative_to(ROOT / "infinite_memory") for path in plugin.FILES.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"marketplace.json", "plugin.json", "hooks.json", ".mcp.json", *COMMANDS}
    assert [path for path in files if not any(PurePosixPath(path).match(one) for one in patterns)] == []


def test_the_marketplace_holds_the_plugin_in_its_own_folder() -> None:
    market = read(plugin.FILES / ".claude-plugin" / "marketplace.json")
    manifest = read(plugin.FILES / ".claude-plugin" / "plugin.json")
    [entry] = market["plugins"]
    assert entry["source"] == "./"
    assert f"{entry['name']}@{market['name']}" == plugin.PLUGIN_ID
    assert entry["name"] == manifest["name"]
    assert set(read(plugin.FILES / "hooks" / "hooks.json")["hooks"]) == {*RECALLING, *CAPTURING}
    for file in (plugin.FILES / "commands").iterdir():
        assert file.read_text("utf-8").startswith("---\ndescription: ")


def test_what_is_written_names_this_installation_and_this_home(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "claude-code", "--plugin", "--scope", "Work"]) == 0
    folder = user / ".claude" / "infinite-memory"
    settings = read(user / ".claude" / "settings.json")
    assert settings["extraKnownMarketplaces"]["infinite-memory"]["source"] == {
        "source": "directory",
        "path": str(folder),
    }
    assert settings["enabledPlugins"] == {"infinite-memory@infinite-memory": True}
    home = str(user / "my memory")
    for groups in read(folder / "hooks" / "hooks.json")["hooks"].values():
        [hook] = groups[0]["hooks"]
        assert Path(hook["command"]).is_absolute()
        assert hook["args"][-2:] == ["--home", home]
    server = read(folder / ".mcp.json")["mcpServers"]["infinite-memory"]
    assert server["args"][-3:] == ["serve", "--scope", "Work"]
    assert server["env"] == {"INFINITE_MEMORY_HOME": home}
    assert f"capture pause --home '{home}'" in (folder / "commands" / "pause.md").read_text("utf-8")
    assert not list(folder.rglob("*.tmp"))


def test_another_command_is_another_version() -> None:
    versions = {
        json.loads(plugin.render_plugin(command, [], {}, None)[plugin.MANIFEST])["version"] for command in ("/a", "/b")
    }
    assert len(versions) == 2


def test_the_plugin_takes_the_place_of_the_entry_and_goes_with_uninstall(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = user / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{\n  "model": "opus", // mine\n  "enabledPlugins": {"other@market": true},\n  "extraKnownMarketplaces": {}\n}\n'
    settings.write_text(before)
    settings.chmod(0o600)
    assert main(["connect", "claude-code"]) == 0
    assert main(["connect", "claude-code", "--plugin"]) == 0
    assert "infinite-memory" not in read(user / ".claude.json")["mcpServers"]
    assert settings.stat().st_mode & 0o777 == 0o600
    folder = user / ".claude" / "infinite-memory"
    (folder / "commands" / "gone.md").write_text("of an earlier version")
    assert main(["connect", "claude-code", "--plugin"]) == 0
    assert {file.name for file in (folder / "commands").iterdir()} == COMMANDS
    assert main(["uninstall", "--dry-run"]) == 0
    assert folder.is_dir()
    capsys.readouterr()
    assert main(["uninstall"]) == 0
    assert "took the plugin out of Claude Code" in capsys.readouterr().out
    assert not folder.exists()
    assert json.loads(settings.read_text().replace("// mine", "")) == json.loads(before.replace("// mine", ""))
    assert "// mine" in settings.read_text()


def test_removing_keeps_what_somebody_else_put_there(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    other = user / ".claude" / "infinite-memory" / "notes.txt"
    other.write_text("mine")
    assert main(["connect", "claude-code", "--plugin", "--remove"]) == 0
    assert [path for path in other.parent.rglob("*") if path.is_file()] == [other]
    capsys.readouterr()
    assert main(["connect", "claude-code", "--plugin", "--remove"]) == 0
    assert "does not have the plugin" in capsys.readouterr().out


def test_a_folder_of_that_name_that_is_no_plugin_of_ours_is_not_emptied(user: Path) -> None:
    folder = user / ".claude" / "infinite-memory"
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / "mine.md").write_text("mine")
    assert main(["uninstall"]) == 0
    assert (folder / "commands" / "mine.md").read_text() == "mine"


def test_settings_that_cannot_be_understood_are_left_alone(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = user / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("[1]")
    assert main(["connect", "claude-code", "--plugin"]) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]


def test_printing_the_plugin_writes_nothing_and_other_clients_have_none(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", "claude-code", "--plugin", "--print"]) == 0
    assert "hooks/hooks.json" in capsys.readouterr().out
    assert list(user.iterdir()) == []
    assert main(["connect", "cursor", "--plugin"]) == 2
    assert "Cursor" in capsys.readouterr().err
