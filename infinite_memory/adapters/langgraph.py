"""A LangGraph store. Needs the extra ``langgraph``.

An item is a memory: its text is the searchable part of the value, its metadata holds namespace, key and value. It has a tag for itself
and one for each prefix of its namespace, made of hashes, so that the index filters before it ranks; hits are checked against the
real namespace and value.

Concurrent writers of one key cannot leave two values: ids are assigned by the memory, so both may store one, but a read returns the
one changed last, and the next write or deletion removes the other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
)

from infinite_memory.normalization import normalize
from infinite_memory.sdk.errors import MissingError
from infinite_memory.sdk.memory import Memory
from infinite_memory.sdk.results import MemoryItem

Namespace = tuple[str, ...]

WHOLE = ["$"]
INDEXED = "langgraph:indexed"
MAX_COUNT = 1000  # results of one request
_SOURCE = "langgraph"
_MIN_CANDIDATES = 50  # of a search with a filter, which is applied here


class InfiniteMemoryStore(BaseStore):
    """Stores items as memories of one scope. Thread-safe.

    Args:
        memory: Where items are stored; None is this machine's memory.
        scope: The scope, if *memory* has none.
        index: ``{"fields": [...]}`` lists the parts of a value to search by; default: all of it. ``dims`` and ``embed`` are not
            accepted, as the model is the daemon's.
    """

    supports_ttl = False

    def __init__(
        self, memory: Memory | None = None, *, scope: str = "LangGraph", index: IndexConfig | None = None
    ) -> None:
        unknown = sorted(set(index or {}) - {"fields"})
        if unknown:
            raise ValueError(
                f"index: {', '.join(unknown)} cannot be set here, the daemon's own model is used; known: fields"
            )
        self._memory = Memory() if memory is None else memory
        if self._memory.user_id is not None:
            raise ValueError("memory: a store keeps its items in a scope; give a Memory without a user_id")
        self._scope = scope if self._memory.scope is None else self._memory.scope
        self._fields: list[str] = list((index or {}).get("fields") or WHOLE)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations; of several puts of one key, the last wins."""
        ops = list(ops)
        last = {(op.namespace, op.key): number for number, op in enumerate(ops) if isinstance(op, PutOp)}
        # Reads see the store as it was before the batch, as in LangGraph's own stores.
        results: list[Result] = [None if isinstance(op, PutOp) else self._read(op) for op in ops]
        for index in sorted(last.values()):  # in the order of the batch, so that their times follow it
            op = ops[index]
            assert isinstance(op, PutOp)
            self._put(op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            items = self._find(op.namespace, op.key)
            return _item(items[0]) if items else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise TypeError(f"{type(op).__name__} is no operation of a store")

    def _put(self, op: PutOp) -> None:
        """Run a put or a deletion. A concurrent removal is not an error: a put then stores a new item."""
        while True:
            existing = self._find(op.namespace, op.key)
            for extra in existing[1:] if op.value is not None else existing:
                self._remove(extra)
            if op.value is None:
                return
            try:
                self._write(op, existing[0] if existing else None)
            except MissingError as exc:
                _check_gone(exc)
                continue  # deleted concurrently
            return

    def _remove(self, memory: MemoryItem) -> None:
        try:
            self._memory.delete(memory.memory_id, hard=True)
        except MissingError as exc:
            _check_gone(exc)

    def _write(self, op: PutOp, old: MemoryItem | None) -> None:
        """Store an item, replacing *old* if given.

        Raises:
            MissingError: *old* no longer exists.
        """
        texts = self._texts(op)
        content = "\n".join(texts) or f"{'/'.join(op.namespace)}/{op.key}"
        tags = [
            _own_tag(op.namespace, op.key),
            *_prefix_tags(op.namespace),
            *([INDEXED] if texts else []),
            _text_tag(content),
        ]
        fields = {
            "namespace": list(op.namespace), "key": op.key, "value": json.dumps(op.value, ensure_ascii=False),
            "put_at": _put_time(old).isoformat(),
        }  # fmt: skip
        if old is not None:
            self._memory.update(old.memory_id, content, tags=tags, metadata=fields)
        else:
            self._memory.add(content, scope=self._scope, tags=tags, metadata=fields | {"source": _SOURCE})

    def _texts(self, op: PutOp) -> list[str]:
        """Return the searchable texts of an item's value."""
        if op.index is False:
            return []
        paths = self._fields if op.index is None else op.index
        assert not isinstance(paths, bool)
        return [text for path in paths for text in get_text_at_path(op.value, path) if text.strip()]

    def _find(self, namespace: Namespace, key: str) -> list[MemoryItem]:
        """Find the memories of one item, newest first: one, unless two were written concurrently."""
        matching = [item for item in self._all([_own_tag(namespace, key)]) if _get_place(item) == (namespace, key)]
        return sorted(matching, key=lambda same_item: (_updated_at(same_item), same_item.memory_id), reverse=True)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        limit = op.offset + op.limit
        items: list[MemoryItem] = []
        for item in self._matching(op, limit) if limit > 0 else ():
            items.append(item)
            if len(items) == limit:
                break
        return [_search_item(item) for item in items[op.offset :]]

    def _matching(self, op: SearchOp, limit: int) -> Iterator[MemoryItem]:
        """Yield the matching items, best first with a query, else newest first; each item once."""
        seen: set[tuple[Namespace, str]] = set()
        for item in self._candidates(op, limit):
            key = _get_place(item)
            if key in seen or key[0][: len(op.namespace_prefix)] != tuple(op.namespace_prefix):
                continue
            seen.add(key)
            if passes(_value(item), op.filter or {}):
                yield item

    def _candidates(self, op: SearchOp, count: int) -> Iterator[MemoryItem]:
        tags = _prefix_tags(op.namespace_prefix)[-1:]
        if not op.query:
            yield from self._all(tags)
            return
        limit = count if not op.filter else max(4 * count, _MIN_CANDIDATES)
        while True:
            limit = min(limit, MAX_COUNT)
            nearest = self._nearest(op.query, [*tags, INDEXED], limit)
            # From the start, as a longer list may be ordered differently; the caller skips items seen before.
            for item in nearest:
                yield from self._of_its_text(item, [*tags, INDEXED])
            if len(nearest) < limit:
                return
            if limit == MAX_COUNT:  # the limit of a search: the rest follows by age
                yield from self._all([*tags, INDEXED])
                return
            limit = 4 * limit

    def _nearest(self, query: str, tags: Sequence[str], limit: int) -> Sequence[MemoryItem]:
        try:
            return self._memory.search(query, scope=self._scope, tags=tags, limit=limit)
        except MissingError as exc:
            _check_no_scope(exc)
            return ()

    def _of_its_text(self, hit: MemoryItem, tags: Sequence[str]) -> Iterator[MemoryItem]:
        """Yield a hit and the items of the same text, which a search collapses into one."""
        yield hit
        if hit.also_at:
            for item in self._all([*tags, _text_tag(hit.content)]):
                yield dataclasses.replace(item, confidence=hit.confidence)

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        existing = {_get_place(item)[0] for item in self._all([])}
        namespaces = {
            namespace[: op.max_depth]
            for namespace in existing
            if all(_matches(namespace, condition) for condition in conditions)
        }
        return sorted(namespaces)[op.offset : op.offset + op.limit]

    def _all(self, tags: Sequence[str]) -> Iterator[MemoryItem]:
        """Yield every item with the tags, newest first; a scope that does not exist yet has none."""
        try:
            yield from (
                item for item in self._memory.iterate(scope=self._scope, tags=tags) if "put_at" in item.metadata
            )
        except MissingError as exc:
            _check_no_scope(exc)


def _check_gone(exc: MissingError) -> None:
    """Re-raise *exc* unless it says that a memory or its whole scope no longer exists."""
    if exc.code not in ("MEMORY_NOT_FOUND", "SCOPE_NOT_FOUND"):
        raise exc


def _check_no_scope(exc: MissingError) -> None:
    if exc.code != "SCOPE_NOT_FOUND":
        raise exc


def passes(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """True if a value matches a filter: equal fields, or LangGraph's operators.

    Raises:
        ValueError: the filter uses another operator.
    """
    return all(_holds(value.get(name), expected) for name, expected in filter.items())


def _holds(value: Any, expected: Any) -> bool:
    if not isinstance(expected, Mapping):
        return bool(value == (list(expected) if isinstance(expected, tuple) else expected))
    if any(name.startswith("$") for name in expected):
        return all(_compare(value, operator, against) for operator, against in expected.items())
    return isinstance(value, Mapping) and passes(value, expected)


def _compare(value: Any, operator: str, against: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == against) is (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"{operator} is no operator of a filter; known: $eq, $ne, $gt, $gte, $lt, $lte")
    if isinstance(value, str) and isinstance(against, str):  # strings are compared as strings (dates, for example)
        above, same = value > against, value == against
    else:
        try:
            above, same = float(value) > float(against), float(value) == float(against)
        except (TypeError, ValueError):  # a missing or non-numeric value is neither above nor below
            return False
    return {"$gt": above, "$gte": above or same, "$lt": not (above or same), "$lte": not above}[operator]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(expected in ("*", actual) for expected, actual in zip(path, part, strict=True))


def _own_tag(namespace: Namespace, key: str) -> str:
    return f"langgraph:item:{_digest([*namespace, key])}"


def _prefix_tags(namespace: Namespace) -> list[str]:
    return [f"langgraph:in:{_digest(namespace[:depth])}" for depth in range(1, len(namespace) + 1)]


def _text_tag(text: str) -> str:
    """Return a tag shared by texts that a search collapses: case, Unicode form and white space are ignored."""
    return f"langgraph:text:{_digest(normalize('NFC', text).casefold().split())}"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()[:32]


def _get_place(memory: MemoryItem) -> tuple[Namespace, str]:
    return tuple(memory.metadata.get("namespace", ())), str(memory.metadata.get("key"))


def _value(memory: MemoryItem) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(memory.metadata["value"])
    return value


def _put_at(memory: MemoryItem) -> dt.datetime:
    return dt.datetime.fromisoformat(memory.metadata["put_at"])


def _put_time(old: MemoryItem | None) -> dt.datetime:
    """Return the time of a put: now, but always later than the previous put, even if the clock was set back."""
    now = dt.datetime.now(dt.UTC)
    return now if old is None else max(now, _updated_at(old) + dt.timedelta(microseconds=1))


def _updated_at(memory: MemoryItem) -> dt.datetime:
    """Return when an item was last put, by the writer's clock, but never before the memory's own timestamp, which is the daemon's."""
    return max(_put_at(memory), memory.timestamp)


def _item(memory: MemoryItem) -> Item:
    namespace, key = _get_place(memory)
    times = {"created_at": memory.timestamp, "updated_at": _updated_at(memory)}
    return Item(value=_value(memory), key=key, namespace=namespace, **times)


def _search_item(memory: MemoryItem) -> SearchItem:
    namespace, key = _get_place(memory)
    return SearchItem(namespace, key, _value(memory), memory.timestamp, _updated_at(memory), memory.confidence)
