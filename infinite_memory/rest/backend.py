"""Carries out commands of the contracts' tables on behalf of one request, on no more of the engine than its sender may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.contracts.agentmem.conversations import Conversations
from infinite_memory.contracts.agentmem.people import check_agent
from infinite_memory.contracts.agentmem.server import AgentMemServer
from infinite_memory.contracts.agentmem.table import ID_CHARS, SCOPE
from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.agentmem.table import USER as USER_FIELD
from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.fields import (
    Checking,
    Field,
    Fields,
    Json,
    parse_fields,
)
from infinite_memory.contracts.kinds import NameField
from infinite_memory.contracts.native import NativeContract
from infinite_memory.contracts.native.table import Session
from infinite_memory.engine import Engine
from infinite_memory.errors import ForbiddenError, InvalidRequestError, ScopeNotFoundError
from infinite_memory.model_port.base import ChatModel
from infinite_memory.rest.tokens import Grant
from infinite_memory.rest.view import ScopesView, UserView

AGENT_FIELD = NameField(name="agent_id", about="Only memories of this agent of the user", max_chars=ID_CHARS)
Open = Callable[[], Awaitable[Engine]]


@dataclass(frozen=True, slots=True)
class Backend:
    """What all requests share. *new_session* makes the settings that belong to one client."""

    engine: Open
    new_session: Callable[[], Session]
    model: ChatModel | None
    model_timeout_s: float
    conversations: Conversations = field(default_factory=Conversations)

    def open(self, grant: Grant, fields: Mapping[str, Any]) -> ApiRequest:
        """Begin a request; takes ``user_id`` out of *fields* and settles whose memories it is about.

        Raises:
            ForbiddenError: the token may not ask about that user.
            InvalidRequestError: ``user_id`` is wrong, or is needed for the token's users are several.
        """
        session = self.new_session()
        checking = Checking(session.limits, session.zone)
        rest = {name: value for name, value in fields.items() if name != "user_id"}
        given = fields.get("user_id")
        user = None if given is None else USER_FIELD.parse(given, "user_id", checking)
        if grant.scopes and user is not None:
            raise ForbiddenError("this token is bound to scopes and reads no user's memories; leave user_id out")
        if grant.users and user is None:
            if len(grant.users) > 1:
                raise InvalidRequestError("user_id", "is required: this token is bound to several users")
            [user] = grant.users
        if grant.users and user not in grant.users:
            raise ForbiddenError("this token is bound to other users")
        if user is not None:
            session.active_scope = SCOPE
        elif grant.scopes:
            session.active_scope = grant.scopes[0]
        return ApiRequest(self, grant, user, rest, session, checking, names_user=given is not None)


@dataclass(slots=True)
class ApiRequest:
    """One request on its way. ``user_id`` is whose memories it is about, None for those of scopes."""

    backend: Backend
    grant: Grant
    user_id: str | None
    fields: Json
    session: Session
    checking: Checking
    agent_id: str | None = None
    names_user: bool = False
    """Whether the request itself says so, and not its token alone."""

    @property
    def is_narrow(self) -> bool:
        """Whether less than everything is seen."""
        return self.user_id is not None or bool(self.grant.scopes)

    async def engine(self) -> Engine:
        """Give the engine, as far as the sender may see it."""
        engine = await self.backend.engine()
        if self.user_id is not None:
            return UserView(engine, self.user_id, self.agent_id, discreet=bool(self.grant.users))
        return ScopesView(engine, self.grant.scopes, discreet=True) if self.grant.scopes else engine

    async def take_agent(self) -> None:
        """Take ``agent_id`` out of the fields: only that agent's memories are seen from here on.

        Raises:
            InvalidRequestError: it is wrong, or there is no user.
            AgentNotFoundError: the user has no such agent.
        """
        given = self.fields.pop("agent_id", None)
        if given is not None:
            self.require_user()
            agent = AGENT_FIELD.parse(given, "agent_id", self.checking)
            await check_agent(await self.engine(), agent)
            self.agent_id = agent

    def require_user(self) -> str:
        """Give the user.

        Raises:
            InvalidRequestError: the request names none.
        """
        if self.user_id is None:
            raise InvalidRequestError("user_id", "is required: whose memories")
        return self.user_id

    def check(self, *fields: Field) -> Fields:
        """Check the request's own fields, where no table's command does."""
        return parse_fields(fields, self.fields, "", self.checking)

    async def native(self, action: str, fields: Mapping[str, Any]) -> Reply:
        """Run a command of the native contract.

        Raises:
            InfiniteMemoryError: it failed.
        """
        contract = NativeContract(self.engine, self.session)
        return await self._quietly(contract.run({**fields, "action": action}, self.checking))

    async def agentmem(self, name: str, fields: Mapping[str, Any]) -> Reply:
        """Run a command of the AgentMem contract, for the request's user where it takes one.

        Raises:
            InfiniteMemoryError: it failed.
        """
        command = AGENTMEM.find(name)
        assert command is not None, name
        whose = {"user_id": self.require_user()} if USER_FIELD in command.fields else {}
        backend = self.backend
        server = AgentMemServer(
            self.engine, self.session, backend.model, backend.model_timeout_s, backend.conversations
        )
        return await self._quietly(server.run(command, {**fields, **whose}, self.checking, None))

    async def _quietly(self, work: Awaitable[Reply]) -> Reply:
        """Run a command; who does not see everything is told no names of other scopes."""
        try:
            return await work
        except ScopeNotFoundError as problem:
            if self.is_narrow and problem.nearest:
                raise ScopeNotFoundError(problem.name) from problem
            raise
