"""Matches the entries and numbers of a locale against whole words; each position is matched once."""

from __future__ import annotations

from dataclasses import replace

from infinite_memory.time_expressions.locales.data import NUMBER, Entry, Kind, Locale
from infinite_memory.time_expressions.locales.words import Word, is_unspaced

_PARTICLES = frozenset(
    "은|는|이|가|을|를|에|의|도|로|으로|에는|에도|에서|부터|까지|엔|경|쯤|께|와|과|날|부터는|까지는".split("|")  # noqa: SIM905
)
_HEBREW, _ARABIC = "בלמהוש", "بلوفك"
_INNER_SIGNS = frozenset(".'-,")
_NUMBER_SIGNS = frozenset(".,:/")
_MIN_PIECE = 2  # letters of a known piece of a run without spaces


class Matcher:
    """The words of a text for one locale: positions are indexes of words, and a match ends before a position."""

    def __init__(self, locale: Locale, words: list[Word]) -> None:
        self.locale = locale
        self.words = _cut(words, locale)
        self._matches: dict[int, list[tuple[Entry, int, int]]] = {}
        self._numbers: dict[int, tuple[int, int] | None] = {}

    def _word(self, index: int) -> Word | None:
        return self.words[index] if 0 <= index < len(self.words) else None

    def _entries(self, index: int, *kinds: Kind) -> list[tuple[Entry, int, int]]:
        """Return the entries of *kinds* at *index*: each with the position after it and its number (0 for none)."""
        return [row for row in self._all_entries(index) if row[0].kind in kinds]

    def _all_entries(self, index: int) -> list[tuple[Entry, int, int]]:
        """Return the entries at *index*, longest first; cached for each position."""
        if index not in self._matches:
            word = self._word(index)
            rows: list[Entry] = []
            for first in forms_of(word.folded) if word is not None else ():
                rows += self.locale.entries.get(first, ())
            if word is not None and (spelled := self._spelled(index)) is not None:
                behind = self._word(self._over_sign(spelled[1]))
                for second in forms_of(behind.folded) if behind is not None else ():
                    rows += self.locale.counted.get(second, ())
            result = [(entry, *match) for entry in rows if (match := self._match(entry, index))]
            self._matches[index] = sorted(result, key=lambda row: -row[1])
        return self._matches[index]

    def _over_sign(self, index: int) -> int:
        sign = self._word(index)
        return index + 1 if sign is not None and sign.folded in _INNER_SIGNS else index

    def _match(self, entry: Entry, index: int) -> tuple[int, int] | None:
        number, position = 0, index
        for step, expected in enumerate(entry.words):
            if step:
                position = self._over_sign(position)
            word = self._word(position)
            if word is None:
                return None
            if expected == NUMBER:
                spelled = self._spelled(position)
                if spelled is None:
                    return None
                number, position = spelled
            elif not _matches(word.folded, expected, is_first=step == 0, is_last=step == len(entry.words) - 1):
                return None
            else:
                position += 1
        return position, number

    def _number(self, index: int) -> int | None:
        """Return the number at the single word *index*."""
        spelled = self._spelled(index)
        return spelled[0] if spelled and spelled[1] == index + 1 else None

    def _spelled(self, index: int) -> tuple[int, int] | None:
        """Return the number at *index*, in digits of any script or in words, and the position after it; None for parts of longer ones."""
        if index not in self._numbers:
            self._numbers[index] = self._read_number(index)
        return self._numbers[index]

    def _read_number(self, index: int) -> tuple[int, int] | None:
        word = self._word(index)
        if word is None:
            return None
        if word.value is not None:
            return None if self._is_part_of_number(index) else (word.value, index + 1)
        if not word.is_letters:
            return None
        for words, value in self.locale.numbers.get(word.folded, ()):
            inside = self.words[index : index + len(words)]
            if tuple(each.folded for each in inside) == words:
                return value, index + len(words)
        matching = (value for pattern, value in self.locale.patterns if pattern.fullmatch(word.folded))
        number = next(matching, None)
        return (number, index + 1) if number is not None else None

    def _is_part_of_number(self, index: int) -> bool:
        """True if punctuation joins other digits to those at *index*: "2.5", "12:30", "1/4"."""
        for sign, digits in ((index + 1, index + 2), (index - 1, index - 2)):
            mark, number = self._word(sign), self._word(digits)
            if mark is None or number is None or mark.folded not in _NUMBER_SIGNS or not number.folded[:1].isdigit():
                continue
            if self.words[max(sign, index)].glued and self.words[max(sign, digits)].glued:
                return True
        return False


def forms_of(word: str) -> list[str]:
    """Return the forms of a word in the data: itself, without its prefix (Hebrew, Arabic) or its particle (Korean)."""
    forms = [word]
    if word[0] in _HEBREW:
        forms += [word[1:], "ה" + word[1:]]
    elif word[0] in _ARABIC:
        forms.append(word[1:])
    elif "\uac00" <= word[0] <= "\ud7a3":
        forms += [word[:-size] for size in (1, 2, 3) if word[-size:] in _PARTICLES and len(word) > size]
    return forms


def _matches(word: str, expected: str, *, is_first: bool, is_last: bool) -> bool:
    if word == expected:
        return True
    if not (is_first or is_last) or not word:
        return False
    is_korean = "\uac00" <= word[0] <= "\ud7a3"
    return expected in forms_of(word)[1:] and (is_last if is_korean else is_first)


def _cut(words: list[Word], locale: Locale) -> list[Word]:
    """Split runs without spaces into the pieces that the locale knows, the longest first."""
    if not any(is_unspaced(word.folded) for word in words):
        return words
    pieces = locale.pieces
    longest = max(map(len, pieces), default=0)
    cut: list[Word] = []
    for word in words:
        if not is_unspaced(word.folded) or word.end - word.start != len(word.folded):
            cut.append(word)
            continue
        index, begin = 0, 0
        while index < len(word.folded):
            sizes = range(min(longest, len(word.folded) - index), _MIN_PIECE - 1, -1)
            size = next((size for size in sizes if word.folded[index : index + size] in pieces), 0)
            if not size:
                index += 1
                continue
            if begin < index:
                cut.append(_piece(word, begin, index))
            cut.append(_piece(word, index, index + size))
            index = begin = index + size
        if begin < len(word.folded):
            cut.append(_piece(word, begin, len(word.folded)))
    return cut


def _piece(word: Word, start: int, end: int) -> Word:
    return replace(
        word,
        folded=word.folded[start:end],
        start=word.start + start,
        end=word.start + end,
        glued=word.glued if not start else True,
    )
