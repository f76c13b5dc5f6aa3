"""What the commands about backups and exports write belongs to its owner alone, and what they refuse."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pymongo
import pytest

from tests.processes import Installation, need_parts

SOME = 300


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home with a few memories, whose processes have an umask that hides nothing."""
    need_parts()
    folder = tmp_path_factory.mktemp("commands")
    before = os.umask(0)
    try:
        with Installation(folder / "home") as installation:
            for text in ("the harbour at dawn", "=1+1"):
                assert installation.call("store_memory", content=text, metadata={"scope": "港 " * 60})["status"] == "OK"
            yield installation
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    """Give the permissions of a file."""
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("form", ["jsonl", "csv", "markdown"])
def test_an_export_is_its_owners_alone(home: Installation, tmp_path: Path, form: str) -> None:
    target = tmp_path / "out"
    done = home.command("export", "--format", form, "-o", str(target))
    assert done.returncode == 0, done.stderr
    files = list(target.iterdir()) if form == "markdown" else [target]
    assert [mode(file) for file in files] == [0o600] * len(files)
    assert "harbour" in "".join(file.read_text("utf-8") for file in files)
    assert mode(target) == (0o700 if form == "markdown" else 0o600)
    assert list((home.home / "backups").glob("export_*")) == []
    assert list(tmp_path.glob(".*")) == []


def test_a_dash_is_standard_output_and_no_file(home: Installation) -> None:
    for form in ("jsonl", "markdown"):
        done = home.command("export", "--format", form, "-o", "-")
        assert done.returncode == 0
        assert "the harbour at dawn" in done.stdout
    assert not (home.home.parent / "-").exists()


def test_an_export_replaces_nothing(home: Installation, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("there", "link", "missing/out"):
        done = home.command("export", "-o", str(tmp_path / name))
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_a_backup_is_its_owners_alone_and_a_dry_run_restores_nothing(home: Installation) -> None:
    made = json.loads(home.command("backup", "--json").stdout)
    assert mode(Path(made["path"])) == 0o600
    assert f"{Path(made['path']).name} is whole" in home.command("verify", "--newest").stdout
    assert home.call("store_memory", content="later")["status"] == "OK"
    told = home.command("restore", "--replace", "--dry-run", made["backup_file"])
    assert told.returncode == 0
    assert told.stdout.startswith("would restore 2 memories")
    assert ", 1 other removed" in told.stdout
    assert home.call("get_memory_stats")["stats"]["total_memories"] == 3


def test_an_unlocked_backup_is_refused_where_a_key_is_set(home: Installation, tmp_path: Path) -> None:
    made = json.loads(home.command("backup", "--json").stdout)
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    assert home.command("daemon", "stop").returncode == 0  # the next one has the key
    home.environ["INFINITE_MEMORY_BACKUP__KEY_FILE"] = str(key)
    try:
        for command in ("verify", "restore"):
            refused = home.command(command, made["path"])
            assert refused.returncode == 1
            assert "is not locked" in refused.stderr + refused.stdout
            assert home.command(command, "--allow-unlocked", made["path"]).returncode == 0
    finally:
        home.command("daemon", "stop")
        del home.environ["INFINITE_MEMORY_BACKUP__KEY_FILE"]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of that size, where this user may."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may mount nothing")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def noise(count: int) -> list[str]:
    """Make texts that no compression makes much smaller, the same ones each time."""
    chance = random.Random(5)
    return [chance.randbytes(150).hex() for _ in range(count)]


def store(home: Installation, texts: list[str], scope: str) -> None:
    """Store memories."""
    client = home.serve()
    memories = [{"content": text, "metadata": {"scope": scope}} for text in texts]
    assert client.ask("store_memories", memories=memories)["status"] == "OK"
    client.close()


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    need_parts()
    with small_disk(tmp_path / "disk", "40k") as disk:
        environ = {"INFINITE_MEMORY_BACKUP__FOLDER": str(disk)}
        with Installation(tmp_path / "home", environ) as home:
            store(home, noise(SOME), "Noise")
            for action in ("backup_memory", "export_memory"):
                refused = home.call(action)
                assert refused["error_code"] == "BACKUP_ERROR"
                assert "No space left" in refused["error"]
                assert f"the folder {disk}" in refused["error"]
                assert list(disk.iterdir()) == []
            assert home.call("get_memory_stats")["stats"]["last_backup"] is None
        with Installation(tmp_path / "home") as home:  # its backups in the home, where there is room
            made = json.loads(home.command("backup", "--json").stdout)
            refused = home.command("export", "-o", str(disk / "out.jsonl"))
            assert refused.returncode == 1
            assert "No space left" in refused.stderr
            assert f"the folder {disk}" in refused.stderr
            assert "Traceback" not in refused.stderr
            assert list(disk.iterdir()) == []
            assert list((home.home / "backups").iterdir()) == [Path(made["path"])]


def test_a_failed_export_of_pages_leaves_no_folder(tmp_path: Path) -> None:
    need_parts()
    with small_disk(tmp_path / "disk", "40k") as disk, Installation(tmp_path / "home") as home:
        store(home, ["tea"], "A little")
        store(home, noise(SOME), "Noise")
        (disk / "mine").mkdir()
        (disk / "mine" / "A little.md").write_text("of somebody else")
        before = sorted(disk.rglob("*"))
        for folder in ("notes", "deep/er/notes", "mine"):
            refused = home.command("export", "--format", "markdown", "-o", str(disk / folder))
            assert refused.returncode == 1
            assert "No space left" in refused.stderr
            assert "Traceback" not in refused.stderr
            assert sorted(disk.rglob("*")) == before, folder


def test_a_server_killed_in_the_middle_leaves_what_was_or_what_is_to_be(tmp_path: Path) -> None:
    """The daemon starts its MongoDB again; the restore says that it failed, or is done."""
    need_parts()
    chance = random.Random(7)
    with Installation(tmp_path / "home") as home:
        store(home, noise(SOME), "Old")
        made = home.call("backup_memory")
        home.call("delete_memory", target={"scope": "Old"}, forget_mode="hard")
        store(home, ["late"], "Late")
        for _ in range(3):
            command = [sys.executable, "-m", "infinite_memory", "restore", "--replace", "--json", made["path"]]
            client = subprocess.Popen(
                command, env=home.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            threading.Event().wait(chance.uniform(0.3, 2.0))
            if (pid := home.mongod_pid()) is not None:
                os.kill(pid, signal.SIGKILL)
            said, beside = client.communicate(timeout=120)
            reply = json.loads(said) if said else {"status": "ERROR", "error": beside}
            assert "internal error" not in reply.get("error", ""), reply
            stats = home.call("get_memory_stats")
            while stats["status"] != "OK":
                assert stats["error_code"] in ("CONNECTION_ERROR", "NOT_READY"), stats
                stats = home.call("get_memory_stats")
            assert stats["stats"]["total_memories"] in (1, SOME)
            listed = home.call("list_memories", filter={"scope": "ALL"}, limit=1)
            assert listed["total"] == stats["stats"]["total_memories"]
            verified = home.command("verify", made["path"])
            assert verified.returncode == 0
        done = home.call("restore_backup", file=made["path"], mode="replace")
        assert done["status"] == "OK", done
        assert home.call("get_memory_stats")["stats"]["total_memories"] == SOME


def test_a_server_killed_while_a_restore_is_put_into_place_ends_with_all_of_it(tmp_path: Path) -> None:
    """Requests meanwhile wait or hear that MongoDB is away; none sees scopes of one state and memories of the other."""
    need_parts()
    scopes = 120
    with Installation(tmp_path / "home") as home:
        client = home.serve()
        memories = [{"content": f"note {number}", "metadata": {"scope": f"Old {number}"}} for number in range(scopes)]
        assert client.ask("store_memories", memories=memories)["status"] == "OK"
        client.close()
        backup = home.call("backup_memory")["path"]
        store(home, ["late"], "Late")
        socket, pid = quote(str(home.home / "mongodb" / "mongod.sock"), safe=""), home.mongod_pid()
        assert pid is not None
        watching, killed = threading.Event(), threading.Event()

        def kill_amid() -> None:
            with pymongo.MongoClient(f"mongodb://{socket}/?directConnection=true") as watcher:
                database = watcher["infinite_memory"]
                while database["meta"].find_one({"state": "committing"}) is None:
                    watching.set()
                while len(database.list_collection_names(filter={"name": {"$regex": "^staged_.*_mem_"}})) > scopes - 5:
                    pass
                os.kill(pid, signal.SIGKILL)
                killed.set()

        killer = threading.Thread(target=kill_amid)
        killer.start()
        assert watching.wait(30)
        reply = home.call("restore_backup", file=backup, mode="replace")
        assert killed.wait(30)
        killer.join()
        assert reply["status"] == "OK", reply
        assert home.call("get_memory_stats")["stats"]["total_memories"] == scopes
        assert home.call("list_memories", filter={"scope": "ALL"}, limit=1)["total"] == scopes
