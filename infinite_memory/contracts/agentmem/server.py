"""The AgentMem contract as an MCP server: the tools of one client. It has neither resources nor prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from infinite_memory.contracts.agentmem import add, chat, search  # register their commands
from infinite_memory.contracts.agentmem import prompts as prompting
from infinite_memory.contracts.agentmem.spec import SPEC
from infinite_memory.contracts.agentmem.table import TABLE, AgentMemCall, Conversations
from infinite_memory.contracts.base import Command
from infinite_memory.contracts.errors import Column, get_code
from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import ToolCall, named_tool, with_notice
from infinite_memory.contracts.server import ContractServer
from infinite_memory.contracts.session import ClientSession, ContractContext, OpenEngine
from infinite_memory.errors import (
    AgentNotFoundError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    RateLimitError,
)
from infinite_memory.llm.base import ChatModel
from infinite_memory.llm.sampling import SampledModel

__all__ = ["AgentMemServer", "add", "chat", "prompting", "search"]

log = logging.getLogger(__name__)

QUOTING = frozenset({"results", "memories_used", "system_prompt", "agents", "content"})
"""Fields of replies that contain stored text."""


class AgentMemServer(ContractServer[AgentMemCall]):
    """One client of the AgentMem contract. *model* is the configured one; without it the client's own is sampled if it allows that."""

    def __init__(
        self, context: ContractContext, model: ChatModel | None, conversations: Conversations | None = None
    ) -> None:
        super().__init__(SPEC, TABLE, context)
        self._model, self._timeout_s = model, context.model.timeout_s
        self._conversations = Conversations() if conversations is None else conversations

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        command = named_tool(TABLE, name)
        checking = ValidationContext(self._session.limits, self._session.zone)
        try:
            model = self._model or self._lent(call)
            opened = await open_call(
                command, arguments, checking, self._engine, self._session, model, self._conversations
            )
            reply = await command.run(opened)
        except InfiniteMemoryError as exc:
            reply = failure(exc)
            if reply["error"]["code"] == "INTERNAL_ERROR":
                log.warning("a tool failed: %s", exc, extra={"event": "tool_failed"})
        if checking.warnings:
            reply["warnings"] = checking.warnings
        if QUOTING & reply.keys():
            reply = with_notice(reply)
        return {
            "content": [{"type": "text", "text": json.dumps(reply, ensure_ascii=False)}],
            "structuredContent": reply,
            "isError": not reply["success"],
        }

    def _lent(self, call: ToolCall) -> ChatModel | None:
        return SampledModel(call.sample, self._timeout_s) if call.can_sample else None


async def open_call(
    command: Command[AgentMemCall],
    arguments: Mapping[str, Any],
    checking: ValidationContext,
    engine: OpenEngine,
    session: ClientSession,
    model: ChatModel | None,
    conversations: Conversations,
) -> AgentMemCall:
    """Validate *arguments* for a command, and return the call.

    Raises:
        InfiniteMemoryError: one is invalid, or the engine is unavailable.
    """
    fields = await check_fields(arguments, lambda: command.check(arguments, checking))
    return AgentMemCall(await engine(), session, fields, checking, model, conversations)


def failure(exc: InfiniteMemoryError) -> Json:
    """Return the reply to an error."""
    code = get_code(exc, Column.AGENTMEM)
    return {"success": False, "error": {"code": code, "message": str(exc), "details": _details(exc)}}


def _details(exc: InfiniteMemoryError) -> Json:
    details: Json = {}
    if isinstance(exc, InvalidRequestError) and exc.field:
        details["field"] = exc.field
    if isinstance(exc, LimitExceededError):
        details |= {"size": exc.size, "limit": exc.limit}
    if isinstance(exc, AgentNotFoundError):
        details["agent_id"] = exc.agent_id
    if isinstance(exc, RateLimitError):
        details["retry_after_s"] = exc.retry_after_s
    return details
