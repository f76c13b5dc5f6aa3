"""The data exports of ChatGPT and Claude: ``conversations.json``, each message a memory of its conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infinite_memory.lifecycle.importers.incoming import Incoming, Refused, instant_of, load_json, object_of, text_of

Json = dict[str, Any]


def is_chatgpt(path: Path) -> bool:
    """Tell whether *path* lists conversations with a ``mapping`` of messages."""
    return "mapping" in _first(path)


def read_chatgpt(path: Path) -> Iterator[Incoming | Refused]:
    """Read what user and assistant said; hidden and empty messages are left out without a word."""
    for number, conversation in enumerate(_list(path), 1):
        mapping = conversation.get("mapping")
        if not isinstance(mapping, dict):
            yield Refused(f"conversation {number}", "has no messages")
            continue
        title = text_of(conversation.get("title"))
        conversation_id = str(conversation.get("conversation_id") or conversation.get("id") or number)
        messages = [node.get("message") for node in mapping.values() if isinstance(node, dict)]
        for message in messages:
            if not isinstance(message, dict):
                continue
            role = object_of(message.get("author")).get("role")
            parts = object_of(message.get("content")).get("parts")
            text = "\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else ""
            if role not in ("user", "assistant") or not text.strip():
                continue
            yield Incoming(
                key=f"chatgpt {message.get('id')}",
                text=text,
                occurred_at=instant_of(message.get("create_time")) or instant_of(conversation.get("create_time")),
                source="conversation",
                title=title,
                speaker=role,
                conversation_id=conversation_id,
                tags=("chatgpt",),
            )


def is_claude(path: Path) -> bool:
    """Tell whether *path* lists conversations with ``chat_messages``."""
    return "chat_messages" in _first(path)


def read_claude(path: Path) -> Iterator[Incoming | Refused]:
    """Read what human and assistant said."""
    for number, conversation in enumerate(_list(path), 1):
        messages = conversation.get("chat_messages")
        if not isinstance(messages, list):
            yield Refused(f"conversation {number}", "has no messages")
            continue
        conversation_id = str(conversation.get("uuid") or number)
        for message in messages:
            text = _claude_text(message) if isinstance(message, dict) else ""
            if not text.strip():
                continue
            yield Incoming(
                key=f"claude {message.get('uuid')}",
                text=text,
                occurred_at=instant_of(message.get("created_at")) or instant_of(conversation.get("created_at")),
                source="conversation",
                title=text_of(conversation.get("name")),
                speaker={"human": "user"}.get(str(message.get("sender")), str(message.get("sender"))),
                conversation_id=conversation_id,
                tags=("claude",),
            )


def _claude_text(message: Json) -> str:
    if text := text_of(message.get("text")):
        return text
    blocks = message.get("content")
    return "\n".join(
        block["text"]
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def _list(path: Path) -> list[Json]:
    found = load_json(path / "conversations.json" if path.is_dir() else path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _first(path: Path) -> Json:
    file = path / "conversations.json" if path.is_dir() else path
    return next(iter(_list(path)), {}) if file.suffix == ".json" else {}
