"""The memories of an index and the fields that filters read: a columnar table, one slot per memory.

A slot is never changed in place. A newer revision takes a new slot and marks the old one dead, a removal only marks it dead, and
`extend_from` copies live slots into a new table. A snapshot for saving or searching is therefore a few references and a copy of the
live mask, and no reader waits for a writer. Slots are positions in this table and are not used outside the package.

The table has no lock. Its owner serialises writes and slot lookups. Filters are evaluated by `filters.TableFilter`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.base import Neighbours
from infinite_memory.index.growable_arrays import GrowableArray, Interner
from infinite_memory.index.id_map import KEY_DTYPE, IdMap, Keys, Slots, keys_array, to_ids, to_key
from infinite_memory.index.postings import Postings, TimeOrder
from infinite_memory.models import (
    FILTERED_NUMBERS,
    FILTERED_TEXTS,
    MILLISECOND,
    FieldFilter,
    FilterRule,
    IndexBatch,
    MemoryId,
    ScopeId,
    fold,
)

Mask = NDArray[np.bool_]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

COLUMNS: Mapping[str, np.dtype[Any]] = {
    "key": KEY_DTYPE,
    "scope": np.dtype(np.int32),
    "revision": np.dtype(np.int64),
    "occurred_ms": np.dtype(np.int64),
    "created_ms": np.dtype(np.int64),
    **{by.column: np.dtype(np.int32) for by in FILTERED_TEXTS.values()},
    **{by.column: np.dtype(np.float64) for by in FILTERED_NUMBERS.values()},
    "windows": np.dtype(np.int32),
    "tag_end": np.dtype(np.int64),
}
"""The columns, each with one value per slot. ``windows`` counts vectors (0 while pending), ``tag_end`` is the end of the slot's range in
`MetadataTable.tag_codes`."""

FEW_IDS = 16  # ids up to which single lookups are faster than one over the arrays
FEW_ASKED, MANY_TURNS = 4, 1000  # with few asked and many turns, scanning is faster than sorting
_CONVERSATION = ("conversation", "scope", "source")
"""The columns that turns of one conversation share. The source is one of them because users may share a scope with a source each: turns of
different users are never neighbours, whatever their conversation ids."""

INTERNED = ("scope", *(by.column for by in FILTERED_TEXTS.values()), "tag")


def milliseconds(instant: dt.datetime) -> int:
    """Return *instant* as whole milliseconds since 1970, rounded down."""
    return (instant - _EPOCH) // MILLISECOND


def milliseconds_up(instant: dt.datetime) -> int:
    """Return *instant* as whole milliseconds since 1970, rounded up."""
    return -((_EPOCH - instant) // MILLISECOND)


class MetadataTable:
    """The table. Speakers and conversations match by `fold`, as their tags do; sources and types exactly."""

    def __init__(self) -> None:
        self.columns = {name: GrowableArray(dtype) for name, dtype in COLUMNS.items()}
        self.interned = {name: Interner() for name in INTERNED}
        self.tag_codes = GrowableArray(np.int32)
        self._alive = GrowableArray(np.bool_)
        self._dead_count = 0
        self._slots = IdMap()
        self._tagged, self._turns = Postings(), Postings()
        self._in_time = TimeOrder()
        self._live_by_scope: Counter[int] = Counter()

    @classmethod
    def of(
        cls, columns: Mapping[str, NDArray[Any]], tag_codes: NDArray[Any], strings: Mapping[str, Sequence[str]]
    ) -> MetadataTable:
        """Build a table of live slots from saved arrays.

        Raises:
            ValueError: the arrays are inconsistent.
            KeyError: one is missing.
        """
        table = cls()
        table.columns = {name: GrowableArray(dtype, columns[name]) for name, dtype in COLUMNS.items()}
        table.interned = {name: Interner(strings[name]) for name in INTERNED}
        table.tag_codes = GrowableArray(np.int32, tag_codes)
        count = len(table.columns["key"])
        table._alive = GrowableArray(np.bool_, np.ones(count, np.bool_))
        table._check()
        table._slots = IdMap.of(table.column("key"))
        table._index(0)
        return table

    def __len__(self) -> int:
        return len(self._alive)

    @property
    def dead_count(self) -> int:
        """Dead slots, which only a compaction reclaims."""
        return self._dead_count

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column of `COLUMNS`, dead slots included."""
        return self.columns[name].values

    @property
    def is_alive(self) -> Mask:
        """The mask of live slots, as a view."""
        return self._alive.values

    def alive(self) -> Mask:
        """Return a copy of the mask of live slots."""
        return self._alive.values.copy()

    # writing

    def find(self, memory_id: MemoryId) -> int | None:
        """Return the slot of a memory; None if it is unknown."""
        key = to_key(memory_id)
        return None if key is None else self.find_key(key)

    def append(self, rows: IndexBatch, windows: NDArray[np.int64], before: Slots) -> None:
        """Append each row as a new slot, in order, and mark the previous slots of these memories dead.

        Args:
            rows: At least one.
            windows: The number of vectors of each row.
            before: The current slot of each memory, as returned by `find_all`.
        """
        first, slots = len(self), range(len(self), len(self) + len(rows))
        tag_counts = list(map(len, rows.tag_keys))
        tag_codes = self.interned["tag"].codes(list(chain.from_iterable(rows.tag_keys)))
        scopes = self.interned["scope"].codes(rows.scope_ids)
        coded = {
            by.column: self.interned[by.column].codes(_match_keys(rows.values[name], by))
            for name, by in FILTERED_TEXTS.items()
        }
        values: dict[str, Sequence[Any] | NDArray[Any]] = {
            "key": keys_array(rows.keys),
            "scope": scopes,
            "revision": rows.revisions,
            "occurred_ms": rows.occurred_ms,
            "created_ms": rows.created_ms,
            **coded,
            **{by.column: rows.values[name] for name, by in FILTERED_NUMBERS.items()},
            "windows": windows,
            "tag_end": np.cumsum(tag_counts) + len(self.tag_codes),
        }
        for slot in before[before >= 0].tolist():
            self._kill(slot)
        for name, column in self.columns.items():
            column.extend(values[name])
        self.tag_codes.extend(tag_codes)
        self._alive.extend(np.ones(len(rows), np.bool_))
        self._slots.put_all(rows.keys, first)
        self._tagged.add(zip(tag_codes, chain.from_iterable(map(repeat, slots, tag_counts)), strict=True))
        self._turns.add(pair for pair in zip(coded["conversation"], slots, strict=True) if pair[0] != Interner.ABSENT)
        self._live_by_scope.update(scopes)

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Mark the slots of memories dead; unknown ids are ignored."""
        for slot in self.find_many(memory_ids).values():
            self._kill(slot)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Mark all slots of a scope dead."""
        code = self.interned["scope"].find(scope_id)
        if code is not None:
            inside = self._alive.values & (self.column("scope") == code)
            self._alive.values[inside] = False
            self._dead_count += int(np.count_nonzero(inside))
            self._live_by_scope.pop(code, None)

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Move all slots of a scope to another; concurrent readers keep the old column."""
        if (old := self.interned["scope"].find(source)) is not None:
            [new] = self.interned["scope"].codes([target])
            scopes = self.column("scope")
            self.columns["scope"] = GrowableArray(np.int32, np.where(scopes == old, np.int32(new), scopes))
            self._live_by_scope[new] += self._live_by_scope.pop(old, 0)

    def extend_from(self, source: MetadataTable, slots: Slots) -> None:
        """Append copies of *slots* of *source*; both tables then share the interned strings of *source*."""
        first = len(self)
        self.interned = source.interned
        tag_counts, tag_codes = source.tags_of(slots)
        for name in COLUMNS:
            if name != "tag_end":
                self.columns[name].extend(source.column(name)[slots])
        self.columns["tag_end"].extend(np.cumsum(tag_counts) + len(self.tag_codes))
        self.tag_codes.extend(tag_codes)
        self._alive.extend(np.ones(len(slots), np.bool_))
        if first == 0:
            self._slots = IdMap.of(self.column("key"))
        else:
            self._slots.put_all(_split(self.column("key")[first:]), first)
        self._index(first)

    # reading

    def count_by_scope(self) -> dict[ScopeId, int]:
        """Count the live memories of each non-empty scope."""
        names = self.interned["scope"]
        return {ScopeId(names.string(code)): count for code, count in self._live_by_scope.items() if count}

    def _in_conversation(self, slot: int) -> Slots:
        """Return the live slots of the conversation of *slot*, in its scope and of its source; none if it has no conversation."""
        conversation, scopes, sources = (self.column(name) for name in _CONVERSATION)
        members = self._turns.find(int(conversation[slot]) if conversation[slot] >= 0 else None)
        is_same = (scopes[members] == scopes[slot]) & (sources[members] == sources[slot])
        living: Slots = members[self._alive.values[members] & is_same]
        return living

    def find_turns(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> tuple[Slots, Slots]:
        """Return the slots of *memory_ids* that belong to a conversation, and the live slots of all these conversations, each once.

        Conversations of more than *max_turns* are skipped.
        """
        if not len(self.interned["conversation"]):  # no lookup needed if there are no conversations
            return np.empty(0, np.int64), np.empty(0, np.int64)
        slots = np.array(list(self.find_many(memory_ids).values()), np.int64)
        slots = slots[self.column("conversation")[slots] >= 0]
        if not len(slots):
            return slots, slots
        named = zip(*(self.column(name)[slots].tolist() for name in _CONVERSATION), strict=True)
        turns = [self._in_conversation(slot) for slot in dict(zip(named, slots.tolist(), strict=True)).values()]
        short = [turn for turn in turns if max_turns is None or len(turn) <= max_turns]
        return slots, np.concatenate(short) if short else np.empty(0, np.int64)

    def neighbours(self, hit_slots: Slots, slots: Slots) -> dict[MemoryId, Neighbours]:
        """Return the memories before and after each of *hit_slots*, from the result of `find_turns`; needs no lock."""
        if not len(slots):
            return {}
        if len(hit_slots) <= FEW_ASKED < MANY_TURNS < len(slots):
            slots = self._beside(hit_slots, slots)
        order = tuple(self.column(name)[slots] for name in ("key", "occurred_ms", *_CONVERSATION))
        slots = slots[np.lexsort(order)]
        groups = self._number_conversations(slots)
        places = np.flatnonzero(np.isin(slots, hit_slots))
        around = np.unique(np.concatenate([places - 1, places, places + 1]))
        around = around[(around >= 0) & (around < len(slots))]
        ids = dict(zip(around.tolist(), to_ids(self.column("key")[slots[around]]), strict=True))
        named = dict(zip(around.tolist(), groups[around].tolist(), strict=True))

        def beside(index: int, other: int) -> MemoryId | None:
            return ids[other] if named.get(other) == named[index] else None

        return {
            ids[index]: Neighbours(beside(index, index - 1), beside(index, index + 1), str(named[index]))
            for index in places.tolist()
        }

    def _beside(self, hit_slots: Slots, slots: Slots) -> Slots:
        """Return the *slots* that share the time of one of *hit_slots*, the last time before or the next time after it.

        Why not sort: sorting a million turns takes forty times as long as scanning them.
        """
        times, selected = self.column("occurred_ms")[slots], np.zeros(len(slots), np.bool_)
        codes = [self.column(name)[slots] for name in _CONVERSATION]
        for slot in hit_slots.tolist():
            is_same = np.ones(len(slots), np.bool_)
            for name, column in zip(_CONVERSATION, codes, strict=True):
                is_same &= column == self.column(name)[slot]
            occurred, turns = self.column("occurred_ms")[slot], times[is_same]
            first = turns.max(initial=np.iinfo(np.int64).min, where=turns < occurred)
            last = turns.min(initial=np.iinfo(np.int64).max, where=turns > occurred)
            selected |= is_same & (times >= first) & (times <= last)
        return slots[selected]

    def _number_conversations(self, slots: Slots) -> NDArray[np.int64]:
        """Return a conversation number for each of *slots*, which are grouped by conversation."""
        begins = np.zeros(len(slots), np.int64)
        for name in _CONVERSATION:
            codes = self.column(name)[slots]
            begins[1:] |= codes[1:] != codes[:-1]
        return np.cumsum(begins)

    def tags_of(self, slots: Slots) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the number of tags of each of *slots*, and the codes of all tags in one array."""
        ends = self.column("tag_end")
        starts = np.where(slots > 0, ends[slots - 1], 0)
        counts = ends[slots] - starts
        before = np.cumsum(counts) - counts
        places = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        return counts, self.tag_codes.values[places]

    def tagged(self, key: str) -> Slots:
        """Return the slots that were written with a tag, dead ones included, ascending."""
        return self._tagged.find(self.interned["tag"].find(key))

    def said(self, conversation: str) -> Slots:
        """Return the slots of a conversation (folded) in any scope, dead ones included, ascending."""
        return self._turns.find(self.interned["conversation"].find(conversation))

    def between(self, start: float | None, end: float | None) -> Slots | None:
        """Return the slots with ``start <= occurred_ms < end``, dead ones included, ascending; None if a pass over all slots is as fast."""
        return self._in_time.between(self.column("occurred_ms"), start, end)

    def find_key(self, key: bytes) -> int | None:
        """Return the slot of the memory with a key; None if it is unknown."""
        slot = self._slots.find(key)
        return slot if slot is not None and self._alive.values[slot] else None

    def find_many(self, memory_ids: Iterable[MemoryId]) -> dict[MemoryId, int]:
        """Return the slots of memories; unknown ids are omitted."""
        keys = {memory_id: key for memory_id in memory_ids if (key := to_key(memory_id)) is not None}
        if len(keys) <= FEW_IDS:
            return {memory_id: slot for memory_id, key in keys.items() if (slot := self.find_key(key)) is not None}
        slots = self.find_all(list(keys.values())).tolist()
        return {memory_id: slot for memory_id, slot in zip(keys, slots, strict=True) if slot >= 0}

    def find_all(self, keys: Sequence[bytes]) -> Slots:
        """Return the slot of the memory with each key, -1 if it is unknown."""
        slots = self._slots.find_all(keys)
        present = np.flatnonzero(slots >= 0)
        slots[present[~self._alive.values[slots[present]]]] = -1
        return slots

    def _kill(self, slot: int) -> None:
        """Mark a live slot dead."""
        self._alive.values[slot] = False
        self._dead_count += 1
        self._live_by_scope[int(self.column("scope")[slot])] -= 1

    def _index(self, first: int) -> None:
        """Add the slots from *first* on, all of them live, to the postings, counts and time order."""
        slots = np.arange(first, len(self), dtype=np.int64)
        counts, codes = self.tags_of(slots)
        self._tagged.fill(codes, np.repeat(slots, counts))
        conversations = self.column("conversation")[first:]
        in_conversation = np.flatnonzero(conversations >= 0)
        self._turns.fill(conversations[in_conversation], slots[in_conversation])
        scopes, numbers = np.unique(self.column("scope")[first:], return_counts=True)
        self._live_by_scope.update(dict(zip(scopes.tolist(), numbers.tolist(), strict=True)))
        self._in_time.between(self.column("occurred_ms"), 0, 0)

    def _check(self) -> None:
        count = len(self._alive)
        if any(len(column) != count for column in self.columns.values()):
            raise ValueError("columns differ in length")
        ends = np.concatenate((np.zeros(1, np.int64), self.column("tag_end")))
        if np.any(np.diff(ends) < 0) or ends[-1] != len(self.tag_codes):
            raise ValueError("tags do not fit the columns")
        coded = [(self.tag_codes.values, "tag", 0), (self.column("scope"), "scope", 0)]
        coded += [(self.column(name), name, Interner.ABSENT) for name in INTERNED[1:-1]]
        for codes, name, least in coded:
            if len(codes) and (codes.min() < least or codes.max() >= len(self.interned[name])):
                raise ValueError(f"unknown {name}")
        if count and self.column("windows").min() < 0:
            raise ValueError("a negative number of vectors")


def marks(several: Iterable[Slots], count: int) -> Mask:
    """Return a mask of length *count* with the slots of all of *several* set."""
    mask = np.zeros(count, np.bool_)
    for slots in several:
        mask[slots] = True
    return mask


def _split(keys: Keys) -> list[bytes]:
    raw, width = keys.tobytes(), KEY_DTYPE.itemsize
    return [raw[offset : offset + width] for offset in range(0, len(raw), width)]


def _folded(text: str | None) -> str | None:
    return None if text is None else fold(text)


def _match_keys(texts: Sequence[str | None], by: FieldFilter) -> Sequence[str | None]:
    if by.rule is not FilterRule.FOLDED:
        return texts
    folded = {text: None if text is None else by.match_key(text) for text in set(texts)}
    return [folded[text] for text in texts]
