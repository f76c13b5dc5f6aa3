"""What is tantivy's own in the text index: damaged files, pages, long texts, and threads; the rest is in the conformance suite."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.index.base import Spelling, TextRow
from infinite_memory.index.text import tantivy_index as text_module
from infinite_memory.index.text.files import TantivyTextFiles
from infinite_memory.index.text.queries import FEW_IDS
from infinite_memory.index.text.scoring import FLAT_LENGTH, LENGTH_ROOT, MAX_LENGTH, PASSAGES_ROOT, Found
from infinite_memory.index.text.tantivy_index import TantivyText
from infinite_memory.models import Filter, IndexRow, MemoryId
from infinite_memory.text.bm25 import K1, length_norm
from tests.unit.index.builders import DATABASE, START, memory_id, revisions, scope_id


def text_row(number: int, text: str, *, before: str = "", **more: object) -> TextRow:
    row = IndexRow(
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
        assert revisions(index) == {one: at for one, at in expected.items() if one not in map(memory_id, (9, 10))}


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
    assert revisions(index) == {memory_id(1): 4, memory_id(2): 1, memory_id(3): 1}
    assert sorted(found(index, "Moabit filler1 filler2 filler3")) == [memory_id(1), memory_id(3)]
    index.upsert([text_row(1, "green tea", revision=5)])
    index.remove([memory_id(3)])
    index.flush()
    assert found(index, "Moabit") == []
    assert revisions(index) == {memory_id(1): 5, memory_id(2): 1}


def test_one_long_text_does_not_crowd_out_others(tmp_path: Path, flushed: bool) -> None:
    everywhere = " ".join(f"lighthouse filler{number}" for number in range(60_000))
    index = make_index(tmp_path, [text_row(1, everywhere), text_row(2, long_text("a lighthouse", 2))], flushed=flushed)
    assert sorted(found(index, "lighthouse")) == [memory_id(1), memory_id(2)]


def test_codes_are_asked_for_while_memories_enter(tmp_path: Path) -> None:
    """How rare a code is, is counted over what is waiting, which grows at the same time."""
    rows = [text_row(number, f"the code is zq6x{number + 100}") for number in range(1, 1000)]
    index = make_index(tmp_path, rows, flushed=False)
    interval, entered = sys.getswitchinterval(), threading.Event()

    def enter() -> None:
        for number in range(1000, 1400):
            index.upsert([text_row(number, f"note zq{number}x{number} of the harbour")])
        entered.set()

    sys.setswitchinterval(1e-5)
    try:
        writer = threading.Thread(target=enter)
        writer.start()
        while not entered.is_set():
            assert index.read("zq6x101", Spelling.UNKNOWN).terms
        writer.join()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("count", [1, 2, FEW_IDS, FEW_IDS + 1])
def test_named_memories_alone_are_found_whether_few_or_many_are_named(count: int, tmp_path: Path) -> None:
    index = make_index(tmp_path, [text_row(n, f"tea number {n}") for n in range(FEW_IDS + 10)], flushed=True)
    named = frozenset(memory_id(n) for n in range(5, 5 + count))
    whole = {hit.memory_id: hit for hit in index.search(index.read("tea", Spelling.EXACT), FEW_IDS + 10, Filter())}
    hits = index.search(index.read("tea", Spelling.EXACT), FEW_IDS + 10, Filter(memory_ids=named))
    assert {hit.memory_id for hit in hits} == named
    assert all(hit == whole[hit.memory_id] for hit in hits)


def test_scores_that_are_evened_out_together_are_those_of_each_alone() -> None:
    scores, lengths, passages, mean, most = [4.0, 4.0, 3.5, 1.0], [5, 90, 200, 60], [1, 1, 3, 2], 40.0, 6.0
    normalized = Found([memory_id(n) for n in range(4)], scores, lengths, passages).normalize(mean, most)
    for at, (score, length, count) in enumerate(zip(scores, lengths, passages, strict=True)):
        whole = score * (1 + length_norm(float(length), mean))
        capped = 1 + length_norm(min(length, MAX_LENGTH * mean), mean)
        discount = max(1.0, length / FLAT_LENGTH) ** -LENGTH_ROOT * count**-PASSAGES_ROOT
        assert normalized.scores[at] == pytest.approx(whole / capped * discount, rel=1e-12)
        assert normalized.coverages[at] == pytest.approx(min(1.0, whole / (most * (K1 + 1))), rel=1e-12)
    assert list(Found().normalize(mean, most).scores) == []
    assert list(Found([memory_id(1)], [2.0], [5], [1]).normalize(mean, 0.0).coverages) == [0.0]


@pytest.mark.parametrize("is_bound", [True, False])
def test_what_others_remove_changes_neither_how_rare_words_are_nor_how_sure_a_hit_is(
    tmp_path: Path, is_bound: bool
) -> None:
    own = [
        "The budget meeting is on Friday",
        "I like green tea in the morning",
        "My dog Rex barks",
        "Paris was in March",
    ]
    others = [f"note {number} about budgets, meetings and Friday" for number in range(20)]
    rows = [text_row(number, text) for number, text in enumerate(own)]
    rows += [text_row(100 + number, text, scope_id=scope_id(2)) for number, text in enumerate(others)]
    index = make_index(tmp_path, rows, flushed=True)
    mine = Filter(scope_ids=frozenset({scope_id(1)}))

    def answers() -> list[tuple[MemoryId, float, float]]:
        questions = ("the desk and the budget", "a meeting on Friday about zebras", "green tea with a friend")
        read = [index.read(one, Spelling.EXACT, mine if is_bound else None) for one in questions]
        return [(hit.memory_id, hit.score, hit.coverage) for one in read for hit in index.search(one, 5, mine)]

    before = answers()
    assert before
    index.remove([memory_id(100 + number) for number in range(19)])
    index.flush(b"token")
    for (one, score, coverage), (former, former_score, former_coverage) in zip(answers(), before, strict=True):
        assert one == former
        assert (score, coverage) == pytest.approx((former_score, former_coverage), rel=0.1)
