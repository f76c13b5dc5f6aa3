"""What the transcripts of Codex and Gemini CLI say, in the form of Claude Code's entries, which `transcript` reads.

Codex writes what its users see of a turn as events, among its own bookkeeping: ``user_message`` and ``agent_message``, or (seen in
0.171) the completed items ``UserMessage`` and ``AgentMessage``. A fork of a session copies the events of its parent with new
instants, and names the parent in its first line (``forked_from_id``); with completed items it copies none. The turns keep their ids: a
turn is known by its id and so met as stored, and an id that holds its instant (UUID version 7) tells when it was said, and so whether it
is a copy. Turns of versions whose ids are numbers are known by their instants; in a fork, those are compared by their texts.

Gemini CLI writes a line for each message, and again when a tool answered; the id stays. What it rewrites of a history as a whole, after
compressing it, holds nothing that was said for the first time.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

Json = dict[str, Any]
Context = dict[str, str]
"""What the lines before one told: a session's id, whence and when it was forked, and the turn that goes on."""

SESSION, FORKED_FROM, FORKED_AT, TURN = "session", "forked_from", "forked_at", "turn"
MARKERS = (
    b'"session_meta"', b'"task_started"', b'"turn_started"', b'"turn_context"', b'"UserMessage"', b'"AgentMessage"', b'"gemini"',
)  # fmt: skip
"""One of these is in every line that this module needs beside those that say something in Claude Code's words."""

KEYED_BY = "keyed_by"
"""The field of an entry whose value stands for its instant in a turn's key: what is copied keeps it, and not its instant."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def to_entry(value: Json, context: Context) -> Json:
    """Return a line as Claude Code would write it, {} where it says nothing, and bring *context* up to date."""
    payload = value.get("payload")
    if isinstance(payload, dict):
        return _of_codex(value, payload, context)
    if "message" not in value and value.get("type") in ("user", "gemini") and isinstance(value.get("id"), str):
        return _of_gemini(value)
    return value


def _of_codex(value: Json, payload: Json, context: Context) -> Json:
    """Return what a rollout of Codex shows its users of a turn.

    Its ``response_item`` entries say the same again, among what Codex puts into the session itself (AGENTS.md, its surroundings).
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
            entry["forkedFrom"] = {}  # nobody knows whether it is a copy
        elif said_at < dt.datetime.fromisoformat(context[FORKED_AT]):
            entry |= {"forkedFrom": {"sessionId": context[FORKED_FROM]}, "timestamp": said_at.isoformat()}
    return entry


def _read_codex_event(payload: Json) -> tuple[str | None, Any]:
    """Return who speaks in an event of Codex, None for nobody, and what is said.

    A rollout may hold both forms of one message: it has the same turn and text in both, and so the same key.
    """
    item = payload.get("item")
    if payload.get("type") == "item_completed" and isinstance(item, dict):
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in ("text", "Text")]
        said = "\n".join(text for text in texts if isinstance(text, str))
        return {"UserMessage": "user", "AgentMessage": "assistant"}.get(str(item.get("type"))), said
    if payload.get("kind") not in (None, "plain"):
        return None, None
    speaker = {"user_message": "user", "agent_message": "assistant"}.get(str(payload.get("type")))
    return speaker, payload.get("message")


def _begin(value: Json, payload: Json, context: Context) -> None:
    """Take what the first line of a rollout tells; a fork holds that of its parent as well."""
    if SESSION in context:
        return
    context[SESSION] = str(payload.get("id"))
    parent, at = payload.get("forked_from_id"), payload.get("timestamp") or value.get("timestamp")
    try:
        instant = dt.datetime.fromisoformat(str(at)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return
    if isinstance(parent, str):
        context |= {FORKED_FROM: parent, FORKED_AT: instant.isoformat()}


def _parse_instant(turn: str) -> dt.datetime | None:
    """Return the instant in an id of version 7; None for another id."""
    match = _UUID.fullmatch(turn)
    if match is None or match[1] != "7":
        return None
    try:
        return dt.datetime.fromtimestamp(int(turn.replace("-", "")[:12], 16) / 1000, dt.UTC)
    except (ValueError, OverflowError):
        return None


def _of_gemini(value: Json) -> Json:
    """Return what a line of Gemini CLI says; its own commands (``/help``, ``?``) say nothing to the model."""
    shown = value.get("displayContent")
    content = value.get("content") if shown is None else shown
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
