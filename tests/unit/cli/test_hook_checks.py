"""What `doctor` says of hooks: in words what is installed and what is wrong, each with what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.cli import client_hooks, main
from infinite_memory.cli.hook_checks import check_hooks
from infinite_memory.hooks.clients import EVENTS
from infinite_memory.hooks.control import PAUSED, set_state
from infinite_memory.hooks.files import record_event, spool

Says = Callable[[], dict[str, tuple[bool, str]]]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CODEX_HOME", "GEMINI_CLI_HOME", "CLAUDE_CONFIG_DIR", "INFINITE_MEMORY_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


@pytest.fixture
def says(user: Path) -> Says:
    """Give what asks the doctor: for each check whether all is well, and what is said."""

    def ask() -> dict[str, tuple[bool, str]]:
        found: dict[str, tuple[bool, str]] = {}

        def take(name: str, problem: str | None, good: str) -> None:
            found[name] = problem is None, problem or good

        check_hooks(user / "memory", {}, user, take)
        return found

    return ask


def test_without_hooks_one_line_says_how_to_have_them(says: Says) -> None:
    assert says() == {
        "hooks": (True, "no assistant has any: `infinite-memory connect claude-code --plugin` installs them")
    }


def test_the_plugin_is_told_with_its_place_version_and_state(user: Path, says: Says) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    told = says()
    assert told.keys() == {"plugin", "hooks claude-code", "capture"}
    well, text = told["plugin"]
    assert well
    assert re.search(
        rf"version {re.escape(__version__)}\+\w+ in {user}/.claude/infinite-memory, turned on in .*settings.json", text
    )
    assert "hooks for 6 events" in text
    assert "none came yet" in told["hooks claude-code"][1]
    settings = user / ".claude" / "settings.json"
    settings.write_text(
        settings.read_text().replace(
            '"infinite-memory@infinite-memory": true', '"infinite-memory@infinite-memory": false'
        )
    )
    assert "turned off in" in says()["plugin"][1]


def break_version(folder: Path) -> None:
    file = folder / ".claude-plugin" / "plugin.json"
    file.write_text(file.read_text().replace(f'"{__version__}+', '"0.0.9+'))


def break_command(folder: Path) -> None:
    file = folder / "hooks" / "hooks.json"
    value = json.loads(file.read_text())
    value["hooks"]["Stop"][0]["hooks"][0]["command"] = "/gone/infinite-memory"
    del value["hooks"]["PreCompact"]
    file.write_text(json.dumps(value))


def break_settings(folder: Path) -> None:
    file = folder.with_name("settings.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"disableAllHooks": True}))


def forget_settings(folder: Path) -> None:
    folder.with_name("settings.json").unlink()


def break_hooks(folder: Path) -> None:
    (folder / "hooks" / "hooks.json").write_text("[]")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (break_version, ["it is of version 0.0.9+", f"this program is {__version__}"]),
        (break_command, ["it starts /gone/infinite-memory, which is not there", "it has no hooks for PreCompact"]),
        (break_settings, ["disableAllHooks"]),
        (forget_settings, ["it is not turned on in"]),
        (break_hooks, ["is not as it was written"]),
    ],
)
def test_what_is_wrong_with_the_plugin_comes_with_what_to_do(
    harm: Callable[[Path], None], words: list[str], user: Path, says: Says
) -> None:
    assert main(["connect", "claude-code", "--plugin"]) == 0
    harm(user / ".claude" / "infinite-memory")
    well, text = says()["plugin"]
    assert not well
    assert all(word in text for word in [*words, "`infinite-memory connect claude-code --plugin` puts that right"])


@pytest.mark.parametrize("client", client_hooks.CLIENTS)
def test_the_other_clients_are_told_as_well(client: str, user: Path, says: Says) -> None:
    assert main(["connect", client]) == 0
    assert says()[client] == (True, f"hooks for {len(client_hooks.hook_commands(client, ['x'], None))} events in "
                              f"{client_hooks.find_hook_file(client, {}, user).file}")  # type: ignore[union-attr]  # fmt: skip
    assert "none came yet" in says()[f"hooks {client}"][1]
    place = client_hooks.find_hook_file(client, {}, user)
    assert place is not None
    text = place.file.read_text()
    event = next(iter(client_hooks.installed_events(place, text)))
    place.file.write_text(text.replace(f'"{event}"', '"Renamed"'))
    well, said = says()[client]
    assert not well
    assert f"it has no hooks for {event}; `infinite-memory connect {client}` puts that right" in said
    place.file.write_text("{")
    assert "is not understood" in says()[client][1]


def test_switches_of_the_clients_own_are_named(user: Path, says: Says) -> None:
    assert main(["connect", "codex"]) == 0
    assert main(["connect", "gemini"]) == 0
    (user / ".codex" / "config.toml").write_text("[features]\nhooks = false\n")
    settings = user / ".gemini" / "settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"hooksConfig": {"enabled": False}}))
    told = says()
    assert told["codex"] == (False, f"features.hooks in {user / '.codex' / 'config.toml'} turns all hooks off")
    assert told["gemini"] == (False, f"hooksConfig.enabled in {settings} turns all hooks off")


def test_each_client_has_its_last_events_and_failures_in_words(user: Path, says: Says) -> None:
    home = user / "memory"
    record_event(home, "codex", "Stop")
    record_event(home, "gemini", "BeforeAgent", "TimeoutError: the daemon did not answer within 0.8 s")
    told = says()
    assert told["hooks codex"][0]
    assert "codex Stop: last 0 s ago" in told["hooks codex"][1]
    well, text = told["hooks gemini"]
    assert not well
    assert (
        "did not answer within 0.8 s (since 0 s ago): the machine or the database was slow: `infinite-memory daemon status`"
        in text
    )
    assert told["capture"] == (True, "capture is on")
    set_state(home, PAUSED)
    spool(home, {"event": "Stop"})
    assert says()["capture"][1] == (
        "capture is paused; `infinite-memory capture resume` turns it on; 1 events wait for the daemon, which "
        "`infinite-memory daemon start` starts"
    )
    assert set(EVENTS) == {"claude-code", "codex", "gemini", "cursor"}
