"""How long texts are cut: nothing lost, nothing too long for the model, bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Encoding, Tokenizer

from infinite_memory.embedding.model_tokenizer import HuggingFaceTokenizer
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.windows import MAX_WINDOWS, cut
from infinite_memory.models import Window

CAPACITY = 254


@pytest.fixture(scope="module")
def tokenizer(embedder: OnnxEmbedder) -> Tokenizer:
    loaded = Tokenizer.from_file(str(embedder.folder / "tokenizer.json"))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def tokens(tokenizer: Tokenizer, text: str) -> Encoding:
    return tokenizer.encode(text, add_special_tokens=False)


def test_a_text_that_fits_is_one_window(embedder: OnnxEmbedder) -> None:
    for text in ("", " ", "short", "word " * CAPACITY):
        assert embedder.windows(text) == (Window(0, len(text)),)


def test_one_token_too_many_makes_two_windows(embedder: OnnxEmbedder) -> None:
    text = "word " * (CAPACITY + 1)
    first, second = embedder.windows(text)
    assert first.start == 0
    assert second.end == len(text)
    assert second.start < first.end


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over unbelievably lazy dogs. " * 300,
        "日本語の長い文章です。" * 200,
        "🎉 Ünïcödé naïveté; " * 300,
        "x" * 5_000 + " " + "several words follow here " * 300,
        "a-b_c/d.e" * 500,
        "\n\n\t  spaced   out \n" * 400,
        "antidisestablishmentarianism" * 3 + " electroencephalographically " * 200,
    ],
)
def test_windows_hold_every_token_and_none_is_too_long(embedder: OnnxEmbedder, tokenizer: Tokenizer, text: str) -> None:
    check_windows(embedder.windows(text), text, tokenizer)


WORDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["word ", "unbelievable ", "日本", "🎉", "--", "\n", "antidisestablishmentarianism"]),
)


@settings(deadline=None, max_examples=60)
@given(words=st.lists(WORDS, min_size=1, max_size=40), repeat=st.integers(1, 60))
def test_windows_of_any_text_hold_every_token(
    embedder: OnnxEmbedder, tokenizer: Tokenizer, words: list[str], repeat: int
) -> None:
    text = "".join(words) * repeat
    check_windows(embedder.windows(text), text, tokenizer)


def check_windows(windows: tuple[Window, ...], text: str, tokenizer: Tokenizer) -> None:
    assert windows[0].start == 0
    assert windows[-1].end == len(text)
    spans = np.array([span for span in tokens(tokenizer, text).offsets if span[0] < span[1]]).reshape(-1, 2)
    held = np.zeros(len(spans), dtype=bool)
    for window in windows:
        held |= (window.start <= spans[:, 0]) & (spans[:, 1] <= window.end)
        assert len(tokens(tokenizer, text[window.start : window.end])) <= CAPACITY
    assert held.all()
    assert [window.start for window in windows] == sorted({window.start for window in windows})


@pytest.mark.parametrize("text", ["!" * 1_048_576, "word " * 209_715, "日本" * 131_072, "a" * 1_048_576])
def test_a_mebibyte_has_a_bounded_number_of_windows_that_reach_its_end(embedder: OnnxEmbedder, text: str) -> None:
    windows = embedder.windows(text)
    assert 1 <= len(windows) <= MAX_WINDOWS
    assert windows[0].start == 0
    assert windows[-1].end == len(text)


def test_a_window_begins_at_a_word_and_not_inside_one(tokenizer: Tokenizer) -> None:
    text = "unbelievably " * 400
    for window in cut(text, CAPACITY, HuggingFaceTokenizer(tokenizer)):
        assert text[window.start :].startswith("unbelievably")


def test_the_end_of_a_long_text_is_found_by_meaning(embedder: OnnxEmbedder) -> None:
    text = "The committee discussed the budget of the harbour at length. " * 80 + "My cat is called Minka."
    query = embedder.embed(["what is the name of my cat?"])[0]
    scores = embedder.embed([text[one.start : one.end] for one in embedder.windows(text)]) @ query
    assert scores[-1] == scores.max()
    assert scores[-1] > (embedder.embed([text])[0] @ query) + 0.1
