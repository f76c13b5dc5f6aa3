"""What a capture leaves where something fails in it: what stands in the memory is noted as stored, or it would come back when forgotten."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infinite_memory.engine.types import NewMemory
from infinite_memory.errors import InfiniteMemoryError, StoreError
from infinite_memory.hooks.capture import Capture
from infinite_memory.hooks.control import Control
from infinite_memory.hooks.ledger import Ledger
from infinite_memory.hooks.projects import Project
from infinite_memory.hooks.sessions import Reading, Sessions
from infinite_memory.models import content_hash
from tests.hook_sessions import HookSession
from tests.mongo_server import run


@dataclasses.dataclass
class Memories:
    """Memories by their ids; those of some texts cannot be stored for a while."""

    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    refused: set[str] = dataclasses.field(default_factory=set)
    said_by: dict[str, tuple[str | None, str | None]] = dataclasses.field(default_factory=dict)

    async def make_ids(self, content: str) -> list[str]:
        return [hashlib.sha256(content.encode()).hexdigest()[:24]]

    async def stream(self, scope: Any) -> AsyncIterator[Any]:
        for one, text in self.texts.items():
            speaker, conversation_id = self.said_by[one]
            yield SimpleNamespace(speaker=speaker, content_hash=content_hash(text), conversation_id=conversation_id)

    async def find_taken(self, scope: Any, ids: Sequence[str]) -> dict[str, None]:
        return {one: None for one in ids if one in self.texts}

    async def store_each(self, new: Sequence[NewMemory]) -> list[Any]:
        for one in new:
            if one.text not in self.refused and one.memory_id is not None:
                self.texts[one.memory_id] = one.text
                self.said_by[one.memory_id] = one.speaker, one.conversation_id
        return [StoreError("not now") if one.text in self.refused else one for one in new]


class Home:
    """A home with a session in which two things were said."""

    def __init__(self, folder: Path) -> None:
        self.home, self.memories = folder / "home", Memories()
        self.session = HookSession(folder / "project", folder / "transcripts")
        self.session.say("My test was positive", "I am sorry to hear that")

    def fork(self, *, of: HookSession) -> HookSession:
        """Return a session that begins with copies of another's entries, which have new instants."""
        fork = HookSession(self.session.project, self.session.transcript.parent)
        for line in of.transcript.read_text().splitlines():
            told = json.loads(line)
            mark = {"sessionId": of.session_id, "messageUuid": told["uuid"]}
            fork.write(fork.entry(told["type"], told["message"]["content"], forkedFrom=mark))
        return fork

    def capture(self, session: HookSession | None = None) -> None:
        """Read a transcript, of *session* from where it was left, else from its beginning, as after a failure."""
        scope = SimpleNamespace(scope_id="5" * 24)

        async def open_scope(name: str) -> Any:
            return scope

        engine: Any = SimpleNamespace(memories=self.memories, scopes=SimpleNamespace(open=open_scope))
        of = session or self.session
        reading = Reading(of.session_id, str(of.transcript), str(of.project))
        if session is not None:
            reading = Sessions(self.home).reading(of.session_id, str(of.transcript), str(of.project))
        project = Project(self.session.project, "project")
        run(Capture(Sessions(self.home)).capture(engine, reading, project, Control(), stores=True))

    def forget(self, text: str) -> None:
        """Remove for good."""
        self.memories.texts = {one: said for one, said in self.memories.texts.items() if said != text}

    def said(self) -> set[str]:
        """Return the texts that are remembered."""
        return set(self.memories.texts.values())


def test_where_ids_cannot_be_noted_nothing_is_stored_and_what_is_forgotten_later_stays_away(tmp_path: Path) -> None:
    one = Home(tmp_path)
    in_the_way = Ledger(one.home, one.session.project)._path
    in_the_way.parent.mkdir(parents=True)
    in_the_way.symlink_to("nowhere")  # it is not written through a link
    with pytest.raises(OSError, match="ids"):
        one.capture()
    assert one.said() == set()
    in_the_way.unlink()
    one.capture()
    assert one.said() == {"My test was positive", "I am sorry to hear that"}
    one.forget("My test was positive")
    one.capture()
    assert one.said() == {"I am sorry to hear that"}


def test_what_was_stored_beside_something_that_could_not_be_stays_away_once_it_was_forgotten(tmp_path: Path) -> None:
    one = Home(tmp_path)
    one.memories.refused = {"I am sorry to hear that"}
    with pytest.raises(InfiniteMemoryError, match="not now"):
        one.capture()
    assert one.said() == {"My test was positive"}
    one.forget("My test was positive")
    one.memories.refused = set()
    one.capture()
    assert one.said() == {"I am sorry to hear that"}


@pytest.mark.parametrize("way", ["forgotten for good", "changed"])
def test_a_fork_whose_parents_note_is_gone_stores_nothing_twice_and_what_is_new(way: str, tmp_path: Path) -> None:
    one = Home(tmp_path)
    one.capture()
    if way == "changed":
        one.memories.texts = dict.fromkeys(one.memories.texts, "what the user made of it")
    else:
        one.forget("My test was positive")
    before = dict(one.memories.texts)
    shutil.rmtree(one.home / "hooks" / "sessions")
    fork = one.fork(of=one.session)
    fork.say("Shall we go for a walk?", "I am sorry to hear that")
    one.capture(fork)
    new = {id_: text for id_, text in one.memories.texts.items() if id_ not in before}
    assert sorted(new.values()) == ["I am sorry to hear that", "Shall we go for a walk?"]


def test_what_was_said_twice_in_a_parent_that_was_never_read_is_stored_twice_from_its_fork(tmp_path: Path) -> None:
    one = Home(tmp_path)
    for question in ("Is it raining?", "Is it cold?"):
        one.session.say(question, "yes")
    fork = one.fork(of=one.session)
    lines = fork.transcript.read_bytes().splitlines(keepends=True)
    for end in (4, 6):  # two events, one after another
        fork.transcript.write_bytes(b"".join(lines[:end]))
        one.capture(fork)
    assert sorted(one.memories.texts.values()).count("yes") == 2
    one.capture(fork)
    assert len(one.memories.texts) == 6
