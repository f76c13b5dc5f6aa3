"""Keeps an answer small enough for a model: clients refuse one of more than about 25,000 tokens.

Bytes of UTF-8 stand for tokens: the worst text is about two bytes a token, ordinary text four, so the cap holds for every script.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

ANSWER_BYTES = 40_000
LEAST_CHARS = 200  # a text is not cut below this; rather, entries are left out
_CUT = ("text", "excerpt", "content")


def capped(reply: Json, most: int = ANSWER_BYTES) -> tuple[Json, str]:
    """Cut *reply* to *most* bytes of JSON: long texts first, then whole entries from the end; what was cut says so.

    Returns:
        The reply, the same object where nothing had to be cut; and its JSON.
    """
    text = _json(reply)
    if len(text.encode()) <= most:
        return reply, text
    cut = _cut(reply, most)
    return cut, _json(cut)


def size_of(reply: Json) -> int:
    """Count the bytes of *reply* as JSON."""
    return len(_json(reply).encode())


def _json(reply: Json) -> str:
    return json.dumps(reply, ensure_ascii=False)


def _cut(reply: Json, most: int) -> Json:
    longest = _longest(reply)
    low, high = LEAST_CHARS, max(LEAST_CHARS, longest)
    while low < high:  # the greatest length that fits
        middle = (low + high + 1) // 2
        if size_of(_cut_texts(reply, middle)) <= most - 300:  # room for the note
            low = middle
        else:
            high = middle - 1
    cut: Json = _cut_texts(reply, low)
    cut["truncated"] = True
    cut["truncated_note"] = "long texts are cut; memory://item/{memory_id} has them whole"
    while size_of(cut) > most and (name := _longest_list(cut)) is not None:
        before = len(cut[name])
        cut[name] = cut[name][: before // 2]
        cut["truncated_note"] = f"the first {len(cut[name])} of {name} are shown; ask for fewer, or more narrowly"
        cut.pop("next_cursor", None)  # it would skip what was left out
    return cut


def _longest(value: Any) -> int:
    if isinstance(value, dict):
        own = [len(one) for name, one in value.items() if name in _CUT and isinstance(one, str)]
        return max([0, *own, *(_longest(one) for one in value.values())])
    if isinstance(value, list):
        return max([0, *(_longest(one) for one in value)])
    return 0


def _cut_texts(value: Any, most: int) -> Any:
    if isinstance(value, list):
        return [_cut_texts(one, most) for one in value]
    if not isinstance(value, dict):
        return value
    cut = {name: _cut_texts(one, most) for name, one in value.items()}
    for name in _CUT:
        if isinstance(text := cut.get(name), str) and len(text) > most:
            cut |= {name: text[:most] + "…", "truncated": True, f"{name}_chars": len(text)}
    return cut


def _longest_list(reply: Json) -> str | None:
    lists = {name: size_of({"": one}) for name, one in reply.items() if isinstance(one, list) and len(one) > 1}
    return max(lists, key=lambda name: lists[name]) if lists else None
