"""A low limit of open files: refused before MongoDB dies, named, and raised where it can be."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infinite_memory.store.descriptors import FILES_BESIDE, FILES_OF_SCOPE
from tests.processes import Installation, need_parts

SCOPES = 24
HARD = FILES_BESIDE + SCOPES * FILES_OF_SCOPE


def limited(installation: Installation, hard: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may open *hard* files at most, and so does a daemon that it starts."""
    return subprocess.run(
        [sys.executable, "-m", "infinite_memory", *arguments],
        env=installation.environ, cwd=installation.home.parent, capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard)),
    )  # fmt: skip


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    need_parts()
    with Installation(tmp_path / "home") as one:
        yield one


def test_a_soft_limit_is_raised_for_daemon_and_mongodb(installation: Installation) -> None:
    assert limited(installation, 20_000, "call", "get_memory_stats").returncode == 0
    for pid in (installation.daemon_pid(), installation.mongod_pid()):
        assert pid is not None
        assert "Max open files            20000" in Path(f"/proc/{pid}/limits").read_text()


def test_a_start_with_too_few_says_how_many_are_needed(installation: Installation) -> None:
    done = limited(installation, 64, "call", "list_memories")
    assert done.returncode == 1
    said = json.loads(done.stdout)["error"]
    assert f"needs at least {FILES_BESIDE + FILES_OF_SCOPE} open files, and the limit of open files is 64" in said
    assert "ulimit -n" in said
    assert installation.mongod_pid() is None


def test_a_scope_too_many_is_refused_before_mongodb_dies(installation: Installation) -> None:
    assert limited(installation, HARD, "call", "get_memory_stats").returncode == 0
    pid = installation.mongod_pid()
    memories = [{"content": f"fact {n}", "scope": f"scope {n}"} for n in range(SCOPES * 2)]
    reply = installation.call("store_memories", memories=memories)
    stored = [one for one in reply["results"] if "memory_id" in one]
    refused = [one for one in reply["results"] if "memory_id" not in one]
    assert len(stored) == SCOPES - 1  # and Global
    assert all("limit of open files" in one["error"] for one in refused)
    assert installation.call("create_memory_scope", scope_name="one more")["status"] == "ERROR"
    assert installation.call("store_memory", content="tea", scope="scope 3")["status"] == "OK"
    assert installation.call("get_memory_stats")["stats"]["total_memories"] == SCOPES
    assert installation.mongod_pid() == pid
    doctor = installation.command("doctor", "--json")
    [files] = [one for one in json.loads(doctor.stdout)["checks"] if one["check"] == "files"]
    assert not files["ok"]
    assert "open files" in files["says"]


def test_a_restore_of_more_scopes_than_fit_is_refused_whole(installation: Installation, tmp_path: Path) -> None:
    memories = [{"content": f"fact {n}", "scope": f"scope {n}"} for n in range(SCOPES * 2)]
    with Installation(tmp_path / "other") as other:
        assert other.call("store_memories", memories=memories)["status"] == "OK"
        backup = other.call("backup_memory")["path"]
    assert limited(installation, HARD, "call", "store_memory", '{"content": "tea"}').returncode == 0
    pid = installation.mongod_pid()
    done = installation.command("restore", backup, "--merge")
    assert done.returncode == 1
    assert "limit of open files" in done.stderr
    assert installation.call("get_memory_stats")["stats"]["total_memories"] == 1
    assert installation.mongod_pid() == pid
