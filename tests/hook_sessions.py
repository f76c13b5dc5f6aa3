"""Sessions of Claude Code as its hooks see them: transcripts that grow, and the events' JSON.

The fields are those of the hooks reference (https://code.claude.com/docs/en/hooks) as of autumn 2026; the entries of a transcript
are written as version 2.1 writes them.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from tests.processes import Installation, until

Json = dict[str, Any]

START = dt.datetime(2026, 11, 20, 9, 0, tzinfo=dt.UTC)
_clock = itertools.count()
NUDGE_S = 10.0


class HookSession:
    """One session of a project, with its transcript."""

    def __init__(self, project: Path, transcripts: Path, session_id: str | None = None) -> None:
        self.session_id = session_id or str(uuid.uuid4())
        self.project = project
        project.mkdir(parents=True, exist_ok=True)
        transcripts.mkdir(parents=True, exist_ok=True)
        self.transcript = transcripts / f"{self.session_id}.jsonl"
        self.transcript.touch()

    def entry(self, speaker: str, content: Any, **more: Any) -> Json:
        """Make an entry as the client writes it."""
        at = more.pop("at", START + dt.timedelta(seconds=next(_clock)))
        return {
            "type": speaker, "uuid": str(uuid.uuid4()), "parentUuid": None, "sessionId": self.session_id,
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), "cwd": str(self.project),
            "isSidechain": False, "version": "2.1.319", "message": {"role": speaker, "content": content}, **more,
        }  # fmt: skip

    def write(self, *entries: Json) -> None:
        """Append entries to the transcript."""
        with self.transcript.open("ab") as file:
            file.write(b"".join(json.dumps(entry).encode("ascii") + b"\n" for entry in entries))

    def begin_codex(self, *, forked_from: str | None = None, at: dt.datetime = START) -> None:
        """Write the first line of a rollout of Codex."""
        when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        meta = {
            "id": self.session_id,
            "timestamp": when,
            "cwd": str(self.project),
            "originator": "codex_cli_rs",
            "source": "cli",
        }
        more = {"forked_from_id": forked_from} if forked_from else {}
        self.write({"timestamp": when, "type": "session_meta", "payload": meta | more})

    def say_in_codex(self, prompt: str, answer: str, *, turn: str | None = None, **more: Any) -> None:
        """Append an exchange to a rollout of Codex, as its version 0.14x writes it."""
        if turn is not None:
            started = {"type": "task_started", "turn_id": turn}
            self.write(
                {"timestamp": self.entry("user", "", **more)["timestamp"], "type": "event_msg", "payload": started}
            )
        for kind, role, text in (("user_message", "user", prompt), ("agent_message", "assistant", answer)):
            at = self.entry(role, "", **more)["timestamp"]
            said = [{"type": "input_text" if role == "user" else "output_text", "text": text}]
            self.write(
                {
                    "timestamp": at,
                    "type": "response_item",
                    "payload": {"type": "message", "role": role, "content": said},
                },
                {"timestamp": at, "type": "event_msg", "payload": {"type": kind, "message": text}},
            )

    def say_in_gemini(self, prompt: str, answer: str) -> None:
        """Append an exchange to a record of Gemini CLI, as its version of August 2026 writes it: what a tool answered, and the rest."""
        asked, told = str(uuid.uuid4()), str(uuid.uuid4())
        at = [self.entry("user", "")["timestamp"] for _ in range(2)]
        context = {"text": "<hook_context>&lt;infinite-memory&gt; recalled</hook_context>"}
        message = {
            "id": told,
            "timestamp": at[1],
            "type": "gemini",
            "content": [{"text": "hm", "thought": True}, {"text": answer}],
        }
        call = {"functionCall": {"name": "read_file", "args": {}}}
        self.write(
            {
                "sessionId": self.session_id,
                "projectHash": "0",
                "startTime": at[0],
                "lastUpdated": at[0],
                "kind": "main",
            },
            {
                "id": asked,
                "timestamp": at[0],
                "type": "user",
                "content": [{"text": prompt}, context],
                "displayContent": [{"text": prompt}],
            },
            {"$set": {"lastUpdated": at[0]}},
            {
                "id": str(uuid.uuid4()),
                "timestamp": at[1],
                "type": "gemini",
                "content": [call],
                "toolCalls": [{"name": "read_file"}],
            },
            {
                "id": str(uuid.uuid4()),
                "timestamp": at[1],
                "type": "user",
                "content": [{"functionResponse": {"name": "read_file"}}],
            },
            {"id": str(uuid.uuid4()), "timestamp": at[1], "type": "info", "content": "a notice"},
            message,
            {"$set": {"messages": [{"id": asked, "timestamp": at[0], "type": "user", "content": "rewritten"}]}},
            message | {"tokens": {"total": 7}},
        )

    def say(self, prompt: str, answer: str) -> None:
        """Append an exchange."""
        self.write(self.entry("user", prompt), self.entry("assistant", [{"type": "text", "text": answer}]))

    def event(self, name: str, **more: Any) -> Json:
        """Return the JSON that a hook is given."""
        own: dict[str, Json] = {
            "SessionStart": {"source": "startup", "model": "claude-sonnet-4-6"},
            "UserPromptSubmit": {"prompt": "hello"},
            "Stop": {"stop_hook_active": False, "last_assistant_message": "done"},
            "SubagentStop": {"stop_hook_active": False, "agent_id": "a1", "agent_type": "Explore",
                             "agent_transcript_path": str(self.transcript.with_name("agent-a1.jsonl"))},
            "PreCompact": {"trigger": "auto", "custom_instructions": ""},
            "SessionEnd": {"reason": "prompt_input_exit"},
        }  # fmt: skip
        return {
            "session_id": self.session_id, "transcript_path": str(self.transcript), "cwd": str(self.project),
            "permission_mode": "default", "hook_event_name": name, **own[name], **more,
        }  # fmt: skip

    def run(self, installation: Installation, name: str, **more: Any) -> str:
        """Run a hook as the client does; returns what it printed."""
        done = run_hook(installation, name, json.dumps(self.event(name, **more)))
        assert done.returncode == 0
        assert done.stderr == ""
        return done.stdout


def run_hook(installation: Installation, name: str, data: str) -> subprocess.CompletedProcess[str]:
    """Run `infinite-memory hook` with *data* on standard input."""
    return installation.command("hook", name, input=data)


def new_session(installation: Installation, name: str, **more: Any) -> HookSession:
    """Begin a session of the project called *name*."""
    base = installation.home.parent
    return HookSession(base / name, base / "transcripts" / name, **more)


def scope_of(session: HookSession) -> str:
    return f"project ~/{session.project.name}"


def stored(installation: Installation, session: HookSession) -> list[Json]:
    """List what was said in the project and is stored, oldest first."""
    return [one for one in _all(installation, session) if "digest" not in one["tags"]]


def digests(installation: Installation, session: HookSession) -> list[Json]:
    """List the digests of the project, oldest first."""
    return [one for one in _all(installation, session) if "digest" in one["tags"]]


def _all(installation: Installation, session: HookSession) -> list[Json]:
    client = installation.clients[0] if installation.clients else installation.serve()
    reply = client.ask("list_memories", scope=scope_of(session), limit=1000)
    return sorted(reply.get("results", []), key=lambda one: one["timestamp"])


def wait_for(installation: Installation, session: HookSession, count: int, *, nudges: bool = True) -> list[Json]:
    """Wait until as many memories are stored, and nothing waits.

    A hook ends after a second, on a very busy machine before it has told the daemon of what it wrote: then the next event does, which is
    sent here where *nudges* allows it.
    """
    again = time.monotonic() + NUDGE_S

    def is_read() -> bool:
        nonlocal again
        if not list((installation.home / "hooks" / "spool").glob("*.json")):
            return True
        if nudges and time.monotonic() > again:
            again = time.monotonic() + NUDGE_S
            new_session(installation, "nudge").run(installation, "SessionStart")
        return False

    until(is_read, "the spool is empty")
    until(lambda: len(stored(installation, session)) >= count, f"{count} memories are stored")
    return stored(installation, session)
