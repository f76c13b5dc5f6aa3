"""How much of a text a model's vocabulary lacks, by which a language that the model does not know shows itself.

A vocabulary has the common words of the languages it was made from whole, and spells others out in pieces. Measured with
all-MiniLM-L6-v2: 2 to 4 of 100 English messages have more than a quarter of their words spelled out; of German, French, Spanish,
Italian, Polish, Russian, Chinese and Japanese ones nearly all have.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinite_memory.embedding.model_tokenizer import ModelTokenizer

MANY_LANGUAGES = 60_000  # entries of a vocabulary from which on it was made from many languages and tells nothing
MIN_WORDS = 4  # words that a text needs to tell anything


MAX_SPELLED = 2  # letters of a piece by which a word in another script than Latin is spelled, and not read
MAX_ASCII_WORD = 100  # characters from which on tokenizers give a word up


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model reads of a text: the share of words that it knows, 0 to 1, and the others as they stand.

    Where ``share`` is 1 the text's vector says what it says. Vectors of texts that are not read are all alike.
    """

    share: float
    unread: tuple[str, ...] = ()


READ = Reading(1.0)


def reading_of(tokenizer: ModelTokenizer, text: str) -> Reading:
    """Return what a model reads of *text*.

    A word is not read where its token is unknown, or where it is spelled letter by letter in another script than Latin. Numbers and
    signs count only in a text of nothing else: a number alone says nothing, and is not near to another one.
    """
    if _is_plain(text):
        return READ
    encoding = tokenizer.encode(text, framed=False)
    tokens, offsets = encoding.tokens, encoding.offsets  # each look at them makes whole lists
    spells = tokenizer.size <= MANY_LANGUAGES
    words: list[list[int]] = []
    for index, starts in enumerate(tokenizer.word_starts(encoding)):
        if starts:
            words.append([])
        words[-1].append(index)
    read, unread = 0, []
    for indexes in words:
        whole = text[offsets[indexes[0]][0] : offsets[indexes[-1]][1]]
        pieces = [tokens[index] for index in indexes]
        if _is_unread(whole, pieces, spells=spells):
            unread.append(whole)
        elif any(letter.isalpha() for letter in whole):
            read += 1
    if not read:
        return Reading(0.0, tuple(text.split()))
    return Reading(read / (read + len(unread)), tuple(unread))


def _is_plain(text: str) -> bool:
    """True for a text in ASCII with a word of letters: what models of whatever languages read, and by far the most frequent."""
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
    """Return which share of the words of *text* the vocabulary has only in pieces, 0 to 1.

    None for a text of fewer than four words, and for a vocabulary of many languages.
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
    """A single letter is a word in Latin script only ("I", "a"); elsewhere it is a word spelled out."""
    return len(piece) > 1 or piece.isascii()
