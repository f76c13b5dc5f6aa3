"""A model's own tokenizer: reads its ``tokenizer.json`` and splits texts into the model's tokens, with their offsets.

Two libraries read that file and give the same tokens: ``morpheme``, which has no dependencies, and ``tokenizers``, which defines the format
and brings along 36 MB of the hub's client. The first is installed if it has a wheel, the second otherwise and whenever models run through
sentence-transformers; if both are installed, the first is used.
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
"""The default model's file specifies padding and truncation to 128 tokens; the embedder does both instead."""

_WORD_MARKS = ("\u2581", "\u0120")
"""A piece that starts with one of these starts a word, in sentencepiece and byte-pair vocabularies."""


class Encoding(Protocol):
    """The tokens of one text. Each access to a property builds a whole list."""

    @property
    def ids(self) -> list[int]:
        """Id of each token in the model's vocabulary."""

    @property
    def tokens(self) -> list[str]:
        """Each token as in the vocabulary."""

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Start and end offset of each token in the text, in characters."""

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for tokens that are not in the text but added by the template."""


class ModelTokenizer(Protocol):
    """The tokenizer interface of embedders. It neither pads nor truncates."""

    @property
    def size(self) -> int:
        """Size of the vocabulary."""

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*, with or without special tokens."""

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return for each token whether it starts a word; for an encoding without special tokens."""


def load_tokenizer(path: Path) -> ModelTokenizer:
    """Read a ``tokenizer.json``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not such a file, or corrupt.
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
    """Return how many special tokens are added to every text."""
    return len(tokenizer.encode("").ids)


def _load_morpheme(content: dict[str, Any]) -> ModelTokenizer:
    import morpheme

    model, splitter = content["model"], content.get("pre_tokenizer") or {}
    prefix = model.get("continuing_subword_prefix", "##") if model.get("type") == "WordPiece" else None
    text = json.dumps(content, ensure_ascii=False)
    model.pop("vocab", None)  # of 128,000 tokens: 45 MiB that the library need not find in memory beside its own
    try:
        tokenizer = morpheme.Tokenizer.from_str(text)
    except morpheme.MorphemeError as exc:
        raise ValueError(f"it describes no tokenizer that is known here: {exc}") from exc
    # If a file says so, spaces are marked and the text stays one piece, which both libraries count as one word.
    marks = () if splitter.get("type") == "Metaspace" and splitter.get("split") is False else _WORD_MARKS
    return _MorphemeTokenizer(tokenizer, prefix, marks)


def load_hugging_face(content: dict[str, Any]) -> ModelTokenizer:
    """Parse the content of a ``tokenizer.json`` with the library tokenizers.

    Raises:
        ValueError: it is not valid.
    """
    import tokenizers

    try:
        return HuggingFaceTokenizer(tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False)))
    except Exception as exc:  # tokenizers raises plain Exception
        raise ValueError(f"it describes no tokenizer that is known here: {exc}") from exc


class _MorphemeTokenizer:
    """A `ModelTokenizer` on morpheme, which does not report words: they are derived from the marks of the vocabulary."""

    def __init__(self, tokenizer: morpheme.Tokenizer, prefix: str | None, marks: tuple[str, ...]) -> None:
        """Wrap the tokenizer; *prefix* is that of pieces inside a word, if any, *marks* those at the start of a word."""
        self._tokenizer, self._prefix, self._marks = tokenizer, prefix, marks
        self.size: int = tokenizer.vocab_size()

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*."""
        encoding: Encoding = self._tokenizer.encode(text, framed)
        return encoding

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return for each token whether it starts a word."""
        tokens = encoding.tokens
        if self._prefix is not None:
            return [not token.startswith(self._prefix) for token in tokens]
        starts = [token.startswith(self._marks) for token in tokens]
        return [True, *starts[1:]] if starts else starts


class HuggingFaceTokenizer:
    """A `ModelTokenizer` on the library tokenizers."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Wrap *tokenizer* and turn off its truncation and padding."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.size: int = tokenizer.get_vocab_size()

    def encode(self, text: str, *, framed: bool = True) -> Encoding:
        """Return the tokens of *text*."""
        encoding: Encoding = self._tokenizer.encode(text, add_special_tokens=framed)
        return encoding

    def word_starts(self, encoding: Encoding) -> list[bool]:
        """Return for each token whether it starts a word."""
        words: list[int | None] = encoding.word_ids  # type: ignore[attr-defined]  # morpheme's encodings lack it
        return [word != before for before, word in itertools.pairwise([-1, *words])]
