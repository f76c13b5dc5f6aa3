"""What other programs export, as far as it is read without a memory: what is taken, and what is told to be left out."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest

from infinite_memory.transfer.export import to_markdown
from infinite_memory.transfer.formats import Incoming, chatgpt, claude, memory_servers
from infinite_memory.transfer.validation import make_id
from tests.import_files import FILES, left_out, memories, read_entries, write_files, zip_folder


def by_text(entries: list[Incoming]) -> dict[str, Incoming]:
    return {entry.text: entry for entry in entries}


def test_a_sharded_export_of_chatgpt_gives_the_thread_that_is_shown_and_tells_the_rest() -> None:
    form, entries = read_entries(FILES / "chatgpt")
    assert form == "chatgpt"
    found = by_text(memories(entries))
    assert (
        list(found)
        == [
            "Suggest a name for a small green boat",
            "Call it Petrel ([Birds](https://birds.example)). Petrels follow ships.",
            "I like it, paint the name on the stern",
            "This is the stern",
            "```python\nletters = len('Petrel')\n```",
            "Sand the stern, then two coats of white.",
            "What floats?",
            "Cork floats.",
            "No time at all",
        ]
        or "No time at all" not in found
    )
    assert found["This is the stern"].metadata == {"attachments": ["stern.jpg"]}
    cited = found["Call it Petrel ([Birds](https://birds.example)). Petrels follow ships."]
    assert cited.metadata == {"citations": [{"title": "Petrels", "url": "https://birds.example/petrel"}]}
    assert (cited.speaker, cited.conversation_id, cited.title) == ("assistant", "conv-boat", "A name for the boat")
    document = found["Sand the stern, then two coats of white."]
    assert (document.type, document.title) == ("document", "Paint plan")
    told = left_out(entries)
    assert told[chatgpt.OFF_THREAD] == 1
    assert told[chatgpt.HIDDEN] == 1
    assert told[chatgpt.REASONING] == 1
    assert told[chatgpt.TOOL] == 1
    assert told[chatgpt.ONLY_MEDIA] == 1
    assert told["its create_time is not a time such as 2024-03-01T09:30:00Z"] == 1
    assert sum("form" in why or "read" in why for why in told) >= 1  # chat.html, user.json, message_feedback.json


def test_a_message_without_a_time_has_that_of_its_conversation_or_none(tmp_path: Path) -> None:
    _, entries = read_entries(FILES / "chatgpt" / "conversations-001.json")
    [one] = memories(entries)
    assert one.occurred_at == dt.datetime.fromtimestamp(1700002000, dt.UTC)


def test_messages_without_an_id_have_ids_of_their_own() -> None:
    _, entries = read_entries(FILES / "chatgpt" / "conversations-000.json")
    ids = [make_id(one) for one in memories(entries)]
    assert len(set(ids)) == len(ids)
    assert len({one.conversation_id for one in memories(entries)}) == 2


@pytest.mark.parametrize("name", ["chatgpt", "claude", "openmemory", "vault", "basic-memory"])
@pytest.mark.parametrize("prefix", ["", "download/"])
def test_an_archive_is_read_as_its_folder(tmp_path: Path, name: str, prefix: str) -> None:
    form, entries = read_entries(FILES / name)
    zipped_form, zipped = read_entries(zip_folder(FILES / name, tmp_path / "download.bin", prefix))
    assert zipped_form == form
    assert sorted(make_id(one) for one in memories(zipped)) == sorted(make_id(one) for one in memories(entries))
    assert sum(left_out(zipped).values()) == sum(left_out(entries).values())


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("chatgpt/conversations-001.json", "chatgpt"),
        ("claude/conversations.json", "claude"),
        ("claude/memories.json", "claude"),
        ("claude/projects/p-1.json", "claude"),
        ("mem0-results.json", "mem0"),
        ("mem0-memories.json", "mem0"),
        ("openmemory/memories.json", "openmemory"),
        ("mcp-memory-service.json", "mcp-memory-service"),
        ("server-memory.jsonl", "server-memory"),
        ("server-memory-graph.json", "server-memory"),
    ],
)
def test_formats_are_known_by_what_files_hold_and_not_by_their_names(tmp_path: Path, name: str, form: str) -> None:
    shutil.copy(FILES / name, tmp_path / "data.txt")
    found, entries = read_entries(tmp_path / "data.txt")
    assert found == form
    assert memories(entries)


def test_claude_gives_messages_attachments_artifacts_projects_and_what_it_remembered() -> None:
    form, entries = read_entries(FILES / "claude")
    assert form == "claude"
    found = by_text(memories(entries))
    assert {
        "Plan a bed for beans", "Clay, a little acid, wet in spring.", "Lime the clay first.", "# Bean plan\n\nSow in May.",
        "And peas?", "Peas go in March.", "Which way?", "South.", "Grows beans on clay.", "The bed faces south.",
        "Garden: All about the bed", "Answer in metres.", "Beans: two packets.",
    } == set(found)  # fmt: skip
    assert found["Plan a bed for beans"].metadata == {"attachments": ["soil.txt", "bed.png"]}
    assert found["Clay, a little acid, wet in spring."].title == "soil.txt"
    assert found["# Bean plan\n\nSow in May."].title == "Bean plan"
    assert found["Lime the clay first."].metadata == {"citations": [{"url": "https://beans.example", "title": "Beans"}]}
    assert found["Beans: two packets."].metadata == {"project": "Garden"}
    assert left_out(entries) == {
        claude.REASONING: 1, claude.TOOL: 2, claude.ARTIFACT_CHANGE: 1, claude.ONLY_MEDIA: 1, claude.OFF_THREAD: 1,
        claude.ACCOUNT: 1,
    }  # fmt: skip
    assert len({make_id(one) for one in found.values()}) == len(found)


def test_openmemory_gives_live_memories_alone() -> None:
    _, entries = read_entries(FILES / "openmemory")
    [one] = memories(entries)
    assert (one.text, one.tags, one.owners, one.metadata) == (
        "Bakes on Sundays", ("food",), {"user_id": "ada"}, {"n": 1, "app": "cursor"},
    )  # fmt: skip
    told = left_out(entries)
    assert (told[memory_servers.DELETED], told[memory_servers.ARCHIVED]) == (1, 1)


def test_mem0_gives_memories_and_relations() -> None:
    _, entries = read_entries(FILES / "mem0-results.json")
    assert [one.text for one in memories(entries)] == ["Prefers trains", "ada prefers trains"]
    assert memories(entries)[0].occurred_at == dt.datetime(2024, 7, 20, 8, 30, 36, 275141, dt.UTC)


def test_lines_that_hold_two_values_give_both() -> None:
    _, entries = read_entries(FILES / "server-memory.jsonl")
    assert [one.text for one in memories(entries)] == [
        "Ada: likes tea", "Chess Club is a group", "Ada founded Chess Club",
    ]  # fmt: skip


def test_a_vault_gives_visible_notes_with_their_front_matter() -> None:
    form, entries = read_entries(FILES / "vault")
    assert form == "notes"
    found = {one.title: one for one in memories(entries)}
    assert set(found) == {"Roses: red, and white", "Genève", "Broken"}
    roses = found["Roses: red, and white"]
    assert roses.tags == ("plants", "garden/summer", "flowers")
    assert roses.occurred_at == dt.datetime(2024, 5, 6, tzinfo=dt.UTC)
    assert roses.metadata == {
        "aliases": ["Rosa", 'the "queen"'], "about": "A folded text over two lines.\n", "public": "no", "time": "12:30",
        "care": {"water": "daily", "months": [3, 4]}, "path": "Roses.md",
    }  # fmt: skip
    assert roses.text.endswith("---\ntitle: this is text\n---")
    told = left_out(entries)
    assert told == {
        "is the trash: what is in it was deleted": 1,
        "is hidden": 1,
        "is filled by a program": 1,
        "is no YAML that can be read; the note is taken without it": 1,
        "its date is not a time such as 2024-03-01T09:30:00Z": 1,
        "is no text in UTF-8": 1,
    }


@pytest.mark.parametrize("title", [">\n  A folded\n  title", "|\n  A folded title", "'  A folded title '"])
def test_a_title_is_one_line_however_yaml_writes_it(tmp_path: Path, title: str) -> None:
    write_files(tmp_path, {"note.md": f"---\ntitle: {title}\n---\nthe text\n"})
    [one] = memories(read_entries(tmp_path / "note.md")[1])
    assert one.title == "A folded title"


def test_basic_memory_gives_tags_and_relations() -> None:
    form, entries = read_entries(FILES / "basic-memory")
    [one] = memories(entries)
    assert (form, one.tags) == ("basic-memory", ("drinks", "morning", "brewing"))
    assert one.metadata["relations"] == ["part_of [[Drinks]]", "pairs_with [[Chocolate Cake]]"]


def test_a_note_that_was_copied_is_the_same_note(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(FILES / "vault", tmp_path / "vault", copy_function=shutil.copyfile))
    before, after = (memories(read_entries(folder)[1]) for folder in (FILES / "vault", copy))
    assert {make_id(one) for one in before} == {make_id(one) for one in after}


@pytest.mark.parametrize(
    "front",
    [
        "a: &a [x, x]\nb: [*a, *a]",
        "a: !!python/object/apply:os.system [echo]",
        "a: " + "[" * 5000,
        "[" * 60_000,
        "a: 1\na: 2",
        "- only\n- a list",
        "a: 'never closed",
        "? [a, b]\n: c",
    ],
)
def test_front_matter_that_is_no_plain_yaml_is_told_and_the_note_is_taken(tmp_path: Path, front: str) -> None:
    write_files(tmp_path, {"note.md": f"---\n{front}\n---\nthe text\n"})
    _, entries = read_entries(tmp_path / "note.md")
    assert [one.text for one in memories(entries)] == ["the text"]
    assert ["the note is taken without it" in why for why in left_out(entries)] == [True]


@pytest.mark.parametrize("value", ["yesterday", 1e300, -1e25, "2024-13-45", True, {"a": 1}])
def test_a_time_that_cannot_be_read_is_told_and_never_invented(tmp_path: Path, value: object) -> None:
    records = [{"memory": "bad", "user_id": "a", "created_at": value}, {"memory": "good", "created_at": "2024-01-02"}]
    write_files(tmp_path, {"m.json": json.dumps({"results": records})})
    _, entries = read_entries(tmp_path / "m.json")
    assert [one.text for one in memories(entries)] == ["good"]
    assert list(left_out(entries)) == ["its created_at is not a time such as 2024-03-01T09:30:00Z"]


@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
def test_times_in_any_unit_since_1970_are_read(tmp_path: Path, unit: float) -> None:
    write_files(tmp_path, {"m.json": json.dumps([{"memory": "x", "created_at": 1_700_000_000 * unit}])})
    [one] = memories(read_entries(tmp_path / "m.json")[1])
    assert one.occurred_at == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)


@pytest.mark.parametrize("description", ["", "Trips and papers\n\nof two lines"])
def test_a_page_of_our_export_whose_scope_held_nothing_is_told_as_that(tmp_path: Path, description: str) -> None:
    scopes = [{"kind": "scope", "name": name, "description": description} for name in ("Global", "Notes")]
    memory = {"kind": "memory", "scope": "Notes", "memory_id": "6b0c02a73812a6dfa42e5501", "source": "conversation",
              "tags": [], "timestamp": "2026-03-02T00:00:00.000Z", "text": "the only note"}  # fmt: skip
    write_files(tmp_path / "notes", {f"{name}.md": page for name, page in to_markdown([*scopes, memory])})
    form, entries = read_entries(tmp_path / "notes")
    assert form == "markdown"
    assert [one.text for one in memories(entries)] == ["the only note"]
    assert left_out(entries) == {"holds a scope without memories": 1}


def test_a_folder_with_two_formats_tells_what_is_to_be_imported_by_itself(tmp_path: Path) -> None:
    shutil.copytree(FILES / "chatgpt", tmp_path / "all")
    shutil.copy(FILES / "mem0-results.json", tmp_path / "all")
    form, entries = read_entries(tmp_path / "all")
    assert form == "chatgpt"
    assert left_out(entries)["is in another form than chatgpt; import it by itself"] == 1
    assert read_entries(tmp_path / "all", "mem0")[0] == "mem0"
