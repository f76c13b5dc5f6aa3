"""`--json` of the commands that ask no daemon: one object on standard output, lines on standard error, the same exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.cli import main
from infinite_memory.cli.client_files import CLIENTS
from tests.processes import need_parts

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own, with the memory's home named."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "VSCODE_PORTABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INFINITE_MEMORY_HOME", str(tmp_path / "memory"))
    monkeypatch.delenv("INFINITE_MEMORY_MONGODB__URI", raising=False)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command with `--json`; returns its exit code, its object and what stood on standard error."""

    def run(*arguments: str) -> tuple[int, Json, str]:
        capsys.readouterr()
        code = main([*arguments, "--json"])
        printed = capsys.readouterr()
        [line] = printed.out.splitlines()
        return code, json.loads(line), printed.err

    return run


@pytest.mark.parametrize("client", CLIENTS)
def test_connect_tells_which_files_it_changed(client: str, run: Any) -> None:
    code, shown, _ = run("connect", client, "--print")
    assert (code, shown["changed"]) == (0, False)
    assert all("infinite-memory" in file["text"] or "infinite_memory" in file["text"] for file in shown["files"])
    assert not any(Path(file["file"]).exists() for file in shown["files"])

    code, entered, lines = run("connect", client)
    assert (code, entered["status"], entered["client"], entered["changed"]) == (0, "OK", client, True)
    assert [file["file"] for file in entered["files"]] == [file["file"] for file in shown["files"]]
    assert "infinite-memory was entered into" in lines

    assert run("connect", client)[1] == {"status": "OK", "client": client, "changed": False, "files": []}
    removed = run("connect", client, "--remove")[1]
    assert all(Path(file["copy"]).exists() for file in removed["files"])


def test_the_plugin_of_claude_code_is_told_too(run: Any) -> None:
    shown = run("connect", "claude-code", "--plugin", "--print")[1]
    entered = run("connect", "claude-code", "--plugin")[1]
    assert entered["changed"] is True
    assert {file["file"] for file in entered["files"]} == {file["file"] for file in shown["files"]}
    assert all(Path(file["file"]).exists() for file in entered["files"])
    removed = run("connect", "claude-code", "--plugin", "--remove")[1]
    assert (removed["changed"], len(removed["files"])) == (True, 2)
    assert run("connect", "claude-code", "--plugin", "--remove")[1]["files"] == []


def test_what_is_refused_leaves_standard_output_empty(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (user / ".cursor").mkdir()
    (user / ".cursor" / "mcp.json").write_text("{ half of it")
    assert main(["connect", "cursor", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing was changed" in printed.err


@pytest.mark.parametrize(("system", "files"), [("systemd", 2), ("launchd", 1), ("windows", 1), ("cron", 1)])
def test_schedule_gives_the_files_and_how_they_are_turned_on(system: str, files: int, run: Any) -> None:
    code, shown, _ = run("schedule", "--system", system, "--at", "04:30")
    assert (code, shown["system"], shown["at"], len(shown["files"])) == (0, system, "04:30", files)
    assert shown["turn_on"]
    assert not any(file["written"] for file in shown["files"])
    written = run("schedule", "--system", system, "--at", "04:30", "--write")[1]
    for file in written["files"]:
        assert file["written"] is (system != "cron")
        assert file["file"] is None or Path(file["file"]).exists()
    assert [file["text"] for file in written["files"]] == [file["text"] for file in shown["files"]]


def test_setup_tells_of_each_part_whether_it_is_ready(user: Path, run: Any) -> None:
    need_parts()
    code, ready, _ = run("setup")
    assert (code, ready["status"], ready["second_model"]) == (0, "OK", None)
    assert ready["mongodb"]["ready"]
    assert ready["model"] == {"ready": True, "name": "all-MiniLM-L6-v2", "folder": None}
    program = user / "mongod"
    program.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 127\n")
    program.chmod(0o700)
    code, missing, lines = run("setup", "--set", f"mongodb.binary={program}")
    assert (code, missing["status"], missing["mongodb"]["ready"], missing["model"]["ready"]) == (
        1,
        "ERROR",
        False,
        True,
    )
    assert missing["mongodb"]["error"] in lines


def test_uninstall_tells_what_went_and_what_stays(user: Path, run: Any) -> None:
    home = user / "memory"
    for folder in ("mongodb", "backups"):
        (home / folder).mkdir(parents=True, mode=0o700)
    (home / "mongodb" / "owner.lock").touch()
    (home / "thesis.txt").write_text("mine")
    unit = user / ".config" / "systemd" / "user" / "infinite-memory.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n")
    run("connect", "cursor")

    code, refused, _ = run("uninstall", "--delete-data")
    assert (code, refused["status"], refused["removed"]) == (2, "ERROR", [])
    code, dry, _ = run("uninstall", "--delete-data", "--dry-run")
    assert (code, dry["dry_run"], unit.exists()) == (0, True, True)
    code, done, lines = run("uninstall", "--delete-data", "--yes")
    assert (code, done["status"], done["problems"]) == (0, "OK", [])
    assert done["removed"] == dry["removed"]
    assert str(unit) in done["removed"]
    assert str(home / "mongodb") in done["removed"]
    assert done["stays"] == [str(home / "thesis.txt")]
    assert done["disconnected"] == [{"client": "cursor", "file": str(user / ".cursor" / "mcp.json")},
                                    {"client": "cursor", "file": str(user / ".cursor" / "hooks.json")}]  # fmt: skip
    assert "pip uninstall infinite-memory" in done["remove_program"]
    assert "stays: this program did not make it" in lines
