"""Reads a transcript of Claude Code, Codex or Gemini CLI (JSON Lines) from where it was left: what was said, nothing else.

Left out: what tools were asked and answered, reasoning, texts of the client program (reminders, what an editor adds of a file, output
of local commands, the summary of a compaction, errors of the API), side chains of subagents, and what we recalled into the session
ourselves. A line of the user's with ``#remember`` is a memory of its own; ``#skip`` in a prompt keeps it and the answers to it out;
text between ``<private>`` and ``</private>`` is removed. Secrets that span lines are masked here, before the text is taken apart.

A turn's key is made of its speaker, instant and text, which stay the same when a session is resumed, forked or compacted; its
uuid does not. The formats are internal to their programs, so an entry that is not understood is passed over and counted; what others
write in another form than Claude Code is put into its form first (`transcript_forms`).
"""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from infinite_memory.errors import without_surrogates
from infinite_memory.hooks.masking import BLOCK_MASK, mask_blocks
from infinite_memory.hooks.transcript_forms import KEYED_BY, MARKERS, Context, to_entry
from infinite_memory.platform_files import open_regular

Json = dict[str, Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

CHUNK_BYTES = 4 << 20  # read at a time
MAX_LINE_BYTES = 32 << 20  # a longer line (a tool's output with pictures) is passed over
MANY_BYTES = 1 << 20  # of a line: whether it is quick to parse is looked at first
MAX_PARTS = 500_000
"""Of a long line: pictures are a few long texts; millions of parts hold every other thread for seconds."""
MAX_PART_CHARS = 2_000_000  # of one text of a message, before what a client put into it is taken out
MAX_SAID_CHARS = 500_000
"""Of one message are looked at: more fits no model's context, and patterns hold every other thread too."""


USER, ASSISTANT = "user", "assistant"

_CLIENT_TAGS = frozenset(
    {"system-reminder", "infinite-memory", "user-prompt-submit-hook", "local-command-caveat", "task-notification", "ide_selection",
     "ide_opened_file", "ide_diagnostics", "browser_instruction", "pasted_content"}
)  # fmt: skip
# Names and attributes are short: without a bound a text of many opening tags would be read once for each of them.
_TAG = re.compile(r"<(/?)([a-z][a-z0-9_-]{0,60})(?=[\s/>])[^<>]{0,200}>")
_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
_CLIENT_TEXT = re.compile(
    r"<(command-name|command-message|command-args|local-command-\w+|bash-(input|stdout|stderr))>"
    r"|\[Request interrupted by user|Caveat: The messages below were generated"
    r"|This session is being continued from a previous conversation"
)
_SKIP = re.compile(r"(?<![\w#])#skip\b", re.IGNORECASE)
_REMEMBER = re.compile(r"(?<![\w#])#remember\b[:,]?[ \t]*", re.IGNORECASE)
_SAYING = b'"user"', b'"assistant"', b'"user_message"', b'"agent_message"', *MARKERS
"""One of these is in every line that tells what somebody said, or what is needed to understand those."""

_NOT_SAID = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


class Turn(NamedTuple):
    """What one side said. ``is_remembered`` marks a ``#remember`` line; ``copied_from`` names the session from which a fork
    copied the entry, "" for none.

    ``masked`` counts the secrets that are masked in it already, those that span lines.
    """

    speaker: str
    text: str
    at: dt.datetime | None
    key: str
    is_remembered: bool = False
    copied_from: str = ""
    masked: int = 0

    @property
    def is_copy(self) -> bool:
        """True if it stands in an entry that a fork copied."""
        return bool(self.copied_from)


class Chunk(NamedTuple):
    """A stretch of a transcript. ``offset`` is where to go on, ``is_skipping`` whether a ``#skip`` still holds there, ``context`` what the
    lines up to there tell of those to come (`transcript_forms`)."""

    turns: tuple[Turn, ...]
    offset: int
    is_skipping: bool
    unread: int
    is_last: bool
    context: Context


def read_chunk(
    path: Path, offset: int, *, is_skipping: bool = False, until: float | None = None, context: Context | None = None
) -> Chunk:
    """Read whole lines from *offset* on, about `CHUNK_BYTES` of them; a line that is still being written is left for later.

    So is what was said after the instant *until*, in seconds: another event speaks of it, perhaps with another word on capture.

    Raises:
        OSError: the file cannot be read.
    """
    turns: list[Turn] = []
    unread, position, known = 0, offset, dict(context or {})
    with open_regular(path) as file:
        file.seek(offset)
        while position - offset < CHUNK_BYTES:
            line = file.readline(MAX_LINE_BYTES)
            if not line:
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=known)
            if not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                unread, position = unread + 1, file.tell()
                continue
            entry = _parse(line, known)
            if entry is None and not line.endswith(b"\n"):
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=known)
            if entry is None:
                unread, position = unread + bool(line.strip()), position + len(line)
                continue
            said, skips = _turns(entry, is_skipping=is_skipping)
            if until is not None and said and _is_later(said[0], until):
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=known)
            turns += said
            is_skipping, position = skips, position + len(line)
    return Chunk(tuple(turns), position, is_skipping, unread, is_last=False, context=known)


def _is_later(turn: Turn, until: float) -> bool:
    """True if a turn was said after *until*. An instant in the future tells nothing: it would hold up what comes after it."""
    return turn.at is not None and until < turn.at.timestamp() <= time.time()


def _parse(line: bytes, context: Context) -> Json | None:
    if not any(word in line for word in _SAYING) and line.endswith(b"}\n"):
        return {}  # nothing that anybody said: most bytes of a transcript need no parsing
    if len(line) > MANY_BYTES and sum(map(line.count, (b",", b"[", b"{", b"\\"))) > MAX_PARTS:
        return {} if b'"tool_result"' in line else None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return to_entry(value, context) if isinstance(value, dict) else None


def read_saying(speaker: str, text: str, at: float, key: str, *, is_skipping: bool) -> tuple[list[Turn], bool]:
    """Return the turns of what a client's event itself tells, and whether a ``#skip`` holds after it.

    Args:
        at: When it was said, in seconds.
        key: What stands for the instant in the turn's key; "" for the instant.
    """
    when = dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds")
    entry = {"type": speaker, "timestamp": when, KEYED_BY: key, "message": {"content": text}}
    return _turns(entry, is_skipping=is_skipping)


def _turns(entry: Json, *, is_skipping: bool) -> tuple[list[Turn], bool]:
    """Return what an entry says, and whether a ``#skip`` holds after it."""
    speaker, message = entry.get("type"), entry.get("message")
    if speaker not in (USER, ASSISTANT) or not isinstance(message, dict) or any(entry.get(name) for name in _NOT_SAID):
        return [], is_skipping
    text = _read_text(message.get("content"), is_user=speaker == USER)
    if text is None:
        return [], is_skipping
    if speaker == USER:
        is_skipping = _SKIP.search(text) is not None
    text, blocks = mask_blocks(text[:MAX_SAID_CHARS])
    lines: list[str] = []
    if speaker == USER:
        lines = [_REMEMBER.sub("", line).strip() for line in text.split("\n") if _REMEMBER.search(line)]
        text = "\n".join(line for line in text.split("\n") if not _REMEMBER.search(line)).strip()
    at = _instant(entry.get("timestamp"))
    when = str(entry.get(KEYED_BY) or (at.isoformat() if at is not None else entry.get("uuid")))
    origin = entry.get("forkedFrom")
    parent = origin.get("sessionId") if isinstance(origin, dict) else None
    copied_from = "" if "forkedFrom" not in entry else parent if isinstance(parent, str) and parent else "unknown"

    def turn(said: str, key: str, *, is_remembered: bool = False) -> Turn:
        masked = said.count(BLOCK_MASK) if blocks else 0
        return Turn(speaker, said, at, key, is_remembered, copied_from, masked)

    turns = [
        turn(_SKIP.sub("", line).strip(), f"remember\0{when}\0{line}", is_remembered=True)
        for line in lines
        if _SKIP.sub("", line).strip()
    ]
    if text and not is_skipping:
        turns.append(turn(text, f"{speaker}\0{when}\0{text}"))
    return turns, is_skipping


def _read_text(content: object, *, is_user: bool) -> str | None:
    """Return the text of a message without what is private or not said by anybody; None for what a tool answered."""
    if isinstance(content, str):
        parts = [content]
    elif isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict)]
        if any(block.get("type") == "tool_result" for block in blocks):
            return None
        parts = [text for block in blocks if block.get("type") == "text" and isinstance(text := block.get("text"), str)]
    else:
        return None
    parts = [without_surrogates(part[:MAX_PART_CHARS]).replace("\0", "") for part in parts]
    if _CLIENT_TEXT.match("\n\n".join(parts).lstrip()):
        return None
    whole = "\n\n".join(_without_blocks(part, is_user=is_user) for part in parts)
    text = _PRIVATE.sub("", whole).strip()
    return None if _CLIENT_TEXT.match(text) else text or None


def _without_blocks(text: str, *, is_user: bool) -> str:
    """Return *text* without the blocks that a client put into it, such as ``<ide_selection>``.

    Editors and extensions have tags of their own, with ``_`` or ``-`` in the name, around what they take from a file or a page. A block
    ends at the last closing tag of its name: a file may hold one as well, and what follows there is no word of the user's. A tag that
    nothing closes hides the rest where it is one that clients are known to use; others, ``<branch-name>``, are a word like any other.
    """
    tags = [
        tag for tag in _TAG.finditer(text) if tag[2] in _CLIENT_TAGS or (is_user and ("_" in tag[2] or "-" in tag[2]))
    ]
    ends = {tag[2]: tag.end() for tag in tags if tag[1]}
    pieces: list[str] = []
    position = 0
    for tag in tags:
        if tag[1] or tag.start() < position:
            continue
        end = ends.get(tag[2], 0)
        if end < tag.end():
            if tag[2] not in _CLIENT_TAGS:
                continue
            end = len(text)
        pieces.append(text[position : tag.start()])
        position = end
    return "".join(pieces) + text[position:]


def _instant(value: object) -> dt.datetime | None:
    """Return an entry's instant in UTC; None for what is none, or none at which anything was said."""
    if not isinstance(value, str):
        return None
    try:
        instant = dt.datetime.fromisoformat(value)
        instant = (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):  # a zone can lead out of the years that there are
        return None
    return instant if instant > _EPOCH else None
