"""The LangGraph store, tested after what `BaseStore` documents: LangGraph has a conformance suite for checkpointers and none for stores, so
what its own in-memory store does stands beside ours wherever no model is asked."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from infinite_memory import ApiError, Memory
from infinite_memory.adapters.langgraph import InfiniteMemoryStore
from tests.processes import Installation

Namespace = tuple[str, ...]
DOCS = ("docs", "alice")


@pytest.fixture(scope="module")
def memory(shared: Installation) -> Iterator[Memory]:
    with Memory(home=shared.home) as one:
        yield one


@pytest.fixture
def store(memory: Memory, request: pytest.FixtureRequest) -> InfiniteMemoryStore:
    """A store in a scope of its own."""
    return InfiniteMemoryStore(memory, scope=f"Store of {request.node.name}"[:200])


@pytest.fixture(scope="module")
def filled(memory: Memory) -> tuple[InfiniteMemoryStore, InMemoryStore]:
    """The same items in our store and in LangGraph's own, for tests that only read."""
    store, theirs = InfiniteMemoryStore(memory, scope="Store to read"), InMemoryStore()
    for namespace, key, value in ITEMS:
        store.put(namespace, key, value)
        theirs.put(namespace, key, value)
    return store, theirs


ITEMS: list[tuple[Namespace, str, dict[str, Any]]] = [
    (DOCS, "a", {"kind": "report", "score": 4.5, "by": {"name": "Ada", "team": [1, 2]}, "day": "2026-01-02"}),
    (DOCS, "b", {"kind": "report", "score": 2, "by": {"name": "Bob", "team": []}, "day": "2026-03-01"}),
    (DOCS, "c", {"kind": "note", "score": 9, "empty": None}),
    (("docs", "bob"), "a", {"kind": "note", "score": 1}),
    (("docs", "bob", "old"), "a", {"kind": "note", "score": 0}),
    (("Docs", "alice"), "a", {"kind": "capital", "score": 7}),
    (("cache", "v1"), "x", {"kind": "blob", "score": 3}),
]


def places(found: list[Any]) -> set[tuple[Namespace, str]]:
    return {(one.namespace, one.key) for one in found}


def test_an_item_is_put_read_changed_and_deleted(store: InfiniteMemoryStore) -> None:
    assert store.get(DOCS, "a") is None
    value = {"text": "tea", "n": 1, "list": [1, {"x": None}], "größe": 1.5, "": True}
    store.put(DOCS, "a", value)
    first = store.get(DOCS, "a")
    assert isinstance(first, Item)
    assert (first.value, first.key, first.namespace) == (value, "a", DOCS)
    store.put(DOCS, "a", {"text": "coffee"})
    second = store.get(DOCS, "a")
    assert second is not None
    assert second.value == {"text": "coffee"}, "the value is replaced, not merged"
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    store.delete(DOCS, "a")
    assert store.get(DOCS, "a") is None
    store.delete(DOCS, "a")


def test_namespaces_and_keys_count_letter_for_letter(store: InfiniteMemoryStore) -> None:
    for at, (namespace, key) in enumerate(
        [(("a", "b"), "c"), (("a",), "b"), (("a", "b"), "C"), (("A", "b"), "c"), (("a/b",), "c")]
    ):
        store.put(namespace, key, {"at": at})
    for at, (namespace, key) in enumerate(
        [(("a", "b"), "c"), (("a",), "b"), (("a", "b"), "C"), (("A", "b"), "c"), (("a/b",), "c")]
    ):
        found = store.get(namespace, key)
        assert found is not None
        assert found.value == {"at": at}
    assert places(store.search(("a",))) == {(("a", "b"), "c"), (("a",), "b"), (("a", "b"), "C")}


@pytest.mark.parametrize(
    "asked",
    [
        {"filter": None},
        {"filter": {"kind": "report"}},
        {"filter": {"kind": "report", "score": {"$gt": 3}}},
        {"filter": {"score": {"$gte": 2, "$lt": 9}}},
        {"filter": {"score": {"$lte": 2}}},
        {"filter": {"kind": {"$ne": "report"}}},
        {"filter": {"kind": {"$eq": "note"}}},
        {"filter": {"by": {"name": "Ada"}}},
        {"filter": {"by": {"team": [1, 2]}}},
        {"filter": {"empty": None}},
        {"filter": {"none": "such"}},
    ],
)
@pytest.mark.parametrize("prefix", [(), ("docs",), DOCS, ("doc",), ("nowhere",)])
def test_a_filter_lets_through_what_langgraphs_own_store_does(
    filled: tuple[InfiniteMemoryStore, InMemoryStore], prefix: Namespace, asked: dict[str, Any]
) -> None:
    ours, theirs = filled
    assert places(ours.search(prefix, limit=100, **asked)) == places(theirs.search(prefix, limit=100, **asked))


def test_dates_are_compared_as_texts_and_other_operators_refused(store: InfiniteMemoryStore) -> None:
    for namespace, key, value in ITEMS[:3]:
        store.put(namespace, key, value)
    assert places(store.search(DOCS, filter={"day": {"$gt": "2026-02-01"}})) == {(DOCS, "b")}
    with pytest.raises(ValueError, match=r"\$regex"):
        store.search(DOCS, filter={"kind": {"$regex": ".*"}})


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"prefix": ("docs",)},
        {"suffix": ("alice",)},
        {"prefix": ("docs", "*")},
        {"prefix": ("*", "alice")},
        {"prefix": ("docs",), "max_depth": 1},
        {"max_depth": 2},
        {"prefix": ("docs",), "suffix": ("old",)},
        {"limit": 2, "offset": 1},
        {"suffix": ("*", "*", "*", "*")},
    ],
)
def test_namespaces_are_listed_as_langgraphs_own_store_does(
    filled: tuple[InfiniteMemoryStore, InMemoryStore], asked: dict[str, Any]
) -> None:
    ours, theirs = filled
    assert ours.list_namespaces(**asked) == theirs.list_namespaces(**asked)


def test_pages_together_are_everything_once(store: InfiniteMemoryStore) -> None:
    for number in range(12):
        store.put(DOCS, str(number), {"text": f"entry number {number}", "even": number % 2 == 0})
    for more in ({}, {"query": "entry"}, {"query": "entry", "filter": {"even": True}}):
        pages = [store.search(DOCS, limit=4, offset=offset, **more) for offset in (0, 4, 8, 12)]
        keys = [one.key for page in pages for one in page]
        assert len(keys) == len(set(keys)) == (6 if "filter" in more else 12), more
    assert store.search(DOCS, limit=0) == []


def test_a_query_finds_by_meaning_with_scores_that_fall(store: InfiniteMemoryStore) -> None:
    store.put(DOCS, "pet", {"text": "Her dog is called Bolt"})
    store.put(DOCS, "food", {"text": "She is allergic to nuts"})
    store.put(("elsewhere",), "pet", {"text": "A dog that is not hers"})
    found = store.search(DOCS, query="what animal does she have?")
    assert found[0].key == "pet"
    scores = [one.score for one in found]
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert all(one.namespace == DOCS for one in found)
    store.put(DOCS, "pet", {"text": "She sold the boat"})
    assert store.search(DOCS, query="the boat")[0].key == "pet", "found by what it says now"


def test_items_of_the_same_text_are_all_found(store: InfiniteMemoryStore) -> None:
    for key in ("a", "b", "c"):
        store.put(DOCS, key, {"text": "Likes  Tea" if key == "b" else "likes tea"}, index=["text"])
    assert places(store.search(DOCS, query="tea")) == {(DOCS, "a"), (DOCS, "b"), (DOCS, "c")}


def test_only_what_is_indexed_is_found_by_a_query(memory: Memory, store: InfiniteMemoryStore) -> None:
    store.put(DOCS, "hidden", {"text": "the treasure is under the oak"}, index=False)
    store.put(DOCS, "part", {"title": "a map", "secret": "the treasure is under the oak"}, index=["title"])
    assert "hidden" not in [one.key for one in store.search(DOCS, query="where is the treasure?")]
    assert places(store.search(DOCS)) == {(DOCS, "hidden"), (DOCS, "part")}
    assert store.get(DOCS, "hidden") is not None
    named = InfiniteMemoryStore(memory, scope="Named fields", index={"fields": ["parts[*].text"]})  # type: ignore[typeddict-item]
    named.put(DOCS, "a", {"parts": [{"text": "a red boat"}, {"text": "a blue car"}], "other": "a green tree"})
    assert [one.key for one in named.search(DOCS, query="boat")] == ["a"]
    [kept] = memory.list_memories(scope="Named fields")
    assert kept.content == "a red boat\na blue car"


def test_a_batch_reads_what_was_there_before_it_and_keeps_the_last_put(store: InfiniteMemoryStore) -> None:
    store.put(DOCS, "a", {"n": 0})
    ops = [
        GetOp(DOCS, "a"), PutOp(DOCS, "a", {"n": 1}), PutOp(DOCS, "a", {"n": 2}), PutOp(DOCS, "b", {"n": 3}),
        SearchOp(("docs",)), ListNamespacesOp((MatchCondition("prefix", ("docs",)),)), GetOp(DOCS, "none"),
    ]  # fmt: skip
    got, *puts, found, namespaces, none = store.batch(ops)
    assert isinstance(got, Item)
    assert (got.value, puts, none) == ({"n": 0}, [None] * 3, None)
    assert places(found) == {(DOCS, "a")}  # type: ignore[arg-type]
    assert namespaces == [DOCS]
    assert [one.value["n"] for one in sorted(store.search(DOCS), key=lambda one: one.key)] == [2, 3]
    store.batch([PutOp(DOCS, "b", {"n": 4}), PutOp(DOCS, "b", None)])
    assert store.get(DOCS, "b") is None


async def test_asyncio_does_the_same(store: InfiniteMemoryStore) -> None:
    await asyncio.gather(*(store.aput(DOCS, str(number), {"n": number}) for number in range(5)))
    found = await store.aget(DOCS, "3")
    assert found is not None
    assert found.value == {"n": 3}
    assert len(await store.asearch(DOCS, filter={"n": {"$lt": 3}})) == 3
    assert await store.alist_namespaces() == [DOCS]
    await store.adelete(DOCS, "3")
    assert await store.aget(DOCS, "3") is None
    assert await store.abatch([GetOp(DOCS, "0")]) != [None]


def test_two_who_write_one_key_at_once_leave_one_value(store: InfiniteMemoryStore, memory: Memory) -> None:
    threads = [threading.Thread(target=store.put, args=(DOCS, "race", {"n": number})) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.search(DOCS)) == 1
    store.put(DOCS, "race", {"n": 99})
    found = store.get(DOCS, "race")
    assert found is not None
    assert found.value == {"n": 99}
    store.delete(DOCS, "race")
    assert store.get(DOCS, "race") is None


def test_what_cannot_be_kept_is_refused(store: InfiniteMemoryStore) -> None:
    for namespace in ((), ("langgraph",), ("a.b",), ("",)):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "a", {"n": 1})
    with pytest.raises(NotImplementedError, match="TTL"):
        store.put(DOCS, "a", {"n": 1}, ttl=5)
    with pytest.raises(TypeError):
        store.put(DOCS, "a", {"n": object()})
    with pytest.raises(ApiError) as caught:
        store.put(DOCS, "a", {"text": "x" * 70_000}, index=False)
    assert caught.value.code == "LIMIT_EXCEEDED"
    with pytest.raises(ValueError, match="dims"):
        InfiniteMemoryStore(index={"dims": 3})  # type: ignore[typeddict-item]
    assert store.search(()) == []


def test_it_is_a_store_of_langgraph(store: BaseStore) -> None:
    assert isinstance(store, BaseStore)
    assert not store.supports_ttl


def test_a_put_beside_a_deletion_raises_nothing_and_is_not_lost(store: InfiniteMemoryStore) -> None:
    """Puts and deletions of one key at once; a put that begins after the last deletion has ended is there."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                if number % 2:
                    store.delete(DOCS, "race")
                else:
                    store.put(DOCS, "race", {"n": [number, turn]})
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.search(DOCS)) <= 1
    store.put(DOCS, "race", {"n": "last"})
    item = store.get(DOCS, "race")
    assert item is not None
    assert item.value == {"n": "last"}


def test_an_item_that_is_deleted_between_its_reading_and_its_writing_is_stored_again(
    store: InfiniteMemoryStore, memory: Memory
) -> None:
    store.put(DOCS, "a", {"n": 1})
    [old] = store._find(DOCS, "a")
    memory.delete(old.memory_id, hard=True)
    looks = iter([[old], []])
    put = PutOp(DOCS, "a", {"n": 2})
    store._find = lambda namespace, key: next(looks)  # type: ignore[method-assign]
    try:
        store.batch([put])
    finally:
        del store._find  # type: ignore[method-assign]
    item = store.get(DOCS, "a")
    assert item is not None
    assert item.value == {"n": 2}
    store._remove(old)  # somebody else was faster: no error


def test_an_item_is_never_updated_before_it_was_created_nor_before_its_last_put(
    store: InfiniteMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(DOCS, "a", {"n": 1})
    first = store.get(DOCS, "a")
    assert first is not None
    assert first.updated_at >= first.created_at
    real = dt.datetime

    class Behind(real):
        """A clock that was set back by a day."""

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return real.now(tz) - dt.timedelta(days=1)

    monkeypatch.setattr("infinite_memory.adapters.langgraph.dt.datetime", Behind)
    store.put(DOCS, "a", {"n": 2})
    store.put(DOCS, "new", {"n": 3})
    monkeypatch.undo()
    second = store.get(DOCS, "a")
    assert second is not None
    assert second.value == {"n": 2}
    assert second.updated_at > first.updated_at
    assert second.created_at == first.created_at
    for item in store.search(DOCS):
        assert item.updated_at >= item.created_at


def test_the_puts_of_a_batch_are_carried_out_in_their_order(store: InfiniteMemoryStore) -> None:
    store.batch([PutOp(DOCS, "a", {"n": 0}), PutOp(DOCS, "b", {"n": 1}), PutOp(DOCS, "a", {"n": 2})])
    times = {item.key: item.updated_at for item in store.search(DOCS)}
    assert times["b"] <= times["a"]
