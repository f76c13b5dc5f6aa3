"""Reads XQuAD (Artetxe et al. 2020, CC BY-SA 4.0): the same 240 paragraphs and 1,190 questions in each of twelve languages.

The files are those of ``google-deepmind/xquad``, ``xquad.LANGUAGE.json``; they do not come with the project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCOPE = "xquad"
Lines = list[dict[str, Any]]


def read_xquad(
    folder: Path, questions: str, paragraphs: str, *, step: int = 1, unrelated: bool = False
) -> tuple[Lines, Lines]:
    """Return memories and questions in the form of ``memories.jsonl`` and ``queries.jsonl``.

    Args:
        questions: Language of the questions.
        paragraphs: Language of the memories.
        step: Take every so many questions.
        unrelated: Whether the memories are the first half of the paragraphs and the questions those of the second half, so that nothing
            is right.
    """
    texts = _read(folder, paragraphs)
    asked = _read(folder, questions)
    half = len(texts) // 2 if unrelated else len(texts)
    memories = [{"id": f"p{at}", "text": text, "scope": SCOPE} for at, (text, _) in enumerate(texts[:half])]
    numbered = [(at, question) for at, (_, listed) in enumerate(asked) for question in listed]
    if unrelated:
        numbered = [(at, question) for at, question in numbered if at >= half]
    queries = [
        {"id": f"q{number}", "text": question, "relevant": [f"p{at}"], "scope": SCOPE, "category": questions}
        for number, (at, question) in enumerate(numbered)
    ]
    return memories, queries[::step]


def _read(folder: Path, language: str) -> list[tuple[str, list[str]]]:
    """Return every paragraph with its questions."""
    data = json.loads((folder / f"xquad.{language}.json").read_text("utf-8"))["data"]
    return [
        (paragraph["context"], [one["question"] for one in paragraph["qas"]])
        for article in data
        for paragraph in article["paragraphs"]
    ]
