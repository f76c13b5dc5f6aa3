"""The files between hook and daemon: pauses, projects, how far transcripts were read, and what the hook imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infinite_memory.hooks import control, files
from infinite_memory.hooks.control import OFF, ON, PAUSED, read_control, set_state, settle_control
from infinite_memory.hooks.ledger import Ledger
from infinite_memory.hooks.projects import PROJECT_FILE, find_project
from infinite_memory.hooks.sessions import Sessions, size_of

ROOT = Path(__file__).resolve().parents[3]
HEAVY = {
    "asyncio",
    "logging",
    "dataclasses",
    "subprocess",
    "tempfile",
    "hashlib",
    "secrets",
    "inspect",
    "zoneinfo",
    "argparse",
}
PROBE = """\
import os, sys
before = set(sys.modules)
from infinite_memory.hooks import client
client.run(["Stop"])
import json
print(json.dumps({name: getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - before}))
"""


def test_a_pause_is_a_stretch_of_time_that_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    assert read_control(tmp_path).state == ON
    assert set_state(tmp_path, PAUSED).is_paused_at(5000.0)
    now = 2000.0
    set_state(tmp_path, OFF)
    now = 3000.0
    set_state(tmp_path, ON)
    told = read_control(tmp_path)
    assert [told.is_paused_at(instant) for instant in (999.0, 1000.0, 2999.0, 3000.0)] == [False, True, True, False]
    assert set_state(tmp_path, ON) == told


def test_a_pause_that_began_by_a_clock_that_was_ahead_keeps_out_what_is_said_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5000.0
    monkeypatch.setattr(time, "time", lambda: now)
    set_state(tmp_path, PAUSED)
    now = 1400.0  # the clock is set right; it was 1300 when the pause began
    assert read_control(tmp_path).is_paused_at(1350.0)
    now = 1500.0
    told = set_state(tmp_path, ON)
    assert [told.is_paused_at(instant) for instant in (1350.0, 1499.0, 1500.0, 5000.0)] == [True, True, False, False]


def test_a_pause_that_was_ended_by_a_clock_that_was_ahead_ends_when_that_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    set_state(tmp_path, PAUSED)
    now = 90_000.0
    set_state(tmp_path, ON)
    now = 1200.0  # the clock is set right
    told = settle_control(tmp_path)
    assert told == read_control(tmp_path)
    assert told.state == ON
    now = 1300.0
    assert settle_control(tmp_path) == told
    assert [told.is_paused_at(instant) for instant in (999.0, 1000.0, 1199.0, 1200.0, 50_000.0)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    now = 80_000.0
    set_state(tmp_path, PAUSED)
    now = 90_000.0
    set_state(tmp_path, ON)
    now = 1400.0  # all of that pause was by the wrong clock: when it began nobody knows
    assert [settle_control(tmp_path).is_paused_at(instant) for instant in (1.0, 1399.0, 1400.0)] == [True, True, False]
    set_state(tmp_path, PAUSED)
    assert settle_control(tmp_path).state == PAUSED


def test_what_a_client_held_back_by_a_clock_that_was_ahead_ends_when_that_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1200.0
    monkeypatch.setattr(time, "time", lambda: now)
    sessions = Sessions(tmp_path)
    reading = sessions.reading("s", "/t.jsonl", "/")
    for withheld, told in ((90_000.0, 1200.0), (1100.0, 1100.0), (0.0, 0.0)):
        reading.withheld_until = withheld
        sessions.save_reading(reading)
        assert sessions.reading("s", "/t.jsonl", "/").withheld_until == told


def test_a_control_file_that_cannot_be_read_counts_as_a_pause(tmp_path: Path) -> None:
    set_state(tmp_path, PAUSED)
    for text in ("", "{", "[]", '{"state": "on"}', '{"state": "on", "pauses": [["x", 1]]}'):
        (files.hooks_folder(tmp_path) / "control.json").write_text(text)
        assert read_control(tmp_path).is_paused_at(1.0)


def test_many_pauses_are_joined_and_none_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_PAUSES", 3)
    now = 0.0
    monkeypatch.setattr(time, "time", lambda: now)
    for number in range(5):
        for state, now in ((PAUSED, 10.0 * number), (ON, 10.0 * number + 5)):  # noqa: B007
            set_state(tmp_path, state)
    told = read_control(tmp_path)
    assert len(told.pauses) == 3
    assert all(told.is_paused_at(10.0 * number) for number in range(5))
    assert not told.is_paused_at(46.0)


def test_a_project_is_its_repository_and_two_of_one_name_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "app" / ".git").mkdir(parents=True)
        (tmp_path / name / "app" / "src").mkdir()
    first, second = (find_project(str(tmp_path / name / "app" / "src")) for name in ("a", "b"))
    assert first.root == tmp_path / "a" / "app"
    assert first.scope != second.scope
    worktree = tmp_path / "tree"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {tmp_path}/a/app/.git/worktrees/tree\n")
    its_own = tmp_path / "a" / "app" / ".git" / "worktrees" / "tree"
    its_own.mkdir(parents=True)
    (its_own / "gitdir").write_text(f"{worktree}/.git\n")
    assert find_project(str(worktree)).scope == first.scope
    assert find_project(str(tmp_path / "gone")).root == tmp_path / "gone"
    assert len(find_project("/" + "long/" * 400).scope) <= 256


def test_a_folder_that_only_says_it_is_a_worktree_is_a_project_of_its_own(tmp_path: Path) -> None:
    """An archive may hold any file `.git`: only a worktree that its repository knows shares the repository's memories."""
    victim, hostile = tmp_path / "victim", tmp_path / "unpacked"
    (victim / ".git" / "worktrees" / "real").mkdir(parents=True)
    (victim / ".git" / "worktrees" / "real" / "gitdir").write_text(f"{tmp_path}/elsewhere/.git\n")
    hostile.mkdir()
    for said in (
        "gitdir: ../victim/.git/worktrees/x",
        "gitdir: ../victim/.git/worktrees/real",
        "gitdir: " + "x" * (1 << 20),
    ):
        (hostile / ".git").write_text(said)
        assert find_project(str(hostile)).root == hostile
    (hostile / ".infinite-memory.toml").write_text("[recall]\nenabled = true\n" + "#" * (1 << 20))
    assert not find_project(str(hostile)).recalls  # too large to be read: it may say no


@pytest.mark.parametrize(
    ("text", "captures", "recalls"),
    [
        ("", True, True),
        ("[capture]\nenabled = false\n", False, True),
        ("[recall]\nenabled = false\n", True, False),
        ("capture = 1\n", False, True),
        ('[capture]\nenabled = "yes"\n', False, True),
        ("not toml", False, False),
        ("a = " + "[" * 20_000, False, False),
        ('[capture]\nscope = "Private"\n', True, True),
    ],
)
def test_a_project_file_can_only_turn_off(tmp_path: Path, text: str, captures: bool, recalls: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / ".infinite-memory.toml").write_text(text)
    project = find_project(str(tmp_path / "src"))
    assert (project.captures, project.recalls) == (captures, recalls)
    assert project.scope.endswith(tmp_path.name)


def test_only_a_transcript_of_this_user_is_read(tmp_path: Path) -> None:
    good = tmp_path / "a.jsonl"
    good.write_text("{}\n")
    (tmp_path / "b.txt").write_text("{}\n")
    (tmp_path / "d.jsonl").mkdir()
    os.mkfifo(tmp_path / "f.jsonl")
    assert size_of(str(good)) == 3
    names = ("b.txt", "d.jsonl", "f.jsonl", "gone.jsonl", "nul\0.jsonl")
    assert [size_of(str(tmp_path / name)) for name in names] == [None] * len(names)
    assert size_of("a.jsonl") is None


def test_how_far_a_transcript_was_read_survives_and_a_damaged_file_means_the_beginning(tmp_path: Path) -> None:
    sessions, transcript = Sessions(tmp_path), tmp_path / "t.jsonl"
    transcript.write_text("{}\n")
    reading = sessions.reading("s\ud800", str(transcript), "/x")
    reading.offset = 2
    sessions.save_reading(reading)
    assert sessions.reading("s\ud800", str(transcript), "/y") == reading
    assert [one.session_id for one in sessions.unfinished()] == ["s\ud800"]
    [file] = (files.hooks_folder(tmp_path) / "sessions").glob("*.json")
    file.write_text("{")
    assert sessions.reading("s\ud800", str(transcript), "/y").offset == 0


def test_a_ledger_knows_what_was_noted_and_survives_a_torn_write(tmp_path: Path) -> None:
    ledger, other = Ledger(tmp_path, Path("/a")), Ledger(tmp_path, Path("/b"))
    first, second, third = (f"{number:024x}" for number in range(3))
    assert ledger.noted([[first]]) == [False]
    ledger.note([first, second])
    [file] = (files.hooks_folder(tmp_path) / "stored").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    with file.open("ab") as torn:
        torn.write(third.encode()[:10])
    ledger.note([third])
    ledger.note([])
    assert Ledger(tmp_path, Path("/a")).noted([[first], ["f" * 24, second], [third], ["f" * 24], [third[:10]]]) == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert other.noted([[first]]) == [False]


def test_a_ledger_in_which_room_was_made_needs_none_of_the_disk(tmp_path: Path) -> None:
    ledger, ids = Ledger(tmp_path, Path("/a")), [f"{number:024x}" for number in range(5)]
    ledger.note(ids[:1])
    ledger.make_room(3)
    ledger.make_room(2)  # whoever made the room before did not come to use it
    [file] = (files.hooks_folder(tmp_path) / "stored").iterdir()
    size = file.stat().st_size
    ledger.note(ids[1:3])
    assert file.stat().st_size <= size
    ledger.note(ids[3:])
    assert ledger.noted([[one] for one in (*ids, "-" * 24)]) == [True] * 5 + [False]


def test_a_failing_event_says_since_when_until_it_works(tmp_path: Path) -> None:
    files.record_event(tmp_path, "claude-code", "Stop", "disk full")
    [first] = files.last_events(tmp_path)
    files.record_event(tmp_path, "claude-code", "Stop", "disk full")
    [second] = files.last_events(tmp_path)
    assert first["failing_since"] == second["failing_since"] is not None
    files.record_event(tmp_path, "claude-code", "Stop")
    [third] = files.last_events(tmp_path)
    assert third["failing_since"] is None
    assert third["last_failure"]["failure"] == "disk full"


def test_the_hook_imports_a_handful_of_our_modules_and_no_package(tmp_path: Path) -> None:
    environ = os.environ | {"PYTHONPATH": str(ROOT), "INFINITE_MEMORY_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environ, input=b"not an event", capture_output=True, check=True
    )
    loaded: dict[str, str] = json.loads(done.stdout)
    ours = {name for name in loaded if name.split(".")[0] == "infinite_memory"}
    assert ours == {
        "infinite_memory", "infinite_memory.daemon", "infinite_memory.daemon.ipc", "infinite_memory.errors",
        "infinite_memory.hooks", "infinite_memory.hooks.client", "infinite_memory.hooks.clients", "infinite_memory.hooks.control",
        "infinite_memory.hooks.files", "infinite_memory.hooks.run", "infinite_memory.paths", "infinite_memory.platform_files",
        "infinite_memory.redaction",
    }  # fmt: skip
    assert [name for name, file in loaded.items() if "site-packages" in file] == []
    assert HEAVY.isdisjoint(loaded)


@pytest.mark.parametrize("joined", [False, True])
def test_home_and_client_are_taken_in_either_form(tmp_path: Path, joined: bool) -> None:
    """What is no event is recorded as a failure, in the home and of the client that were named."""
    home, other = tmp_path / "home", tmp_path / "other"
    arguments = (
        ["Stop", "--client=codex", f"--home={home}"] if joined else ["Stop", "--client", "codex", "--home", str(home)]
    )
    program = f"from infinite_memory.hooks import client; client.run({arguments!r})"
    environ = os.environ | {"PYTHONPATH": str(ROOT), "INFINITE_MEMORY_HOME": str(other)}
    subprocess.run([sys.executable, "-c", program], env=environ, input=b"not an event", check=True)
    [told] = files.last_events(home)
    assert (told["client"], told["event"]) == ("codex", "Stop")
    assert not other.exists()


def test_the_timer_of_a_hook_that_is_done_cannot_end_the_interpreter(tmp_path: Path) -> None:
    """On a very busy machine it rang while the interpreter ended, and the exit code was that of the signal."""
    code = (
        "import signal\nfrom infinite_memory.hooks import client\nassert client.run(['Stop']) == 0\n"
        "assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)\nassert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN\n"
    )
    environ = os.environ | {"INFINITE_MEMORY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environ, stdin=subprocess.DEVNULL, check=True)


@pytest.mark.timeout(30)
def test_a_pipe_in_the_place_of_a_file_of_the_project_holds_nothing_up(tmp_path: Path) -> None:
    """An archive can hold one, and whoever opens it waits for a writer that never comes."""
    worktree = tmp_path / "x" / ".git" / "worktrees" / "y"
    worktree.mkdir(parents=True)
    os.mkfifo(worktree / "gitdir")
    (tmp_path / ".git").write_text("gitdir: x/.git/worktrees/y\n")
    assert find_project(str(tmp_path)).root == tmp_path
    other = tmp_path / "other"
    other.mkdir()
    os.mkfifo(other / ".git")
    os.mkfifo(other / PROJECT_FILE)
    assert find_project(str(other)).root == other


def test_what_is_known_of_a_transcript_is_kept_as_long_as_it_is_there(tmp_path: Path) -> None:
    sessions, kept = Sessions(tmp_path), tmp_path / "kept.jsonl"
    kept.touch()
    for number, transcript in enumerate((str(kept), str(tmp_path / "gone.jsonl"), "")):
        sessions.save_reading(sessions.reading(f"s{number}", transcript, "/"))
    folder = files.hooks_folder(tmp_path) / "sessions"
    (folder / "damaged.json").write_text("{")
    for file in folder.iterdir():
        os.utime(file, (time.time() - 200 * 86_400,) * 2)
    sessions.save_reading(sessions.reading("fresh", str(tmp_path / "gone too.jsonl"), "/"))
    sessions.remove_old()
    left = [json.loads(file.read_text()).get("session_id") for file in folder.iterdir() if file.stem != "damaged"]
    assert sorted(left) == ["fresh", "s0"]
    assert (folder / "damaged.json").exists()
