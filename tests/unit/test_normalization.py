"""Unicode's normalization forms: the library's result for every text, in linear time."""

from __future__ import annotations

import random
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory.contracts.agentmem.access import make_content_key
from infinite_memory.models import content_hash, fold
from infinite_memory.normalization import MAX_RUN, Form, is_blank, normalize
from infinite_memory.text.equivalence import exact_key, say_the_same
from infinite_memory.text.tokenizer import fold_word, tokenize
from infinite_memory.time_expressions.tokens import folded_words
from tests.processes import LONG

FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
ROOT = Path(__file__).resolve().parent.parent.parent
MARKS = [
    character
    for character in map(chr, range(0x110000))
    if unicodedata.combining(character)
    or (unicodedata.decomposition(character) and unicodedata.combining(unicodedata.normalize("NFKD", character)[0]))
]
LETTERS = "aeoÅế ﬁ힣각नक\u1100\u1161\u11a8\u0f40カﾊ😀\uac00\u0344"


def make_run(length: int) -> str:
    """Return a letter with *length* marks, half of which belong before the others."""
    return "a" + "\u0301" * (length // 2) + "\u0316" * (length // 2)


@pytest.mark.parametrize("form", FORMS)
def test_every_text_of_this_checkout_is_what_the_library_makes_of_it(form: Form) -> None:
    files = [*ROOT.glob("docs/**/*.md"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "infinite_memory").rglob("*.py")]
    assert len(files) > 300
    for file in files:
        text = file.read_text("utf-8")
        assert normalize(form, text) == unicodedata.normalize(form, text), file


@pytest.mark.parametrize("form", FORMS)
def test_every_character_is_what_the_library_makes_of_it_whatever_stands_around_it(form: Form) -> None:
    run, step = make_run(40), 1 if LONG else 2  # a short run: even ones by the first two forms, odd ones by the others
    for point in range(FORMS.index(form) // 2 % step, 0x110000, step):
        character = chr(point)
        if unicodedata.decomposition(character) or unicodedata.category(character)[0] == "M":
            text = f"{run}{character}{run[1:]}{character * 40}\u0316"
            assert normalize(form, text) == unicodedata.normalize(form, text), hex(point)


@pytest.mark.parametrize("form", FORMS)
def test_random_texts_of_letters_and_marks_are_what_the_library_makes_of_them(form: Form) -> None:
    chance = random.Random(form)
    for _ in range(3000 if LONG else 600):
        marks = chance.sample(MARKS, 6)
        text = "".join(
            chance.choice(LETTERS) * chance.randint(0, 3)
            + "".join(chance.choices(marks, k=chance.randint(0, 3 * MAX_RUN)))
            for _ in range(chance.randint(1, 5))
        )
        assert normalize(form, text) == unicodedata.normalize(form, text), ascii(text)


def test_no_character_begins_with_a_mark_and_goes_on_with_a_letter() -> None:
    """Else a run could be longer than its characters that are marks alone, and would not be found."""
    for character in MARKS:
        assert all(map(unicodedata.combining, unicodedata.normalize("NFKD", character))), ascii(character)


@pytest.mark.parametrize(
    "use",
    [
        content_hash,
        fold,
        fold_word,
        tokenize,
        exact_key,
        folded_words,
        lambda text: say_the_same(text, text + "\u0301"),
        lambda text: make_content_key({"user": "ann"}, text),
        *(lambda text, form=form: normalize(form, text) for form in FORMS),
    ],
)
def test_marks_out_of_order_cost_no_more_than_they_are_many(use: Callable[[str], object]) -> None:
    """The library alone takes 7 s for the first text, and 500 s for the longest; here a thousandth of that is measured."""

    def measure(text: str) -> float:
        start = time.process_time()
        use(text)
        return time.process_time() - start

    assert measure(make_run(40_000)) < 2
    assert measure(make_run(340_000 if LONG else 80_000)) < 10
    assert measure(make_run(MAX_RUN) * (10_000 if LONG else 1000)) < 10


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("Grüße an Ångström", "c577e1b776e525db677e0794126ed572dd302603254708ec52596c9e54dee476"),
        ("e\u0301" * 50, "2d18fe4b61f0113952aaa8999ee5cfedb640a6206d9c38848ea3451be2882455"),
        (make_run(80), "41cfc2cc714872d9441f49e8b7421e529bf4ee65b7ce1f7ce7dabf6c73b5bee4"),
    ],
)
def test_hashes_of_texts_stay_what_they_are(text: str, digest: str) -> None:
    assert content_hash(text) == digest


def test_a_text_that_shows_nothing_is_blank() -> None:
    for text in ("", " \n\t", "\u200b", "\ufeff\u2060 ", "\x00", "\u202e\u200b" * 50, "\u3000"):
        assert is_blank(text), repr(text)
    for text in ("a", " " * 100 + "a", "\u200ba", "🙂", "·", "\ue000", "ก", "\u0301"):
        assert not is_blank(text), repr(text)
