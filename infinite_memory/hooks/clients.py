"""The assistants whose hooks are understood: what each calls its events, what is in them, and what it takes back.

Standard library only: the hook imports this. Claude Code's names are ours; its form (https://code.claude.com/docs/en/hooks) is Codex's as
well (https://developers.openai.com/codex/hooks). Gemini CLI has the same fields under other names
(https://geminicli.com/docs/hooks/reference). Cursor (https://cursor.com/docs/hooks) gives what was said in the event itself, and takes
context at a session's start alone: what it documents for a prompt is whether it may be sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from infinite_memory.hooks.files import CLAUDE_CODE, CODEX, CURSOR, GEMINI
from infinite_memory.hooks.run import CARRIED, INPUT_BYTES

Json = dict[str, Any]

RECALLING = ("SessionStart", "UserPromptSubmit")
CAPTURING = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")

_OWN = {name: name for name in (*RECALLING, *CAPTURING)}
EVENTS: Mapping[str, Mapping[str, str]] = {
    CLAUDE_CODE: _OWN,
    CODEX: _OWN,
    GEMINI: {
        "SessionStart": "SessionStart", "BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop", "PreCompress": "PreCompact",
        "SessionEnd": "SessionEnd",
    },
    CURSOR: {
        "sessionStart": "SessionStart", "beforeSubmitPrompt": "Stop", "afterAgentResponse": "Stop", "sessionEnd": "SessionEnd",
    },
}  # fmt: skip
"""What a client calls an event, and which of ours it is."""

FIELDS = ("session_id", "transcript_path", "cwd", "source", "trigger", "reason")
FIELD_CHARS = 4096  # of a path or an id
PROMPT_CHARS = 2000  # of a prompt are enough to search by
SAID_CHARS = 110_000  # of a text that the event itself holds; more than is stored of one (`capture`)
_ADDED, _ADDED_ENDS = "<hook_context>", "</hook_context>"
_SAID_IN_CURSOR = {"beforeSubmitPrompt": ("user", "prompt"), "afterAgentResponse": ("assistant", "text")}


def make_message(client: str, name: str, data: bytes, environ: Mapping[str, str]) -> Json:
    """Return what a hook's event says, as it is kept in the spool: `event` is our name of it, `at` the instant, `environ` what is carried.

    Args:
        client: The assistant.
        name: What it calls the event.
        data: What it wrote to standard input.
        environ: Its environment.

    Raises:
        ValueError: the event has no known name, is too large, no JSON object, or names no session.
    """
    if name not in EVENTS[client]:
        raise ValueError("the event has no name that is known")
    own = {name: value for name, value in environ.items() if name.startswith(CARRIED)}
    message: Json = {"event": EVENTS[client][name], "client": client, "at": time.time(), "environ": own}
    message |= read_event(client, name, _parse(data))
    if "prompt" in message:
        message["prompt"] = message["prompt"][:PROMPT_CHARS]
    return message


def _parse(data: bytes) -> Json:
    if len(data) > INPUT_BYTES:
        raise ValueError("the event is too large")
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("the event is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("the event is no object")
    return value


def read_event(client: str, name: str, fields: Json) -> Json:
    """Return what the daemon is told of an event.

    Args:
        client: The assistant.
        name: What it calls the event.
        fields: What it wrote to standard input.

    Raises:
        ValueError: they name no session.
    """
    if client == CURSOR:
        return _of_cursor(name, fields)
    if not fields.get("session_id") or not isinstance(fields["session_id"], str):
        raise ValueError("the event is no object with a session_id")
    event = {
        field: value for field in FIELDS if isinstance(value := fields.get(field), str) and len(value) <= FIELD_CHARS
    }
    return event | ({"prompt": _typed(prompt)} if isinstance(prompt := fields.get("prompt"), str) else {})


def _typed(prompt: str) -> str:
    """Return a prompt without what hooks added at the session's start: Gemini CLI puts that before the first one, its tags escaped."""
    return prompt.partition(_ADDED_ENDS)[2] if prompt.startswith(_ADDED) and _ADDED_ENDS in prompt else prompt


def _of_cursor(name: str, fields: Json) -> Json:
    session_id = fields.get("conversation_id") or fields.get("session_id")
    if not isinstance(session_id, str) or len(session_id) > FIELD_CHARS:
        raise ValueError("the event is no object with a conversation_id")
    event: Json = {"session_id": session_id, "transcript_path": ""}
    roots = fields.get("workspace_roots")
    if isinstance(roots, list) and roots and isinstance(roots[0], str) and len(roots[0]) <= FIELD_CHARS:
        event["cwd"] = roots[0]
    if name in _SAID_IN_CURSOR:
        speaker, field = _SAID_IN_CURSOR[name]
        if not isinstance(text := fields.get(field), str):
            raise ValueError(f"the event has no {field}")
        generation = fields.get("generation_id")
        event["said"] = {
            "speaker": speaker, "text": text[:SAID_CHARS], "at": time.time(),
            "key": generation if isinstance(generation, str) and len(generation) <= FIELD_CHARS else "",
        }  # fmt: skip
    return event


def make_envelope(client: str, name: str, context: str, notice: str) -> Json | None:
    """Return what a client is given: *context* for its model and *notice* for the user, each "" for none; None for nothing at all."""
    if client == CURSOR:
        return {"additional_context": context} if context and name == "sessionStart" else None
    output: Json = {}
    if context:
        output["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": context}
    if notice:
        output["systemMessage"] = notice
    return output or None
