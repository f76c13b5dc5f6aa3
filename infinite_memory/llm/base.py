"""The interface of a language model."""

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
    """The author of a message."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Role
    text: str


class ChatModel(Protocol):
    """Answers a conversation. Used from one event loop."""

    @property
    def name(self) -> str:
        """The display name."""

    async def complete(
        self, system: str, turns: Sequence[ChatMessage], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        """Return the assistant's next message; never blank.

        Args:
            schema: JSON Schema of the answer, for models with structured output; the prompt must describe it too, for those without.

        Raises:
            ModelUnavailableError: it cannot be reached, timed out, or is overloaded.
            ModelRefusedError: it refuses to answer.
            ModelReplyError: its reply is not an answer.
        """


async def ask_model(
    model: ChatModel,
    system: str,
    turns: Sequence[ChatMessage],
    *,
    max_tokens: int,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Query *model*; every failure is one of our errors, because memories are stored and chats answered without a model too.

    Unpaired surrogates in its answer become U+FFFD: no reply or later request could contain them.

    Raises:
        ModelError: as `ChatModel.complete`, or its library raised another exception.
        ConfigError: its key file cannot be read.
    """
    try:
        return without_surrogates(await model.complete(system, turns, max_tokens=max_tokens, schema=schema))
    except InfiniteMemoryError:
        raise
    except Exception as exc:  # an exception of a library: its message may quote the key or the text
        log.exception("a model failed", extra={"event": "model_failed"})
        raise ModelUnavailableError(f"the model {model.name} cannot be used ({type(exc).__name__})") from None


def read_object(text: str) -> dict[str, Any]:
    """Extract the JSON object from a model's answer, where it may be in a code fence or among text.

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
