"""Which memories there are and what filters ask of them: a table of columns, one slot a memory.

A slot is never changed once it is written. A newer revision takes a new slot and leaves the old one dead, and a removal
only marks it dead; `extend_from` copies the living into a new table. So a snapshot for saving or searching is a few
references and a copy of the marks, and no reader waits for a writer. Slots are positions of this table and never leave
the package.

The catalog holds no lock. Its owner serialises the methods that write and `mask`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.models import MILLISECOND, Filter, MemoryId, Rows, ScopeId, TagsMode, TimeRange, fold
from infinite_memory.sidecar.columns import Column, Interner
from infinite_memory.sidecar.keys import KEY_DTYPE, KeyMap, Keys, Slots, key_of, keys_array
from infinite_memory.sidecar.postings import Postings, TimeOrder

Mask = NDArray[np.bool_]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

COLUMNS: Mapping[str, np.dtype[Any]] = {
    "key": KEY_DTYPE,
    "scope": np.dtype(np.int32),
    "revision": np.dtype(np.int64),
    "occurred_ms": np.dtype(np.int64),
    "created_ms": np.dtype(np.int64),
    "source": np.dtype(np.int32),
    "type": np.dtype(np.int32),
    "speaker": np.dtype(np.int32),
    "conversation": np.dtype(np.int32),
    "confidence": np.dtype(np.float64),
    "importance": np.dtype(np.float64),
    "windows": np.dtype(np.int32),
    "tag_end": np.dtype(np.int64),
}
"""The columns, each with one value a slot. ``windows`` counts vectors (0 while pending), ``tag_end`` is where the
slot's stretch of `Catalog.tag_codes` ends."""

FEW_SHARE = 64
"""Slots of which there is at most one in so many are sorted; more are marked, which takes a pass over all: 0.1 ms at a million."""

INTERNED = ("scope", "source", "type", "speaker", "conversation", "tag")


def milliseconds(instant: dt.datetime) -> int:
    """Give the whole milliseconds from 1970 to *instant*, rounded down."""
    return (instant - _EPOCH) // MILLISECOND


def milliseconds_up(instant: dt.datetime) -> int:
    """Give the whole milliseconds from 1970 to *instant*, rounded up."""
    return -((_EPOCH - instant) // MILLISECOND)


class Catalog:
    """The table. Speakers and conversations match by `fold`, as their tags do; sources and types exactly."""

    def __init__(self) -> None:
        self.columns = {name: Column(dtype) for name, dtype in COLUMNS.items()}
        self.interned = {name: Interner() for name in INTERNED}
        self.tag_codes = Column(np.int32)
        self._alive = Column(np.bool_)
        self._dead_count = 0
        self._slots = KeyMap()
        self._tagged, self._said = Postings(), Postings()
        self._in_time = TimeOrder()
        self._live_by_scope: Counter[int] = Counter()
        self._archived: frozenset[ScopeId] = frozenset()

    @classmethod
    def of(
        cls, columns: Mapping[str, NDArray[Any]], tag_codes: NDArray[Any], strings: Mapping[str, Sequence[str]]
    ) -> Catalog:
        """Build a table of living slots from saved arrays.

        Raises:
            ValueError: the arrays do not fit each other.
            KeyError: one is missing.
        """
        made = cls()
        made.columns = {name: Column(dtype, columns[name]) for name, dtype in COLUMNS.items()}
        made.interned = {name: Interner(strings[name]) for name in INTERNED}
        made.tag_codes = Column(np.int32, tag_codes)
        count = len(made.columns["key"])
        made._alive = Column(np.bool_, np.ones(count, np.bool_))
        made._check()
        made._slots = KeyMap.of(made.column("key"))
        made._index(0)
        return made

    def __len__(self) -> int:
        return len(self._alive)

    @property
    def dead_count(self) -> int:
        """Slots that only a compaction gives back."""
        return self._dead_count

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column of `COLUMNS`, dead slots too."""
        return self.columns[name].values

    def alive(self) -> Mask:
        """Copy the marks of the living slots."""
        return self._alive.values.copy()

    # writing

    def find(self, memory_id: MemoryId) -> int | None:
        """Find the slot of a memory; None when it is unknown."""
        key = key_of(memory_id)
        return None if key is None else self.find_key(key)

    def append(self, rows: Rows, windows: NDArray[np.int64], before: Slots) -> None:
        """Give each row a new slot at the end, in order, and leave the slots these memories had before dead.

        Args:
            rows: At least one.
            windows: The number of vectors kept for each.
            before: The slot of each memory until now, as `find_all` gives it.
        """
        first, slots = len(self), range(len(self), len(self) + len(rows))
        tag_counts = list(map(len, rows.tag_keys))
        tag_codes = self.interned["tag"].codes(list(chain.from_iterable(rows.tag_keys)))
        scopes = self.interned["scope"].codes(rows.scope_ids)
        conversations = self.interned["conversation"].codes(_all_folded(rows.conversation_ids))
        values: dict[str, Sequence[Any] | NDArray[Any]] = {
            "key": keys_array(rows.keys),
            "scope": scopes,
            "revision": rows.revisions,
            "occurred_ms": rows.occurred_ms,
            "created_ms": rows.created_ms,
            "source": self.interned["source"].codes(rows.sources),
            "type": self.interned["type"].codes(rows.types),
            "speaker": self.interned["speaker"].codes(_all_folded(rows.speakers)),
            "conversation": conversations,
            "confidence": rows.confidences,
            "importance": rows.importances,
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
        self._said.add(pair for pair in zip(conversations, slots, strict=True) if pair[0] != Interner.ABSENT)
        self._live_by_scope.update(scopes)

    def remove(self, memory_id: MemoryId) -> None:
        """Mark a memory's slot dead; an unknown id is ignored."""
        if (slot := self.find(memory_id)) is not None:
            self._kill(slot)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Mark all slots of a scope dead."""
        code = self.interned["scope"].find(scope_id)
        if code is not None:
            inside = self._alive.values & (self.column("scope") == code)
            self._alive.values[inside] = False
            self._dead_count += int(np.count_nonzero(inside))
            self._live_by_scope.pop(code, None)

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Say which scopes a filter without scopes leaves out."""
        self._archived = frozenset(scope_ids)

    def extend_from(self, source: Catalog, slots: Slots) -> None:
        """Append copies of *slots* of *source*; the interned strings of *source* become those of both."""
        first = len(self)
        self.interned, self._archived = source.interned, source._archived
        tag_counts, tag_codes = source.tags_of(slots)
        for name in COLUMNS:
            if name != "tag_end":
                self.columns[name].extend(source.column(name)[slots])
        self.columns["tag_end"].extend(np.cumsum(tag_counts) + len(self.tag_codes))
        self.tag_codes.extend(tag_codes)
        self._alive.extend(np.ones(len(slots), np.bool_))
        if first == 0:
            self._slots = KeyMap.of(self.column("key"))
        else:
            self._slots.put_all(_split(self.column("key")[first:]), first)
        self._index(first)

    # reading

    def count_by_scope(self) -> dict[ScopeId, int]:
        """Count the living of each scope that has any."""
        names = self.interned["scope"]
        return {ScopeId(names.string(code)): count for code, count in self._live_by_scope.items() if count}

    def in_conversation(self, slot: int) -> Slots:
        """List the living slots of the conversation, and scope, of *slot*; none where it has no conversation."""
        conversation, scopes = int(self.column("conversation")[slot]), self.column("scope")
        said = self._said.find(conversation if conversation >= 0 else None)
        living: Slots = said[self._alive.values[said] & (scopes[said] == scopes[slot])]
        return living

    def tags_of(self, slots: Slots) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Give for *slots* the number of tags each, and the codes of all in one array."""
        ends = self.column("tag_end")
        starts = np.where(slots > 0, ends[slots - 1], 0)
        counts = ends[slots] - starts
        before = np.cumsum(counts) - counts
        places = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        return counts, self.tag_codes.values[places]

    def mask(self, where: Filter) -> Mask:
        """Mark the living slots that pass *where*."""
        listed = self.listed(where)
        return self._passing(where, slice(None)) if listed is None else marks([listed], len(self))

    def count(self, where: Filter) -> int:
        """Count the living slots that pass *where*; scopes alone are counted without a pass over all."""
        if where != Filter(scope_ids=where.scope_ids):
            return len(self.slots(where))
        sizes = self.count_by_scope()
        named = sizes.keys() - self._archived if where.scope_ids is None else sizes.keys() & where.scope_ids
        return sum(sizes[one] for one in named)

    def slots(self, where: Filter) -> Slots:
        """List the living slots that pass *where*, rising."""
        listed = self.listed(where)
        return np.flatnonzero(self._passing(where, slice(None))) if listed is None else listed

    def listed(self, where: Filter) -> Slots | None:
        """List the living slots that pass *where*, rising; None when only a pass over all slots tells them."""
        candidates = self._candidates(where)
        return None if candidates is None else candidates[self._passing(where, candidates)]

    def test(self, where: Filter, slots: NDArray[Any]) -> Mask:
        """Mark those of *slots* that are alive and pass *where*, which names neither ids nor tags."""
        return self._passing(where, slots)

    def _candidates(self, where: Filter) -> Slots | None:
        """Slots named by ids, tags, conversation or time, the narrowest parts of a filter, in order; None when none is given."""
        found: Slots | None = None
        if where.memory_ids is not None:
            keys = [key for key in map(key_of, where.memory_ids) if key is not None]
            found = np.unique(self._slots.find_all(keys))
            found = found[found >= 0]
        if where.tag_keys:
            tagged = sorted((self._tagged.find(self.interned["tag"].find(key)) for key in where.tag_keys), key=len)
            if where.tags_mode is TagsMode.ANY:
                tagged = [_together(tagged, len(self))]
            for slots in tagged:
                found = slots if found is None else found[marks([slots], len(self))[found]]
        if found is None and where.conversation_id is not None:
            found = self._said.find(self.interned["conversation"].find(fold(where.conversation_id)))
        if found is None and where.time is not None:
            start, end = (None if one is None else milliseconds_up(one) for one in (where.time.start, where.time.end))
            found = self._in_time.between(self.column("occurred_ms"), start, end)
        return found

    def _passing(self, where: Filter, at: NDArray[Any] | slice) -> Mask:
        """Test everything but ids and tags of the slots *at*."""
        passing = self._alive.values[at].copy()
        if where.scope_ids is not None or self._archived:
            passing &= self._scope_passes(where.scope_ids, self.column("scope")[at])
        if where.time is not None:
            passing &= _inside(self.column("occurred_ms")[at], where.time)
        for name, value in (
            ("source", where.source),
            ("type", where.type),
            ("speaker", _folded(where.speaker)),
            ("conversation", _folded(where.conversation_id)),
        ):
            if value is not None:
                code = self.interned[name].find(value)
                passing &= False if code is None else self.column(name)[at] == code
        for name, least in (("confidence", where.min_stored_confidence), ("importance", where.min_importance)):
            if least is not None:
                passing &= self.column(name)[at] >= least
        return passing

    def _scope_passes(self, scope_ids: frozenset[ScopeId] | None, scopes: NDArray[np.int32]) -> Mask:
        known = self.interned["scope"]
        named = self._archived if scope_ids is None else scope_ids
        codes = [code for code in map(known.find, named) if code is not None]
        if len(codes) == 1:
            passing: Mask = scopes != codes[0] if scope_ids is None else scopes == codes[0]
            return passing
        passes = np.full(len(known), scope_ids is None)
        passes[codes] = scope_ids is not None
        return np.asarray(passes[scopes], np.bool_)

    def find_key(self, key: bytes) -> int | None:
        """Find the slot of the memory with a key; None when it is unknown."""
        slot = self._slots.find(key)
        return slot if slot is not None and self._alive.values[slot] else None

    def find_all(self, keys: Sequence[bytes]) -> Slots:
        """Find the slot of the memory with each key; -1 where it is unknown."""
        slots = self._slots.find_all(keys)
        known = np.flatnonzero(slots >= 0)
        slots[known[~self._alive.values[slots[known]]]] = -1
        return slots

    def _kill(self, slot: int) -> None:
        """Mark a living slot dead."""
        self._alive.values[slot] = False
        self._dead_count += 1
        self._live_by_scope[int(self.column("scope")[slot])] -= 1

    def _index(self, first: int) -> None:
        """Enter the slots from *first* on, which all live, into what finds them."""
        slots = np.arange(first, len(self), dtype=np.int64)
        counts, codes = self.tags_of(slots)
        self._tagged.fill(codes, np.repeat(slots, counts))
        conversations = self.column("conversation")[first:]
        said = np.flatnonzero(conversations >= 0)
        self._said.fill(conversations[said], slots[said])
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
        coded += [(self.column(name), name, Interner.ABSENT) for name in ("source", "type", "speaker", "conversation")]
        for codes, name, least in coded:
            if len(codes) and (codes.min() < least or codes.max() >= len(self.interned[name])):
                raise ValueError(f"unknown {name}")
        if count and self.column("windows").min() < 0:
            raise ValueError("a negative number of vectors")


def _together(several: Sequence[Slots], count: int) -> Slots:
    """List the slots of any of *several*, rising and once each; there are *count* in all."""
    if sum(map(len, several)) * FEW_SHARE < count:
        return np.unique(np.concatenate(several))
    return np.flatnonzero(marks(several, count))


def marks(several: Iterable[Slots], count: int) -> Mask:
    """Mark the slots of all of *several*, of *count* in all."""
    made = np.zeros(count, np.bool_)
    for slots in several:
        made[slots] = True
    return made


def _split(keys: Keys) -> list[bytes]:
    raw, width = keys.tobytes(), KEY_DTYPE.itemsize
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def _folded(text: str | None) -> str | None:
    return None if text is None else fold(text)


def _all_folded(texts: Sequence[str | None]) -> list[str | None]:
    folded = {text: _folded(text) for text in set(texts)}
    return [folded[text] for text in texts]


def _inside(times: NDArray[np.int64], span: TimeRange) -> Mask:
    """Test ``start <= t < end`` on whole milliseconds; rounding both ends up changes no answer."""
    inside = np.ones(len(times), np.bool_)
    if span.start is not None:
        inside &= times >= milliseconds_up(span.start)
    if span.end is not None:
        inside &= times < milliseconds_up(span.end)
    return inside
