"""Tables with colours for a terminal: columns as wide as their cells, one of them wrapped to the remaining width.

Not a library: the smallest one for tables adds 12 MB of syntax highlighting to every installation, and the commands need one kind
of table. Values must have gone through `in_one_line` or `escaped`: tables bypass the escaping stream. Standard library only, except
on Windows.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from infinite_memory.cli.terminal import raw

GAP = "  "
MIN_FLEXIBLE = 20  # minimum width of the flexible column; on a narrower terminal its lines overflow
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
_WIDE = frozenset("WF")  # East Asian width classes of two cells (Unicode Standard Annex 11)
_WITHOUT_CELL = frozenset(("Mn", "Me", "Cf"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, the style of its cells, and its width limits.

    Attributes:
        max_width: Width in cells above which it is wrapped; None: as wide as its widest cell.
        flexible: Shrinks to the width that the other columns leave.
    """

    title: str
    style: str = ""
    is_number: bool = False
    max_width: int | None = None
    flexible: bool = False


Span = tuple[str, str]
"""A text and its style: names of `_CODES` separated by spaces, or ""."""
Cell = str | Sequence[Span]
"""The content of a cell: a text in the column's style, or spans with their own styles. Line breaks are kept."""
_Letters = list[Span]


def write_line(*spans: Span) -> None:
    """Write a line to standard output, in colours if enabled; the terminal wraps it."""
    _write([_render(_letters(spans, ""))])


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a table to standard output, at most as wide as the terminal if a flexible column allows it."""
    cells = [[_letters(cell, column.style) for column, cell in zip(columns, row, strict=True)] for row in rows]
    titles = [_letters(column.title, "bold") for column in columns]
    widths = _widths(columns, [titles, *cells])
    lines = [_row(columns, titles, widths), "─" * (sum(widths) + len(GAP) * (len(widths) - 1))]
    _write([*lines, *(_row(columns, row, widths) for row in cells)])


def highlighted(text: str, words: Iterable[str], style: str = "bold yellow") -> list[Span]:
    """Return *text* as spans with every occurrence of *words* highlighted, case-insensitively."""
    folded = text.lower()
    marked = [False] * len(text)
    if len(folded) == len(text):  # some letters become two in lower case, which shifts positions
        for word in {word.lower() for word in words if word}:
            start = folded.find(word)
            while start >= 0:
                marked[start : start + len(word)] = [True] * len(word)
                start = folded.find(word, start + len(word))
    runs = groupby(zip(text, marked, strict=True), itemgetter(1))
    return [("".join(letter for letter, _ in run), style if mark else "") for mark, run in runs]


def cells_of(text: str) -> int:
    """Return the width of *text* in terminal cells."""
    return sum(_cells(letter) for letter in text)


def _cells(letter: str) -> int:
    if letter.isascii():
        return 1
    if unicodedata.category(letter) in _WITHOUT_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1


def _letters(cell: Cell, style: str) -> _Letters:
    spans = [(cell, "")] if isinstance(cell, str) else cell
    return [(letter, own or style) for text, own in spans for letter in text]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[_Letters]]) -> list[int]:
    widths = []
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        widest = max(_length(line) for cell in cells for line in _lines(cell))
        widths.append(widest if column.max_width is None else min(widest, column.max_width))
    free = shutil.get_terminal_size().columns - sum(widths) - len(GAP) * (len(widths) - 1)
    for index, column in enumerate(columns):
        if column.flexible and free < 0:
            widths[index] = max(widths[index] + free, min(widths[index], MIN_FLEXIBLE))
    return widths


def _row(columns: Sequence[Column], cells: Sequence[_Letters], widths: Sequence[int]) -> str:
    """Return the lines of a row, as many as its tallest cell has."""
    folded = [
        [part for line in _lines(cell) for part in _fold(line, width)]
        for cell, width in zip(cells, widths, strict=True)
    ]
    rows = []
    for number in range(max(map(len, folded))):
        texts = []
        for column, parts, width in zip(columns, folded, widths, strict=True):
            part = parts[number] if number < len(parts) else []
            blanks = " " * (width - _length(part))
            texts.append(blanks + _render(part) if column.is_number else _render(part) + blanks)
        rows.append(GAP.join(texts).rstrip())
    return "\n".join(rows)


def _lines(letters: _Letters) -> list[_Letters]:
    lines: list[_Letters] = [[]]
    for pair in letters:
        if pair[0] == "\n":
            lines.append([])
        else:
            lines[-1].append(pair)
    return lines


def _length(letters: _Letters) -> int:
    return sum(_cells(letter) for letter, _ in letters)


def _fold(letters: _Letters, width: int) -> list[_Letters]:
    """Wrap a line into parts of at most *width* cells, at a space if possible."""
    parts = []
    while _length(letters) > width:
        used, cut = 0, 0
        while used + _cells(letters[cut][0]) <= width:
            used += _cells(letters[cut][0])
            cut += 1
        blank = next((index for index in range(cut, 0, -1) if letters[index][0] == " "), 0)
        cut = blank or max(cut, 1)
        parts.append(letters[:cut])
        letters = letters[cut + 1 :] if blank else letters[cut:]
    return [*parts, letters]


def _render(letters: _Letters) -> str:
    """Return the text, with ANSI codes of its styles if colours are enabled (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return "".join(letter for letter, _ in letters)
    texts = []
    for style, group in groupby(letters, itemgetter(1)):
        text = "".join(letter for letter, _ in group)
        codes = ";".join(_CODES[name] for name in style.split())
        texts.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
    return "".join(texts)


def _write(lines: Iterable[str]) -> None:
    if sys.platform == "win32":
        import colorama

        colorama.just_fix_windows_console()
    stream = raw(sys.stdout)
    for line in lines:
        stream.write(line + "\n")
