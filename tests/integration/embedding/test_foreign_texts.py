"""Which texts are taken for another language than English: by vocabulary and language detection, with the real model."""

from __future__ import annotations

import pytest

from infinite_memory.embedding.languages import is_foreign
from infinite_memory.embedding.onnx import OnnxEmbedder

FOREIGN = (
    "Der Zahnarzttermin wurde auf Donnerstag um 9:30 Uhr verschoben.",
    "Wo liegt der Schlüssel für die Garage?",
    "La clave del garaje está debajo de la maceta roja.",
    "Toplantı salonu üçüncü katta, asansörün yanında.",
    "孩子们周末要去看外婆。",
    "明日の会議は午後三時からです。",
    "اجتماع الفريق يوم الثلاثاء في الساعة العاشرة.",
    "Ключ от дачи лежит у соседки на втором этаже.",
)
READ_BY_NEITHER = (
    "Η συνάντηση είναι την Τρίτη.",
    "बैठक मंगलवार को है",
    "הפגישה ביום שלישי",
    "گربه روی پشت بام خوابیده است",
)
ENGLISH = (
    "My favorite color is blue",
    "What is Zuzana Kowalczyk's IBAN?",
    "Björk and Łukasz met in São Paulo over a café crème",
    "def total(rows): return sum(row.size_bytes for row in rows)",
    "AX-4471-KQ 20261129T1030Z",
    "",
    "42",
    "🎉🎉",
    "σ = 3.2 and the rest is noise, as we said in the meeting",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages_are_told(embedder: OnnxEmbedder, text: str) -> None:
    assert is_foreign(embedder, text)


@pytest.mark.parametrize("text", ["y" * 1000, "QUJD" * 300, "0f3a" * 200 + " is the digest"])
def test_a_code_that_is_longer_than_words_is_no_language(embedder: OnnxEmbedder, text: str) -> None:
    """The vocabulary reads no word of more than a hundred letters."""
    assert not is_foreign(embedder, text)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_with_names_codes_and_signs_is_not(embedder: OnnxEmbedder, text: str) -> None:
    assert not is_foreign(embedder, text)


@pytest.mark.parametrize("text", READ_BY_NEITHER)
def test_what_the_second_model_does_not_read_either_is_no_reason_for_it(embedder: OnnxEmbedder, text: str) -> None:
    assert not is_foreign(embedder, text)
