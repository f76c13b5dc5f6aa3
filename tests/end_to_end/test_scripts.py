"""What cron and people run: `scripts/backup` and `scripts/scopes`, with an empty environment and on a real terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.backup.service import verify_file
from tests.processes import ROOT, Installation, need_parts
from tests.terminal import run_on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX shells")

SETUP_S = 600.0  # the first run of a script may have to set the checkout up


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    """A home without a daemon yet."""
    need_parts()
    with Installation(tmp_path / "home") as installation:
        yield installation


def script(home: Installation, name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script as cron does: nothing in the environment but what is said."""
    return subprocess.run(
        [str(ROOT / "scripts" / name), *arguments], env={"INFINITE_MEMORY_HOME": str(home.home), **environ}, cwd="/",
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SETUP_S, check=False,
    )  # fmt: skip


def on_a_terminal(home: Installation, typed: str, *arguments: str) -> tuple[int, str]:
    """Run `scripts/scopes` on a terminal; gives the exit code and all that was shown."""
    environ = {"INFINITE_MEMORY_HOME": str(home.home), "TERM": "xterm", "COLUMNS": "100"}
    return run_on_terminal([str(ROOT / "scripts" / "scopes"), *arguments], environ, typed=typed, timeout_s=SETUP_S)


def test_a_backup_from_cron(home: Installation) -> None:
    first = script(home, "backup")  # no daemon runs, and nothing is there
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.count("\n") == 1
    home.call("store_memory", content="the harbour is in the north", scope="Work")
    second = script(home, "backup")
    assert (second.returncode, second.stderr, second.stdout.count("\n")) == (0, "", 1)
    assert "1 memor" in second.stdout
    assert verify_file(Path(second.stdout.split("  ")[0])).memories == 1
    told = json.loads(script(home, "backup", "--json").stdout)
    assert told["counts"]["memories"] == 1


def test_the_exit_codes_of_a_backup(home: Installation) -> None:
    import fcntl

    assert script(home, "backup").returncode == 0
    with (home.home / "backup.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        busy = script(home, "backup")
        assert (busy.returncode, busy.stdout) == (75, "")
        assert "under way" in busy.stderr
    assert script(home, "backup", "--nonsense").returncode == 2
    wrong = script(home, "backup", INFINITE_MEMORY_BACKUP__KEEP_DAILY="many")
    assert wrong.returncode == 2
    assert "keep_daily" in wrong.stderr
    (home.home / "backups").rename(home.home / "kept")
    (home.home / "backups").write_text("no folder")
    failed = script(home, "backup")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr


def test_scopes_from_a_script(home: Installation) -> None:
    for name in ("Plans", "Ideas — 空"):
        assert script(home, "scopes", "create", name, "--description", "[bold]x").returncode == 0
    assert script(home, "scopes", "create", "plans").returncode == 1
    home.call("store_memory", content="tea", scope="Plans")
    listed = json.loads(script(home, "scopes", "list", "--json").stdout)
    assert {one["scope_name"]: one["memories"] for one in listed} == {"Global": 0, "Plans": 1, "Ideas — 空": 0}
    assert "[bold]x" in script(home, "scopes", "list").stdout
    for arguments in (("merge", "Plans", "Ideas — 空"), ("archive", "Plans"), ("delete", "Plans")):
        dry = script(home, "scopes", *arguments, "--dry-run")
        assert (dry.returncode, "1 memory" in dry.stdout) == (0, True)
        unsure = script(home, "scopes", *arguments)
        assert (unsure.returncode, "--yes" in unsure.stderr) == (2, True)
        assert json.loads(script(home, "scopes", *arguments, "--dry-run", "--json").stdout)["dry_run"]
    assert script(home, "scopes", "merge", "Plans", "Ideas — 空", "--yes").returncode == 0
    assert script(home, "scopes", "rename", "Ideas — 空", "Done").returncode == 0
    assert script(home, "scopes", "archive", "Done", "--yes").returncode == 0
    assert script(home, "scopes", "unarchive", "Done").returncode == 0
    assert "tea" in script(home, "scopes", "export", "Done").stdout
    assert script(home, "scopes", "delete", "Nowhere", "--yes").returncode == 1
    assert script(home, "scopes", "delete", "Done", "--yes").returncode == 0
    assert script(home, "scopes", "unarchive", "Done").returncode == 0
    assert script(home, "scopes", "delete", "Done", "--hard", "--yes").returncode == 0
    assert [one["scope_name"] for one in json.loads(script(home, "scopes", "list", "--json").stdout)] == ["Global"]


def test_a_terminal_is_asked_and_shown_tables(home: Installation) -> None:
    home.call("store_memory", content="tea", scope="Plans")
    code, shown = on_a_terminal(home, "n\n", "delete", "Plans")
    assert (code, "with 1 memory? [y/N]" in shown, "nothing was changed" in shown) == (2, True, True)
    code, shown = on_a_terminal(home, "n\n", "merge", "Plans", "Global")
    assert (code, "with 1 memory into 'Global', which only a backup undoes? [y/N]" in shown) == (2, True)
    code, shown = on_a_terminal(home, "")  # without an action
    assert code == 0
    assert "──" in shown
    assert "Plans" in shown
    code, shown = on_a_terminal(home, "y\n", "delete", "Plans")
    assert (code, "unarchive brings it back" in shown) == (0, True)
    code, shown = on_a_terminal(home, "y\n", "delete", "Plans", "--hard")
    assert (code, "for good? [y/N]" in shown, "removed for good" in shown) == (0, True, True)
    code, shown = on_a_terminal(home, "y\n", "archive", "Plans")
    assert (code, "there is no scope" in shown) == (1, True)
