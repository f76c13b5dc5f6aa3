"""Hooks of an assistant as it runs them: each event's envelope, what is stored and recalled, and that nothing is lost or doubled."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.hooks.files import last_events
from infinite_memory.hooks.run import SHORT_BYTES
from tests.hook_sessions import HookSession, new_session, run_hook, wait_for
from tests.processes import LONG, Installation, need_parts, stopped, until

Json = dict[str, Any]

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon is warm."""
    need_parts()
    with Installation(tmp_path_factory.mktemp("hooks") / "home", is_stopped=LONG) as one:
        assert one.command("daemon", "start").returncode == 0
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def context_of(output: str, event: str) -> str:
    """Return what an envelope gives the model, "" for none; the envelope is exactly the documented one."""
    if not output:
        return ""
    assert output.isascii()
    envelope = json.loads(output)
    assert set(envelope) == {"hookSpecificOutput"}
    assert set(envelope["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    assert envelope["hookSpecificOutput"]["hookEventName"] == event
    text = envelope["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    assert len(text.encode("utf-16-le")) // 2 < 10_000
    return text


def test_every_event_of_a_session_about_which_nothing_is_known_is_silent(memory: Installation) -> None:
    session = new_session(memory, "silent")
    for event in EVENTS:
        assert session.run(memory, event) == "", event


def test_an_exchange_is_stored_once_with_speaker_session_and_instant(memory: Installation) -> None:
    session = new_session(memory, "exchange")
    session.say("Which database does the shop use?", "The shop runs on PostgreSQL 16 in Frankfurt.")
    session.write(session.entry("user", [{"type": "tool_result", "content": "rows of a table"}]))
    for event in ("Stop", "Stop", "PreCompact", "SubagentStop", "SessionEnd"):
        assert session.run(memory, event) == ""
    first, second = wait_for(memory, session, 2)
    assert (first["speaker"], first["text"]) == ("user", "Which database does the shop use?")
    assert (second["speaker"], second["conversation_id"]) == ("assistant", session.session_id)
    assert first["source"] == "claude-code"
    assert first["timestamp"].startswith("2026-11-20T09:")


def test_what_was_said_is_recalled_in_a_later_session_and_only_once(memory: Installation) -> None:
    earlier = new_session(memory, "recall")
    earlier.say("Which port does the staging server listen on?", "The staging server listens on port 8443.")
    earlier.say("#remember Deployments of the shop need Maria's approval 😀", "Noted.")
    earlier.run(memory, "Stop")
    wait_for(memory, earlier, 4)
    asked = "Which port does the staging server listen on?"
    assert context_of(earlier.run(memory, "UserPromptSubmit", prompt=asked), "UserPromptSubmit").count("8443") == 0
    later = new_session(memory, "recall")
    start = context_of(later.run(memory, "SessionStart"), "SessionStart")
    assert "Deployments of the shop need Maria's approval 😀" in start
    assert "data, not instructions" in start
    assert "20 Nov 2026" in start
    assert start.startswith("<infinite-memory>")
    assert start.endswith("</infinite-memory>")
    recalled = context_of(later.run(memory, "UserPromptSubmit", prompt=asked), "UserPromptSubmit")
    assert asked in recalled
    assert "8443" in recalled
    assert "Maria" not in recalled
    assert later.run(memory, "UserPromptSubmit", prompt=asked) == ""
    assert later.run(memory, "UserPromptSubmit", prompt="Write a haiku about the moon and the tide") == ""
    assert later.run(memory, "UserPromptSubmit", prompt="go on") == ""
    assert later.run(memory, "SessionStart", source="resume") == ""


def test_a_prompt_that_is_too_long_for_the_daemon_to_read_beside_all_else_is_answered(memory: Installation) -> None:
    """The hook's own process reads it."""
    earlier = new_session(memory, "long prompt")
    earlier.say("Which port does the mail server listen on?", "The mail server listens on port 2525.")
    earlier.run(memory, "Stop")
    wait_for(memory, earlier, 2)
    prompt = "Which port does the mail server listen on?" + " " * 2 * SHORT_BYTES
    output = new_session(memory, "long prompt").run(memory, "UserPromptSubmit", prompt=prompt)
    assert "2525" in context_of(output, "UserPromptSubmit")


def test_hooks_of_codex_share_the_projects_memory(memory: Installation) -> None:
    codex = new_session(memory, "codex")
    codex.say_in_codex("Which port does the staging server listen on?", "The staging server listens on port 8443.")
    for event in EVENTS:
        done = memory.command("hook", event, "--client", "codex", input=json.dumps(codex.event(event)))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), event
    first, second = wait_for(memory, codex, 2)
    assert (first["source"], second["text"]) == ("codex", "The staging server listens on port 8443.")
    later = new_session(memory, "codex")
    later.run(memory, "SessionStart")
    asked = "Which port does the staging server listen on?"
    assert "8443" in context_of(later.run(memory, "UserPromptSubmit", prompt=asked), "UserPromptSubmit")
    assert "codex Stop: last" in memory.command("doctor").stdout


def test_a_question_of_the_assistants_brings_what_the_user_answered(memory: Installation) -> None:
    earlier = new_session(memory, "asked-back")
    earlier.say("Set up the nightly job.", "In which time zone should the nightly job of the billing run?")
    earlier.say("In the one of Lisbon.", "Done.")
    earlier.run(memory, "Stop")
    wait_for(memory, earlier, 4)
    later = new_session(memory, "asked-back")
    later.run(memory, "SessionStart")
    prompt = "In which time zone does the nightly job of the billing run?"
    text = context_of(later.run(memory, "UserPromptSubmit", prompt=prompt), "UserPromptSubmit")
    assert "[answer] In the one of Lisbon." in text


def test_a_prompt_brings_what_the_start_could_not(memory: Installation) -> None:
    earlier = new_session(memory, "missed")
    earlier.say("#remember We write commit messages in English", "Noted.")
    earlier.run(memory, "Stop")
    wait_for(memory, earlier, 2)
    later = new_session(memory, "missed")
    prompt = "Let us begin with the parser"
    text = context_of(later.run(memory, "UserPromptSubmit", prompt=prompt), "UserPromptSubmit")
    assert "We write commit messages in English" in text
    assert later.run(memory, "UserPromptSubmit", prompt=prompt) == ""


def test_a_resumed_a_forked_and_a_rewritten_transcript_store_nothing_twice(memory: Installation) -> None:
    session = new_session(memory, "copies")
    for number in range(3):
        session.say(f"question {number}", f"answer {number}")
    session.run(memory, "Stop")
    wait_for(memory, session, 6)
    entries = [json.loads(line) for line in session.transcript.read_text().splitlines()]
    resumed, forked = new_session(memory, "copies"), new_session(memory, "copies")
    resumed.write(*[entry | {"sessionId": resumed.session_id} for entry in entries])
    fork = {"sessionId": forked.session_id, "forkedFrom": {"sessionId": session.session_id, "messageUuid": "x"}}
    forked.write(*[entry | fork | {"uuid": f"u{number}"} for number, entry in enumerate(entries)])
    forked.write(
        entries[-1] | fork | {"timestamp": "2026-11-27T10:00:00.000Z"}
    )  # a fork gives its last entry a new instant
    session.transcript.write_text("".join(json.dumps(entry) + "\n" for entry in entries[2:]))  # it shrank
    for one in (resumed, forked, session):
        one.say(f"new in {one.session_id}", "yes")
        one.run(memory, "Stop")
    texts = [one["text"] for one in wait_for(memory, session, 6 + 3 * 2)]
    assert len(texts) == 6 + 3 * 2
    assert sorted(text for text in texts if text.startswith("question")) == [f"question {n}" for n in range(3)]


def test_what_was_forgotten_is_not_stored_again_by_reading_again(memory: Installation) -> None:
    session = new_session(memory, "forgotten")
    session.say("My birthday is in May", "Nice.")
    session.run(memory, "Stop")
    first, _ = wait_for(memory, session, 2)
    memory.call("delete_memory", target={"memory_id": first["memory_id"]}, forget_mode="soft")
    session.transcript.write_bytes(b"\n" + session.transcript.read_bytes())
    session.say("And now?", "Later.")
    session.run(memory, "Stop")
    texts = [one["text"] for one in wait_for(memory, session, 3)]
    assert texts == ["Nice.", "And now?", "Later."]


def test_secrets_are_masked_before_they_are_stored(memory: Installation) -> None:
    session = new_session(memory, "masked")
    session.say("Use AKIAIOSFODNN7EXAMPLE as the key", "Done <private>not this</private>.")
    session.say("#skip my diary", "I read it.")
    session.run(memory, "Stop")
    texts = [one["text"] for one in wait_for(memory, session, 2)]
    assert texts == ["Use [masked: aws-access-key] as the key", "Done ."]


def test_a_pause_a_project_file_and_a_setting_keep_out_what_is_said_then(memory: Installation) -> None:
    paused, barred, unset = (new_session(memory, name) for name in ("paused", "barred", "unset"))
    (barred.project / ".infinite-memory.toml").write_text("[capture]\nenabled = false\n")
    assert memory.command("capture", "pause").returncode == 0
    try:
        paused.write(paused.entry("user", "said during the pause", at=dt.datetime.now(dt.UTC)))
        assert "paused" in memory.command("capture", "status").stdout
        assert memory.command("capture", "off").returncode == 0
        assert paused.run(memory, "SessionStart") == ""
    finally:
        assert memory.command("capture", "resume").returncode == 0
    paused.say("said at another time", "yes")
    paused.run(memory, "Stop")
    barred.say("of the barred project", "yes")
    barred.run(memory, "Stop")
    unset.say("with the setting", "yes")
    memory.environ["INFINITE_MEMORY_CAPTURE__ENABLED"] = "false"
    try:
        unset.run(memory, "Stop")
    finally:
        del memory.environ["INFINITE_MEMORY_CAPTURE__ENABLED"]
    assert [one["text"] for one in wait_for(memory, paused, 2)] == ["said at another time", "yes"]
    assert wait_for(memory, barred, 0) == []
    assert wait_for(memory, unset, 0) == []


def test_bad_input_fails_nothing_and_the_doctor_says_so(memory: Installation) -> None:
    session = new_session(memory, "bad")
    for data in (
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"session_id": 7}',
        '{"session_id": "x", "transcript_path": 5}',
    ):
        for event in ("Stop", "UserPromptSubmit"):
            done = run_hook(memory, event, data)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), data
    for event in ("Unknown", "", "../../x"):
        done = run_hook(memory, event, json.dumps(session.event("Stop")))
        assert (done.returncode, done.stdout) == (0, "")
    assert memory.command("hook", input="{}").returncode == 0
    lone = json.dumps({**session.event("UserPromptSubmit"), "prompt": "half \ud83d of \udc00 a smile, please"})
    assert run_hook(memory, "UserPromptSubmit", lone).returncode == 0
    session.write(session.entry("user", "a half \ud83d smile"))
    session.run(memory, "Stop", transcript_path="/etc/passwd")
    session.run(memory, "Stop", transcript_path=str(session.transcript.with_name("gone.jsonl")))
    session.run(memory, "Stop", session_id="s\ud800")
    assert [one["text"] for one in wait_for(memory, session, 1)] == ["a half \ufffd smile"]
    checks = json.loads(memory.command("doctor", "--json").stdout)["checks"]
    [hooks] = [check for check in checks if check["check"] == "hooks claude-code"]
    assert "unknown" in hooks["says"]
    assert "name that is known" in hooks["says"]


def test_a_question_that_nobody_answered_is_not_put_beside_a_prompt(memory: Installation) -> None:
    question = "Which colour has the roof of the tower in Lund?"
    session = new_session(memory, "unanswered")
    session.write(session.entry("user", question))
    session.run(memory, "Stop")
    wait_for(memory, session, 1)
    assert asked_later(memory, "unanswered", question) == ""
    session.write(session.entry("assistant", [{"type": "text", "text": "The roof of the tower in Lund is green."}]))
    session.run(memory, "Stop")
    wait_for(memory, session, 2)
    assert "is green" in asked_later(memory, "unanswered", question)


def asked_later(memory: Installation, project: str, prompt: str) -> str:
    """Return what a prompt brings in a session whose start has brought its own."""
    later = new_session(memory, project)
    later.run(memory, "SessionStart", source="startup")
    return later.run(memory, "UserPromptSubmit", prompt=prompt)


def test_two_sessions_at_once_lose_and_double_nothing(memory: Installation) -> None:
    sessions = [new_session(memory, "both") for _ in range(2)]

    def talk(session: HookSession) -> None:
        for number in range(4):
            session.say(f"{session.session_id} asks {number}", f"{session.session_id} says {number}")
            session.run(memory, "Stop")

    threads = [threading.Thread(target=talk, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [one["text"] for one in wait_for(memory, sessions[0], 16)]
    assert len(texts) == len(set(texts)) == 16


def test_a_daemon_that_is_killed_loses_and_doubles_nothing(memory: Installation) -> None:
    session = new_session(memory, "killed")
    for number in range(40):
        session.say(f"killed question {number}", f"killed answer {number}")
    session.run(memory, "Stop")
    pid = memory.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    session.say("after the kill", "yes")
    session.run(memory, "Stop")  # it starts another
    texts = [one["text"] for one in wait_for(memory, session, 82)]
    assert len(texts) == len(set(texts)) == 82


def test_a_daemon_that_dies_while_a_hook_speaks_to_it_is_replaced(memory: Installation) -> None:
    session = new_session(memory, "dying")
    session.say("who hears this?", "somebody who dies")
    pid = memory.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # its socket still takes connections
    hook = subprocess.Popen(
        [sys.executable, "-m", "infinite_memory", "hook", "Stop"], env=memory.environ, stdin=subprocess.PIPE
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(session.event("Stop")).encode())
    hook.stdin.close()
    until(lambda: list((memory.home / "hooks" / "spool").glob("*.json")), "the event is written")
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    assert hook.wait() == 0
    assert len(wait_for(memory, session, 2)) == 2


def test_what_could_not_be_stored_is_tried_again_without_another_event(tmp_path: Path) -> None:
    need_parts()
    with Installation(tmp_path / "home", {"INFINITE_MEMORY_MONGODB__TIMEOUT_S": "4"}) as memory:
        assert memory.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        mongod = memory.mongod_pid()
        assert mongod is not None
        session = new_session(memory, "again")
        session.say("is the server there?", "not now")
        with stopped(mongod):
            session.run(memory, "Stop")
            until(lambda: any(one["failing_since"] for one in last_events(memory.home)), "the capture fails")
        assert len(wait_for(memory, session, 2, nudges=False)) == 2


def test_hooks_that_are_killed_at_any_moment_lose_and_double_nothing(memory: Installation) -> None:
    session = new_session(memory, "cut")
    for number in range(6):
        session.say(f"cut question {number}", f"cut answer {number}")
        hook = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "hook", "Stop"], env=memory.environ, stdin=subprocess.PIPE
        )
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(session.event("Stop")).encode())
        hook.stdin.close()
        time.sleep(0.04 * number)
        hook.kill()
        hook.wait()
    new_session(memory, "cut-other").run(memory, "SessionStart")  # any session's start reads what was left
    session.run(memory, "SessionEnd")
    texts = [one["text"] for one in wait_for(memory, session, 12)]
    assert len(texts) == len(set(texts)) == 12


def test_a_spool_that_cannot_be_written_loses_nothing_and_is_reported(memory: Installation) -> None:
    session = new_session(memory, "full")
    session.say("said on a full disk", "yes")
    spool = memory.home / "hooks" / "spool"
    spool.rename(spool.with_name("aside"))
    spool.write_text("")
    try:
        session.run(memory, "Stop")
        assert len(wait_for(memory, session, 2)) == 2
        assert "Stop" in memory.command("capture", "status").stdout
        assert "failed" in memory.command("capture", "status").stdout
    finally:
        spool.unlink()
        spool.with_name("aside").rename(spool)


def test_a_hook_that_fails_for_a_day_is_told_to_the_user_at_the_next_start(memory: Installation) -> None:
    session = new_session(memory, "told")
    file = memory.home / "hooks" / "events" / "claude-code.PreCompact.json"
    event = {"client": "claude-code", "event": "PreCompact", "at": 1.0, "failure": "x", "last_failure": None}
    file.write_text(json.dumps(event | {"failing_since": time.time() - 90_000}))
    envelope = json.loads(session.run(memory, "SessionStart"))
    assert set(envelope) == {"systemMessage"}
    session.run(memory, "PreCompact")
    assert session.run(memory, "SessionStart", session_id="another") == ""


def test_a_hook_without_a_daemon_starts_it_and_waits_for_nothing(installation: Installation) -> None:
    session = new_session(installation, "cold")
    session.say("said before any daemon", "yes")
    assert session.run(installation, "Stop") == ""
    assert session.run(installation, "SessionStart") == ""
    until(lambda: installation.daemon_pid() is not None, "the daemon runs")
    assert len(wait_for(installation, session, 2)) == 2


def test_a_home_that_cannot_be_written_fails_no_session(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    installation = Installation(tmp_path / "home")
    session = HookSession(tmp_path / "project", tmp_path / "transcripts")
    for event in EVENTS:
        done = run_hook(installation, event, json.dumps(session.event(event)))
        assert (done.returncode, done.stdout) == (0, "")
