"""Conversations with judged questions as sessions of an assistant.

A folder holds ``memories.jsonl`` (``id``, ``text``, ``timestamp``, ``tags`` with ``speaker:`` and ``session:``, ``scope``) and
``queries.jsonl`` (``text``, ``relevant``, ``scope``). Who speaks first in a scope is the user, the other the assistant. Where they
bear names a question is put as the user would: the user's name becomes "I", the other's "you".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ROLES = frozenset({"user", "assistant"})


@dataclass(frozen=True)
class Turn:
    """What one side said, and the data's id of it."""

    turn_id: str
    speaker: str
    text: str
    at: str


@dataclass(frozen=True)
class Question:
    """A question and the ids of the turns that answer it.

    ``half`` parts a set in two, to see how much its figures vary.
    """

    text: str
    relevant: frozenset[str]
    project: str
    half: int = 1


@dataclass
class Conversations:
    """Sessions by project, each a list of turns; and the questions about them."""

    sessions: dict[str, list[list[Turn]]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


def load(folder: Path) -> Conversations:
    """Read a data set."""
    found = Conversations()
    speakers: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for one in _lines(folder / "memories.jsonl"):
        project = str(one["scope"])
        name = _tag(one["tags"], "speaker:")
        known = speakers.setdefault(project, [])
        if name not in known:
            known.append(name)
        speaker = name if name in ROLES else ("user", "assistant")[min(1, known.index(name))]
        session = _tag(one["tags"], "session:")
        sessions = found.sessions.setdefault(project, [])
        if last.get(project) != session:
            sessions.append([])
            last[project] = session
        sessions[-1].append(Turn(str(one["id"]), speaker, str(one["text"]), str(one["timestamp"])))
    for one in _lines(folder / "queries.jsonl"):
        project = str(one["scope"])
        text = _as_the_user_asks(str(one["text"]), [name for name in speakers[project] if name not in ROLES])
        found.questions.append(Question(text, frozenset(map(str, one["relevant"])), project, _half(one["id"])))
    return found


def cut(sessions: Iterable[list[Turn]], turns: int) -> Iterator[list[Turn]]:
    """Cut sessions into shorter ones of so many turns, or a few more: none is cut between what the user said and the answer to it, or
    between a question and its answer, for no session of an assistant ends there and goes on in the next.
    """
    for session in sessions:
        part: list[Turn] = []
        for turn in session:
            part.append(turn)
            is_answered = turn.speaker != "user" and not turn.text.rstrip(" )\"'”").split(" [shares")[
                0
            ].rstrip().endswith("?")
            if len(part) >= turns and is_answered:
                yield part
                part = []
        if part:
            yield part


def _as_the_user_asks(text: str, names: list[str]) -> str:
    for name, (own, plain) in zip(names, (("my", "I"), ("your", "you")), strict=False):
        text = re.sub(rf"\b{re.escape(name)}'s\b", own, text)
        text = re.sub(rf"\b{re.escape(name)}\b", plain, text)
    return text


def _half(question_id: str) -> int:
    return int(hashlib.md5(question_id.encode(), usedforsecurity=False).hexdigest(), 16) % 2


def _tag(tags: Iterable[str], prefix: str) -> str:
    return next(tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix))


def _lines(file: Path) -> Iterator[Json]:
    for line in file.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
