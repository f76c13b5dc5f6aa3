"""The short way of a hook: what it imports, that it tells home and protocol as all others do, and what it leaves to the long way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.cli.connect import HOOK_PROGRAM
from infinite_memory.daemon import ipc
from infinite_memory.hooks import files, run
from infinite_memory.hooks.events import handle_event, sizes_of
from infinite_memory.paths import HOME_VARIABLE
from infinite_memory.paths import find_home as find_home_of_all
from tests.processes import until

ROOT = Path(__file__).resolve().parents[3]
PROBE = """\
import os, sys
before = set(sys.modules)
from infinite_memory.hooks import run
import _socket, select
print(*sorted(set(sys.modules) - before))
"""
STARTED_DAEMON = f"""\
import os, sys
if sys.orig_argv[-2:] == ["daemon", "start"]:
    started = os.path.join(os.path.dirname(__file__), "started")
    with open(started + ".part", "w") as file:
        file.write(os.environ[{HOME_VARIABLE!r}])
    os.replace(started + ".part", started)
    os._exit(0)
"""
FOLDERS = ["", "/", "/data", "/data/one", "~/one", "one", "/data/../one", "/data/"]


def test_it_imports_next_to_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROBE], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {
        "__future__", "_socket", "infinite_memory", "infinite_memory.hooks", "infinite_memory.hooks.run", "select",
    }  # fmt: skip


def test_its_words_are_those_of_the_daemon() -> None:
    assert (run.PROTOCOL, run.HOME_VARIABLE) == (ipc.PROTOCOL, HOME_VARIABLE)


@given(
    given=st.sampled_from([None, *FOLDERS]),
    named=st.sampled_from([None, *FOLDERS]),
    data=st.sampled_from([None, *FOLDERS]),
    user=st.sampled_from(["/home/one", "relative", ""]),
)
def test_it_finds_the_home_that_all_others_find(
    given: str | None, named: str | None, data: str | None, user: str
) -> None:
    environ = {"HOME": user} | {
        name: value for name, value in ((HOME_VARIABLE, named), ("XDG_DATA_HOME", data)) if value is not None
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in (HOME_VARIABLE, "XDG_DATA_HOME"):
            patch.delenv(name, raising=False)
        for name, value in environ.items():
            patch.setenv(name, value)
        try:
            found = run.find_home(["Stop", *([] if given is None else ["--home", given])])
        except run.Unusual:
            return  # the long way tells
        if given is not None:
            patch.setenv(HOME_VARIABLE, given)
        assert Path(found) == find_home_of_all(os.environ).path


@pytest.mark.parametrize(
    "sizes",
    [None, "12", [1], [1, 2, 3], [-1, 2], [1, -2], [1.5, 2], [True, "2"], [1 << 40, 2], [1, run.SHORT_BYTES + 1]],
)
def test_sizes_that_no_hook_sends_are_refused(sizes: object) -> None:
    assert sizes_of({"sizes": sizes}) is None


def test_without_a_daemon_the_event_is_spooled(tmp_path: Path) -> None:
    """By the command that `connect` enters. What was read of standard input is not read again, and a daemon is asked for: here one
    that only says that it was started, for a real one would outlive the test."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir(mode=0o700)
    site.mkdir()
    (site / "sitecustomize.py").write_text(STARTED_DAEMON)
    (home / "daemon.sock").write_text("no socket")
    event = {"session_id": "one", "cwd": str(tmp_path), "transcript_path": str(tmp_path / "one.jsonl")}
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", HOOK_PROGRAM, "hook", "Stop", "--home", str(home)],
        env=environ, input=json.dumps(event).encode(), capture_output=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"", b"")
    [spooled] = files.waiting(home)
    assert (files.read_json(spooled) or {})["session_id"] == "one"
    [told] = files.last_events(home)
    assert told["failure"] is None
    until((site / "started").exists, "a daemon was asked for")
    assert (site / "started").read_text() == str(home)


class Service:
    """Notes the messages it is asked to answer."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(message)
        return {"ok": True, "context": "known"}


@pytest.mark.parametrize(
    ("client", "name", "data", "says"),
    [
        ("claude-code", "Stop", b"not json", "JSONDecodeError"),
        ("claude-code", "Stop", b"[" * 100_000, "too deeply"),
        ("claude-code", "Stop", b"{}", "session_id"),
        ("claude-code", "AfterAgent", b"{}", "no name that is known"),
        ("gemini", "BeforeAgent", b"[]", "no object"),
    ],
)
async def test_what_is_no_event_is_recorded(tmp_path: Path, client: str, name: str, data: bytes, says: str) -> None:
    service = Service()
    output = await handle_event(service, tmp_path, {"client": client, "name": name}, b"", data)
    assert (output, service.asked) == (b"", [])
    [told] = files.last_events(tmp_path)
    assert says in told["failure"]
    assert files.waiting(tmp_path) == []


async def test_an_event_carries_its_clients_own_variables_and_no_others(tmp_path: Path) -> None:
    service = Service()
    environ = b"INFINITE_MEMORY_HOOKS__PROMPT_TOKENS=7\0PATH=/bin\0\0=x\0INFINITE_MEMORY_CAPTURE__ENABLED"
    event = {"session_id": "one", "cwd": "/p", "prompt": "x" * 5000}
    greeting = {"client": "codex", "name": "UserPromptSubmit"}
    output = await handle_event(service, tmp_path, greeting, environ, json.dumps(event).encode())
    assert json.loads(output)["hookSpecificOutput"]["additionalContext"] == "known"
    [message] = service.asked
    assert message["environ"] == {"INFINITE_MEMORY_HOOKS__PROMPT_TOKENS": "7"}
    assert len(message["prompt"]) == 2000
