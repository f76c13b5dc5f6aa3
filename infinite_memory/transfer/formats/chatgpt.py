"""The data export of ChatGPT: ``conversations.json``, or ``conversations-000.json`` and so on, as it is downloaded or unpacked.

Each message of the thread that the user sees is a memory of its conversation. A conversation is a tree: a regenerated answer or
an edited question starts a branch, and ``current_node`` names the leaf that is shown. Everything else (other branches, hidden messages,
system prompts, reasoning, tool output) is skipped and reported.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Incoming, get_time, to_instant, to_list, to_object, to_text

MAX_NAMED = 50  # citations or attachments kept per message, by name
_CITATION = re.compile("\ue200.{0,2000}?\ue201", re.DOTALL)  # marks that the web page replaces with links
_BRACKETS = re.compile("【[^【】\n]{0,100}】")
_HIDDEN_KINDS = ("user_editable_context", "model_editable_context", "app_pairing_content")
_REASONING = ("thoughts", "reasoning_recap")
_CANVAS = "canmore."

HIDDEN = "is hidden from the user (instructions to the model, for one)"
OFF_THREAD = "is not on the thread that the user sees: another branch, or an answer that was made again"
SYSTEM = "is a system message"
TOOL = "is what a tool was asked or answered"
REASONING = "is the model's reasoning"
ONLY_MEDIA = "holds only pictures, sounds or files, which are not kept"
CANVAS_CHANGE = "changes part of a canvas document; the document as it was written is kept"
UNKNOWN = "is of a kind that is not known"


def is_chatgpt(head: Head) -> bool:
    """True if the file holds conversations with a ``mapping`` of messages."""
    return any("mapping" in record for record in head.objects()) or isinstance(head.members.get("mapping"), dict)


def read_chatgpt(reading: Reading) -> Iterator[Entry]:
    """Read the messages of user and assistant, and the documents that they wrote."""
    for number, conversation, fault in reading.records():
        position = f"conversation {number}" if number else "the file"
        if fault is not None:
            yield reading.refused(position, fault)
        elif not isinstance(conversation, dict) or not isinstance(conversation.get("mapping"), dict):
            yield reading.refused(position, "has no messages")
        else:
            yield from reading.guarded(position, partial(_read, reading, position, conversation))


def _read(reading: Reading, location: str, conversation: Json) -> Iterator[Entry]:
    """Read a conversation."""
    return _Conversation(reading, location, conversation).read()


@dataclass(slots=True)
class _Said:
    """A message's text, or why it is skipped. Both None: it is empty."""

    text: str | None = None
    reason: str | None = None
    kind: str | None = None
    title: str | None = None
    metadata: Json = field(default_factory=dict)


class _Conversation:
    """One conversation."""

    def __init__(self, reading: Reading, location: str, conversation: Json) -> None:
        self._reading, self._location, self._conversation = reading, location, conversation
        self._nodes: Json = {key: node for key, node in conversation["mapping"].items() if isinstance(node, dict)}
        conversation_id = to_text(conversation.get("conversation_id")) or to_text(conversation.get("id"))
        self._id = conversation_id or self._made_id()
        self._title = to_text(conversation.get("title"))

    def read(self) -> Iterator[Entry]:
        """Read the visible thread, and count what is skipped."""
        left_out: Counter[str] = Counter()
        thread = self._thread()
        shown = set(thread)
        for key in thread:
            said = _read_message(to_object(self._nodes[key].get("message")))
            if said.text is not None:
                location = f"message {key[:80]} of {self._location}"
                yield self._reading.take(
                    location,
                    lambda key=key, said=said, location=location: self._memory(key, said, location),  # type: ignore[misc]
                )
            elif said.reason is not None:
                left_out[said.reason] += 1
        for key, node in self._nodes.items():
            if key not in shown:
                said = _read_message(to_object(node.get("message")))
                if said.text is not None or said.reason is not None:
                    left_out[OFF_THREAD if said.text is not None else said.reason or ""] += 1
        for reason, count in left_out.items():
            yield self._reading.refused(_several(count, self._location), reason, count)

    def _thread(self) -> list[str]:
        """Return the node keys from the root to the visible leaf."""
        parents = {key: to_text(node.get("parent")) for key, node in self._nodes.items()}
        if not any(parent in self._nodes for parent in parents.values()):
            return list(self._nodes)  # no tree at all
        leaf = to_text(self._conversation.get("current_node"))
        if leaf not in self._nodes:
            leaf = max(self._leaves(parents), key=self._time, default=None)
        path: dict[str, None] = {}
        while leaf is not None and leaf in self._nodes and leaf not in path:
            path[leaf] = None
            leaf = parents[leaf]
        return list(reversed(path))

    def _leaves(self, parents: dict[str, str | None]) -> list[str]:
        inner = set(parents.values())
        return [key for key in self._nodes if key not in inner]

    def _time(self, key: str) -> float:
        created = to_instant(to_object(self._nodes[key].get("message")).get("create_time"))
        return created.timestamp() if created is not None else 0.0

    def _made_id(self) -> str:
        """Return a stable id for a conversation that has none."""
        about = (self._conversation.get("title"), self._conversation.get("create_time"), sorted(self._nodes)[:3])
        return hashlib.sha256(repr(about).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _memory(self, key: str, said: _Said, location: str) -> Incoming:
        message = to_object(self._nodes[key].get("message"))
        own = get_time(message, "create_time")
        return Incoming(
            key=f"chatgpt {to_text(message.get('id')) or f'{self._id}{chr(0)}{key}'}",
            text=said.text or "",
            where=self._reading.where(location),
            occurred_at=own or get_time(self._conversation, "create_time", "update_time"),
            source="conversation",
            title=said.title or self._title,
            type=said.kind,
            speaker=to_object(message.get("author")).get("role"),
            conversation_id=self._id,
            tags=("chatgpt",),
            metadata=said.metadata,
        )


def _several(count: int, location: str) -> str:
    return f"{count} message{'s' * (count > 1)} of {location}"


def _read_message(message: Json) -> _Said:
    """Read a message."""
    role = to_object(message.get("author")).get("role")
    content, about = to_object(message.get("content")), to_object(message.get("metadata"))
    kind, recipient = content.get("content_type"), message.get("recipient")
    text, has_media = _text(content, about)
    if not message or (text is None and not has_media and kind not in _REASONING):
        return _Said()
    if about.get("is_visually_hidden_from_conversation") is True or kind in _HIDDEN_KINDS:
        return _Said(reason=HIDDEN)
    if role == "system":
        return _Said(reason=SYSTEM)
    if role not in ("user", "assistant"):
        return _Said(reason=TOOL)
    if kind in _REASONING:
        return _Said(reason=REASONING)
    if isinstance(recipient, str) and recipient not in ("", "all"):
        return _to_tool(recipient, text, kind, about)
    if text is None:
        return _Said(reason=ONLY_MEDIA)
    return _Said(text, metadata=_about(about))


def _to_tool(recipient: str, text: str | None, kind: Any, about: Json) -> _Said:
    """Read a tool call of the assistant: a document or code that the user sees, or nothing to keep."""
    if recipient.startswith(_CANVAS):
        document = to_object(text)
        if (written := to_text(document.get("content"))) is None:
            return _Said(reason=CANVAS_CHANGE)
        kinds = {"document_type": document["type"]} if to_text(document.get("type")) else {}
        return _Said(written, kind="document", title=to_text(document.get("name")), metadata=_about(about) | kinds)
    if kind == "code" and recipient == "python" and text is not None:
        return _Said(text, kind="code", metadata=_about(about))
    return _Said(reason=TOOL)


def _text(content: Json, about: Json) -> tuple[str | None, bool]:
    """Return the text of a message's content, and whether it contains an image, audio or a file."""
    texts: list[str] = []
    has_media = bool(to_list(about.get("attachments")))
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content.get("text"), content.get("result")]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])  # voice transcripts, for example
        elif isinstance(part, dict):
            has_media = True
    text = "\n".join(part_text for part_text in texts if part_text.strip())
    language = content.get("language")
    if content.get("content_type") == "code" and isinstance(language, str) and language not in ("", "unknown", "json"):
        text = f"```{language}\n{text}\n```" if text.strip() else ""
    return to_text(_with_links(text, about)), has_media


def _with_links(text: str, about: Json) -> str:
    """Replace citation marks with what the user sees."""
    if "\ue200" in text or "【" in text:
        for reference in to_list(about.get("content_references"))[:MAX_NAMED]:
            mark, seen = to_object(reference).get("matched_text"), to_object(reference).get("alt")
            if isinstance(mark, str) and mark.strip() and isinstance(seen, str):
                text = text.replace(mark, seen)
        text = _CITATION.sub("", text)
        if to_list(about.get("citations")):
            text = _BRACKETS.sub("", text)
    return text


def _about(about: Json) -> Json:
    """Return the names of attachments and the URLs of citations."""
    files = [
        name
        for attachment in to_list(about.get("attachments"))[:MAX_NAMED]
        if (name := to_text(to_object(attachment).get("name")))
    ]
    cited: list[Json] = []
    for item in [*to_list(about.get("citations")), *to_list(about.get("content_references"))]:
        reference = to_object(item)
        page = to_object(reference.get("metadata")) or reference
        url, title = to_text(page.get("url")), to_text(page.get("title"))
        source = {name: value for name, value in (("title", title), ("url", url)) if value is not None}
        if url is not None and source not in cited and len(cited) < MAX_NAMED:
            cited.append(source)
    return ({"attachments": files} if files else {}) | ({"citations": cited} if cited else {})
