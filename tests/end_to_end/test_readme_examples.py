"""The README's own session, typed into the real program, the process stopped in between."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = str(Path(sys.executable).with_name("infinite-memory"))
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty home; its daemon is stopped afterwards."""
    yield tmp_path / "home"
    run(tmp_path / "home", "daemon", "stop")


def run(home: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a home."""
    environ = os.environ | {"INFINITE_MEMORY_HOME": str(home)}
    return subprocess.run(
        [COMMAND, *words], input=typed, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def examples() -> list[str]:
    """Take the requests out of the README, a line each."""
    block = re.search(r"```json\n((?:\{\"action\".*\n)+)```", README)
    assert block
    return block[1].splitlines()


def replies(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Read what came back."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_was_stored_yesterday_is_recalled_today(home: Path) -> None:
    store, retrieve, by_time = examples()
    (stored,) = replies(run(home, "serve", typed=store + "\n"))
    assert stored["status"] == "OK"
    assert run(home, "daemon", "stop").returncode == 0
    found, today = replies(run(home, "serve", typed=f"{retrieve}\n{by_time}\n"))
    assert found["results"][0]["text"] == "My favorite color is blue"
    assert found["results"][0]["memory_id"] == stored["memory_id"]
    assert [one["memory_id"] for one in today["results"]] == [stored["memory_id"]]


def test_the_commands_beside_serve_answer_as_the_readme_says(home: Path) -> None:
    kept = run(home, "call", "store_memory", '{"content": "the spare key is under the pot"}')
    assert kept.returncode == 0
    assert run(home, "call", "store_memory", '{"content": " "}').returncode == 1
    assert run(home, "call", "store_memory", "{not json").returncode == 2
    assert run(home, "call", "ping", "").returncode == 0  # no fields at all
    assert run(home, "help", "store_memmory").returncode == 1
    assert "total_memories: 1" in run(home, "stats").stdout
    assert json.loads(run(home, "stats", "--json").stdout)["total_memories"] == 1
    assert "store_memory" in run(home, "help").stdout
    doctor = run(home, "doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert run(home, "optimize").returncode == 0
    assert "the index holds 1 memory" in run(home, "reindex").stdout
    assert "time.zone" in run(home, "config").stdout
    status = json.loads(run(home, "daemon", "status", "--json").stdout)
    assert status["pid"] > 0
    assert run(home, "daemon", "stop").returncode == 0
    assert run(home, "daemon", "status").returncode == 1
