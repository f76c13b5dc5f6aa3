"""What a language model is to its callers, whoever runs it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.errors import ModelReplyError


class Role(enum.Enum):
    """Who said something."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said."""

    role: Role
    text: str


class ChatModel(Protocol):
    """Answers a conversation. Used from one event loop."""

    @property
    def name(self) -> str:
        """What it is called where people read it."""

    async def complete(
        self, system: str, turns: Sequence[Turn], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        """Give the next thing the assistant says; never blank.

        Args:
            schema: JSON Schema of the answer, for models that can be held to one; others must be asked for it in words too.

        Raises:
            ModelUnavailableError: it cannot be reached, is too slow, or has no room.
            ModelRefusedError: it does not want to answer.
            ModelReplyError: what it sent is no answer.
        """


def read_object(text: str) -> dict[str, Any]:
    """Take the JSON object out of what a model said, which may stand in a code fence or among words.

    Raises:
        ModelReplyError: there is none.
    """
    start = text.find("{")
    while start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        if isinstance(found, dict):
            return found
    raise ModelReplyError("the model was asked for JSON and gave none")
