"""What the contracts' tests on a real memory share: one memory, asked by every contract as a client asks it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.bootstrap import new_session
from infinite_memory.contracts.mcp import Answer, McpServer
from infinite_memory.contracts.registry import get_spec
from infinite_memory.contracts.session import ClientSession, ContractContext
from infinite_memory.engine.events import Events
from infinite_memory.errors import ModelRefusedError
from tests.store.lifecycle.conftest import Memory, make_open, mongo_uri, open_memory

__all__ = ["make_open", "mongo_uri", "open_memory"]

Json = dict[str, Any]


@dataclass
class McpClient:
    """A client as its tools see it: what its user answers, and what was asked and logged. It lends no model."""

    answer: Answer = Answer.NOT_ASKED
    questions: list[str] = field(default_factory=list)
    logged: list[Any] = field(default_factory=list)
    wants_progress: bool = False
    can_sample: bool = False

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Show nothing."""

    async def log(self, level: str, data: Any) -> None:
        self.logged.append(data)

    async def confirm(self, question: str, mark: str) -> Answer:
        self.questions.append(question)
        return self.answer

    async def sample(self, params: Json) -> Json:
        raise ModelRefusedError("this client lends no model")


def session_of(memory: Memory, **fields: Any) -> ClientSession:
    """Make the session of one more client."""
    return dataclasses.replace(new_session(memory.app.config, {}), **fields)


def server_of(memory: Memory, contract: str, session: ClientSession | None = None, **options: Any) -> McpServer:
    """Begin a conversation by MCP with a memory in one of the contracts."""

    async def engine() -> Any:
        return memory.engine

    session = session_of(memory) if session is None else session
    home = memory.app.home.path
    return get_spec(contract).open_mcp(
        ContractContext(engine, session, Events(engine), home, administration=memory.app.administration, **options)
    )


def value_of(result: Json) -> Any:
    """Read a tool's result: its structured content, else the JSON of its first text, else that text."""
    if "structuredContent" in result:
        return result["structuredContent"]
    text = result["content"][0]["text"]
    return json.loads(text) if text[:1] in "[{" else text
