"""Emoji, names of programming languages, and marks that change how a word looks and not which word it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infinite_memory.text.spelling import Vocabulary
from infinite_memory.text.tokenizer import tokenize

DATA = Path(__file__).resolve().parents[2] / "data" / "scripts" / "sentences.json"
SCRIPTS = json.loads(DATA.read_text("utf-8"))["scripts"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("👩‍👩‍👧‍👦", ["👩‍👩‍👧‍👦"]),
        ("❤️‍🔥", ["❤‍🔥"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("call 5️⃣ or #️⃣", ["call", "5⃣", "or", "#⃣"]),
        ("👍🏽", ["👍🏽", "👍"]),
        ("👩🏽‍💻", ["👩🏽‍💻", "👩‍💻"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿"]),
        ("☕️ ☕︎ ☕", ["☕", "☕", "☕"]),
        ("party🎉🎉now", ["party", "🎉", "🎉", "now"]),
        ("‍ ‍‍", []),
        ("️", []),
    ],
)
def test_an_emoji_with_all_that_is_joined_to_it_is_a_word_and_a_joiner_alone_is_none(
    text: str, words: list[str]
) -> None:
    assert tokenize(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C++ and C#", ["c++", "c", "and", "c#", "c"]),
        ("#tea snake_case", ["tea", "snake_case", "snake", "case"]),
        ("src/app/main.py", ["src/app/main.py", "src", "app", "main", "py"]),
        ("v2.14.3-rc1", ["v2.14.3-rc1", "v2", "14", "3", "rc1"]),
        ("a@b.de 0xDEADBEEF", ["a@b.de", "a", "b", "de", "0xdeadbeef"]),
        ("x + y, a = b.", ["x", "y", "a", "b"]),
    ],
)
def test_an_identifier_is_whole_and_in_parts(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("שָׁלוֹם", "שלום"),
        ("الْقُرْآن", "القرآن"),
        ("كِتَـــاب", "كتاب"),
        ("\u200fשלום\u200f", "שלום"),
        ("क्\u200dष", "क्ष"),
        ("soft\u00adhyphen", "softhyphen"),
        ("ＡＢＣ", "abc"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("ﬁne", "fine"),
        ("Ｃ＋＋", "c++"),
    ],
)
def test_marks_and_forms_that_do_not_change_the_word_do_not_count(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_word_of_a_sentence_is_among_its_words_in_every_script(script: str) -> None:
    sentence, *_, word = SCRIPTS[script]
    words, wanted = tokenize(sentence), tokenize(word)
    assert wanted
    assert any(words[index : index + len(wanted) - 1] == wanted[:-1] for index in range(len(words)))
    assert set(wanted) <= set(words)


def test_a_mark_never_stands_alone_where_characters_are_words() -> None:
    assert tokenize("ရန်ကုန်") == ["ရ", "ရန်", "န်", "န်ကု", "ကု", "ကုန်", "န်"]


def test_an_emoji_is_nobodys_slip() -> None:
    vocabulary = Vocabulary(["👩‍👩‍👧‍👦", "family"])
    assert len(vocabulary) == 1
    assert vocabulary.nearest("famly") == [("family", 1)]
