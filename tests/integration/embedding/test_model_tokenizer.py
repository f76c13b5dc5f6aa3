"""A model's tokens are those of the library whose file describes them, whichever library reads it here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.embedding.manifest import SECOND_MODEL, TOKENIZER_FILE, get_folder, is_exported
from infinite_memory.embedding.model_tokenizer import (
    HuggingFaceTokenizer,
    ModelTokenizer,
    frame_size,
    load_hugging_face,
    load_tokenizer,
)
from infinite_memory.embedding.vocabulary import reading_of, spelled_out
from infinite_memory.embedding.windows import cut
from infinite_memory.errors import EmbeddingError
from tests.integration.embedding.conftest import missing

SCRIPTS = (
    "Grandma's birthday is on 3 May; she likes unbelievably dark chocolate (85 %).",
    "Der Zahnarzttermin wurde auf Donnerstag verschoben, über Äußerungen straßenweise.",
    "Le garçon naïf déjà-vu œuvre; e\u0301te\u0301 decomposed",
    "İstanbul'da ılık bir gün, ĞÜŞİÖÇ",
    "Tiếng Việt có dấu thanh: Nguyễn Ặ",
    "Привет, как дела? Ёжик ё",
    "Καλημέρα κόσμε ΑΣ ς",
    "שלום עולם בְּרֵאשִׁית",
    "مرحبا بالعالم، كيفَ الحال؟ ١٢٣",
    "یہ اردو کا متن ہے",
    "नमस्ते दुनिया, क्षत्रिय",
    "আমার সোনার বাংলা",
    "தமிழ் மொழி எழுத்து",
    "తెలుగు అక్షరాలు",
    "สวัสดีชาวโลก ภาษาไทย",
    "မင်္ဂလာပါ ကမ္ဘာ",
    "ភាសាខ្មែរ អក្សរ",
    "გამარჯობა ᲛᲡᲝᲤᲚᲘᲝ",
    "Բարեւ աշխարհ",
    "ሰላም ዓለም",
    "日本語の長い文章です。ﾊﾝｶｸ か\u3099",
    "外婆喜欢郁金香。𠮷野家 ㍻",
    "안녕하세요 세계 \u1112\u1161\u11ab",
    "👩\u200d👩\u200d👧 🇩🇪 👍🏽 ☎️ ✈",
    "[CLS] a [SEP] b [MASK] [UNK] [PAD] </s> <unk> ##ing ▁ _",
    'ERR_CONN_RESET v2.14.3-rc1 https://example.com/a?b=c#d x@y.z {"k": [1, 2]}',
    "\x00\x01\x7f\u200b\ufeff\ufffd\u2028\u00ad soft\u00adhyphen \t\r\n\v\f ﬁﬂ ǅ ẞ Ⅷ ½",
    "x" * 150 + " " + "y" * 100,
    "",
    "   ",
)


@pytest.fixture(scope="module", params=["default", SECOND_MODEL])
def file(request: pytest.FixtureRequest, model_folder: Path) -> Path:
    """The ``tokenizer.json`` of each model that the product uses: word pieces, and sentencepiece."""
    folder = model_folder if request.param == "default" else get_folder(SECOND_MODEL)
    if not is_exported(folder):
        missing("the second model")
    return folder / TOKENIZER_FILE


@pytest.fixture(scope="module")
def both(file: Path) -> tuple[ModelTokenizer, HuggingFaceTokenizer]:
    """What the product reads the file with, and the library whose file it is."""
    return load_tokenizer(file), load_hugging_face(json.loads(file.read_text(encoding="utf-8")))


def check_equal(both: tuple[ModelTokenizer, HuggingFaceTokenizer], text: str) -> None:
    ours, theirs = both
    for framed in (True, False):
        got, expected = ours.encode(text, framed=framed), theirs.encode(text, framed=framed)
        assert got.ids == expected.ids
        assert got.tokens == expected.tokens
        assert got.offsets == expected.offsets
        assert got.special_tokens_mask == expected.special_tokens_mask
    assert ours.word_starts(got) == theirs.word_starts(expected)
    assert cut(text, 16, ours) == cut(text, 16, theirs)
    assert reading_of(ours, text) == reading_of(theirs, text)
    assert spelled_out(ours, text) == spelled_out(theirs, text)


def test_this_machine_reads_the_file_without_the_library_of_the_hub(
    both: tuple[ModelTokenizer, HuggingFaceTokenizer],
) -> None:
    ours, theirs = both
    assert not isinstance(ours, HuggingFaceTokenizer)
    assert (ours.size, frame_size(ours)) == (theirs.size, frame_size(theirs))


@pytest.mark.parametrize("text", SCRIPTS)
def test_every_script_has_the_same_tokens(both: tuple[ModelTokenizer, HuggingFaceTokenizer], text: str) -> None:
    check_equal(both, text)


def test_a_long_text_of_all_scripts_has_the_same_tokens(both: tuple[ModelTokenizer, HuggingFaceTokenizer]) -> None:
    check_equal(both, " ".join(SCRIPTS) * 8)


def test_the_texts_of_the_tests_have_the_same_tokens(
    both: tuple[ModelTokenizer, HuggingFaceTokenizer], texts: list[str]
) -> None:
    for text in texts:
        check_equal(both, text)


@settings(deadline=None, max_examples=150)
@given(parts=st.lists(st.one_of(st.text(max_size=20), st.sampled_from(SCRIPTS)), max_size=8))
def test_any_text_has_the_same_tokens(both: tuple[ModelTokenizer, HuggingFaceTokenizer], parts: list[str]) -> None:
    check_equal(both, "".join(parts))


@pytest.mark.parametrize("present", ["morpheme", "tokenizers"])
@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"model": {"type": "Nothing"}}', '{"model": {"type": "WordPiece"}}']
)
def test_a_file_that_describes_no_tokenizer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str, content: str
) -> None:
    (tmp_path / TOKENIZER_FILE).write_text(content)
    hide(monkeypatch, {"morpheme", "tokenizers"} - {present})
    with pytest.raises(ValueError):
        load_tokenizer(tmp_path / TOKENIZER_FILE)


def test_where_morpheme_is_not_the_other_library_reads_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, {"morpheme"})
    assert isinstance(load_tokenizer(file), HuggingFaceTokenizer)
    hide(monkeypatch, {"morpheme", "tokenizers"})
    with pytest.raises(EmbeddingError, match="neither morpheme nor tokenizers"):
        load_tokenizer(file)


def hide(monkeypatch: pytest.MonkeyPatch, names: set[str]) -> None:
    """Have these packages not found, as on a machine that lacks them."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
