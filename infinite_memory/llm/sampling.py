"""The client's own model, through MCP sampling; the client may show the request to its user first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from infinite_memory.errors import ModelRefusedError, ModelReplyError, ModelUnavailableError
from infinite_memory.llm.base import ChatMessage

Json = dict[str, Any]
Sample = Callable[[Json], Awaitable[Json]]
"""Sends ``sampling/createMessage`` with these parameters and returns the result; raises `ModelRefusedError` for an error."""


class SampledModel:
    """A model that the client runs."""

    def __init__(self, sample: Sample, timeout_s: float) -> None:
        self._sample, self._timeout_s = sample, timeout_s

    @property
    def name(self) -> str:
        return "the client's own model"

    async def complete(
        self, system: str, turns: Sequence[ChatMessage], *, max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> str:
        params = {
            "messages": [{"role": turn.role.value, "content": {"type": "text", "text": turn.text}} for turn in turns],
            "systemPrompt": system,
            "includeContext": "none",
            "maxTokens": max_tokens,
        }
        try:
            result = await asyncio.wait_for(self._sample(params), self._timeout_s)
        except TimeoutError:
            raise ModelUnavailableError(f"the client's model did not answer within {self._timeout_s:g} s") from None
        content = result.get("content")
        parts = content if isinstance(content, list) else [content]
        text = "".join(
            str(part.get("text") or "") for part in parts if isinstance(part, dict) and part.get("type") == "text"
        )
        if not text.strip():
            if result.get("stopReason") == "refusal":
                raise ModelRefusedError("the client's model refused to answer")
            raise ModelReplyError("the client's model gave an empty answer")
        return text.strip()
