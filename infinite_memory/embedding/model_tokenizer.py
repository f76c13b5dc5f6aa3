"""A model's own tokenizer: reads its ``tokenizer.json`` and cuts texts into the model's tokens, telling where they stand.

Two libraries read that file and give the same tokens: ``morpheme``, which needs nothing else, and ``tokenizers``, whose file it is,
which brings 36 MB of the hub's client along. The first is installed where it has a wheel, the second elsewhere and wherever models run
through sentence-transformers; whichever is here is used, the first before the second.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from infinite_memory.errors import EmbeddingError

if TYPE_CHECKING:
    import morpheme
    import tokenizers

_UNSET = {"truncation": None, "padding": None}
"""The default model's file asks for padding to 128 tokens and a cut at 128; both are made by the embedder instead."""

_WORD_MARKS = ("\u2581", "\u0120")
"""A piece that begins with one of these begins a word, in vocabularies of sentencepiece and of byte pairs."""


class Encoding(Protocol):
    """The tokens of one text. Each look at a property makes a whole list."""

    @property
    def ids(self) -> list[int]:
        """Number of each token in the model's vocabulary."""

    @property
    def tokens(self) -> list[str]:
        """Each token as the vocabulary has it."""

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """First character of each token in the text, and the one after its last."""

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for tokens that do not stand in the text but belong to its frame."""


class ModelTokenizer(Protocol):
    """What embedders ask of a tokenizer. It neither pads nor cuts."""

    @property
    def size(self) -> int:
        """Entries of the vocabulary."""

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*, with the special tokens of the frame or without."""

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return of each token whether it begins a word; for an encoding without frame."""


def load_tokenizer(path: Path) -> ModelTokenizer:
    """Read a ``tokenizer.json``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file, or damaged.
        EmbeddingError: neither library is installed.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ValueError(f"{path.name} describes no tokenizer")
    content |= _UNSET
    if importlib.util.find_spec("morpheme") is not None:
        return _load_morpheme(content)
    if importlib.util.find_spec("tokenizers") is not None:
        return load_hugging_face(content)
    raise EmbeddingError("neither morpheme nor tokenizers can be imported; install infinite-memory again")


def frame_size(tokenizer: ModelTokenizer) -> int:
    """Return how many special tokens every text gets."""
    return len(tokenizer.encode("").ids)


def _load_morpheme(content: dict[str, Any]) -> ModelTokenizer:
    import morpheme

    try:
        tokenizer = morpheme.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
    except morpheme.MorphemeError as exc:
        raise ValueError(f"it describes no tokenizer that is known here: {exc}") from exc
    model, splitter = content["model"], content.get("pre_tokenizer") or {}
    prefix = model.get("continuing_subword_prefix", "##") if model.get("type") == "WordPiece" else None
    # Where a file says so, blanks are marked and the text stays one piece, of one word as both libraries count.
    marks = () if splitter.get("type") == "Metaspace" and splitter.get("split") is False else _WORD_MARKS
    return _MorphemeTokenizer(tokenizer, prefix, marks)


def load_hugging_face(content: dict[str, Any]) -> ModelTokenizer:
    """Read the content of a ``tokenizer.json`` with the library tokenizers.

    Raises:
        ValueError: it is no such content.
    """
    import tokenizers

    try:
        return HuggingFaceTokenizer(tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False)))
    except Exception as exc:  # tokenizers raises plain Exception
        raise ValueError(f"it describes no tokenizer that is known here: {exc}") from exc


class _MorphemeTokenizer:
    """A `ModelTokenizer` by morpheme, which tells no words: they are read from the marks of the vocabulary."""

    def __init__(self, tokenizer: morpheme.Tokenizer, prefix: str | None, marks: tuple[str, ...]) -> None:
        """Keep the tokenizer; *prefix* is that of pieces inside a word, where there is one, *marks* those of a word's beginning."""
        self._tokenizer, self._prefix, self._marks = tokenizer, prefix, marks
        self.size: int = tokenizer.vocab_size()

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*."""
        encoding: Encoding = self._tokenizer.encode(text, framed)
        return encoding

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return of each token whether it begins a word."""
        tokens = encoding.tokens
        if self._prefix is not None:
            return [not token.startswith(self._prefix) for token in tokens]
        starts = [token.startswith(self._marks) for token in tokens]
        return [True, *starts[1:]] if starts else starts


class HuggingFaceTokenizer:
    """A `ModelTokenizer` by the library tokenizers."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Take *tokenizer* over: it does not cut or pad any more."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.size: int = tokenizer.get_vocab_size()

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*."""
        encoding: Encoding = self._tokenizer.encode(text, add_special_tokens=framed)
        return encoding

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return of each token whether it begins a word."""
        words: list[int | None] = encoding.word_ids  # type: ignore[attr-defined]  # morpheme's encodings lack it
        return [word != before for before, word in itertools.pairwise([-1, *words])]
