"""What every `TextIndex` must do; runs over all implementations: before anything is in the files, after a flush, and loaded again."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from infinite_memory.errors import SidecarError, SidecarNotReadyError
from infinite_memory.index.base import Spelling, TextFiles, TextIndex, TextRow
from infinite_memory.models import Filter, IndexRow, MemoryId
from tests.processes import LONG
from tests.unit.index import filter_cases
from tests.unit.index.builders import DATABASE, START, make_row, memory_id, revisions, scope_id
from tests.unit.index.filter_cases import ARCHIVED, FILTERS, HOSTILE, ROWS

EVERYTHING = Filter()

Make = Callable[[Iterable[TextRow]], TextIndex]


@pytest.fixture
def files(open_text_files: Callable[[Path], TextFiles], tmp_path: Path) -> TextFiles:
    return open_text_files(tmp_path / "words")


@pytest.fixture(params=["waiting", "flushed", "loaded"])
def make(request: pytest.FixtureRequest, files: TextFiles) -> Iterator[Make]:
    """Return what makes an index of rows in one of the three states."""
    opened: list[TextIndex] = []

    def filled(rows: Iterable[TextRow] = ()) -> TextIndex:
        index = files.create(DATABASE)
        index.upsert(rows)
        if request.param != "waiting":
            index.flush(b"token")
            assert index.buffered == 0
        if request.param == "loaded":
            index.close()
            index, _ = files.load(DATABASE)
        opened.append(index)
        return index

    yield filled
    for index in opened:
        index.close()


def text_row(number: int, text: str, *, before: str = "", title: str | None = None, **changes: object) -> TextRow:
    row: IndexRow = dataclasses.replace(make_row(number, second=86_400 * number), **changes)  # type: ignore[arg-type]
    return TextRow(row, text, title, tuple(sorted(row.tag_keys)), before)


def found(
    index: TextIndex, question: str, where: Filter = EVERYTHING, spelling: Spelling = Spelling.UNKNOWN, k: int = 1000
) -> list[MemoryId]:
    return [hit.memory_id for hit in index.search(index.read(question, spelling), k, where)]


def ids(*numbers: int) -> list[MemoryId]:
    return list(map(memory_id, numbers))


# writing


def test_what_was_written_is_found_by_the_next_call(make: Make) -> None:
    index = make([text_row(1, "green tea")])
    index.upsert([text_row(2, "green apples")])
    assert sorted(found(index, "green")) == ids(1, 2)
    assert index.count() == 2
    index.flush()
    assert sorted(found(index, "green")) == ids(1, 2)


def test_a_change_replaces_and_a_removal_hides(make: Make) -> None:
    index = make([text_row(1, "green tea"), text_row(2, "green apples")])
    index.upsert([text_row(1, "black coffee", revision=2)])
    index.remove([*ids(2, 77), MemoryId("nonsense")])
    for _ in range(2):
        assert (found(index, "green"), found(index, "coffee")) == ([], ids(1))
        assert (index.count(), revisions(index)) == (1, {memory_id(1): 2})
        assert [index.is_current(memory_id(1), revision) for revision in (1, 2, 3)] == [True, True, False]
        assert not index.is_current(memory_id(2), 1)
        index.flush()
    index.upsert([text_row(2, "green again")])
    assert found(index, "green") == ids(2)


def test_a_removed_scope_takes_its_memories_along_and_no_others(make: Make) -> None:
    index = make(text_row(number, "tea", scope_id=scope_id(number % 2)) for number in range(6))
    index.remove_scope(scope_id(1))
    index.remove_scope(scope_id(9))
    for _ in range(2):
        assert sorted(found(index, "tea")) == sorted(revisions(index)) == ids(0, 2, 4)
        assert not index.is_current(memory_id(1), 1)
        index.flush()
    index.upsert([text_row(1, "tea", scope_id=scope_id(1))])
    assert sorted(found(index, "tea")) == ids(0, 1, 2, 4)


def test_what_changes_while_it_is_flushed_is_as_it_was_written_last(files: TextFiles) -> None:
    index = files.create(DATABASE)
    index.upsert(text_row(number, f"first harbour {number}") for number in range(300))
    thread = threading.Thread(target=index.flush)
    thread.start()
    index.upsert(text_row(number, "second lighthouse", revision=2) for number in range(0, 300, 3))
    index.remove(ids(*range(1, 300, 3)))
    thread.join()
    for _ in range(2):
        assert sorted(found(index, "lighthouse")) == ids(*range(0, 300, 3))
        assert sorted(found(index, "harbour")) == ids(*range(2, 300, 3))
        index.flush()


# words


def test_words_stems_phrases_and_codes_are_found(make: Make) -> None:
    index = make(
        [
            text_row(1, "the quick brown fox"),
            text_row(2, "a brown bear, quick to run"),
            text_row(3, "see src/app/main.py"),
        ]
    )
    assert found(index, '"quick brown"')[0] == memory_id(1)
    assert found(index, "running bears")[0] == memory_id(2)
    assert found(index, "main.py") == ids(3)
    [hit] = index.search(index.read("src/app/main.py", Spelling.EXACT), 5, EVERYTHING)
    assert hit.exact_phrase > 0
    assert found(index, "the and of") == found(index, "") == []


def test_misspelt_words_are_found_where_that_is_asked_for(make: Make) -> None:
    index = make([text_row(1, "a brown lighthouse"), text_row(2, "a green lighthouse keeper")])
    assert index.read("lihgthouse", Spelling.UNKNOWN).corrected == {"lihgthouse": "lighthouse"}
    assert sorted(found(index, "lihgthouse")) == ids(1, 2)
    assert found(index, "lihgthouse", spelling=Spelling.EXACT) == []
    assert found(index, "keeper", spelling=Spelling.ALL) == ids(2)


def test_a_long_title_is_searched_with_a_text_of_many_passages(make: Make) -> None:
    title = " ".join(f"title{number}" for number in range(500))
    index = make([text_row(1, " ".join(f"word{number}" for number in range(2000)), title=title), text_row(2, "word7")])
    for question in ("title5", "title450", "word1999", "title5 word1999"):
        assert found(index, question)[0] == memory_id(1)


def test_the_day_speaker_title_tags_and_the_turn_before_are_searched_too(make: Make) -> None:
    index = make(
        [
            text_row(1, "Yes, I loved it", before="Did you try pottery?", speaker="Margaret", title="Evening class"),
            text_row(2, "Nothing of the kind", tag_keys=frozenset({"ceramics"})),
        ]
    )
    assert found(index, "pottery") == found(index, "Margaret") == found(index, "evening class") == ids(1)
    assert found(index, "ceramics") == ids(2)
    day = START + dt.timedelta(days=2)
    assert found(index, f"{day:%A}")[:1] == ids(2)
    wording = index.read("pottery", Spelling.EXACT)
    assert (wording.share("Yes, I loved it"), wording.share("pottery class")) == (0.0, pytest.approx(1.0))


def test_rare_words_count_more_and_coverage_tells_how_much_of_the_question_is_there(make: Make) -> None:
    index = make([*(text_row(number, "common harbour") for number in range(20)), text_row(50, "unusual harbour")])
    hits = index.search(index.read("unusual common", Spelling.EXACT), 30, EVERYTHING)
    assert hits[0].memory_id == memory_id(50)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.coverage < 1 for hit in hits)
    [whole, *_] = index.search(index.read("unusual harbour", Spelling.EXACT), 30, EVERYTHING)
    assert whole.coverage == pytest.approx(1.0, abs=0.1)


def test_a_search_gives_the_best_k_and_others_only_for_a_phrase(make: Make) -> None:
    index = make(text_row(number, "tea " * (1 + number % 5)) for number in range(40))
    every = index.search(index.read("tea", Spelling.EXACT), 1000, EVERYTHING)
    assert len(every) == 40
    few = index.search(index.read("tea", Spelling.EXACT), 7, EVERYTHING)
    assert [hit.memory_id for hit in few[:7]] == [hit.memory_id for hit in every[:7]]
    assert all(hit.exact_phrase for hit in few[7:])
    assert len(few) <= 14, "seven for the words, seven for the phrase that they are together"


def test_a_long_text_is_one_memory_and_found_by_any_part_of_it(make: Make) -> None:
    filler = [f"filler{number}" for number in range(4000)]
    fact = "the bowling alley in Moabit"
    index = make([text_row(1, " ".join([*filler[:2000], fact, *filler[2000:]])), text_row(2, "tea at four")])
    assert (index.count(), revisions(index)) == (2, {memory_id(1): 1, memory_id(2): 1})
    assert found(index, "bowling in Moabit") == found(index, '"bowling alley"') == ids(1)
    index.upsert([text_row(1, "green tea", revision=2)])
    index.flush()
    assert found(index, "Moabit") == []


def test_what_is_seen_decides_alone_how_rare_words_are_and_how_they_are_spelt(make: Make) -> None:
    mine = [text_row(number, f"harbour pilot {number}") for number in range(5)]
    others = [text_row(number, "harbour piglet", scope_id=scope_id(9)) for number in range(100, 160)]
    seen = Filter(scope_ids=frozenset({scope_id(0)}))
    alone, among = make(mine), make([*mine, *others])
    for question in ("harbour pilot 3", "harbor piglett"):
        for spelling in Spelling:
            assert among.read(question, spelling, seen) == alone.read(question, spelling, seen)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("京都で抹茶を飲んだ", "抹茶"),
        ("ฉันชอบดื่มชา", "ดื่มชา"),
        ("मैंने हिन्दी में लिखा", "हिन्दी"),
        ("שלום עולם", "עולם"),
        ("Núñez met Łukasz", "nunez"),
        ("we ate 🍕 together", "🍕"),
        ("ERR_CONN_RESET at v2.14.3-rc1", "err_conn_reset"),
        ("C++ and C#", "c++"),
        ("Straße", "STRASSE"),
    ],
)
def test_words_of_all_scripts_are_found(make: Make, text: str, question: str) -> None:
    index = make([text_row(1, text), text_row(2, "something else altogether")])
    assert found(index, question, spelling=Spelling.EXACT) == ids(1)


@pytest.mark.parametrize(
    "question",
    [
        *HOSTILE,
        '"',
        '""',
        "(((",
        "a:b",
        "id:*",
        "+tea -tea",
        "tea^1e9",
        "[a TO b]",
        "/.*/",
        "~~~",
        "x" * 100_000,
        "tea " * 5000,
    ],
    ids=range(len(HOSTILE) + 12),
)
def test_no_question_is_taken_for_a_query_language(make: Make, question: str) -> None:
    index = make([text_row(1, "nothing but air"), text_row(2, f"all of it: {question}")])
    assert memory_id(1) not in found(index, question, spelling=Spelling.EXACT)
    if index.read(question, Spelling.EXACT).terms:
        assert memory_id(2) in found(index, question, spelling=Spelling.EXACT)


# filters


@pytest.fixture(scope="module", params=["waiting", "flushed", "both"])
def filled(
    request: pytest.FixtureRequest,
    open_text_files: Callable[[Path], TextFiles],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TextIndex]:
    """Return an index of `ROWS`, all of which have one word, that was filled with rows that came twice and rows that went."""
    index = open_text_files(tmp_path_factory.mktemp("filled") / "words").create(DATABASE)
    index.upsert(TextRow(make_row(number, tags=["red"], source="old"), "tea") for number in range(0, 140, 2))
    if request.param == "both":
        index.flush()
    index.upsert(TextRow(row, "tea") for row in ROWS)
    index.remove(memory_id(number) for number in range(120, 140))
    index.set_archived(ARCHIVED)
    if request.param == "flushed":
        index.flush()
    yield index
    index.close()


@settings(max_examples=200 if LONG else 60, deadline=None)
@given(where=FILTERS)
def test_a_filter_lets_through_what_its_parts_say(filled: TextIndex, where: Filter) -> None:
    expected = {row.memory_id for row in ROWS if filter_cases.passes(row, where)}
    assert set(found(filled, "tea", where)) == expected
    assert filled.count(where) == len(expected)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_of_a_filter_is_matched_as_it_is_and_as_nothing_else(make: Make, text: str) -> None:
    named = dict(tag_keys=frozenset({text}), source=text, type=text, speaker=text, conversation_id=text)
    index = make([text_row(1, "tea", **named), text_row(2, "tea")])
    for where in filter_cases.filters_of_text(text):
        assert found(index, "tea", where) == ids(1)
    assert found(index, "tea", Filter(tag_keys=frozenset({text + "x"}))) == []
    assert found(index, "tea", Filter(memory_ids=frozenset({MemoryId(text)}))) == []


def test_archived_scopes_are_left_out_unless_named(make: Make) -> None:
    index = make([text_row(1, "tea", scope_id=scope_id(1)), text_row(2, "tea", scope_id=scope_id(2))])
    index.set_archived([scope_id(2), scope_id(9)])
    assert (found(index, "tea"), index.count(EVERYTHING), index.count()) == (ids(1), 1, 2)
    assert found(index, "tea", Filter(scope_ids=frozenset({scope_id(2)}))) == ids(2)
    index.set_archived([])
    assert sorted(found(index, "tea")) == ids(1, 2)


# figures


def test_revisions_are_those_of_all_memories_by_rising_id(make: Make) -> None:
    index = make(text_row(number * 37 % 1009, f"word {number}", revision=number % 5 + 1) for number in range(1, 1000))
    index.upsert([text_row(5000, "one more", revision=9)])
    index.remove(ids(37))
    known = revisions(index)  # which checks the order
    assert (len(known), known[memory_id(74)], known[memory_id(5000)]) == (999, 3, 9)


def test_what_waits_is_counted_until_it_is_flushed(files: TextFiles) -> None:
    index = files.create(DATABASE)
    assert index.buffered == 0
    index.upsert([text_row(1, "tea"), text_row(2, "tea")])
    index.remove(ids(3))
    assert index.buffered == 3
    index.flush()
    assert (index.buffered, index.count()) == (0, 2)


def test_an_empty_index_answers_everything(make: Make) -> None:
    index = make([])
    index.remove(ids(1))
    index.remove_scope(scope_id(1))
    assert found(index, "tea") == found(index, '"green tea"', spelling=Spelling.ALL) == []
    assert (index.count(), index.count(EVERYTHING), revisions(index)) == (0, 0, {})
    assert not index.is_current(memory_id(1), 0)
    assert index.read("tea", Spelling.UNKNOWN, EVERYTHING).terms == ()
    index.upsert([text_row(1, "green tea")])
    assert found(index, "tea") == ids(1)


# saving


def test_an_index_comes_back_with_its_token_and_without_what_was_not_flushed(files: TextFiles) -> None:
    index = files.create(DATABASE)
    index.upsert([text_row(1, "green tea")])
    index.flush(b"\x00one\xff")
    index.upsert([text_row(2, "green apples")])
    index.close()
    loaded, token = files.load(DATABASE)
    assert (token, found(loaded, "green")) == (b"\x00one\xff", ids(1))
    loaded.remove(ids(1))
    loaded.flush(b"two")
    loaded.close()
    again, token = files.load(DATABASE)
    assert (token, again.count()) == (b"two", 0)


def test_without_a_token_nobody_knows_how_level_it_is(files: TextFiles) -> None:
    index = files.create(DATABASE)
    index.flush()
    assert files.load(DATABASE)[1] == b""


def test_what_was_never_flushed_or_belongs_to_another_store_is_refused(files: TextFiles) -> None:
    with pytest.raises(SidecarError):
        files.load(DATABASE)
    index = files.create(DATABASE)
    with pytest.raises(SidecarError):
        files.load(DATABASE)
    index.flush(b"token")
    with pytest.raises(SidecarError, match="another store"):
        files.load("database-two")


def test_a_new_generation_takes_the_place_of_the_old_one_when_it_is_settled(files: TextFiles) -> None:
    old = files.create(DATABASE)
    old.upsert([text_row(1, "green tea")])
    old.flush(b"old")
    new = files.create(DATABASE)
    new.upsert([text_row(2, "black coffee")])
    assert found(old, "green tea") == ids(1), "it answers while the new one is built"
    new.flush(b"new")
    files.settle(new)
    loaded, token = files.load(DATABASE)
    assert (token, sorted(revisions(loaded))) == (b"new", ids(2))


def test_that_files_are_unclean_outlives_the_process(
    open_text_files: Callable[[Path], TextFiles], tmp_path: Path
) -> None:
    files = open_text_files(tmp_path)
    assert not files.is_unclean
    files.mark_unclean()
    files.mark_unclean()
    assert open_text_files(tmp_path).is_unclean
    files.mark_clean()
    assert not open_text_files(tmp_path).is_unclean


def test_a_closed_index_says_so(files: TextFiles) -> None:
    index = files.create(DATABASE)
    index.upsert([text_row(1, "green tea")])
    index.flush(b"token")
    wording = index.read("tea", Spelling.EXACT)
    index.close()
    index.close()
    for call in (
        lambda: index.search(wording, 5, EVERYTHING),
        lambda: index.read("tea", Spelling.EXACT),
        index.count,
        index.flush,
        lambda: index.upsert([text_row(2, "late")]),
        lambda: next(iter(index.iter_revisions())),
    ):
        with pytest.raises(SidecarNotReadyError, match="closed"):
            call()
    assert found(files.load(DATABASE)[0], "tea") == ids(1), "what was flushed is there"


def test_searches_stay_right_while_others_write_and_flush(make: Make) -> None:
    index = make(text_row(number, f"steady harbour {number}") for number in range(100))
    interval, done = sys.getswitchinterval(), threading.Event()

    def write() -> None:
        for number in range(1000, 1200):
            index.upsert([text_row(number, f"passing ship zq{number}x of the fleet")])
            if number % 2:
                index.remove(ids(number))
            if number % 50 == 0:
                index.flush()
        done.set()

    sys.setswitchinterval(1e-5)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            assert len(found(index, "steady", spelling=Spelling.EXACT)) == 100
            assert index.read("zq1001x steady", Spelling.UNKNOWN).terms
        writer.join()
    finally:
        sys.setswitchinterval(interval)
    assert index.count() == 200
