"""The programs in ``examples/``, each run as its first lines say, in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doc_blocks import PATIENT
from tests.processes import PATIENCE_S, ROOT, Installation, need_parts

EXAMPLES = ROOT / "examples"
MAX_LINES = 60


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Installation]:
    """An empty home."""
    need_parts()
    with Installation(tmp_path / "home", PATIENT) as one:
        yield one


def run(home: Installation, *command: str | Path) -> str:
    environ = dict(home.environ)
    if command[0] == "sh":  # a Python program finds the package by its interpreter, also where no environment is active
        environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    else:
        environ["PATH"] = os.defpath
    done = subprocess.run(
        [str(word) for word in command], env=environ, cwd=home.home.parent, capture_output=True, text=True,
        timeout=2 * PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_agent_on_langgraph_answers_from_its_notes(home: Installation) -> None:
    program = EXAMPLES / "langgraph_notes.py"
    said = run(
        home, sys.executable, program, "note: the demo is on Tuesday", "note: Ada drinks tea", "when is the demo?"
    )
    assert said.splitlines() == ["noted: the demo is on Tuesday", "noted: Ada drinks tea", "the demo is on Tuesday"]
    later = run(home, sys.executable, program, "what does Ada drink?", "what is the capital of France?")
    assert later.splitlines() == ["Ada drinks tea", "I have no note about that."]


def test_the_digest_tells_of_the_day_and_is_stored_once(home: Installation) -> None:
    script = EXAMPLES / "nightly_digest.sh"
    assert run(home, "sh", script, "today") == "Nothing was remembered today.\n"
    home.call("store_memory", content="The tap drips", scope="House")
    home.call("store_memory", content="Ada has the spare key", scope="House")
    first = run(home, "sh", script, "today")
    assert "- The tap drips\n- Ada has the spare key\n" in first
    assert "stored in Digests" in first
    assert "(stored already)" in run(home, "sh", script, "today")
    assert home.call("search_by_scope", scope="Digests")["total"] == 1
    home.call("store_memory", content="The fence is painted", scope="House", metadata={"timestamp": "2026-03-02"})
    assert run(home, "sh", script, "march 2026").startswith("Digest of march 2026, made ")


def test_a_chatgpt_export_is_looked_at_imported_and_asked(home: Installation) -> None:
    program, export = EXAMPLES / "import_chatgpt.py", ROOT / "tests" / "data" / "imports" / "chatgpt"
    told = run(home, sys.executable, program, export)
    assert "memories would come in, 0 are there already" in told
    assert "0 memories came in." not in told
    again = run(home, sys.executable, program, export, "what did we talk about?")
    assert "0 memories came in." in again
    assert len(again.splitlines()) > 3


def test_two_users_of_the_team_server_see_their_own(home: Installation) -> None:
    told = run(home, sys.executable, EXAMPLES / "team_server.py", "0")
    assert "alice sees ['Prefers dark mode']" in told
    assert "bob sees ['Is allergic to nuts']" in told


@pytest.mark.parametrize("file", sorted(EXAMPLES.iterdir()), ids=lambda file: file.name)
def test_an_example_is_short_and_named_in_the_guide(file: Path) -> None:
    assert len(file.read_text("utf-8").splitlines()) < MAX_LINES
    assert f"`{file.name}`" in (ROOT / "docs" / "guides" / "examples.md").read_text("utf-8")
