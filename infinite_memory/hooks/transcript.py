"""Reads a transcript of Claude Code, Codex or Gemini CLI (JSON Lines) from the last offset: only what was said.

Skipped: tool calls and results, reasoning, text inserted by the client program (reminders, file excerpts added by an editor, output of
local commands, compaction summaries, API errors), sidechains of subagents, and what we recalled into the session ourselves. A line of
the user with ``#remember`` becomes its own memory; ``#skip`` in a prompt skips it and the answers to it; text between ``<private>`` and
``</private>`` is removed. Secrets that span lines are masked here, before the text is split.

A turn's key consists of its speaker, timestamp and text, which stay the same when a session is resumed, forked or compacted; its
uuid does not. The formats are internal to their programs, so an unknown entry is skipped and counted; transcripts in other formats
than Claude Code's are converted to it first (`transcript_forms`).
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
MAX_LINE_BYTES = 32 << 20  # a longer line (tool output with images) is skipped
MANY_BYTES = 1 << 20  # a longer line is checked for `MAX_PARTS` before it is parsed
MAX_PARTS = 500_000
"""In a long line: images are a few long strings; parsing millions of parts blocks every other thread for seconds."""
MAX_PART_CHARS = 2_000_000  # of one text block of a message, before client blocks are removed
MAX_SAID_CHARS = 500_000
"""Read of one message: more does not fit any model's context, and matching patterns blocks every other thread too."""


USER, ASSISTANT = "user", "assistant"

_CLIENT_TAGS = frozenset(
    {"system-reminder", "infinite-memory", "user-prompt-submit-hook", "local-command-caveat", "task-notification", "ide_selection",
     "ide_opened_file", "ide_diagnostics", "browser_instruction", "pasted_content"}
)  # fmt: skip
# Names and attributes are bounded: otherwise a text of many opening tags would be scanned once per tag.
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
"""Every line that contains a turn, or the context needed to parse one, contains one of these."""

_NOT_SAID = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


class Turn(NamedTuple):
    """A message of one speaker.

    ``is_remembered`` marks a ``#remember`` line; ``copied_from`` is the session from which a fork copied the entry, "" for none.
    ``masked`` counts the secrets already masked in it, those that span lines.
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
        """True if a fork copied the entry from another session."""
        return bool(self.copied_from)


class Chunk(NamedTuple):
    """A part of a transcript.

    ``offset`` is where to continue, ``is_skipping`` whether a ``#skip`` still applies there, ``context`` the parser state for the
    following lines (`transcript_forms`).
    """

    turns: tuple[Turn, ...]
    offset: int
    is_skipping: bool
    unread: int
    is_last: bool
    context: Context


def read_chunk(
    path: Path, offset: int, *, is_skipping: bool = False, until: float | None = None, context: Context | None = None
) -> Chunk:
    """Read whole lines from *offset*, about `CHUNK_BYTES` of them; a line that is still being written is left for later.

    Turns after *until*, a Unix timestamp, are left too: they belong to another event, perhaps with other capture settings.

    Raises:
        OSError: the file cannot be read.
    """
    turns: list[Turn] = []
    unread, position, carried = 0, offset, dict(context or {})
    with open_regular(path) as file:
        file.seek(offset)
        while position - offset < CHUNK_BYTES:
            line = file.readline(MAX_LINE_BYTES)
            if not line:
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=carried)
            if not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                unread, position = unread + 1, file.tell()
                continue
            entry = _parse(line, carried)
            if entry is None and not line.endswith(b"\n"):
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=carried)
            if entry is None:
                unread, position = unread + bool(line.strip()), position + len(line)
                continue
            new_turns, skips = _turns(entry, is_skipping=is_skipping)
            if until is not None and new_turns and _is_later(new_turns[0], until):
                return Chunk(tuple(turns), position, is_skipping, unread, is_last=True, context=carried)
            turns += new_turns
            is_skipping, position = skips, position + len(line)
    return Chunk(tuple(turns), position, is_skipping, unread, is_last=False, context=carried)


def _is_later(turn: Turn, until: float) -> bool:
    """True if a turn was said after *until*. A timestamp in the future is ignored: it would block everything after it."""
    return turn.at is not None and until < turn.at.timestamp() <= time.time()


def _parse(line: bytes, context: Context) -> Json | None:
    if not any(word in line for word in _SAYING) and line.endswith(b"}\n"):
        return {}  # not a turn: most bytes of a transcript need no parsing
    if len(line) > MANY_BYTES and sum(map(line.count, (b",", b"[", b"{", b"\\"))) > MAX_PARTS:
        return {} if b'"tool_result"' in line else None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return to_entry(value, context) if isinstance(value, dict) else None


def read_saying(speaker: str, text: str, at: float, key: str, *, is_skipping: bool) -> tuple[list[Turn], bool]:
    """Return the turns of a text from a client's event, and whether a ``#skip`` applies after it.

    Args:
        at: When it was said, as a Unix timestamp.
        key: Replaces the timestamp in the turn's key; "" to use the timestamp.
    """
    when = dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds")
    entry = {"type": speaker, "timestamp": when, KEYED_BY: key, "message": {"content": text}}
    return _turns(entry, is_skipping=is_skipping)


def _turns(entry: Json, *, is_skipping: bool) -> tuple[list[Turn], bool]:
    """Return the turns of an entry, and whether a ``#skip`` applies after it."""
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
    """Return the text of a message without private and client-inserted parts; None for a tool result, or if nothing remains."""
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
    """Return *text* without the blocks inserted by a client, such as ``<ide_selection>``.

    Editors and extensions wrap excerpts of files and pages in their own tags, with ``_`` or ``-`` in the name. A block ends at the last
    closing tag of its name: the excerpt may contain one too, and what follows that is not the user's text. An unclosed tag hides the
    rest if it is a known client tag; others, such as ``<branch-name>``, are ordinary words.
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
    """Return an entry's timestamp in UTC; None if it is invalid or not after 1970."""
    if not isinstance(value, str):
        return None
    try:
        instant = dt.datetime.fromisoformat(value)
        instant = (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):  # an offset can move it out of the supported years
        return None
    return instant if instant > _EPOCH else None
