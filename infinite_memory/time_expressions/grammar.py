"""The grammar: single spans, and the ranges, beginnings and ends built from them.

A recursive descent over lexemes with hand-written rules, the same for every language: the differences are in the tables. It
nests at most three levels, every span is parsed once for each position, and nothing backtracks over text.
"""

from __future__ import annotations

from infinite_memory.time_expressions.clock_days import clock_then_day, narrow, part_of_day
from infinite_memory.time_expressions.dates import longest
from infinite_memory.time_expressions.edges import compound, edge, edge_span, part, rest, third_behind
from infinite_memory.time_expressions.lexicon import Tag
from infinite_memory.time_expressions.open_ranges import beyond, open_end, open_start, single
from infinite_memory.time_expressions.ordinals import nth_behind
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.periods import DATE_RULES
from infinite_memory.time_expressions.ranges import around, from_to, neighbours, within_week
from infinite_memory.time_expressions.relative import RELATIVE_RULES
from infinite_memory.time_expressions.same_time import same_time_behind

_SUPPORT = (Tag.IN, Tag.ON, Tag.SINCE, Tag.FROM, Tag.BEFORE, Tag.AFTER, Tag.UNTIL, Tag.BETWEEN, Tag.AROUND, Tag.OF)


class Grammar(Reader):
    """Parses times from a list of lexemes."""

    def day(self, position: int) -> Found | None:
        """Read a calendar span at *position*, without a clock time."""
        if position not in self._days:
            self._days[position] = None  # a rule that recurses to this position finds nothing, which ends the recursion
            self._days[position] = self._read_day(position)
        return self._days[position]

    def _read_day(self, position: int) -> Found | None:
        if not self.at(position).folded:
            return None
        dated = longest(self, position, DATE_RULES)
        counted = longest(self, position, RELATIVE_RULES)
        if counted and (
            dated is None or counted.after > dated.after or (counted.after == dated.after and not dated.strong)
        ):
            dated = counted
        if dated and self.language.scriptless:
            dated = self._edge_behind(nth_behind(self, dated))
        if dated:
            dated = same_time_behind(self, dated)
        edged = part(self, position) or edge(self, position) or compound(self, position)
        return edged if edged and (dated is None or edged.after > dated.after) else dated

    def _edge_behind(self, result: Found) -> Found:
        """Cut a period by the word after it: "今月下旬", "先月の後半"."""
        index = self.skip(result.after, Tag.OF, limit=1)
        edge_name, after = third_behind(self, index)
        if edge_name is None:
            edge_name, after = self.at(index).get(Tag.EDGE), index + 1
        if edge_name is None and self.has(after, Tag.HALF) and self.has(index, Tag.BEFORE_CLOSES, Tag.AFTER_CLOSES):
            edge_name, after = "first_half" if self.has(index, Tag.BEFORE_CLOSES) else "second_half", after + 1
        cut = None if edge_name is None or self.has(after, Tag.UNIT) else edge_span(self.settled(result), edge_name)
        return result if cut is None else Found(cut, after)

    def period(self, position: int) -> Found | None:
        """Read a span at *position*, narrowed by a clock time if there is one."""
        if position not in self._periods:
            self._periods[position] = None
            self._periods[position] = self._read_period(position)
        return self._periods[position]

    def _read_period(self, position: int) -> Found | None:
        best = self.day(position)
        if best:
            best = narrow(self, best)
        for rule in (part_of_day, clock_then_day):
            result = rule(self, position)
            if result and (best is None or result.after > best.after):
                best = result
        return best

    def range(self, position: int) -> Found | None:
        """Read the longest time at *position*: a range, an open range, or a single span."""
        best: Found | None = None
        for rule in (from_to, within_week, neighbours, beyond, open_start, open_end, around, rest, single):
            result = rule(self, position)
            if result and (best is None or result.after > best.after):
                best = result
        return best

    def is_supported(self, position: int) -> bool:
        """True if the word before *position* indicates that a time follows."""
        before = position - 1
        the = self.has(before, Tag.THE) and not self.has(before, *_SUPPORT)
        if self.has(before, Tag.THE) and self.has(position, Tag.WEEKDAY) and self.has(position, Tag.WEAK):
            return False  # "a segunda vez"
        if the and not (self.has(position, Tag.SEASON, Tag.ORDINAL) or self.at(position).digits):
            return False
        return self.has(before - 1 if the else before, *_SUPPORT) and not self.at(before).mute
