"""`uninstall --delete-data` knows every file that a memory in use makes."""

from __future__ import annotations

from pathlib import Path

from tests.hook_sessions import new_session, wait_for
from tests.processes import Installation, until


def test_nothing_of_a_home_is_left_that_was_used_in_every_way(tmp_path: Path) -> None:
    variables = {
        "INFINITE_MEMORY_HTTP__PORT": "0",
        "INFINITE_MEMORY_EMBEDDING__PREPARE": "false",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOME": str(tmp_path),
        "BROWSER": "true",  # the program of that name
    }
    with Installation(tmp_path / "home", variables) as installation:
        memory_id = installation.call("store_memory", content="tea is in the left drawer")["memory_id"]
        until(lambda: installation.status().get("http", {}).get("url"), "HTTP answers")
        installation.call("backup_memory")
        (installation.home / "config.toml").write_text("[time]\n")
        assert installation.command("forget", memory_id, "--yes").returncode == 0
        assert installation.command("backup").returncode == 0
        for form in ("jsonl", "markdown", "csv"):
            assert installation.call("export_memory", format=form)["status"] == "OK"
        session = new_session(installation, "project")
        session.say("The printer is on the third floor", "noted")
        for event in ("SessionStart", "UserPromptSubmit", "Stop"):
            session.run(installation, event)
        wait_for(installation, session, 2)
        assert installation.command("open").returncode == 0
        assert installation.command("capture", "pause").returncode == 0
        done = installation.command("uninstall", "--delete-data", "--yes")
        assert done.returncode == 0, done.stderr
        assert f"deleted {installation.home}\n" in done.stdout
        assert not installation.home.exists()
