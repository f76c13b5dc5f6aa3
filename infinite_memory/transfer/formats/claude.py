"""The data export of Claude: ``conversations.json``, ``projects.json`` (or a folder of them) and ``memories.json``.

Each message becomes a memory of its conversation, as do its attached texts and the artifacts written in it. A project's description,
instructions and documents become memories too, and so do Claude's own memories. Reasoning, tool calls and tool results are skipped and
reported.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from infinite_memory.transfer.formats.chatgpt import MAX_NAMED, OFF_THREAD, ONLY_MEDIA, REASONING, TOOL, UNKNOWN
from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Incoming, get_time, to_list, to_object, to_text

ACCOUNT = "is about the account, and no memory"
ARTIFACT_CHANGE = "changes part of an artifact; the artifact as it was written is kept"
_TOOL_BLOCKS = ("tool_use", "tool_result", "token_budget", "flag")
_WRITING_TOOLS = {"artifacts": "content", "create_file": "file_text"}
"""Tools by which the assistant writes a whole text, and the input that holds it."""


def is_claude(head: Head) -> bool:
    """True if the file holds conversations, projects or memories of Claude."""
    records = [*head.objects(), head.members] if head.top else []
    return (
        any(_kind(record) is not None and _kind(record) != "account" for record in records)
        or "chat_messages" in head.elements
    )


def is_account(head: Head) -> bool:
    """True if the file holds nothing but accounts of Claude."""
    return any(_kind(record) == "account" for record in head.objects())


def _kind(record: Json) -> str | None:
    if "chat_messages" in record:
        return "conversation"
    if "conversations_memory" in record or "project_memories" in record:
        return "memory"
    if "uuid" in record and (
        "prompt_template" in record or "is_private" in record or isinstance(record.get("docs"), list)
    ):
        return "project"
    return "account" if "email_address" in record and "uuid" in record else None


def read_claude(reading: Reading) -> Iterator[Entry]:
    """Read conversations, projects or memories, whichever the file contains."""
    for number, record, fault in reading.records():
        position = f"record {number}" if number else "the file"
        kind = _kind(record) if isinstance(record, dict) else None
        if fault is not None:
            yield reading.refused(position, fault)
        elif kind is not None and kind != "account":
            position = f"{kind} {number}" if kind != "memory" else position
            yield from reading.guarded(position, partial(_read, reading, kind, position, record))
        else:
            yield reading.refused(position, ACCOUNT if kind == "account" else UNKNOWN)


def _read(reading: Reading, kind: str, location: str, record: Json) -> Iterator[Entry]:
    """Read a record of one kind."""
    if kind == "project":
        yield from _project(reading, location, record)
    elif kind == "memory":
        yield from _memories(reading, record)
    elif isinstance(record["chat_messages"], list):
        yield from _Conversation(reading, location, record).read()
    else:
        yield reading.refused(location, "has no messages")


class _Conversation:
    """One conversation."""

    def __init__(self, reading: Reading, location: str, conversation: Json) -> None:
        self._reading, self._location, self._conversation = reading, location, conversation
        self._messages = [
            chat_message for chat_message in conversation["chat_messages"] if isinstance(chat_message, dict)
        ]
        self._id = to_text(conversation.get("uuid")) or self._made_id()
        self._title = to_text(conversation.get("name"))
        self._left_out: Counter[str] = Counter()

    def read(self) -> Iterator[Entry]:
        """Read the visible thread, and count what is skipped."""
        if unknown := len(self._conversation["chat_messages"]) - len(self._messages):
            self._left_out[UNKNOWN] += unknown
        shown = self._find_shown()
        for index, message in enumerate(self._messages):
            if index in shown:
                yield from self._message(index, message)
            else:
                self._left_out[OFF_THREAD] += 1
        for reason, count in self._left_out.items():
            yield self._reading.refused(f"{count} part{'s' * (count > 1)} of {self._location}", reason, count)

    def _made_id(self) -> str:
        """Return a stable id for a conversation that has none."""
        first = self._messages[0] if self._messages else {}
        about = [
            self._conversation.get("name"),
            self._conversation.get("created_at"),
            first.get("text"),
            first.get("uuid"),
        ]
        return hashlib.sha256(repr(about).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _find_shown(self) -> set[int]:
        """Return the messages of the visible thread: all of them, unless a message has two replies."""
        indexes = {str(message.get("uuid")): index for index, message in enumerate(self._messages)}
        parents = [message.get("parent_message_uuid") for message in self._messages]
        followed = [parent for parent in parents if isinstance(parent, str)]
        if len(set(followed)) == len(followed):
            return set(range(len(self._messages)))
        position = indexes.get(str(self._conversation.get("current_leaf_message_uuid")), len(self._messages) - 1)
        shown: set[int] = set()
        while position is not None and position not in shown:
            shown.add(position)
            position = indexes.get(str(parents[position]))  # type: ignore[assignment]
        return shown

    def _message(self, index: int, message: Json) -> Iterator[Entry]:
        key = to_text(message.get("uuid")) or f"{self._id}\0{index}"
        position = f"message {index + 1} of {self._location}"
        texts, citations, has_other = self._blocks(message)
        text = "\n".join(texts) or to_text(message.get("text"))
        names = [name for attachment in _files(message) if (name := to_text(attachment.get("file_name")))][:MAX_NAMED]
        written = list(self._written(message))
        attached = [
            (attachment, content)
            for attachment in _files(message)
            if (content := to_text(attachment.get("extracted_content")))
        ]
        if text is not None:
            about = ({"attachments": names} if names else {}) | ({"citations": citations} if citations else {})
            yield self._memory(message, key, text, position, metadata=about)
        elif _files(message) and not attached:
            self._left_out[ONLY_MEDIA] += 1
        elif not written and not attached and not has_other and (message.get("content") or message.get("text")):
            self._left_out[UNKNOWN] += 1
        for number, (file, content) in enumerate(attached, 1):
            name = to_text(file.get("file_name")) or self._title
            yield self._memory(
                message,
                f"{key} attachment {number}",
                content,
                f"attachment {number} of {position}",
                kind="attachment",
                title=name,
            )
        for number, (title, about, content) in enumerate(written, 1):
            yield self._memory(
                message, f"{key} artifact {number}", content, f"artifact {number} of {position}", kind="artifact", title=title,
                metadata=about,
            )  # fmt: skip

    def _blocks(self, message: Json) -> tuple[list[str], list[Json], bool]:
        """Return the texts and citations of a message's blocks, and whether it has other blocks, which are counted."""
        texts: list[str] = []
        citations: list[Json] = []
        has_other = False
        for block in to_list(message.get("content")):
            kind = to_object(block).get("type")
            if isinstance(block, dict) and kind not in _TOOL_BLOCKS and "thinking" not in str(kind):
                if (text := to_text(block.get("text"))) is not None:
                    texts.append(text)
                    citations += _cited(block, MAX_NAMED - len(citations))
                elif kind != "text":
                    has_other = True
                    self._left_out[UNKNOWN] += 1
                continue
            has_other = True
            if "thinking" in str(kind):
                self._left_out[REASONING] += 1
            elif kind == "tool_use" and to_text(to_object(block).get("name")) in _WRITING_TOOLS:
                if _whole_text(block) is None:
                    self._left_out[ARTIFACT_CHANGE] += 1
            elif kind in ("tool_use", "tool_result"):
                self._left_out[TOOL] += 1
        return texts, citations, has_other

    def _written(self, message: Json) -> Iterator[tuple[str | None, Json, str]]:
        """Yield title, description and text of each artifact that a message writes."""
        for block in to_list(message.get("content")):
            if not isinstance(block, dict) or block.get("type") != "tool_use":
                continue
            if to_text(block.get("name")) in _WRITING_TOOLS:
                tool_input = to_object(block.get("input"))
                if (text := _whole_text(block)) is not None:
                    names = ("id", "type", "language", "path")
                    about = {
                        f"artifact_{name}": value
                        for name in names
                        if (value := to_text(tool_input.get(name))) is not None
                    }
                    yield to_text(tool_input.get("title")) or to_text(tool_input.get("path")), about, text

    def _memory(
        self, message: Json, key: str, text: str, location: str, *, kind: str | None = None, title: str | None = None,
        metadata: Json | None = None,
    ) -> Entry:  # fmt: skip
        sender = to_text(message.get("sender"))
        return self._reading.take(
            location,
            lambda: Incoming(
                key=f"claude {key}",
                text=text,
                where=self._reading.where(location),
                occurred_at=get_time(message, "created_at") or get_time(self._conversation, "created_at", "updated_at"),
                source="conversation",
                title=title or self._title,
                type=kind,
                speaker="user" if sender == "human" else sender,
                conversation_id=self._id,
                tags=("claude",),
                metadata=metadata or {},
            ),
        )


def _files(message: Json) -> list[Json]:
    """Return the attachments of a message; a file may be in two lists."""
    listed = [*to_list(message.get("attachments")), *to_list(message.get("files")), *to_list(message.get("files_v2"))]
    return [file for file in listed if isinstance(file, dict)]


def _whole_text(block: Json) -> str | None:
    tool_input = to_object(block.get("input"))
    if tool_input.get("command") not in (None, "create", "rewrite"):
        return None
    return to_text(tool_input.get(_WRITING_TOOLS[str(block.get("name"))]))


def _cited(block: Json, room: int) -> list[Json]:
    cited = []
    for citation in to_list(block.get("citations"))[: max(room, 0)]:
        fields = to_object(citation)
        page = to_object(fields.get("details")) or fields
        if (url := to_text(page.get("url"))) is not None:
            title = to_text(fields.get("title")) or to_text(page.get("title"))
            cited.append({"url": url} | ({"title": title} if title else {}))
    return cited


def _project(reading: Reading, location: str, project: Json) -> Iterator[Entry]:
    name, project_id = to_text(project.get("name")), to_text(project.get("uuid")) or location
    about = {"project": name} if name else {}

    def memory(key: str, text: str, where: str, kind: str, title: str | None, record: Json) -> Entry:
        return reading.take(
            where,
            lambda: Incoming(
                key=f"claude project {key}", text=text, where=reading.where(where), source="claude", type=kind, title=title,
                occurred_at=get_time(record, "created_at") or get_time(project, "created_at", "updated_at"),
                tags=("claude",), metadata=about,
            ),
        )  # fmt: skip

    for field, kind in (("description", "project"), ("prompt_template", "instructions")):
        if (text := to_text(project.get(field))) is not None:
            memory_text = f"{name}: {text}" if name and field == "description" else text
            yield memory(f"{project_id} {field}\0{text}", memory_text, f"{field} of {location}", kind, name, project)
    for number, document in enumerate(to_list(project.get("docs")), 1):
        where = f"document {number} of {location}"
        text = to_text(to_object(document).get("content"))
        if text is None:
            yield reading.refused(where, "has no text")
            continue
        title = to_text(document.get("filename"))
        key = to_text(document.get("uuid")) or f"{project_id} {title}\0{text}"
        yield memory(f"document {key}", text, where, "document", title, document)


def _memories(reading: Reading, record: Json) -> Iterator[Entry]:
    """Read Claude's own memories. They have no timestamp but the file's, which is not part of their key."""
    account = str(record.get("account_uuid") or "")
    texts: list[tuple[str, Any, Json]] = [("memory of conversations", record.get("conversations_memory"), {})]
    texts += (
        (f"memory of project {number}", text, {"project_id": str(project)})
        for number, (project, text) in enumerate(to_object(record.get("project_memories")).items(), 1)
    )
    texts += (
        (
            f"memory file {number}",
            to_object(memory_file).get("content"),
            {"path": str(to_object(memory_file).get("path") or "")},
        )
        for number, memory_file in enumerate(to_list(record.get("memory_files")), 1)
    )
    for label, text, about in texts:
        if to_text(text) is not None:
            yield Incoming(
                key=f"claude memory {account} {about}\0{text}", text=text, where=reading.where(label), is_undated=True,
                occurred_at=reading.file.modified_at, source="claude", type="memory", title="What Claude remembered",
                tags=("claude",), metadata=about,
            )  # fmt: skip
        elif text is not None and label != "memory of conversations":
            yield reading.refused(label, "has no text")
