"""The plugin of Claude Code: what the package holds, what is written, and that it goes again without a trace."""

from __future__ import annotations

import configparser
import json
import os
import resource
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from infinite_memory.cli import main, plugin
from infinite_memory.hooks.clients import CAPTURING, RECALLING

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
    assert f"claude plugin marketplace add {folder}\n" in capsys.readouterr().out
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
        json.loads(plugin.render_plugin(command, [], [command], {}, None)[plugin.MANIFEST])["version"]
        for command in ("/a", "/b")
    }
    assert len(versions) == 2


def test_the_plugin_takes_the_place_of_the_entry_and_goes_with_uninstall(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr(plugin, "FORMER_FILES", ("commands/gone.md", "former/never.md"))
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


def test_nobody_else_can_exchange_what_the_client_runs_whatever_the_umask(user: Path) -> None:
    folder = user / ".claude" / "infinite-memory"
    before = os.umask(0)
    try:
        assert main(["connect", "claude-code", "--plugin"]) == 0
        folders = [folder.parent, folder, *(path for path in folder.rglob("*") if path.is_dir())]
        assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
        (folder / "hooks").chmod(0o777)
        assert main(["connect", "claude-code", "--plugin"]) == 0
    finally:
        os.umask(before)
    assert (folder / "hooks").stat().st_mode & 0o022 == 0


def test_what_a_killed_run_left_goes_with_the_plugin(user: Path) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    folder = user / ".claude" / "infinite-memory"
    (folder / ".claude-plugin" / ".plugin.json.tmp").write_text("{")
    assert plugin.remove_plugin(folder)
    assert not folder.exists()


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


def test_the_plugin_takes_over_what_the_entry_had(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFINITE_MEMORY_HOME")
    home = str(user / "another home")
    environ = {"INFINITE_MEMORY_HOME": home, "INFINITE_MEMORY_MONGODB__URI": "mongodb://user:secret@host"}
    before = json.dumps({"mcpServers": {"infinite-memory": {"command": "old", "env": environ, "timeout": 9}, "b": {}}})
    (user / ".claude.json").write_text(before)
    assert main(["connect", "claude-code", "--plugin"]) == 0
    said = capsys.readouterr().out
    [copy] = user.glob(".claude.json.before-infinite-memory-*")
    assert copy.read_text() == before
    assert str(copy) in said
    assert read(user / ".claude.json") == {"mcpServers": {"b": {}}}
    folder = user / ".claude" / "infinite-memory"
    for _ in range(2):  # the second time from the plugin's own entry
        server = read(folder / ".mcp.json")["mcpServers"]["infinite-memory"]
        assert (server["env"], server["timeout"]) == (environ, 9)
        assert server["command"] != "old"
        assert (folder / ".mcp.json").stat().st_mode & 0o077 == 0
        for groups in read(folder / "hooks" / "hooks.json")["hooks"].values():
            assert groups[0]["hooks"][0]["args"][-2:] == ["--home", home]
        assert f"--home '{home}'" in (folder / "commands" / "pause.md").read_text("utf-8")
        version = read(folder / plugin.MANIFEST)["version"]
        assert main(["connect", "claude-code", "--plugin"]) == 0
        assert read(folder / plugin.MANIFEST)["version"] == version
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(user / "third"))
    assert main(["connect", "claude-code", "--plugin"]) == 0
    server = read(folder / ".mcp.json")["mcpServers"]["infinite-memory"]
    assert server["env"] == environ | {"INFINITE_MEMORY_HOME": str(user / "third")}


def test_half_a_surrogate_pair_of_the_entry_stays_the_escape_that_it_was(user: Path) -> None:
    entry = '{"mcpServers": {"infinite-memory": {"command": "x", "env": {"A": "\\ud800"}}}}'
    (user / ".claude.json").write_text(entry)
    assert main(["connect", "claude-code", "--plugin"]) == 0
    [written] = [file for file in user.rglob(".mcp.json") if "\\ud800" in file.read_text("utf-8")]
    assert json.loads(written.read_text("utf-8"))


@pytest.mark.parametrize("name", [".claude.json", ".claude/infinite-memory/.mcp.json"])
def test_an_entry_that_cannot_be_understood_is_not_given_up(
    user: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    (user / name).write_text("[1]")
    before = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["connect", "claude-code", "--plugin", "--scope", "Other"]) == 2
    assert f"{name}: " in (said := capsys.readouterr().err)
    assert "nothing was changed" in said
    assert {path: path.read_bytes() for path in user.rglob("*") if path.is_file()} == before


def test_printing_a_removal_removes_nothing(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    before = {path: path.read_bytes() for path in user.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["connect", "claude-code", "--plugin", "--remove", "--print"]) == 0
    assert "would be taken out" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in user.rglob("*") if path.is_file()} == before


def test_a_command_file_of_the_users_own_stays(user: Path) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    mine = user / ".claude" / "infinite-memory" / "commands" / "mine.md"
    mine.write_text("mine")
    assert main(["connect", "claude-code", "--plugin"]) == 0
    assert mine.read_text() == "mine"
    assert main(["connect", "claude-code", "--plugin", "--remove"]) == 0
    assert [path for path in mine.parents[1].rglob("*") if path.is_file()] == [mine]


def test_a_folder_of_somebody_elses_is_not_written_into(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = user / ".claude" / "infinite-memory"
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / "search.md").write_text("mine")
    assert main(["connect", "claude-code", "--plugin"]) == 2
    assert str(folder) in capsys.readouterr().err
    assert [path for path in user.rglob("*") if path.is_file()] == [folder / "commands" / "search.md"]
    assert (folder / "commands" / "search.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "commands", ".claude-plugin"])
def test_a_link_is_not_followed_out_of_the_folder(user: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The files behind the link are the plugin's own, so only that it is a link keeps them."""
    assert main(["connect", "claude-code", "--plugin"]) == 0
    place = user / ".claude" / "infinite-memory" / name
    place.rename(user / "elsewhere")
    place.symlink_to(user / "elsewhere", target_is_directory=True)
    before = {path: path.read_bytes() for path in (user / "elsewhere").rglob("*") if path.is_file()}
    assert main(["connect", "claude-code", "--plugin", "--scope", "Other"]) == 2
    assert str(place) in capsys.readouterr().err
    assert main(["connect", "claude-code", "--plugin", "--remove"]) == 0
    assert {path: path.read_bytes() for path in (user / "elsewhere").rglob("*") if path.is_file()} == before


def test_a_run_that_was_cut_short_announces_no_new_version_and_can_be_repeated(user: Path) -> None:
    folder = user / ".claude" / "infinite-memory"
    obstacle = folder / "hooks" / ".hooks.json.tmp"  # a folder where the file should come: a real failure in mid-run
    obstacle.mkdir(parents=True)
    assert main(["connect", "claude-code", "--plugin"]) == 2
    assert not (folder / plugin.MANIFEST).exists()
    assert (folder / ".mcp.json").exists()
    obstacle.rmdir()
    assert main(["connect", "claude-code", "--plugin"]) == 0
    before = (folder / plugin.MANIFEST).read_text()
    obstacle.mkdir()
    assert main(["connect", "claude-code", "--plugin", "--scope", "Other"]) == 2
    assert (folder / plugin.MANIFEST).read_text() == before
    obstacle.rmdir()
    assert main(["connect", "claude-code", "--plugin", "--scope", "Other"]) == 0
    assert (folder / plugin.MANIFEST).read_text() != before


def test_what_a_full_disk_cut_short_leaves_nothing(user: Path) -> None:
    folder = user / "infinite-memory"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError):  # which one is the system's affair
            plugin.write_plugin(folder, {plugin.MARKETPLACE: "x" * 1000, plugin.MANIFEST: "{}"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not folder.exists()
