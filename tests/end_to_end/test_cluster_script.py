"""`scripts/cluster`: a cluster comes up, its daemons know each other and find what any of them stored, and nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import LONG, ROOT, Installation, need_parts, processes_of, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the script reads /proc"),
    pytest.mark.skipif(not LONG, reason="seven processes: --long"),
]


def cluster(what: str, folder: Path) -> str:
    command = [sys.executable, "-m", "scripts.cluster_run", what, "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_cluster_comes_up_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    need_parts()
    folder = tmp_path / "cluster"
    told = cluster("up", folder)
    try:
        assert told.count("http://127.0.0.1:") == 4
        one, other = (Installation(folder / f"daemon-{number}") for number in (1, 2))
        assert one.call("store_memory", content="My bicycle is in the cellar")["status"] == "OK"
        until(lambda: other.call("retrieve_memory", query="where is my bike?")["results"], "the other finds it")
        until(lambda: other.command("cluster", "status").returncode == 0, "all is well")
        status = json.loads(other.command("cluster", "status", "--json").stdout)
        assert sorted(server["role"] for server in status["servers"]) == ["primary", "secondary", "secondary"]
        assert [daemon["engine"] for daemon in status["daemons"]] == ["milvus"] * 3
    finally:
        cluster("down", folder)
    assert not folder.exists()
    assert processes_of(folder) == []
