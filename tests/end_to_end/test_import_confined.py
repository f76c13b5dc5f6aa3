"""Imports of an assistant stay in the folders that they may come from; the command line reads what its user names."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.import_files import FILES
from tests.processes import LONG, Installation, is_alive, need_parts, until

Json = dict[str, Any]

SECRET = "zebra-crossing-secret"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    need_parts()
    with Installation(tmp_path_factory.mktemp("confined") / "home", is_stopped=LONG) as made:
        made.command("daemon", "start")
        yield made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no assistant should read."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.md").write_text(SECRET)
    (tmp_path / "notes" / "table.csv").write_text(f"{SECRET},b\n1,2\n")
    return tmp_path / "notes"


def imports(installation: Installation) -> Path:
    """The folder that assistants may import from, made by the first who asks."""
    installation.call("import_memory", path="nothing", dry_run=True)
    return installation.home / "imports"


def test_the_folder_of_imports_is_made_for_its_owner_alone(installation: Installation) -> None:
    assert imports(installation).stat().st_mode & 0o777 == 0o700


def test_a_path_outside_gets_one_answer_whatever_is_there(installation: Installation, outside: Path) -> None:
    folder = imports(installation)
    paths = [
        str(outside), str(outside / "diary.md"), str(outside / "table.csv"), str(outside / "missing.md"), "/root", "/dev/zero",
        "/nowhere/at/all", f"{folder}/../config.toml", "../daemon.json", f"{folder}x", "~/x", "~nobody/x", "/", "x\0y",
    ]  # fmt: skip
    client = installation.serve()
    answers = {client.ask("import_memory", path=path, dry_run=dry)["error"] for path in paths for dry in (True, False)}
    answers.add(installation.call("import_memory", path=str(outside))["error"])
    assert len(answers) == 1, answers
    [answer] = answers
    assert "import.folders" in answer
    assert "infinite-memory import PATH" in answer
    mcp = installation.serve()
    mcp.initialize()
    for number, path in enumerate(paths, 1):
        reply = mcp.tool(number, "import_memory", path=path, confirm=True, any_path=True)["result"]["structuredContent"]
        assert reply["error"] == answer


def test_links_inside_the_folder_lead_nowhere(installation: Installation, outside: Path) -> None:
    folder = imports(installation)
    (folder / "link.md").symlink_to(outside / "diary.md")
    (folder / "linked").symlink_to(outside)
    (folder / "gone").symlink_to(outside / "missing")
    errors = {
        installation.call("import_memory", path=name)["error"].replace(name, "")
        for name in ("link.md", "linked", "gone")
    }
    assert len(errors) == 1, errors
    assert "path" in installation.call("import_memory", path="linked/diary.md")["error"]
    (folder / "mine.md").write_text("my own note")
    done = installation.call("import_memory", path=str(folder), dry_run=True)
    assert (done["added"], done["skipped"]) == (1, 3)
    for name in ("link.md", "linked", "gone", "mine.md"):
        (folder / name).unlink()


def test_errors_do_not_quote_what_a_file_holds(installation: Installation) -> None:
    folder = imports(installation)
    for name, content in (
        ("a.csv", f"{SECRET},b\n1,2\n"),
        ("b.csv", f"text,timestamp\nx,{SECRET}\n"),
        ("c.json", json.dumps([{"memory": "x", "created_at": SECRET}])),
        ("d.json", f'{{"memories": [{SECRET}'),
        (
            "e.jsonl",
            '{"kind": "header", "format": "infinite-memory-export", "version": 1}\n{"kind": "' + SECRET + '"}\n',
        ),
    ):
        (folder / name).write_text(content)
        assert SECRET not in json.dumps(installation.call("import_memory", path=name, dry_run=True)), name
        (folder / name).unlink()
    told = installation.home.parent / "b.csv"
    told.write_text(f"text,timestamp\nx,{SECRET}\n")
    assert SECRET in installation.command("import", str(told), "--dry-run").stderr  # whose file it is may know


def test_the_command_line_reads_what_its_user_names(installation: Installation, outside: Path) -> None:
    done = installation.command("import", str(outside), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["added"] == 1


def test_a_dry_run_shows_the_file_to_its_user_and_to_no_assistant(installation: Installation) -> None:
    file = imports(installation) / "seen.csv"
    file.write_text(
        f"text,tags,timestamp,scope,speaker\n{SECRET} \x1b[2J\u202ehere,a,2026-03-28,Plans,Ada\nlater,,,,\n"
    )
    for dry_run in (True, False):
        reply = installation.call("import_memory", path=file.name, dry_run=dry_run)
        assert ("preview" in reply, SECRET in json.dumps(reply)) == (False, False)
    file.write_text(file.read_text().replace("here", "here 2").replace("later", "later 2"))
    done = installation.command("import", str(file), "--dry-run", "--json")
    preview = json.loads(done.stdout)["preview"]
    assert preview["scopes"] == [
        {"name": "Plans", "added": 1, "is_new": False},
        {"name": "Global", "added": 1, "is_new": False},
    ]
    assert [one["timestamp"] for one in preview["samples"]] == ["2026-03-28T00:00:00.000Z", None]
    assert (preview["undated"], preview["samples"][0]["speaker"]) == (1, "Ada")
    told = installation.command("import", str(file), "--dry-run", "--into-scope", "Later").stdout
    assert "into the scopes: Later (new) 2\n" in told
    assert f"for example: 2026-03-28  Later, #a  Ada: {SECRET} \\u001b[2J\\u202ehere 2\n" in told
    assert "preview" not in json.loads(installation.command("import", str(file), "--json").stdout)
    file.unlink()


def test_over_mcp_the_user_is_asked_with_path_and_counts(installation: Installation) -> None:
    folder = imports(installation)
    shutil.copytree(FILES / "claude", folder / "claude", dirs_exist_ok=True)
    client = installation.serve()
    client.initialize()
    refused = client.tool(1, "import_memory", path="claude", scope="Asked")["result"]
    assert refused["isError"]
    asked = refused["structuredContent"]["error"]
    assert f"Import 13 memories (claude) from {folder.resolve() / 'claude'} into 'Asked'?" in asked
    assert "7 entries are left out" in asked
    assert "confirm: true" in asked
    done = client.tool(2, "import_memory", path="claude", scope="Asked", confirm=True)["result"]["structuredContent"]
    assert (done["status"], done["added"]) == ("OK", 13)
    assert sum(done["skipped_reasons"].values()) == done["skipped"] == 7


def test_the_folders_are_a_setting(tmp_path: Path, outside: Path) -> None:
    need_parts()
    folders = f"{outside},{tmp_path / 'other'}"
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_IMPORT__FOLDERS": folders}) as made:
        assert made.call("import_memory", path=str(outside / "diary.md"), dry_run=True)["added"] == 1
        assert "import.folders" in made.call("import_memory", path=str(made.home / "imports"))["error"]
        assert not (made.home / "imports").exists()


COUNT = 1500


def test_an_import_that_was_killed_is_finished_by_doing_it_again(installation: Installation, tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    file.write_text(json.dumps({"results": [{"id": str(n), "memory": f"shelf {n} holds jars"} for n in range(COUNT)]}))
    file.write_text(file.read_text()[:-1] + " broken")  # and its end is no JSON
    before = _stored(installation)
    client = installation.serve()
    shutil.copy(file, imports(installation))
    client.send({"action": "import_memory", "path": "many.json"})
    until(lambda: before < _stored(installation) < before + COUNT, "some memories are stored")
    pid = installation.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the daemon is gone")
    assert "the daemon stopped before it answered" in client.reply()["error"]
    done = json.loads(installation.command("import", str(file), "--json", timeout_s=200).stdout)
    assert done["added"] + done["present"] == COUNT
    assert 0 < done["present"] < COUNT
    assert any("is no JSON from line 1" in why for why in done["skipped_reasons"])
    again = json.loads(installation.command("import", str(file), "--json", timeout_s=200).stdout)
    assert (again["added"], again["present"]) == (0, COUNT)


def _stored(installation: Installation) -> int:
    return int(installation.call("get_memory_stats")["stats"]["total_memories"])
