"""What may stand in a language's table: words and rules, never a phrase that only a test would use."""

from __future__ import annotations

import pytest

from infinite_memory.time_expressions.languages import CODES, lexicon
from infinite_memory.time_expressions.lexicon import Tag, Unit

MOST_WORDS = 4


def words_of(entry: tuple[str, ...]) -> list[str]:
    return [token for token in entry if token.isalnum()]


@pytest.mark.parametrize("code", CODES)
def test_no_entry_has_a_digit(code: str) -> None:
    entries = ["".join(entry) for entry in lexicon(code).entries()]

    assert [entry for entry in entries if any(character.isascii() and character.isdigit() for character in entry)] == []


@pytest.mark.parametrize("code", [code for code in CODES if code not in ("zh", "ja")])
def test_no_entry_has_more_than_four_words(code: str) -> None:
    # an apostrophe joins: "o'clock" is one word
    entries = [" ".join(words_of(entry)) for entry in lexicon(code).entries() if "'" not in entry]

    assert [entry for entry in entries if len(entry.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("code", CODES)
def test_every_language_knows_weekdays_units_and_days(code: str) -> None:
    meanings = [lexicon(code).match(list(entry), 0)[1] for entry in lexicon(code).entries()]

    assert {found[Tag.WEEKDAY] for found in meanings if Tag.WEEKDAY in found} == set(range(7))
    assert {Unit.DAY, Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR} <= {
        found[Tag.UNIT] for found in meanings if Tag.UNIT in found
    }
    assert {0, -1} <= {found[Tag.DAY] for found in meanings if Tag.DAY in found}


@pytest.mark.parametrize("code", [code for code in CODES if code not in ("zh", "ja")])
def test_every_spaced_language_knows_twelve_months(code: str) -> None:
    meanings = [lexicon(code).match(list(entry), 0)[1] for entry in lexicon(code).entries()]

    assert {found[Tag.MONTH] for found in meanings if Tag.MONTH in found} == set(range(1, 13))
