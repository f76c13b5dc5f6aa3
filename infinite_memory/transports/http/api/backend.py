"""What a request runs with: an engine restricted to what its sender may see, and its fields, validated as the contracts do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.contracts.agentmem.access import check_agent
from infinite_memory.contracts.agentmem.server import open_call
from infinite_memory.contracts.agentmem.table import ID_CHARS, SCOPE, AgentMemCall, Conversations
from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.agentmem.table import USER as USER_FIELD
from infinite_memory.contracts.field_types import NameField
from infinite_memory.contracts.fields import Field, Fields, Json, ValidationContext, parse_fields
from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.contracts.session import ClientSession, OpenAdministration
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import ForbiddenError, InvalidRequestError
from infinite_memory.jobs.administration import Administration
from infinite_memory.llm.base import ChatModel
from infinite_memory.models import ScopeId
from infinite_memory.transports.http.api.tokens import TokenPermissions
from infinite_memory.transports.http.api.visibility import get_visibility

AGENT_FIELD = NameField(name="agent_id", about="Only memories of this agent of the user", max_chars=ID_CHARS)
Open = Callable[[], Awaitable[Engine]]


@dataclass(frozen=True, slots=True)
class Backend:
    """State shared by all requests. *new_session* creates the settings of one client."""

    engine: Open
    new_session: Callable[[], ClientSession]
    model: ChatModel | None
    model_timeout_s: float
    conversations: Conversations = field(default_factory=Conversations)
    administration: OpenAdministration | None = None

    async def open(self, grant: TokenPermissions, fields: Mapping[str, Any]) -> ApiRequest:
        """Begin a request; remove ``user_id`` from *fields* and determine whose memories it is about.

        Raises:
            ForbiddenError: the token may not access that user, or the scopes that it is bound to no longer exist.
            InvalidRequestError: ``user_id`` is invalid, or missing although the token has several users.
        """
        session = self.new_session()
        session.counts_use = not grant.read_only
        checking = ValidationContext(session.limits, session.zone)
        rest = {name: value for name, value in fields.items() if name != "user_id"}
        user_id = fields.get("user_id")
        user = None if user_id is None else USER_FIELD.parse(user_id, "user_id", checking)
        if grant.scope_ids is not None and user is not None:
            raise ForbiddenError("this token is bound to scopes and reads no user's memories; leave user_id out")
        if grant.users and user is None:
            if len(grant.users) > 1:
                raise InvalidRequestError("user_id", "is required: this token is bound to several users")
            [user] = grant.users
        if grant.users and user not in grant.users:
            raise ForbiddenError("this token is bound to other users")
        if user is not None:
            session.active_scope = SCOPE
        elif grant.scope_ids is not None:
            session.active_scope = await self._first_scope(grant.scope_ids)
        return ApiRequest(self, grant, user, rest, session, checking, names_user=user_id is not None)

    async def _first_scope(self, scope_ids: Sequence[ScopeId]) -> str:
        """Return the current name of the first scope of a token that still exists."""
        for scope in await (await self.engine()).scopes.find_by_ids(scope_ids):
            return scope.name
        raise ForbiddenError("the scopes that this token is bound to are gone")


@dataclass(slots=True)
class ApiRequest:
    """One request. ``user_id`` is the user whose memories it is about, None for those of scopes."""

    backend: Backend
    grant: TokenPermissions
    user_id: str | None
    fields: Json
    session: ClientSession
    checking: ValidationContext
    agent_id: str | None = None
    names_user: bool = False
    """Whether the request itself names the user, and not only its token."""

    @property
    def is_narrow(self) -> bool:
        """Whether its visibility is restricted."""
        return self.user_id is not None or self.grant.scope_ids is not None

    async def engine(self) -> Engine:
        """Return the engine, restricted to what the sender may see."""
        engine = await self.backend.engine()
        visibility = get_visibility(self.grant, self.user_id, self.agent_id)
        return engine if visibility.sees_everything else engine.restricted(visibility)

    @property
    def open_administration(self) -> OpenAdministration | None:
        return None if self.is_narrow else self.backend.administration

    async def administration(self) -> Administration:
        """Return the administration of the whole memory.

        Raises:
            ForbiddenError: the sender sees only a part of it.
        """
        if self.open_administration is None:
            raise ForbiddenError("this is for who sees the whole memory")
        return await self.open_administration()

    async def take_agent(self) -> None:
        """Remove ``agent_id`` from the fields and restrict the request to that agent's memories.

        Raises:
            InvalidRequestError: it is invalid, or there is no user.
            AgentNotFoundError: the user has no such agent.
        """
        agent_id = self.fields.pop("agent_id", None)
        if agent_id is not None:
            self.require_user()
            agent = AGENT_FIELD.parse(agent_id, "agent_id", self.checking)
            await check_agent(await self.engine(), agent)
            self.agent_id = agent

    def require_user(self) -> str:
        """Return the user.

        Raises:
            InvalidRequestError: the request names none.
        """
        if self.user_id is None:
            raise InvalidRequestError("user_id", "is required: whose memories")
        return self.user_id

    def check(self, *fields: Field) -> Fields:
        """Validate the request's own fields, if no command of a contract does."""
        return parse_fields(fields, self.fields, "", self.checking)

    async def native(self, action: str, fields: Mapping[str, Any]) -> CommandContext:
        """Validate *fields* for a command of the native contract, and return the call.

        Raises:
            InfiniteMemoryError: a field is invalid.
        """
        contract = NativeContract(self.engine, self.session, administration=self.open_administration)
        return await contract.open_call(action, fields, self.checking)

    async def agentmem(self, name: str, fields: Mapping[str, Any]) -> AgentMemCall:
        """Validate *fields* for a command of the AgentMem contract and the request's user, and return the call.

        Raises:
            InfiniteMemoryError: a field is invalid, or there is no user.
        """
        command = AGENTMEM.find(name)
        assert command is not None, name
        whose = {"user_id": self.require_user()} if USER_FIELD in command.fields else {}
        backend = self.backend
        return await open_call(
            command, {**fields, **whose}, self.checking, self.engine, self.session, backend.model, backend.conversations
        )
