"""Fields of a kind that no program writes cost the record in which they stand, and nothing else of the import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.transfer.formats import Entry, Incoming, chatgpt, front_matter, notes
from infinite_memory.transfer.formats.reading import UNREADABLE
from infinite_memory.transfer.formats.types import Json
from tests.import_files import left_out, memories, read_entries, write_files

ODD = (["x"], {"x": 1}, 1.5, True, None)


def chat(number: int, **node: Any) -> Json:
    """Return a conversation of ChatGPT, of whose second node some fields are replaced."""

    def message(key: str) -> Json:
        content = {"content_type": "text", "parts": [f"{key} {number}"]}
        return {"id": f"{key} {number}", "author": {"role": "user"}, "create_time": 1_700_000_000, "content": content}

    first = {"parent": None, "message": message("a")}
    return {
        "conversation_id": f"c{number}",
        "current_node": "b",
        "mapping": {"a": first, "b": {"parent": "a", "message": message("b")} | node},
    }


def claude_chat(number: int, name: object = "artifacts") -> Json:
    """Return a conversation of Claude with an artifact that the tool *name* writes."""
    block = {"type": "tool_use", "name": name, "input": {"content": f"artifact {number}"}}
    message = {
        "uuid": f"m{number}",
        "text": f"hi {number}",
        "sender": "human",
        "content": [{"type": "text", "text": f"hi {number}"}, block],
    }
    return {"uuid": f"u{number}", "created_at": "2025-01-01T00:00:00Z", "chat_messages": [message]}


def texts(entries: list[Entry]) -> list[str]:
    return [one.text for one in memories(entries)]


@pytest.mark.parametrize("odd", ODD)
def test_a_node_of_chatgpt_with_an_odd_parent_ends_no_import(tmp_path: Path, odd: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps([chat(0), chat(1, parent=odd), chat(2)]))
    assert {"a 0", "b 0", "b 1", "a 2", "b 2"} <= set(texts(read_entries(tmp_path / "a.json")[1]))


@pytest.mark.parametrize("odd", ODD)
def test_a_block_of_claude_with_an_odd_tool_ends_no_import(tmp_path: Path, odd: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps([claude_chat(0), claude_chat(1, odd), claude_chat(2)]))
    assert texts(read_entries(tmp_path / "a.json")[1]) == ["hi 0", "artifact 0", "hi 1", "hi 2", "artifact 2"]


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp x",
        "!!bool x",
        "!!int ''",
        "!!float ''",
        "!!int x",
        "!!binary x",
        "!!float x",
        "!!set x",
        "!!omap x",
        "!!pairs x",
    ],
)
def test_a_note_whose_front_matter_is_not_what_its_tag_says_is_taken_without_it(tmp_path: Path, value: str) -> None:
    front = f"---\ntitle: {value}\n---\nThe body"
    _, entries = read_entries(write_files(tmp_path, {"a.md": "one", "b.md": front, "c.md": "three"}))
    assert texts(entries) == ["one", "The body", "three"]
    assert all("is taken without it" in why for why in left_out(entries))


def test_what_a_reader_does_not_foresee_ends_its_own_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unforeseen(chatgpt._Conversation):
        def _thread(self) -> list[str]:
            if self._id == "c1":
                raise KeyError("SECRET")
            return super()._thread()

    monkeypatch.setattr(chatgpt, "_Conversation", Unforeseen)
    (tmp_path / "a.json").write_text(json.dumps([chat(0), chat(1), chat(2)]))
    _, entries = read_entries(tmp_path / "a.json")
    assert texts(entries) == ["a 0", "b 0", "a 2", "b 2"]
    assert left_out(entries) == {UNREADABLE: 1}
    assert "KeyError" in caplog.text and "SECRET" not in caplog.text


def test_a_fault_outside_of_any_record_ends_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(text: str) -> Json:
        if "odd" in text:
            raise AssertionError
        return front_matter.parse_front_matter(text)

    monkeypatch.setattr(notes, "parse_front_matter", parse)
    files = {"a.md": "one", "b.md": "---\nodd: 1\n---\ntwo", "c.md": "three"}
    _, entries = read_entries(write_files(tmp_path, files))
    assert texts(entries) == ["one", "three"]
    assert left_out(entries) == {UNREADABLE: 1}


def test_a_field_that_no_check_foresees_costs_its_own_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(message: Json) -> chatgpt._Said:
        return chatgpt._Said("odd", kind=1) if "b 1" in str(message) else read_message(message)  # type: ignore[arg-type]

    read_message = chatgpt._read_message
    monkeypatch.setattr(chatgpt, "_read_message", read)
    (tmp_path / "a.json").write_text(json.dumps([chat(0), chat(1), chat(2)]))
    _, entries = read_entries(tmp_path / "a.json")
    assert texts(entries) == ["a 0", "b 0", "a 1", "a 2", "b 2"]
    assert all(isinstance(one, Incoming) or one.where == "message b of conversation 2" for one in entries)  # type: ignore[union-attr]
