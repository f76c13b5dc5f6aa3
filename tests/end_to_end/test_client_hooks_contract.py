"""Fresh configurations of Codex, Gemini CLI and Cursor, made by `connect`: each event's hook is run as it is written there, by a
shell, with the event's documented JSON, and answers with the documented envelope or with nothing."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook_sessions import START, HookSession, digests, new_session, stored, wait_for
from tests.processes import LONG, PATIENCE_S, Installation, need_parts, until

Json = dict[str, Any]

FILES = {"codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "cursor": ".cursor/hooks.json"}
QUESTION, ANSWER = "Which port does the staging server listen on?", "The staging server listens on port 8443."


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A home whose daemon is warm, and a user whose three assistants were connected."""
    need_parts()
    with Installation(tmp_path_factory.mktemp("clients") / "home", is_stopped=LONG) as one:
        for client in FILES:
            assert one.command("connect", client).returncode == 0
        assert one.command("daemon", "start").returncode == 0
        assert one.call("store_memory", content="warm", scope="Other")["status"] == "OK"
        until(lambda: one.status()["model"]["state"] == "ready", "the model is loaded")
        yield one


def run_event(memory: Installation, client: str, session: HookSession, name: str, fields: Json) -> Json | None:
    """Run an event's hook by a shell, without the variables that name the home; returns what the client is given."""
    hooks = json.loads((memory.home.parent / FILES[client]).read_text())["hooks"][name]
    [command] = [one["command"] for entry in hooks for one in entry.get("hooks", [entry])]
    environ = {name: value for name, value in memory.environ.items() if not name.startswith("INFINITE_MEMORY")}
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(fields), env=environ, cwd=session.project, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else None


def codex_event(session: HookSession, name: str, **more: Any) -> Json:
    """The fields of the schemas in Codex's repository (``codex-rs/hooks/schema/generated``)."""
    own: Json = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"turn_id": "t", "prompt": "hello"},
        "Stop": {"turn_id": "t", "stop_hook_active": False, "last_assistant_message": "done"},
        "PreCompact": {"turn_id": "t", "trigger": "auto"},
        "SessionEnd": {"reason": "other"},
    }[name]
    return {
        "session_id": session.session_id, "transcript_path": str(session.transcript), "cwd": str(session.project),
        "hook_event_name": name, "model": "gpt-5", "permission_mode": "default", **own, **more,
    }  # fmt: skip


def gemini_event(session: HookSession, name: str, **more: Any) -> Json:
    """The fields of https://geminicli.com/docs/hooks/reference."""
    own: Json = {
        "SessionStart": {"source": "startup"},
        "BeforeAgent": {"prompt": "hello"},
        "AfterAgent": {"prompt": "hello", "prompt_response": "done", "stop_hook_active": False},
        "PreCompress": {"trigger": "auto"},
        "SessionEnd": {"reason": "exit"},
    }[name]
    return {
        "session_id": session.session_id, "transcript_path": str(session.transcript), "cwd": str(session.project),
        "hook_event_name": name, "timestamp": "2026-11-20T09:00:00.000Z", **own, **more,
    }  # fmt: skip


def cursor_event(session: HookSession, name: str, **more: Any) -> Json:
    """The fields of https://cursor.com/docs/hooks."""
    own: Json = {
        "sessionStart": {"session_id": session.session_id, "is_background_agent": False, "composer_mode": "agent"},
        "beforeSubmitPrompt": {"prompt": "hello", "attachments": []},
        "afterAgentResponse": {"text": "done"},
        "sessionEnd": {"session_id": session.session_id, "reason": "completed", "duration_ms": 1000, "is_background_agent": False},
    }[name]  # fmt: skip
    return {
        "conversation_id": session.session_id, "generation_id": str(uuid.uuid4()), "model": "default", "hook_event_name": name,
        "cursor_version": "3.20.17", "workspace_roots": [str(session.project)], "user_email": None, "transcript_path": None, **own, **more,
    }  # fmt: skip


def test_every_event_of_codex_keeps_the_contract(memory: Installation) -> None:
    first, second = new_session(memory, "codex"), new_session(memory, "codex")
    first.say_in_codex(QUESTION, ANSWER)
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"):
        assert run_event(memory, "codex", first, event, codex_event(first, event)) is None, event
    assert {one["source"] for one in wait_for(memory, first, 2)} == {"codex"}
    until(lambda: digests(memory, first), "the digest is made")
    start = run_event(memory, "codex", second, "SessionStart", codex_event(second, "SessionStart"))
    assert start is not None
    assert set(start) == {"hookSpecificOutput"}
    assert start["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
    prompt = codex_event(second, "UserPromptSubmit", prompt=QUESTION)
    beside = run_event(memory, "codex", second, "UserPromptSubmit", prompt)
    assert beside is not None
    assert beside["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert (
        "8443" in start["hookSpecificOutput"]["additionalContext"] + beside["hookSpecificOutput"]["additionalContext"]
    )


def test_every_event_of_gemini_cli_keeps_the_contract(memory: Installation) -> None:
    first, second = new_session(memory, "gemini"), new_session(memory, "gemini")
    first.say_in_gemini(QUESTION, ANSWER)
    first.say_in_gemini("/memory show", "")
    for event in ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"):
        assert run_event(memory, "gemini", first, event, gemini_event(first, event)) is None, event
    asked, answered = wait_for(memory, first, 2)
    assert (asked["text"], answered["text"]) == (QUESTION, ANSWER)
    assert (asked["speaker"], answered["speaker"], asked["source"]) == ("user", "assistant", "gemini")
    beside = run_event(memory, "gemini", second, "BeforeAgent", gemini_event(second, "BeforeAgent", prompt=QUESTION))
    assert beside is not None
    assert beside["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
    assert "8443" in beside["hookSpecificOutput"]["additionalContext"]
    assert "gemini AfterAgent: last" in memory.command("doctor").stdout


def test_every_event_of_cursor_keeps_the_contract(memory: Installation) -> None:
    first, second = new_session(memory, "cursor"), new_session(memory, "cursor")
    said = (
        ("sessionStart", {}), ("beforeSubmitPrompt", {"prompt": QUESTION}), ("afterAgentResponse", {"text": ANSWER}),
        ("beforeSubmitPrompt", {"prompt": "Keep this to yourself #skip"}), ("afterAgentResponse", {"text": "I do."}),
        ("beforeSubmitPrompt", {"prompt": "#remember Deployments need Maria's approval"}),
        ("afterAgentResponse", {"text": "The key is <private>hidden</private> noted."}),
        ("sessionEnd", {}),
    )  # fmt: skip
    for event, more in said:
        assert run_event(memory, "cursor", first, event, cursor_event(first, event, **more)) is None, event
    texts = [one["text"] for one in wait_for(memory, first, 4)]
    assert texts == [QUESTION, ANSWER, "Deployments need Maria's approval", "The key is  noted."]
    until(lambda: digests(memory, first), "the digest is made")
    start = run_event(memory, "cursor", second, "sessionStart", cursor_event(second, "sessionStart"))
    assert start is not None
    assert set(start) == {"additional_context"}
    assert "Maria" in start["additional_context"]
    assert run_event(memory, "cursor", second, "beforeSubmitPrompt", cursor_event(second, "beforeSubmitPrompt")) is None


def test_what_is_said_in_cursor_during_a_pause_is_written_nowhere(memory: Installation) -> None:
    session, spool = new_session(memory, "cursor-paused"), memory.home / "hooks" / "spool"
    until(lambda: not list(spool.iterdir()), "what other sessions said is read")
    assert memory.command("capture", "pause").returncode == 0
    try:
        event = cursor_event(session, "beforeSubmitPrompt", prompt="Nobody may know of the melon.")
        assert run_event(memory, "cursor", session, "beforeSubmitPrompt", event) is None
    finally:
        assert memory.command("capture", "resume").returncode == 0
    assert not list(spool.iterdir())
    assert stored(memory, session) == []


def test_a_fork_of_codex_brings_no_turn_a_second_time(memory: Installation) -> None:
    """Copies have new instants; their turns' ids tell what they are, also of a turn that was forgotten."""
    parent, fork = new_session(memory, "fork"), new_session(memory, "fork")
    turns = [
        (uuid7(number), f"Prompt number {number} about oil.", f"Answer number {number} about oil.")
        for number in range(3)
    ]
    parent.begin_codex()
    for turn, prompt, answer in turns:
        parent.say_in_codex(prompt, answer, turn=turn)
    run_event(memory, "codex", parent, "Stop", codex_event(parent, "Stop"))
    gone = wait_for(memory, parent, 6)[2]
    assert memory.call("delete_memory", target={"memory_id": gone["memory_id"]}, forget_mode="hard")["status"] == "OK"
    fork.begin_codex(forked_from=parent.session_id, at=START + dt.timedelta(days=1))
    for turn, prompt, answer in [
        *turns,
        (uuid7(86_400 * 2), "A prompt of the fork's own.", "An answer of the fork's own."),
    ]:
        fork.say_in_codex(prompt, answer, turn=turn, at=START + dt.timedelta(days=1, seconds=1))
    run_event(memory, "codex", fork, "Stop", codex_event(fork, "Stop"))
    texts = [one["text"] for one in wait_for(memory, fork, 7)]
    assert sorted(texts) == sorted(
        [text for _, *said in turns for text in said if text != gone["text"]]
        + ["A prompt of the fork's own.", "An answer of the fork's own."]
    )


def uuid7(seconds: int) -> str:
    """Make an id of version 7 of an instant after `START`."""
    at = int((START + dt.timedelta(seconds=seconds)).timestamp() * 1000)
    rest = uuid.uuid4().hex
    return str(uuid.UUID(f"{at:012x}7{rest[1:4]}8{rest[5:20]}"))


def test_an_event_of_another_client_is_told_by_its_name(memory: Installation) -> None:
    done = memory.command("hook", "AfterAgent", "--client", "codex", input=json.dumps({"session_id": "x"}))
    assert (done.returncode, done.stdout) == (0, "")
    assert "codex unknown: last" in memory.command("doctor").stdout
    assert Path(memory.home / "hooks" / "events" / "codex.unknown.json").is_file()
