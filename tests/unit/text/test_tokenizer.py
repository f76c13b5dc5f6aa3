"""Words are what a reader would look for, in every script."""

from __future__ import annotations

import pytest

from infinite_memory.text.tokenizer import find_codes, tokenize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I went to Caroline's house.", ["i", "went", "to", "caroline", "house"]),
        ("José Núñez", ["jose", "nunez"]),
        ("O\u2019Brien\u2019s car, \u2018don\u2019t\u2019", ["o'brien", "car", "don't"]),
        ("п\u02bcять п\u2019ять п'ять", ["п'ять"] * 3),
        ("Hawai\u02bbi, ma\u2018lum, צ\u05f3ק", ["hawai'i", "ma'lum", "צ'ק"]),
        ("ERR_CONN_RESET!", ["err_conn_reset", "err", "conn", "reset"]),
        ("see src/app/main.py.", ["see", "src/app/main.py", "src", "app", "main", "py"]),
        ("v2.14.3-rc1", ["v2.14.3-rc1", "v2", "14", "3", "rc1"]),
        ("欧阳若", ["欧", "欧阳", "阳", "阳若", "若"]),
        ("राजेश कुलकर्णी", ["राजेश", "कुलकर्णी"]),
        ("...", []),
    ],
)
def test_a_text_falls_into_words_identifiers_whole_and_in_parts(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


def test_codes_are_told_from_words_with_hyphens_and_plain_numbers() -> None:
    assert find_codes("the well-known E4217 in /etc/app.conf since 2023, v1.2.3") == [
        "e4217",
        "/etc/app.conf",
        "v1.2.3",
    ]
