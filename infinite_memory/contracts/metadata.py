"""Free metadata as one value, for contracts whose metadata has no known keys: checked for size and depth, kept as it came."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.fields import Checking, Field, Json
from infinite_memory.errors import InvalidRequestError, LimitExceededError


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataField(Field):
    """An object of any keys. With ``or_text`` also JSON text of one; an empty list stands for an empty object (as PHP writes it)."""

    or_text: bool = False

    def parse(self, value: Any, path: str, checking: Checking) -> Json:
        if isinstance(value, str) and self.or_text:
            value = _read(value, path)
        if value == []:
            value = {}
        if not isinstance(value, dict):
            raise InvalidRequestError.wrong(path, value, f"an object{' or JSON text of one' if self.or_text else ''}")
        size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > checking.limits.metadata_bytes:
            raise LimitExceededError(path, size, checking.limits.metadata_bytes, "bytes")
        if (depth := depth_of(value)) > checking.limits.metadata_depth:
            raise LimitExceededError(path, depth, checking.limits.metadata_depth, "levels")
        return value

    def schema(self) -> Json:
        return {"type": ["object", "string"] if self.or_text else "object"}


def depth_of(value: Any) -> int:
    """Count the levels of a JSON value: 0 for a plain one, 1 for an object of plain ones."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inner), default=0) if isinstance(value, dict | list) else 0


def _read(text: str, path: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise InvalidRequestError(path, f"is no valid JSON ({problem})") from None
    return value
