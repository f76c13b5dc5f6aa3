"""What a language model is to its callers, whoever runs it."""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.errors import InfiniteMemoryError, ModelReplyError, ModelUnavailableError, without_surrogates

log = logging.getLogger(__name__)


class Role(enum.Enum):
    """Who said something."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One thing that was said."""

    role: Role
    text: str


class ChatModel(Protocol):
    """Answers a conversation. Used from one event loop."""

    @property
    def name(self) -> str:
        """What it is called where people read it."""

    async def complete(
        self, system: str, turns: Sequence[ChatMessage], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        """Return the next thing the assistant says; never blank.

        Args:
            schema: JSON Schema of the answer, for models that can be held to one; others must be asked for it in words too.

        Raises:
            ModelUnavailableError: it cannot be reached, is too slow, or has no room.
            ModelRefusedError: it does not want to answer.
            ModelReplyError: what it sent is no answer.
        """


async def ask_model(
    model: ChatModel,
    system: str,
    turns: Sequence[ChatMessage],
    *,
    max_tokens: int,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Ask *model*; whatever goes wrong is one of our errors, for a memory is stored and a chat answered without a model as well.

    An unpaired surrogate in its answer, which no reply and no later question could hold, becomes U+FFFD.

    Raises:
        ModelError: as `ChatModel.complete`, or its library failed in a way of its own.
        ConfigError: its key cannot be read.
    """
    try:
        return without_surrogates(await model.complete(system, turns, max_tokens=max_tokens, schema=schema))
    except InfiniteMemoryError:
        raise
    except Exception as exc:  # a library's own: its message may quote the key or the text
        log.exception("a model failed", extra={"event": "model_failed"})
        raise ModelUnavailableError(f"the model {model.name} cannot be used ({type(exc).__name__})") from None


def read_object(text: str) -> dict[str, Any]:
    """Take the JSON object out of what a model said, which may stand in a code fence or among words.

    Raises:
        ModelReplyError: there is none.
    """
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        if isinstance(value, dict):
            return value
    raise ModelReplyError("the model was asked for JSON and gave none")
