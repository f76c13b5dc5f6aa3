"""Counts of units in words: what belongs to a count, and counts with several parts ("1 hour 20 minutes ago").

A part is never taken for the whole: "one day ago" is not what "twenty-one days ago" means.
"""

from __future__ import annotations

from infinite_memory.time_expressions.amounts import Part
from infinite_memory.time_expressions.locales.data import NUMBER, Entry, Kind
from infinite_memory.time_expressions.locales.matching import Matcher

_MAX_COUNT = 10_000
_MAX_PARTS = 4  # of a count: years, months, weeks, days
_MAX_JOINT = 3  # letters of a word for "and"
_MAX_SPELLING = 3  # words of a number, minus one


class CountReader(Matcher):
    """Reads the time that an entry counts back, and adjacent words that belong to the count."""

    def _smaller_parts(self, first: Part, entry: Entry, after: int) -> tuple[list[Part], int]:
        """Return *first* and the smaller units after it, if the word for ago precedes them: "pred 2 urama i 5 minuta"."""
        parts = [first]
        if entry.words[0] == NUMBER or entry.words[-2:-1] != (NUMBER,):
            return parts, after
        while len(parts) < _MAX_PARTS:
            joint = self._word(after)
            is_joint = joint is not None and joint.is_letters and len(joint.folded) <= _MAX_JOINT
            spelled = self._spelled(after) or (self._spelled(after + 1) if is_joint else None)
            units = self._entries(spelled[1], Kind.UNIT) if spelled else []
            if not spelled or not units or units[0][0].value >= parts[-1].unit or not 0 < spelled[0] <= _MAX_COUNT:
                break
            parts.append(Part(spelled[0], units[0][0].value))
            after = units[0][1]
        return parts, after

    def _part(self, entry: Entry, number: int) -> Part | None:
        """Return the time that an entry counts back; None for the future and for counts that are too large."""
        sign, unit, fixed = entry.value
        count = fixed or number
        return Part(count, unit) if sign < 0 and 0 < count <= _MAX_COUNT else None

    def _continues_count(self, index: int, entry: Entry) -> bool:
        """True if the preceding words belong to the count: the "one day ago" of "twenty-one days ago", or "1 hour 20 minutes"."""
        if entry.words[0] != NUMBER and NUMBER in entry.words:
            return False
        before = self._word(index - 1)
        if before is None or index < 1:
            return False
        if before.folded.isdigit() or before.value is not None or self._ends_number(index - 1):
            return True
        gap = index - 2 if len(before.folded) <= _MAX_JOINT and before.is_letters else index - 1
        return any(
            unit.kind is Kind.UNIT and self._ends_number(gap - 1) for unit, _, _ in self._entries(gap, Kind.UNIT)
        )

    def _ends_number(self, index: int) -> bool:
        """True if *index* is the last word of a number in digits or words, or inside one."""
        return any(
            (spelled := self._spelled(start)) is not None and spelled[1] > index
            for start in range(max(0, index - _MAX_SPELLING), index + 1)
        )

    def _joined_counts(self, index: int) -> tuple[list[Part], int] | None:
        """Read "1 hour 20 minutes ago", with or without a short word between: the last part determines that it is past."""
        parts: list[Part] = []
        position = index
        while len(parts) < _MAX_PARTS and (spelled := self._spelled(position)):
            units = self._entries(spelled[1], Kind.UNIT)
            last = [row for row in self._entries(position, Kind.COUNTED) if row[0].words[0] == NUMBER]
            if parts and last and (part := self._part(last[0][0], last[0][2])) and part.unit < parts[-1].unit:
                return [*parts, part], last[0][1]
            if not units or not 0 < spelled[0] <= _MAX_COUNT or (parts and units[0][0].value >= parts[-1].unit):
                return None
            parts.append(Part(spelled[0], units[0][0].value))
            position = units[0][1]
            joint = self._word(position)
            if joint is not None and self._spelled(position) is None and len(joint.folded) <= _MAX_JOINT:
                position += 1
        return None
