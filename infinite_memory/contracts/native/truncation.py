"""Limits the size of a reply for models: clients reject one of more than about 25,000 tokens.

UTF-8 bytes stand for tokens: the worst text has about two bytes a token, ordinary text four, so the limit holds for every script.
"""

from __future__ import annotations

import json
from typing import Any

from infinite_memory.contracts.large_requests import LARGE_CHARS, is_larger

Json = dict[str, Any]

ANSWER_BYTES = 40_000
MIN_CHARS = 200  # texts are not cut below this; entries are dropped instead
CUT_TEXTS = "long texts are cut; memory://item/{memory_id} has them whole"
_CUT = ("text", "excerpt", "content")
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def capped(reply: Json, limit: int = ANSWER_BYTES) -> tuple[Json, str]:
    """Truncate *reply* to *limit* bytes of JSON: first long texts, then whole entries from the end; a note reports it.

    A page whose entries are dropped loses its ``next_cursor``, which would skip them; `count_shown` tells how many to ask for instead.

    Returns:
        The reply, the same object if nothing was truncated; and its JSON.
    """
    text = _json(reply)
    if len(text.encode()) <= limit:
        return reply, text
    cut = _cut(reply, limit)
    return cut, _json(cut)


def count_shown(page: Json, limit: int = ANSWER_BYTES) -> int | None:
    """Return how many results of a page of a listing remain when it is truncated; None if all do, or it is not a page."""
    if "next_cursor" not in page:
        return None
    cut, _ = capped(page, limit)
    return None if "next_cursor" in cut else len(cut["results"])


def as_shorter(page: Json) -> Json:
    """Return a page that is shorter than requested, with a note on how the listing goes on."""
    note = (
        f"the first {len(page['results'])} of results are shown, for more are too large; next_cursor goes on after them"
    )
    return page | {"truncated": True, "truncated_note": note}


def measure_size(reply: Json) -> int:
    """Return the size of *reply* as JSON, in bytes."""
    return len(_json(reply).encode())


def _json(reply: Json) -> str:
    if is_larger(reply, LARGE_CHARS):  # in a thread, where the C encoder would block all others
        return "".join(_ENCODER.iterencode(reply))
    return _ENCODER.encode(reply)


def _cut(reply: Json, limit: int) -> Json:
    low, high = MIN_CHARS, max(MIN_CHARS, _level(_lengths(reply), limit))
    while low < high:  # binary search for the greatest length that fits
        middle = (low + high + 1) // 2
        if measure_size(_cut_texts(reply, middle)) <= limit - 300:  # room for the note
            low = middle
        else:
            high = middle - 1
    cut: Json = _cut_texts(reply, low)
    cut["truncated"] = True
    notes = [reply["truncated_note"]] if "truncated_note" in reply else []
    cut["truncated_note"] = "; ".join([*notes, CUT_TEXTS])
    while measure_size(cut) > limit and (name := _longest_list(cut)) is not None:
        before = len(cut[name])
        cut[name] = cut[name][: before // 2]
        cut["truncated_note"] = f"the first {len(cut[name])} of {name} are shown; ask for fewer, or more narrowly"
        if name == "results":
            cut.pop("next_cursor", None)  # it would skip the dropped entries
    return cut


def _lengths(value: Any) -> list[int]:
    """Return the lengths of the texts that may be cut."""
    if isinstance(value, dict):
        own = [len(text) for name, text in value.items() if name in _CUT and isinstance(text, str)]
        return own + [length for item in value.values() for length in _lengths(item)]
    if isinstance(value, list):
        return [length for item in value for length in _lengths(item)]
    return []


def _level(lengths: list[int], limit: int) -> int:
    """Return the greatest length to which texts can be cut so that they have at most *limit* characters in total."""
    remaining = limit
    ordered = sorted(lengths)
    for index, length in enumerate(ordered):
        share = remaining // (len(ordered) - index)
        if length > share:
            return share
        remaining -= length
    return max(lengths, default=0)


def _cut_texts(value: Any, limit: int) -> Any:
    if isinstance(value, list):
        return [_cut_texts(item, limit) for item in value]
    if not isinstance(value, dict):
        return value
    cut = {name: _cut_texts(item, limit) for name, item in value.items()}
    for name in _CUT:
        if isinstance(text := cut.get(name), str) and len(text) > limit:
            cut |= {name: text[:limit] + "…", "truncated": True, f"{name}_chars": len(text)}
    return cut


def _longest_list(reply: Json) -> str | None:
    lists = {
        name: measure_size({"": items}) for name, items in reply.items() if isinstance(items, list) and len(items) > 1
    }
    return max(lists, key=lambda name: lists[name]) if lists else None
