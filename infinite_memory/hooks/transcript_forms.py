"""Converts transcripts of Codex and Gemini CLI to Claude Code's entries, which `transcript` reads.

Codex writes the visible messages of a turn as events, among its own bookkeeping: ``user_message`` and ``agent_message``, or (seen in
0.171) the completed items ``UserMessage`` and ``AgentMessage``. A fork of a session copies the events of its parent with new
timestamps, and names the parent in its first line (``forked_from_id``); with completed items it copies none. Turns keep their ids: a
turn is keyed by its id and so recognised as stored, and an id with a timestamp (UUID version 7) shows when it was said, and so whether
it is a copy. Turns of versions with numeric ids are keyed by their timestamps; in a fork, those are compared by their texts.

Gemini CLI writes a line for each message, and again after a tool result, with the same id. A history that it rewrites after
compressing it contains no new messages.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

Json = dict[str, Any]
Context = dict[str, str]
"""State from earlier lines: the session's id, its parent and when it was forked, and the current turn."""

SESSION, FORKED_FROM, FORKED_AT, TURN = "session", "forked_from", "forked_at", "turn"
MARKERS = (
    b'"session_meta"', b'"task_started"', b'"turn_started"', b'"turn_context"', b'"UserMessage"', b'"AgentMessage"', b'"gemini"',
)  # fmt: skip
"""Every line that this module needs, besides those that look like Claude Code's, contains one of these."""

KEYED_BY = "keyed_by"
"""The field of an entry that replaces the timestamp in a turn's key: a copy keeps it, but not the timestamp."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def to_entry(value: Json, context: Context) -> Json:
    """Return a line as Claude Code would write it, {} if it has no message, and update *context*."""
    payload = value.get("payload")
    if isinstance(payload, dict):
        return _of_codex(value, payload, context)
    if "message" not in value and value.get("type") in ("user", "gemini") and isinstance(value.get("id"), str):
        return _of_gemini(value)
    return value


def _of_codex(value: Json, payload: Json, context: Context) -> Json:
    """Return the visible message of a line in a Codex rollout.

    Its ``response_item`` entries repeat the same messages, among those that Codex inserts (AGENTS.md, the environment).
    """
    kind = payload.get("type") if value.get("type") == "event_msg" else value.get("type")
    if kind == "session_meta":
        _begin(value, payload, context)
    elif kind in ("task_started", "turn_started", "turn_context") and isinstance(payload.get("turn_id"), str):
        context[TURN] = payload["turn_id"]
    speaker, content = _read_codex_event(payload) if value.get("type") == "event_msg" else (None, None)
    if speaker is None:
        return {}
    entry: Json = {"type": speaker, "timestamp": value.get("timestamp"), "message": {"content": content}}
    turn = payload["turn_id"] if isinstance(payload.get("turn_id"), str) else context.get(TURN, "")
    is_known = _UUID.fullmatch(turn) is not None
    if is_known:
        entry[KEYED_BY] = turn
    if FORKED_FROM in context:
        said_at = _parse_instant(turn)
        if said_at is None:
            entry["forkedFrom"] = {}  # unknown whether it is a copy
        elif said_at < dt.datetime.fromisoformat(context[FORKED_AT]):
            entry |= {"forkedFrom": {"sessionId": context[FORKED_FROM]}, "timestamp": said_at.isoformat()}
    return entry


def _read_codex_event(payload: Json) -> tuple[str | None, Any]:
    """Return the speaker of a Codex event, None for none, and the text.

    A rollout may contain both forms of a message: turn and text are the same, and so is the key.
    """
    item = payload.get("item")
    if payload.get("type") == "item_completed" and isinstance(item, dict):
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in ("text", "Text")]
        joined = "\n".join(text for text in texts if isinstance(text, str))
        return {"UserMessage": "user", "AgentMessage": "assistant"}.get(str(item.get("type"))), joined
    if payload.get("kind") not in (None, "plain"):
        return None, None
    speaker = {"user_message": "user", "agent_message": "assistant"}.get(str(payload.get("type")))
    return speaker, payload.get("message")


def _begin(value: Json, payload: Json, context: Context) -> None:
    """Read the first line of a rollout into *context*; a fork also contains its parent's, which is ignored."""
    if SESSION in context:
        return
    context[SESSION] = str(payload.get("id"))
    parent, timestamp = payload.get("forked_from_id"), payload.get("timestamp") or value.get("timestamp")
    try:
        instant = dt.datetime.fromisoformat(str(timestamp)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return
    if isinstance(parent, str):
        context |= {FORKED_FROM: parent, FORKED_AT: instant.isoformat()}


def _parse_instant(turn: str) -> dt.datetime | None:
    """Return the timestamp in a version 7 id; None for any other id."""
    match = _UUID.fullmatch(turn)
    if match is None or match[1] != "7":
        return None
    try:
        return dt.datetime.fromtimestamp(int(turn.replace("-", "")[:12], 16) / 1000, dt.UTC)
    except (ValueError, OverflowError):
        return None


def _of_gemini(value: Json) -> Json:
    """Return the message of a Gemini CLI line, {} for its own commands (``/help``, ``?``), which the model does not see."""
    displayed = value.get("displayContent")
    content = value.get("content") if displayed is None else displayed
    parts = content if isinstance(content, list) else [content]
    blocks: list[Json] = []
    for part in parts:
        if isinstance(part, str):
            blocks.append({"type": "text", "text": part})
        elif isinstance(part, dict) and "functionResponse" in part:
            blocks.append({"type": "tool_result"})
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("thought") is not True:
            blocks.append({"type": "text", "text": part["text"]})
    is_user = value["type"] == "user"
    if is_user and blocks and str(blocks[0].get("text", "")).lstrip().startswith(("/", "?")):
        return {}
    return {
        "type": "user" if is_user else "assistant", "timestamp": value.get("timestamp"), KEYED_BY: value["id"],
        "message": {"content": blocks},
    }  # fmt: skip
