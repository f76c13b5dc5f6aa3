"""What hooks keep apart: one client's word on capture from another's, one project from another, what was forgotten from what is said."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook_sessions import HookSession, new_session, run_hook, stored, wait_for
from tests.processes import LONG, Installation, need_parts, until
from tests.second_user import NAME, need_second_user, run_as_neighbour, shared_folder

OFF = "INFINITE_MEMORY_CAPTURE__ENABLED"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon was started by a client that had capture and recall turned off for itself."""
    need_parts()
    with Installation(tmp_path_factory.mktemp("privacy") / "home", is_stopped=LONG) as one:
        with quiet(one):
            one.environ["INFINITE_MEMORY_HOOKS__START_TOKENS"] = "0"
            assert one.command("daemon", "start").returncode == 0
            del one.environ["INFINITE_MEMORY_HOOKS__START_TOKENS"]
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


@contextlib.contextmanager
def quiet(installation: Installation) -> Iterator[None]:
    """Have hooks run as those of a client that turned capture off for itself."""
    installation.environ[OFF] = "false"
    try:
        yield
    finally:
        del installation.environ[OFF]


def scope_of(session: HookSession) -> str:
    return f"project ~/{session.project.name}"


def says(session: HookSession, *texts: str) -> None:
    """Append prompts that are said now."""
    session.write(*[session.entry("user", text, at=dt.datetime.now(dt.UTC)) for text in texts])


def texts_of(installation: Installation, session: HookSession, count: int = 0) -> list[str]:
    """Wait until as many memories are stored and nothing waits; return what they say."""
    return [one["text"] for one in wait_for(installation, session, count)]


def catch_up(installation: Installation, count: int) -> None:
    """Have another client's start read what transcripts have grown by, and wait for that."""
    other = new_session(installation, "other")
    other.run(installation, "SessionStart")
    says(other, f"marker {count}")
    other.run(installation, "Stop")
    until(lambda: f"marker {count}" in [one["text"] for one in stored(installation, other)], "the marker is stored")


def test_the_variables_of_the_client_that_started_the_daemon_are_nobody_elses(memory: Installation) -> None:
    session = new_session(memory, "loud")
    session.say("The shop runs on port 8443", "noted")
    session.say("#remember ask Maria", "ok")
    session.run(memory, "Stop")
    assert len(texts_of(memory, session, 4)) == 4
    assert "ask Maria" in new_session(memory, "loud").run(memory, "SessionStart")


def test_what_was_said_with_capture_off_is_not_read_by_another_clients_start(memory: Installation) -> None:
    session = new_session(memory, "quiet")
    with quiet(memory):
        session.run(memory, "SessionStart")
        says(session, "first secret")
        session.run(memory, "Stop")
        wait_for(memory, session, 0)
        says(session, "second secret")
    catch_up(memory, 1)
    assert texts_of(memory, session) == []


def test_what_was_said_with_capture_off_stays_out_however_long_ago_it_was(memory: Installation) -> None:
    """Or long ago by a clock that was ahead for a while."""
    session = new_session(memory, "slow")
    with quiet(memory):
        session.run(memory, "SessionStart")
        says(session, "old secret")
        session.run(memory, "Stop")
        wait_for(memory, session, 0)
    for file in (memory.home / "hooks" / "sessions").iterdir():
        os.utime(file, (time.time() - 200 * 86_400,) * 2)
    catch_up(memory, 7)  # a start has what is old removed
    session.run(memory, "SessionStart", source="resume")
    says(session, "open again")
    session.run(memory, "Stop")
    assert texts_of(memory, session, 1) == ["open again"]


def test_what_was_said_with_capture_off_stays_out_wherever_its_transcript_is_moved_to(memory: Installation) -> None:
    """With the folder of a project that is renamed, or by another spelling of its path."""
    session = new_session(memory, "moved")
    with quiet(memory):
        session.run(memory, "SessionStart")
        says(session, "secret before the move")
        session.run(memory, "Stop")
        wait_for(memory, session, 0)
        says(session, "secret that was not read before the move")
    elsewhere = session.transcript.parent / "renamed"
    elsewhere.mkdir()
    session.transcript = session.transcript.rename(elsewhere / session.transcript.name)
    session.run(memory, "SessionStart", source="resume")
    session.run(memory, "Stop")
    catch_up(memory, 8)
    says(session, "open after the move")
    session.run(memory, "Stop")
    assert texts_of(memory, session, 1) == ["open after the move"]


def test_a_client_that_goes_on_with_a_session_says_from_when_on_it_is_captured(memory: Installation) -> None:
    session = new_session(memory, "turns")
    says(session, "open one")
    session.run(memory, "Stop")
    assert texts_of(memory, session, 1) == ["open one"]
    says(session, "open two")
    with quiet(memory):
        session.run(memory, "SessionStart", source="resume")
        says(session, "hidden one")
    catch_up(memory, 2)
    says(session, "hidden two")
    session.run(memory, "SessionStart", source="resume")
    says(session, "open three")
    session.run(memory, "Stop")
    assert sorted(texts_of(memory, session, 3)) == ["open one", "open three", "open two"]


def test_events_that_waited_for_the_daemon_are_read_with_the_variables_of_their_clients(
    installation: Installation,
) -> None:
    session = new_session(installation, "waited")
    hooks = installation.home / "hooks"
    hooks.mkdir(mode=0o700, parents=True)
    with quiet(installation):
        for number, text in enumerate(("hidden one", "hidden two")):
            says(session, text)
            assert run_hook(installation, "Stop", json.dumps(session.event("Stop"))).returncode == 0, number
    says(session, "open one")
    session.run(installation, "Stop")
    with quiet(installation):
        says(session, "hidden three")
        session.run(installation, "Stop")
    assert "hidden" not in " ".join(texts_of(installation, session))
    says(session, "open two")
    session.run(installation, "SessionStart", source="resume")
    says(session, "open three")
    session.run(installation, "Stop")
    assert "open three" in texts_of(installation, session, 1)
    assert "hidden" not in " ".join(texts_of(installation, session))


def scopes_of(installation: Installation) -> set[str]:
    return {one["scope_name"] for one in json.loads(installation.command("scopes", "list", "--json").stdout)}


def test_folders_whose_names_differ_by_case_form_or_blanks_are_projects_of_their_own(memory: Installation) -> None:
    names = [
        "App",
        "app",
        "APP",
        "App ",
        "caf\u00e9",
        "cafe\u0301",
        "CAF\u00c9",
        "a\nb",
        "a\x1bb",
        "a\ufffdb",
        "stra\u00dfe",
        "strasse",
        "x\udcffy",
    ]
    before = scopes_of(memory)
    for round_ in range(2):
        for number, name in enumerate(names):
            session = new_session(memory, name)
            start = session.run(memory, "SessionStart")
            shown = [other for other in range(len(names)) if f"of folder {other}." in start]
            assert shown == ([number] if round_ else []), name
            session.say(f"#remember the vault of folder {number}. in round {round_}", "ok")
            session.run(memory, "Stop")
            until(lambda: not list((memory.home / "hooks" / "spool").glob("*.json")), "the spool is empty")
    made = scopes_of(memory) - before
    assert len(made) == len(names)
    assert {"project ~/App", "project ~/caf\u00e9", "project ~/stra\u00dfe"} <= made
    assert len([one for one in made if one.lower().startswith("project ~/app//")]) == 3


def test_a_folder_keeps_its_scope_when_the_one_that_bore_the_name_is_gone(memory: Installation) -> None:
    first, second = new_session(memory, "Shop"), new_session(memory, "shop")
    for session in (first, second):
        session.say(f"#remember {session.project.name} is ours", "ok")
        session.run(memory, "Stop")
        wait_for(memory, first, 2)
    assert memory.command("scopes", "delete", "project ~/Shop", "--hard", "--yes").returncode == 0
    assert "project ~/Shop" not in scopes_of(memory)
    again = new_session(memory, "shop")
    assert "shop is ours" in again.run(memory, "SessionStart")


def forget_it(memory: Installation, session: HookSession, way: str) -> None:
    """Remove the first turn of a session for good."""
    scope = scope_of(session)
    [memory_id] = [one["memory_id"] for one in stored(memory, session) if one["text"] == "My test was positive"]
    match way:
        case "hard":
            assert memory.command("forget", memory_id, "--for-good", "--yes").returncode == 0
        case "soft, then hard":
            memory.call("delete_memory", target={"memory_id": memory_id}, forget_mode="soft")
            reply = memory.call("delete_memory", target={"memory_id": memory_id}, forget_mode="hard")
            assert reply["status"] == "OK", reply
        case "scope":
            assert memory.command("scopes", "delete", scope, "--hard", "--yes").returncode == 0


@pytest.mark.parametrize("way", ["hard", "soft, then hard", "scope"])
def test_what_was_forgotten_for_good_does_not_come_back_from_a_transcript(memory: Installation, way: str) -> None:
    session = new_session(memory, f"forgotten-{way}")
    session.say("My test was positive", "I am sorry to hear that")
    session.say("#remember the key is under the mat", "Noted")
    session.run(memory, "Stop")
    wait_for(memory, session, 4)
    forget_it(memory, session, way)
    gone = {one["text"] for one in stored(memory, session)}
    entries = [json.loads(line) for line in session.transcript.read_text().splitlines()]
    resumed, forked = new_session(memory, session.project.name), new_session(memory, session.project.name)
    resumed.write(*[entry | {"sessionId": resumed.session_id} for entry in entries])
    fork = {"sessionId": forked.session_id, "forkedFrom": {"sessionId": session.session_id, "messageUuid": "x"}}
    forked.write(
        *[entry | fork | {"timestamp": f"2026-11-27T10:00:0{number}.000Z"} for number, entry in enumerate(entries)]
    )
    session.transcript.write_bytes(b"\n" + session.transcript.read_bytes())
    for number, one in enumerate((resumed, forked, session)):
        one.say(f"new {number}", f"answer {number}")
        one.run(memory, "Stop")
    news = {f"{word} {number}" for word in ("new", "answer") for number in range(3)}
    until(lambda: news <= {one["text"] for one in stored(memory, session)}, "what is new is stored")
    texts = texts_of(memory, session)
    assert "My test was positive" not in texts
    assert sorted(texts) == sorted(gone | news)


def test_files_of_hooks_that_are_damaged_stop_no_session_and_the_doctor_names_them(memory: Installation) -> None:
    session = new_session(memory, "damaged")
    says(session, "at first")
    session.run(memory, "Stop")
    assert texts_of(memory, session, 1) == ["at first"]
    hooks = memory.home / "hooks"
    [file] = [one for one in (hooks / "sessions").glob("*.json") if session.session_id in one.read_text()]
    good = json.loads(file.read_text())
    changes = [{"offset": "x"}, {"offset": -5}, {"offset": 10**30}, {"head": 5}, {"stored": None}, {"transcript": 5}, {"cwd": 4},
               {"withheld_until": "x"}, {"environ": [1]}, {"environ": {"a": 1}}]  # fmt: skip
    for number, change in enumerate(changes if LONG else changes[::4]):
        file.write_text(json.dumps(good | change))
        [check] = [
            one for one in json.loads(memory.command("doctor", "--json").stdout)["checks"] if one["check"] == "capture"
        ]
        assert not check["ok"], change
        assert file.name in check["says"], change
        says(session, f"again {number}")
        catch_up(memory, 100 + number)
        session.run(memory, "Stop")
        assert f"again {number}" in texts_of(memory, session, 2 + number), change
    texts = ("{", "[]", '{"at": 1.0, "failure": 5, "failing_since": "x"}', '{"session_id": 5, "last_failure": []}')
    files = (("sessions", "0.json"), ("recalled", "0.json"), ("events", "x.json"), ("spool", "0.json"))
    for folder, name in files:
        for text in texts if LONG else texts[:1]:
            (hooks / folder / name).write_text(text)
            says(session, f"{folder} {text}")
            session.run(memory, "SessionStart")
            session.run(memory, "Stop")
            assert f"{folder} {text}" in texts_of(memory, session), (folder, text)
            assert memory.command("doctor").stdout
            (hooks / folder / name).unlink(missing_ok=True)
    assert "spool/0.malformed" in memory.command("doctor").stdout


@pytest.mark.skipif(os.name != "posix", reason="users are POSIX")
def test_hooks_write_nothing_into_a_home_that_a_neighbour_made(tmp_path: Path) -> None:
    need_second_user()
    with shared_folder() as shared:
        code = "import os, sys; os.umask(0); os.makedirs(sys.argv[1] + '/hooks/spool'); os.makedirs(sys.argv[1] + '/hooks/events')"
        run_as_neighbour(code, shared / "home")
        one = Installation(shared / "home")
        session = HookSession(tmp_path / "project", tmp_path / "transcripts")
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "Unknown"):
            done = run_hook(one, event, json.dumps(session.event("Stop")))
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for what in ("pause", "off", "resume", "status"):
            done = one.command("capture", what)
            assert done.returncode != 0
            assert f"another user ({NAME})" in done.stderr
        assert sorted(path.name for path in (shared / "home").rglob("*")) == ["events", "hooks", "spool"]
