"""The text index finds what was written at once, keeps to filters, and believes no damaged file."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.models import Filter, MemoryId, Row, TagsMode, TimeRange
from infinite_memory.sidecar import text as text_module
from infinite_memory.sidecar.base import Spelling, TextRow
from infinite_memory.sidecar.text import TantivyText
from infinite_memory.sidecar.text_files import TantivyTextFiles
from tests.unit.sidecar.builders import DATABASE, START, memory_id, scope_id


def text_row(number: int, text: str, *, before: str = "", **more: object) -> TextRow:
    row = Row(
        memory_id(number), scope_id(1), 1, START + dt.timedelta(days=number), START, frozenset(), "conversation",
        None, None, None, None, None, None,
    )  # fmt: skip
    return TextRow(dataclasses.replace(row, **more), text, None, (), before)  # type: ignore[arg-type]


def found(
    index: TantivyText, question: str, where: Filter | None = None, spelling: Spelling = Spelling.UNKNOWN
) -> list[MemoryId]:
    return [hit.memory_id for hit in index.search(index.read(question, spelling), 10, where or Filter())]


@pytest.fixture(params=["waiting", "flushed"])
def flushed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "flushed")


def make_index(folder: Path, rows: list[TextRow], *, flushed: bool) -> TantivyText:
    index = TantivyTextFiles(folder).create(DATABASE)
    index.upsert(rows)
    if flushed:
        index.flush(b"token")
    return index


def test_words_phrases_and_slips_are_found_before_and_after_a_flush(tmp_path: Path, flushed: bool) -> None:
    rows = [
        text_row(1, "the quick brown fox"),
        text_row(2, "a brown bear, quick to run"),
        text_row(3, "see src/app/main.py"),
    ]
    index = make_index(tmp_path, rows, flushed=flushed)
    assert found(index, '"quick brown"')[0] == memory_id(1)
    assert found(index, "running bears")[0] == memory_id(2)
    assert found(index, "main.py") == [memory_id(3)]
    assert found(index, "brwon") == found(index, "brown")
    assert found(index, "brwon", spelling=Spelling.EXACT) == []


def test_a_change_replaces_and_a_removal_hides(tmp_path: Path, flushed: bool) -> None:
    index = make_index(tmp_path, [text_row(1, "green tea"), text_row(2, "green apples")], flushed=flushed)
    index.upsert([text_row(1, "black coffee", revision=2)])
    index.remove([memory_id(2)])
    assert found(index, "green") == []
    assert found(index, "coffee") == [memory_id(1)]
    assert index.count() == 1
    index.flush()
    assert found(index, "green") == []
    assert dict(index.revisions()) == {memory_id(1): 2}


def test_what_was_said_just_before_is_searched_but_is_no_share_of_the_text(tmp_path: Path, flushed: bool) -> None:
    index = make_index(tmp_path, [text_row(1, "Yes, I loved it", before="Did you try pottery?")], flushed=flushed)
    wording = index.read("pottery", Spelling.EXACT)
    assert [hit.memory_id for hit in index.search(wording, 5, Filter())] == [memory_id(1)]
    assert index.share(wording, "Yes, I loved it") == 0.0
    assert index.share(wording, "pottery class") == pytest.approx(1.0)


FILTERS = [
    Filter(scope_ids=frozenset({scope_id(1)})),
    Filter(scope_ids=frozenset()),
    Filter(tag_keys=frozenset({"a", "b"})),
    Filter(tag_keys=frozenset({"a", "b"}), tags_mode=TagsMode.ANY),
    Filter(time=TimeRange(START + dt.timedelta(days=2), START + dt.timedelta(days=3))),
    Filter(time=TimeRange(None, START + dt.timedelta(days=2))),
    Filter(source="summary"),
    Filter(type="fact"),
    Filter(speaker="ADA"),
    Filter(conversation_id="C1"),
    Filter(min_importance=5.0),
    Filter(min_stored_confidence=0.5),
    Filter(memory_ids=frozenset({memory_id(3), memory_id(9)})),
    Filter(speaker="ada", tag_keys=frozenset({"a"})),
]


@pytest.mark.parametrize("where", FILTERS)
def test_filters_pass_the_same_before_and_after_a_flush(tmp_path: Path, where: Filter) -> None:
    rows = [
        text_row(1, "tea", tag_keys=frozenset({"a"}), source="summary", speaker="Ada"),
        text_row(2, "tea", tag_keys=frozenset({"a", "b"}), type="fact", importance=7.0),
        text_row(3, "tea", scope_id=scope_id(2), conversation_id="c1", confidence=0.9),
        text_row(4, "tea", scope_id=scope_id(3), importance=1.0, confidence=0.1),
    ]
    waiting, written = (make_index(tmp_path / name, rows, flushed=name == "written") for name in ("waiting", "written"))
    for index in (waiting, written):
        index.set_archived([scope_id(3)])
    assert sorted(found(waiting, "tea", where)) == sorted(found(written, "tea", where))
    assert memory_id(4) not in found(written, "tea", where)


def test_a_saved_index_comes_back_with_its_token(tmp_path: Path) -> None:
    make_index(tmp_path, [text_row(1, "green tea")], flushed=True)
    index, token = TantivyTextFiles(tmp_path).load(DATABASE)
    assert token == b"token"
    assert found(index, "tea") == [memory_id(1)]


def test_another_store_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    index = make_index(tmp_path, [text_row(1, "green tea")], flushed=True)
    with pytest.raises(SidecarDamagedError, match="another store"):
        TantivyTextFiles(tmp_path).load("database-two")
    victim = next(index.folder.glob("*.idx"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(data)
    with pytest.raises(SidecarDamagedError, match="not what was written"):
        TantivyTextFiles(tmp_path).load(DATABASE)


def test_a_new_generation_leaves_no_old_one(tmp_path: Path) -> None:
    files = TantivyTextFiles(tmp_path)
    make_index(tmp_path, [text_row(1, "green tea")], flushed=True)
    fresh = files.create(DATABASE)
    fresh.flush()
    files.settle(fresh)
    assert [folder.name for folder in tmp_path.iterdir()] == [fresh.folder.name]


def test_revisions_are_listed_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index(tmp_path, [text_row(number, f"word {number}") for number in range(50)], flushed=True)
    index.upsert([text_row(7, "a change that waits", revision=3), text_row(60, "one more")])
    index.remove([memory_id(9)])
    index.flush()
    index.upsert([text_row(8, "another", revision=2)])
    index.remove([memory_id(10)])
    expected = {memory_id(number): 1 for number in (*range(50), 60)} | {memory_id(7): 3, memory_id(8): 2}
    for page in (1, 7, 1000):
        monkeypatch.setattr(text_module, "PAGE", page)
        assert dict(index.revisions()) == {
            one: at for one, at in expected.items() if one not in map(memory_id, (9, 10))
        }


def long_text(fact: str, seed: int, words: int = 8000) -> str:
    """Write a long text of words that nobody asks for, with *fact* in its middle."""
    some = np.random.default_rng(seed).integers(0, 4000, words)
    filler = [f"filler{number}" for number in some.tolist()]
    return " ".join([*filler[: words // 2], fact, *filler[words // 2 :]])


FACT = "the office party will be at the bowling alley in Moabit"


def test_a_fact_in_a_long_text_is_found_before_memories_that_have_a_word_of_it(tmp_path: Path, flushed: bool) -> None:
    """Found by a new user: among short memories, minutes of 46 KB were as good as not there."""
    short = [
        text_row(number, f"the {word} is number {number}") for number in range(2, 60) for word in ("bowling", "tea")
    ]
    index = make_index(tmp_path, [text_row(1, long_text(FACT, 1)), *short], flushed=flushed)
    assert found(index, "where is the party at the bowling alley in Moabit?")[0] == memory_id(1)
    assert found(index, '"bowling alley in Moabit"')[0] == memory_id(1)
    [best, *_] = index.search(index.read("bowling alley Moabit", Spelling.EXACT), 5, Filter())
    assert (best.memory_id, best.coverage) == (memory_id(1), pytest.approx(1.0, abs=0.05))


def test_a_long_text_is_one_memory(tmp_path: Path, flushed: bool) -> None:
    rows = [text_row(1, long_text(FACT, 1), revision=4), text_row(2, "tea at four"), text_row(3, long_text(FACT, 2))]
    index = make_index(tmp_path, rows, flushed=flushed)
    assert (index.count(), index.count(Filter(scope_ids=frozenset({scope_id(1)})))) == (3, 3)
    assert dict(index.revisions()) == {memory_id(1): 4, memory_id(2): 1, memory_id(3): 1}
    assert sorted(found(index, "Moabit filler1 filler2 filler3")) == [memory_id(1), memory_id(3)]
    index.upsert([text_row(1, "green tea", revision=5)])
    index.remove([memory_id(3)])
    index.flush()
    assert found(index, "Moabit") == []
    assert dict(index.revisions()) == {memory_id(1): 5, memory_id(2): 1}


def test_one_long_text_does_not_crowd_out_others(tmp_path: Path, flushed: bool) -> None:
    everywhere = " ".join(f"lighthouse filler{number}" for number in range(60_000))
    index = make_index(tmp_path, [text_row(1, everywhere), text_row(2, long_text("a lighthouse", 2))], flushed=flushed)
    assert sorted(found(index, "lighthouse")) == [memory_id(1), memory_id(2)]
