"""Reads XQuAD (Artetxe et al. 2020, CC BY-SA 4.0): the same 240 paragraphs and 1,190 questions in each of twelve languages.

The files are those of ``google-deepmind/xquad``, ``xquad.LANGUAGE.json``; they do not come with the project. Any other file in the
form of SQuAD is read too, of which as many paragraphs are taken, spread over the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCOPE = "xquad"
PARAGRAPHS = 240  # what XQuAD has
Lines = list[dict[str, Any]]
Paragraph = tuple[str, list[str]]  # its text and its questions


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
    texts = _read(folder / f"xquad.{paragraphs}.json")
    asked = _read(folder / f"xquad.{questions}.json")
    return _pair(texts, asked, questions, step=step, unrelated=unrelated)


def read_squad(path: Path, *, step: int = 1, unrelated: bool = False) -> tuple[Lines, Lines]:
    """Return memories and questions of a file in the form of SQuAD, as `read_xquad` does."""
    texts = _read(path)
    numbers = {at * len(texts) // PARAGRAPHS for at in range(PARAGRAPHS)}
    texts = [texts[at] for at in sorted(numbers)]
    return _pair(texts, texts, path.stem, step=step, unrelated=unrelated)


def _pair(
    texts: list[Paragraph], asked: list[Paragraph], category: str, *, step: int, unrelated: bool
) -> tuple[Lines, Lines]:
    """Return the texts as memories and what is asked as questions; those of the other half if nothing shall be right."""
    half = len(texts) // 2 if unrelated else len(texts)
    memories = [{"id": f"p{at}", "text": text, "scope": SCOPE} for at, (text, _) in enumerate(texts[:half])]
    numbered = [(at, question) for at, (_, listed) in enumerate(asked) for question in listed]
    if unrelated:
        numbered = [(at, question) for at, question in numbered if at >= half]
    queries = [
        {"id": f"q{number}", "text": question, "relevant": [f"p{at}"], "scope": SCOPE, "category": category}
        for number, (at, question) in enumerate(numbered)
    ]
    return memories, queries[::step]


def _read(path: Path) -> list[Paragraph]:
    """Return every paragraph with its questions."""
    data = json.loads(path.read_text("utf-8"))["data"]
    return [
        (paragraph["context"], [one["question"] for one in paragraph["qas"]])
        for article in data
        for paragraph in article["paragraphs"]
    ]
