"""Supported assistants: the names of their hook events, the fields of an event, and the output that they accept.

Standard library only: the hook imports this. Event names are Claude Code's; Codex (https://developers.openai.com/codex/hooks) uses its
format too (https://code.claude.com/docs/en/hooks). Gemini CLI has the same fields under other event names
(https://geminicli.com/docs/hooks/reference). Cursor (https://cursor.com/docs/hooks) sends the text in the event itself and accepts
context at session start only: for a prompt it documents only whether it may be submitted.
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
"""Each client's event names, mapped to ours."""

FIELDS = ("session_id", "transcript_path", "cwd", "source", "trigger", "reason")
FIELD_CHARS = 4096  # length of a path or an id
PROMPT_CHARS = 2000  # the part of a prompt used for the search
SAID_CHARS = 110_000  # of the text in an event; more than is stored of it (`capture`)
_ADDED, _ADDED_ENDS = "<hook_context>", "</hook_context>"
_SAID_IN_CURSOR = {"beforeSubmitPrompt": ("user", "prompt"), "afterAgentResponse": ("assistant", "text")}


def make_message(client: str, name: str, data: bytes, environ: Mapping[str, str]) -> Json:
    """Return an event as it is written to the spool: `event` is our name for it, `at` its timestamp, `environ` its carried variables.

    Args:
        client: The assistant.
        name: Its name for the event.
        data: Its standard input for the hook.
        environ: Its environment.

    Raises:
        ValueError: the event is unknown, too large, not a JSON object, or names no session.
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
    """Return the fields of an event that are sent to the daemon.

    Args:
        client: The assistant.
        name: Its name for the event.
        fields: The event, parsed from standard input.

    Raises:
        ValueError: the event names no session.
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
    """Return a prompt without the context added by hooks at session start: Gemini CLI prepends it to the first prompt, tags escaped."""
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
    """Return the output for a client: *context* for its model and *notice* for the user, each "" for none; None if there is neither."""
    if client == CURSOR:
        return {"additional_context": context} if context and name == "sessionStart" else None
    output: Json = {}
    if context:
        output["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": context}
    if notice:
        output["systemMessage"] = notice
    return output or None
