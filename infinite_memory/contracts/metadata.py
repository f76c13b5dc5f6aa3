"""Free metadata as one value, for contracts whose metadata has no known keys: checked for size and depth, stored unmodified."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.fields import Field, Json, ValidationContext
from infinite_memory.contracts.json_text import parse_json_text, read_json_text
from infinite_memory.errors import InvalidRequestError, LimitExceededError


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataField(Field):
    """An object with any keys. With ``or_text`` also as JSON text; an empty list stands for an empty object (as PHP serializes it)."""

    or_text: bool = False

    def parse(self, value: Any, path: str, checking: ValidationContext) -> Json:
        if isinstance(value, str):
            if self.or_text and value.strip().startswith("{"):
                value = parse_json_text(value, path, "an object")  # allowed by the contract's document: no warning
            else:
                value = read_json_text(value, dict, path, checking)
        if value == []:
            value = {}
        if not isinstance(value, dict):
            raise InvalidRequestError.invalid_value(
                path, value, f"an object{' or JSON text of one' if self.or_text else ''}"
            )
        size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > checking.limits.metadata_bytes:
            raise LimitExceededError(path, size, checking.limits.metadata_bytes, "bytes")
        if (depth := measure_depth(value)) > checking.limits.metadata_depth:
            raise LimitExceededError(path, depth, checking.limits.metadata_depth, "levels")
        return value

    def schema(self) -> Json:
        return {"type": ["object", "string"] if self.or_text else "object"}


def measure_depth(value: Any) -> int:
    """Return the nesting depth of a JSON value: 0 for a scalar, 1 for an object of scalars."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(measure_depth, inner), default=0) if isinstance(value, dict | list) else 0
