"""What a capture leaves where something fails in it: what stands in the memory is noted as stored, or it would come back when forgotten."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
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
from tests.hook_sessions import HookSession
from tests.mongo_server import run


@dataclasses.dataclass
class Memories:
    """Memories by their ids; those of some texts cannot be stored for a while."""

    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    refused: set[str] = dataclasses.field(default_factory=set)

    async def make_ids(self, content: str) -> list[str]:
        return [hashlib.sha256(content.encode()).hexdigest()[:24]]

    async def find_taken(self, scope: Any, ids: Sequence[str]) -> dict[str, None]:
        return {one: None for one in ids if one in self.texts}

    async def store_each(self, new: Sequence[NewMemory]) -> list[Any]:
        for one in new:
            if one.text not in self.refused and one.memory_id is not None:
                self.texts[one.memory_id] = one.text
        return [StoreError("not now") if one.text in self.refused else one for one in new]


class Home:
    """A home with a session in which two things were said."""

    def __init__(self, folder: Path) -> None:
        self.home, self.memories = folder / "home", Memories()
        self.session = HookSession(folder / "project", folder / "transcripts")
        self.session.say("My test was positive", "I am sorry to hear that")

    def capture(self) -> None:
        """Read the transcript from its beginning, as after a failure."""
        scope = SimpleNamespace(scope_id="5" * 24)

        async def open_scope(name: str) -> Any:
            return scope

        engine: Any = SimpleNamespace(memories=self.memories, scopes=SimpleNamespace(open=open_scope))
        reading = Reading(self.session.session_id, str(self.session.transcript), str(self.session.project))
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
