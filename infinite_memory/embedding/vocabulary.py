"""The share of a text missing from a model's vocabulary, which reveals a language that the model does not know.

A vocabulary contains the common words of its training languages whole, and splits others into pieces. Measured with
all-MiniLM-L6-v2: 2 to 4 of 100 English messages have more than a quarter of their words split; of German, French, Spanish,
Italian, Polish, Russian, Chinese and Japanese ones nearly all have.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinite_memory.embedding.model_tokenizer import ModelTokenizer

MANY_LANGUAGES = 60_000  # larger vocabularies are multilingual and reveal nothing
MIN_WORDS = 4  # minimum words in a text for a meaningful share


MAX_SPELLED = 2  # a one-piece non-Latin word of at most this many letters is spelled, not read
MAX_ASCII_WORD = 100  # word length at which tokenizers give up


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model can read of a text: the share of words that it knows, 0 to 1, and the other words as written.

    If ``share`` is 1, the text's vector represents its meaning. Vectors of unread texts are all alike.
    """

    share: float
    unread: tuple[str, ...] = ()


READ = Reading(1.0)


def reading_of(tokenizer: ModelTokenizer, text: str) -> Reading:
    """Return what a model can read of *text*.

    A word is unread if its token is unknown, or if it is spelled letter by letter in a non-Latin script. Numbers and signs count only in a
    text of nothing else: a number alone has no meaning, and is not near to another one.
    """
    if _is_plain(text):
        return READ
    encoding = tokenizer.encode(text, framed=False)
    tokens, offsets = encoding.tokens, encoding.offsets  # each access builds whole lists
    spells = tokenizer.size <= MANY_LANGUAGES
    words: list[list[int]] = []
    for index, starts in enumerate(tokenizer.word_starts(encoding)):
        if starts:
            words.append([])
        words[-1].append(index)
    read, unread = 0, []
    for indexes in words:
        readable = text[offsets[indexes[0]][0] : offsets[indexes[-1]][1]]
        pieces = [tokens[index] for index in indexes]
        if _is_unread(readable, pieces, spells=spells):
            unread.append(readable)
        elif any(letter.isalpha() for letter in readable):
            read += 1
    if not read:
        return Reading(0.0, tuple(text.split()))
    return Reading(read / (read + len(unread)), tuple(unread))


def _is_plain(text: str) -> bool:
    """True for an ASCII text with a word of letters: models of all languages read it, and it is by far the most frequent case."""
    return (
        text.isascii()
        and any(word.isalpha() for word in text.split())
        and max(map(len, text.split())) <= MAX_ASCII_WORD
    )


def _is_unread(word: str, pieces: list[str], *, spells: bool) -> bool:
    if any(piece in _UNKNOWN for piece in pieces):
        return True
    if not spells or not any(unicodedata.category(letter)[0] == "L" and not _is_latin(letter) for letter in word):
        return False
    return len(pieces) > 1 or len(pieces[0]) <= MAX_SPELLED


_UNKNOWN = frozenset({"[UNK]", "<unk>"})


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "\u1e00" <= letter < "\u1f00" or "\ua720" <= letter < "\ua800"


def spelled_out(tokenizer: ModelTokenizer, text: str) -> float | None:
    """Return the share of words of *text* that the vocabulary has only in pieces, 0 to 1.

    None for a text of fewer than four words, and for a multilingual vocabulary.
    """
    if tokenizer.size > MANY_LANGUAGES:
        return None
    encoding = tokenizer.encode(text, framed=False)
    words: list[list[str]] = []
    for token, starts in zip(encoding.tokens, tokenizer.word_starts(encoding), strict=True):
        if starts:
            words.append([])
        words[-1].append(token)
    pieces = [spelled for word in words if (spelled := [token for token in word if any(map(str.isalpha, token))])]
    if len(pieces) < MIN_WORDS:
        return None
    foreign = sum(len(piece) > 1 or piece == ["[UNK]"] or not _is_whole(piece[0]) for piece in pieces)
    return foreign / len(pieces)


def _is_whole(piece: str) -> bool:
    """True for a whole word. A single letter is one in Latin script only ("I", "a"); elsewhere it is part of a spelled word."""
    return len(piece) > 1 or piece.isascii()
