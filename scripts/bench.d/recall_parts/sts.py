"""Reads the sentence pairs of STSbenchmark: in English, by DeepL in ten more languages, and in Korean.

The files are those of ``PhilipMay/stsb-multi-mt`` (``data/stsb-LANGUAGE-test.csv``) and, for Korean, of ``kakaobrain/KorNLUDatasets``
(``KorSTS/sts-test.tsv``), both CC BY-SA 4.0 and row by row the same pairs; they do not come with the project.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

SCOPE = "sts"
SAME_MEANING = 4.0  # of 5: "mostly equivalent, but some unimportant details differ"
CAPTIONS = 600  # the first rows are captions of pictures and films
NEWS = 500  # the last rows are sentences and headlines of news
Lines = list[dict[str, Any]]
Pair = tuple[str, str, float]


def read_sts(
    folder: Path, questions: str, paragraphs: str, *, step: int = 1, unrelated: bool = False
) -> tuple[Lines, Lines]:
    """Return memories and questions: the second and the first sentences of pairs that mean the same.

    Args:
        questions: Language of the first sentences.
        paragraphs: Language of the memories.
        step: Take every so many questions.
        unrelated: Whether the memories are captions and the questions sentences of news, so that nothing is right.
    """
    asked, stored = _read(folder, questions), _read(folder, paragraphs)
    rows = list(zip(asked, stored, strict=True))
    if unrelated:
        texts = dict.fromkeys(text for _, text, _ in stored[:CAPTIONS])
        memories = [{"id": f"m{number}", "text": text, "scope": SCOPE} for number, text in enumerate(texts)]
        queries = [
            {"id": f"q{number}", "text": text, "relevant": ["none"], "scope": SCOPE, "category": questions}
            for number, text in enumerate(dict.fromkeys(first for first, _, _ in asked[-NEWS:]))
        ]
        return memories, queries[::step]
    # Pairs that are the same words in either language are left out: they would be found by words.
    rows = [(first, second) for first, second in rows if first[2] >= SAME_MEANING and first[0] != first[1]]
    ids = {text: f"m{number}" for number, text in enumerate(dict.fromkeys(second[1] for _, second in rows))}
    relevant: dict[str, list[str]] = {}
    for first, second in rows:
        relevant.setdefault(first[0], []).append(ids[second[1]])
    memories = [{"id": memory_id, "text": text, "scope": SCOPE} for text, memory_id in ids.items()]
    queries = [
        {"id": f"q{number}", "text": text, "relevant": sorted(set(listed)), "scope": SCOPE, "category": questions}
        for number, (text, listed) in enumerate(relevant.items())
    ]
    return memories, queries[::step]


def _read(folder: Path, language: str) -> list[Pair]:
    """Return every pair and its score, in the order of the file."""
    if language == "ko":
        lines = (folder / "sts-test.tsv").read_text("utf-8").splitlines()[1:]
        return [(row[5], row[6], float(row[4])) for row in (line.split("\t") for line in lines)]
    with (folder / f"stsb-{language}-test.csv").open(encoding="utf-8", newline="") as file:
        return [(first, second, float(score)) for first, second, score in csv.reader(file)]
