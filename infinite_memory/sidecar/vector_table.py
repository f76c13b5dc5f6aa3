"""The vectors of one space, each belonging to a slot of the catalog, and the search over those that pass a filter.

Vectors lie in segments of at most `SEGMENT_ROWS`, each a plain float16 array, and are addressed by row; rows are only
ever appended. So a search runs without a lock on the arrays that were there when it began, growth copies at most one
segment, and a saved segment is a file that is mapped into memory, not read. Above a size a `Coarse` index stands in
front: it gives a pool of rows, which are scored exactly. What lies beyond it is searched exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.sidecar import coarse as coarse_index
from infinite_memory.sidecar.coarse import Coarse, pool_size, rows_needed
from infinite_memory.sidecar.columns import Column
from infinite_memory.sidecar.files import Saved
from infinite_memory.sidecar.keys import Slots
from infinite_memory.sidecar.mapped import MOST_RESIDENT, Mapped, keep_within
from infinite_memory.sidecar.vectors import (
    CoarseCodes,
    Codes,
    Mask,
    Quantiser,
    Ranked,
    map_codes,
    score,
    search_exactly,
)

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

SEGMENT_ROWS = 65_536
"""A segment of 384 dimensions is then 50 MB: copying one takes about 10 ms."""

SCORE_DECIMALS = 6
"""Scores are rounded to this, well below the error of half precision, so that equal texts have equal scores."""

ASKED, MOST_ASKED = 4096, 16_384
"""Rows asked of the coarse index: at first, and at most. Scoring 16,384 takes 5 ms, and what needs more is no text's vector."""

SCORED_AT_ONCE = 512
"""Rows copied out together: memory for more comes fresh from the system, which takes longer than to score them."""

ALL_SHARE = 4
"""A pool of more than one in so many rows saves nothing over an exact search of all."""

WIDEN = 4
"""Factor by which a search grows that did not find enough."""

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Slots by falling score, once each: the score of the slot's best vector, and that vector's number within it."""

    slots: Slots
    scores: Scores
    windows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which slots may be found.

    ``test`` marks those of some slots, ``mask`` gives a mark for every slot (a pass over all of them), ``listed`` is how
    many there are where that is known beforehand.
    """

    test: Callable[[NDArray[Any]], Mask]
    mask: Callable[[], Mask]
    listed: int | None = None


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files of the newest generation that hold the first ``count`` rows of a segment, and their codes by ``quantiser``."""

    count: int
    codes: Saved
    coarse: Saved | None
    quantiser: Quantiser | None


class Segment:
    """A stretch of rows: ``codes[:count]``. Those of a file are `mapped` and read-only."""

    def __init__(self, codes: Codes, count: int = 0, mapped: Mapped | None = None) -> None:
        self.codes, self.count, self.mapped = codes, count, mapped
        self.on_disk: OnDisk | None = None

    @property
    def rows(self) -> Codes:
        """The rows so far, a view of shape ``(count, dim)``."""
        return self.codes[: self.count]

    def append(self, vectors: Vectors | Codes) -> int:
        """Take as many rows as there is room for and say how many that was."""
        taken = 0 if self.mapped is not None else min(SEGMENT_ROWS - self.count, len(vectors))
        if taken <= 0:
            return 0
        end = self.count + taken
        if end > len(self.codes):
            larger = np.empty((min(SEGMENT_ROWS, max(end, 256, 2 * len(self.codes))), self.codes.shape[1]), np.float16)
            larger[: self.count] = self.rows
            self.codes = larger
        self.codes[self.count : end] = vectors[:taken]
        self.count = end
        return taken

    def map_instead(self, saved: Saved, count: int) -> None:
        """Use the file of these rows in place of the memory they take, if no more can come; readers keep what they hold."""
        if self.mapped is None and count == SEGMENT_ROWS:
            self.mapped = map_codes(saved.path, self.codes.shape[1])
            self.codes = self.mapped.rows


def numbered(counts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Count from 0 within each of several stretches: ``[2, 1]`` gives ``[0, 1, 0]``."""
    lengths = np.asarray(counts, np.int64)
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class VectorTable:
    """The table; slots come in rising order. Not locked; its owner is."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.coarse: Coarse | None = None
        self.segments: list[Segment] = []
        self._slots = Column(np.int32)
        self._windows = Column(np.int32)

    def __len__(self) -> int:
        return len(self._slots)

    def append(self, slots: Slots, windows: NDArray[Any], vectors: Vectors | Codes) -> None:
        """Append rows.

        Args:
            slots: The slot of each row.
            windows: The number of each row within its slot; each slot's rows follow each other, counted from 0.
            vectors: Shape ``(len(slots), dim)``.
        """
        done = 0
        while done < len(vectors):
            if not self.segments or not (taken := self.segments[-1].append(vectors[done:])):
                self.segments.append(Segment(np.empty((0, self.dim), np.float16)))
                continue
            done += taken
        self._slots.extend(slots)
        self._windows.extend(windows)

    def attach(self, saved: Saved) -> None:
        """Map a file that `vectors.to_bytes` made as further rows; `set_owners` must follow.

        Raises:
            ValueError: the file is not such a file.
        """
        mapped = map_codes(saved.path, self.dim)
        segment = Segment(mapped.rows, len(mapped.rows), mapped)
        segment.on_disk = OnDisk(segment.count, saved, None, None)
        self.segments.append(segment)

    def attach_coarse(self, files: Sequence[Saved], trained_on: int) -> None:
        """Take the codes of the first attached segments from files that `Quantiser.to_bytes` made.

        Raises:
            ValueError: they do not fit each other, or the segments.
        """
        quantiser: Quantiser | None = None
        codes: list[CoarseCodes] = []
        for segment, saved in zip(self.segments, files, strict=False):
            read, of_segment = Quantiser.read(saved.path, self.dim)
            if len(of_segment) != segment.count or not (quantiser is None or quantiser.is_like(read)):
                raise ValueError(f"{saved.path.name} does not fit its vectors")
            quantiser = quantiser or read
            codes.append(of_segment)
            assert segment.on_disk is not None
            segment.on_disk = replace(segment.on_disk, coarse=saved, quantiser=quantiser)
        if quantiser is not None:
            together = np.concatenate(codes)
            codes.clear()  # 48 MB of a million rows, which need not be there beside all that is made of them
            self.coarse = Coarse.of(quantiser, trained_on, together)

    def set_owners(self, windows_of_slots: NDArray[Any]) -> None:
        """Say to which slots the attached rows belong: the first ``windows_of_slots[0]`` of them to slot 0, and so on.

        Raises:
            ValueError: there are more or fewer rows.
        """
        if int(windows_of_slots.sum()) != sum(one.count for one in self.segments):
            raise ValueError("vectors and memories differ in number")
        slots = np.repeat(np.arange(len(windows_of_slots), dtype=np.int32), windows_of_slots)
        self._slots, self._windows = Column(np.int32, slots), Column(np.int32, numbered(windows_of_slots))

    def snapshot(self) -> VectorSnapshot:
        """Fix what is there now for reading without a lock."""
        segments = list(self.segments)
        rows = [one.rows for one in segments]
        return VectorSnapshot(self.dim, rows, self._slots.values, self._windows.values, self.coarse, segments)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows that stay together: their slots, windows, vectors of shape ``(n, dim)`` and, where all have them, coarse codes.

    ``segment`` is set where the rows are exactly those of one segment.
    """

    slots: Slots
    windows: NDArray[np.int32]
    codes: Codes
    coarse: CoarseCodes | None
    segment: Segment | None


@dataclass(frozen=True, slots=True, eq=False)
class VectorSnapshot:
    """The rows there were at one moment: float16 segments, and of each row its slot and its number within the slot."""

    dim: int
    parts: list[Codes]
    slots: NDArray[np.int32]
    windows: NDArray[np.int32]
    coarse: Coarse | None
    segments: list[Segment]

    def nearest(self, vector: Vectors, k: int, allowed: Allowed) -> Nearest:
        """Find the slots nearest to *vector* among the allowed.

        Args:
            vector: float32, shape ``(dim,)``, unit length.
            k: How many slots, at least 1; all that score like the k-th come too, so that the caller can order equals.
        """
        search = _Search(self, np.ascontiguousarray(vector, np.float32), allowed)
        wanted = k + 8
        while True:
            found, scores = search.best(wanted)
            slots = self.slots[found].astype(np.int64)
            _, firsts = np.unique(slots, return_index=True)
            firsts.sort()
            is_complete = len(firsts) >= k and scores[-1] < scores[firsts[k - 1]]
            if is_complete or len(found) < wanted:
                self._give_back()
                return Nearest(slots[firsts], scores[firsts], self.windows[found[firsts]].astype(np.int64))
            wanted *= WIDEN

    def read(self, rows: Slots) -> Codes:
        """Copy the vectors of *rows*, which rise; shape ``(len(rows), dim)``."""
        codes = np.empty((len(rows), self.dim), np.float16)
        # Straight into its place, in a call that lets other threads run; as bytes, for of a mapped file, whose numbers may lie
        # at odd addresses, that call would copy all.
        target = codes.view(np.uint8)
        first = done = 0
        for part in self.parts:
            end = done + int(np.searchsorted(rows[done:], first + len(part)))
            if end > done:
                np.take(part.view(np.uint8), rows[done:end] - first, axis=0, out=target[done:end], mode="clip")
            first, done = first + len(part), end
        return codes

    def blocks(self, keep: Mask) -> Iterator[Block]:
        """Give the rows of the slots marked in *keep*, in order, at most `SEGMENT_ROWS` at a time.

        A segment that is at least half full and keeps all its rows is a block of its own; what lies between is put together.
        """
        kept = keep[self.slots]
        first, waiting = 0, np.empty(0, np.int64)
        for part, segment in zip(self.parts, self.segments, strict=True):
            rows = np.flatnonzero(kept[first : first + len(part)]) + first
            first += len(part)
            if len(rows) == len(part) and 2 * len(part) >= SEGMENT_ROWS:
                yield from self._together(waiting)
                yield self._block(rows, segment)
                waiting = np.empty(0, np.int64)
            else:
                waiting = np.concatenate((waiting, rows))
        yield from self._together(waiting)

    def _together(self, rows: Slots) -> Iterator[Block]:
        for at in range(0, len(rows), SEGMENT_ROWS):
            yield self._block(rows[at : at + SEGMENT_ROWS], None)

    def _block(self, rows: Slots, segment: Segment | None) -> Block:
        covered = self.coarse is not None and int(rows[-1]) < self.coarse.count
        coarse = self.coarse.codes[rows] if covered and self.coarse is not None else None
        codes = self.read(rows) if segment is None else segment.codes[: len(rows)]
        return Block(self.slots[rows].astype(np.int64), self.windows[rows], codes, coarse, segment)

    def coarse_of(self, keep: Mask) -> Coarse | None:
        """Give the coarse index of the rows of the slots in *keep*, taken from these rows' own; None where there is none."""
        if self.coarse is None:
            return None
        codes = self.coarse.codes[keep[self.slots[: self.coarse.count]]]
        return Coarse.of(self.coarse.quantiser, self.coarse.trained_on, codes)

    def refined(self) -> Coarse | None:
        """Make the coarse index that these rows should have; None when theirs will do. Takes seconds for a million rows."""
        if not coarse_index.is_due(self.coarse, self.dim, len(self.slots)):
            return None
        made = coarse_index.extended(self.coarse, len(self.slots), self.read)
        self._give_back()
        return made

    def _give_back(self) -> None:
        """Keep what reading left in memory within `MOST_RESIDENT`."""
        keep_within(MOST_RESIDENT, (one.mapped for one in self.segments if one.mapped is not None))


class _Search:
    """One search over a snapshot; what it learned of the filter serves its wider rounds too."""

    def __init__(self, table: VectorSnapshot, query: Vectors, allowed: Allowed) -> None:
        self._table, self._query, self._allowed = table, query, allowed
        self._marked: Mask | None = None

    def best(self, wanted: int) -> tuple[Slots, Scores]:
        """Find the best *wanted* rows by falling score, then row; all that may be found, when they are fewer."""
        coarse = self._table.coarse
        if coarse is None or pool_size(wanted) * ALL_SHARE > len(self._table.slots):
            return self._exact(0, wanted)
        near, scores = self._coarsely(coarse, wanted)
        beyond, more = self._exact(coarse.count, wanted)
        return _ordered(np.concatenate((near, beyond)), np.concatenate((_rounded(scores), more)), wanted)

    def _coarsely(self, coarse: Coarse, wanted: int) -> Ranked:
        """Give rows that *coarse* covers, in any order, with their exact scores: the best *wanted* are among them."""
        asked = max(ASKED, 2 * pool_size(wanted))
        if self._marked is None and self._allowed.listed is None:
            rows, scores = coarse.packed.search(self._query, asked)
            passing = self._allowed.test(self._table.slots[rows])
            found, is_enough = self._scored((rows[passing], scores[passing]), wanted)
            if is_enough:
                return found
            if passing.all():  # it would find the same again
                asked *= WIDEN
        marks = self._marks()[: coarse.count]
        search = coarse.among(marks)
        while True:
            ranked = search(self._query, asked)
            found, is_enough = self._scored(ranked, wanted)
            if is_enough or len(ranked[0]) < asked or asked >= MOST_ASKED:
                return found
            asked *= WIDEN

    def _scored(self, ranked: Ranked, wanted: int) -> tuple[Ranked, bool]:
        """Score the first of *ranked* exactly, as many as are needed; the second value tells whether there were so many."""
        rows, coarse = ranked
        exact = np.empty(len(rows), np.float32)
        done, needed, least = 0, 0, pool_size(wanted)
        while done < (aim := min(max(needed, least), len(rows))):
            end = min(aim, done + SCORED_AT_ONCE)
            order = np.argsort(rows[done:end])
            exact[done + order] = score(self._table.read(rows[done + order]), self._query[None])
            done = end
            if done >= wanted:
                needed = rows_needed(coarse, exact[:done], wanted)
        return (rows[:done], exact[:done]), 0 < needed < len(rows)

    def _marks(self) -> Mask:
        """Give a mark for every row."""
        if self._marked is None:
            self._marked = self._allowed.mask().take(self._table.slots)  # twice as fast as by index
        return self._marked

    def _exact(self, start: int, count: int) -> tuple[Slots, Scores]:
        """Search the rows from *start* on, all of them."""
        slots = self._table.slots[start:]
        has_marks = self._marked is not None or start == 0
        allowed = self._marks()[start:] if has_marks else self._allowed.test(slots)
        all_rows: list[Slots] = [np.empty(0, np.int64)]
        all_scores: list[Scores] = [np.empty(0, np.float64)]
        is_open = bool(allowed.all())
        first = 0
        for whole in self._table.parts:
            codes = whole[max(0, start - first) :]
            at = max(first, start)
            first += len(whole)
            if not len(codes):
                continue
            selected = None if is_open else allowed[at - start : at - start + len(codes)]
            if selected is None or selected.any():
                scores, rows = search_exactly(codes, self._query[None], min(count, len(codes)), selected)
                all_rows.append(rows[rows >= 0] + at)
                all_scores.append(_rounded(scores[rows >= 0]))
        return _ordered(np.concatenate(all_rows), np.concatenate(all_scores), count)


def _rounded(scores: NDArray[np.float32]) -> Scores:
    return np.clip(scores.astype(np.float64), -1.0, 1.0).round(SCORE_DECIMALS)


def _ordered(rows: Slots, scores: Scores, count: int) -> tuple[Slots, Scores]:
    """Order rows by falling score, then row, and keep the first *count*."""
    order = np.lexsort((rows, -scores))[:count]
    return rows[order], scores[order]
