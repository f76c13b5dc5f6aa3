"""Split long texts into overlapping windows of tokens, evenly spaced, that start at words. No model here.

Why evenly spaced: the last window is then as full as the others, and a text that would need too many windows gets a smaller overlap, then
gaps, instead of an end that vector search cannot find.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from infinite_memory.embedding.model_tokenizer import ModelTokenizer
from infinite_memory.models import Window

OVERLAP_TOKENS = 48
"""A sentence of up to this length that crosses a boundary is whole in one of the two windows."""

MAX_OVERLAP_SHARE = 0.4
"""Maximum overlap as a share of the window, for short windows."""

MAX_WINDOWS = 1280
"""Limit for one memory: about 1 MiB of English prose, three quarters of a minute on one core to embed."""

_PIECE_CHARS = 16_384
"""Tokenising 1 MiB at once takes 200 to 680 MB; in pieces of this size it takes next to none, and half the time."""


def cut(text: str, capacity: int, tokenizer: ModelTokenizer) -> tuple[Window, ...]:
    """Split *text* into windows of at most *capacity* tokens; one window for a text that fits whole.

    Args:
        text: Any text, of any length.
        capacity: Maximum tokens of a window, without special tokens.
        tokenizer: The model's own.
    """
    starts, ends, heads = _tokens(text, tokenizer)
    count = len(starts)
    if count <= capacity:
        return (Window(0, len(text)),)
    step = capacity - min(OVERLAP_TOKENS, int(capacity * MAX_OVERLAP_SHARE))
    windows_count = min(MAX_WINDOWS, 1 + -(-(count - capacity) // step))
    firsts = np.linspace(0, count - capacity, windows_count).astype(np.int64)
    windows = []
    for first in firsts.tolist():
        last = first + capacity - 1
        head = _next_head(heads, first)
        begin = 0 if first == 0 else int(starts[head])
        end = len(text) if last == count - 1 else int(ends[last])
        windows.append(Window(begin, end))
    return tuple(windows)


def _next_head(heads: NDArray[np.bool_], start: int) -> int:
    """Return the first start of a word at or after *start*, within the overlap; else *start* itself.

    A window that starts inside a word would tokenise differently from the text, perhaps into more tokens than fit.
    """
    near = np.flatnonzero(heads[start : start + OVERLAP_TOKENS])
    return start + int(near[0]) if near.size else start


def _tokens(text: str, tokenizer: ModelTokenizer) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return each token's start and end offset in characters, and whether it starts a word."""
    spans, heads = [np.empty((0, 2), dtype=np.int64)], [np.empty(0, dtype=np.bool_)]
    for offset, piece in _pieces(text):
        encoding = tokenizer.encode(piece, framed=False)
        starts = tokenizer.word_starts(encoding)
        if starts:
            spans.append(np.asarray(encoding.offsets, dtype=np.int64) + offset)
            heads.append(np.asarray(starts, dtype=np.bool_))
    all_spans = np.concatenate(spans)
    return all_spans[:, 0], all_spans[:, 1], np.concatenate(heads)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Split *text* for tokenising, at spaces if possible; yield each piece with its offset."""
    begin = 0
    while len(text) - begin > _PIECE_CHARS:
        piece = text[begin : begin + _PIECE_CHARS]
        blank = max(piece.rfind(" "), piece.rfind("\n"))
        size = blank + 1 if blank > 0 else _PIECE_CHARS
        yield begin, piece[:size]
        begin += size
    yield begin, text[begin:]
