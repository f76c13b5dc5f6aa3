"""The one door from the page to the memory: commands of the native contract, and the few questions that no command answers.

Who does not see everything gets an engine that is narrowed (`http.api.visibility`), and beside that may run no command but those of
`BOUND_COMMANDS`, which are known to go by it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.native.serializers import serialize_memory
from infinite_memory.contracts.native.table import TimeWords, find_time_words
from infinite_memory.contracts.session import no_progress
from infinite_memory.contracts.timestamps import format_instant, on_clock
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.moving import Moved
from infinite_memory.engine.types import (
    MAX_REPORTED_IDS,
    ForgetMode,
    ForgetResult,
    ForgetTarget,
    Progress,
    ScopedFilter,
)
from infinite_memory.errors import (
    ChangedSinceAskedError,
    ForbiddenError,
    InvalidRequestError,
    MemoryNotFoundError,
    ScopeNotFoundError,
)
from infinite_memory.models import Filter, MemoryId, ScopeId, TimeRange, fold
from infinite_memory.transports.http.api import tokens
from infinite_memory.transports.http.api.backend import ApiRequest, Backend
from infinite_memory.transports.http.api.tokens import TokenPermissions

Json = dict[str, Any]

BOUND_COMMANDS = frozenset(
    {"retrieve_memory", "list_memories", "get_memory", "update_memory", "delete_memory", "restore_memory",
     "list_memory_scopes", "get_memory_stats", "store_memory"}
)  # fmt: skip
NEIGHBOURS = 4  # memories of the same conversation before and after one
MAX_LINKS = 50
MAX_SUBJECTS = 10


class Queries:
    """What one request asks of the memory."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request

    @classmethod
    async def open(cls, backend: Backend, grant: TokenPermissions, user: str | None) -> Queries:
        """Begin a request of *grant*; *user* is whose memories are meant where a token is bound to several.

        Raises:
            ForbiddenError: what the token is bound to is gone.
        """
        fields = {"user_id": user} if user is not None else {}
        return cls(await backend.open(grant, fields))

    @property
    def zone(self) -> ZoneInfo:
        """The zone in which times are shown and read."""
        return self._request.session.zone

    @property
    def is_narrow(self) -> bool:
        """True if less than everything is seen."""
        return self._request.is_narrow

    def counts(self, *, asked: bool) -> bool:
        """True if what is found counts as used: somebody *asked* for it who may change something."""
        return asked and not self._request.grant.read_only

    async def run(
        self, action: str, fields: Mapping[str, Any], progress: Progress = no_progress, *, counts_use: bool = False,
        expected_revision: int | None = None, uploads: Path | None = None, agreed: Agreement | None = None,
        most_texts: int = MAX_REPORTED_IDS,
    ) -> Json:  # fmt: skip
        """Return the reply of a command of the native contract.

        Args:
            counts_use: Whether somebody asked for the results; what is shown while they type is no use of a memory.
            expected_revision: A change is refused where the memory has another one by then.
            uploads: Where a file to import lies that whoever asks sent: they may see what it says.
            agreed: What the page showed before; what goes beyond it is refused.
            most_texts: Of how many memories that would be forgotten the text is shown.

        Raises:
            InfiniteMemoryError: it failed, or is not for who does not see everything.
        """
        request = self._request
        request.session.counts_use = self.counts(asked=counts_use)
        request.session.expected_revision = expected_revision
        request.session.uploads = uploads
        request.session.most_texts = most_texts
        if self.is_narrow and action not in BOUND_COMMANDS:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")
        contract = NativeContract(
            request.engine, request.session, administration=request.open_administration, agreed=agreed
        )
        try:
            with _describing_changes():
                return await contract.run({**fields, "action": action}, request.checking, progress)
        except ScopeNotFoundError as exc:
            if self.is_narrow and exc.nearest:  # names of scopes that are not seen
                raise ScopeNotFoundError(exc.name) from exc
            raise

    async def engine(self) -> Engine:
        """Return the engine, as far as whoever asks may see it."""
        return await self._request.engine()

    async def sees(self, memory_id: str) -> bool:
        """True if a memory is live and seen."""
        try:
            await (await self.engine()).memories.get(MemoryId(memory_id))
        except MemoryNotFoundError:
            return False
        return True

    async def find_links(self, memory_id: str) -> list[Json]:
        """List the links from and to a memory, with the text at their other end."""
        engine = await self.engine()
        found: list[Json] = []
        for link in (await engine.graph.get_links(MemoryId(memory_id)))[:MAX_LINKS]:
            other = link.to_id if link.from_id == memory_id else link.from_id
            try:
                memory = await engine.memories.get(other)
            except MemoryNotFoundError:
                continue
            is_from = link.from_id == memory_id
            found.append({"relation": link.relation, "is_from": is_from, "memory_id": other, "text": memory.text})
        return found

    async def find_facts(self, scope: str, subjects: Sequence[str]) -> list[Json]:
        """List what holds of *subjects* in a scope; nothing for who does not see everything."""
        if self.is_narrow:
            return []
        engine = await self.engine()
        found: list[Json] = []
        for subject in list(dict.fromkeys(subjects))[:MAX_SUBJECTS]:
            found += [
                {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object,
                 "since": format_instant(fact.valid_from)}
                for fact in await engine.graph.get_facts(scope, subject)
            ]  # fmt: skip
        return found

    async def find_neighbours(self, memory: Mapping[str, Any]) -> tuple[list[Json], list[Json]]:
        """List what was said just before and just after a memory in its conversation, each in order of time."""
        if memory.get("conversation_id") is None:
            return [], []
        engine = await self.engine()
        at = dt.datetime.fromisoformat(memory["timestamp"])
        scopes = (str(memory["scope"]),)

        async def said(span: TimeRange, *, newest_first: bool) -> list[Json]:
            where = ScopedFilter(scopes, Filter(conversation_id=memory["conversation_id"], time=span))
            page = await engine.memories.list_page(where, NEIGHBOURS + 1, newest_first=newest_first)
            others = [one for one in page.memories if one.memory_id != memory["memory_id"]]
            return [serialize_memory(engine, one) for one in others[:NEIGHBOURS]]

        before = await said(TimeRange(None, at), newest_first=True)
        return before[::-1], await said(TimeRange(at, None), newest_first=False)

    async def find_use(self, memory_id: str) -> Json | None:
        """Return how often a memory was an answer, and when last; None where it never was."""
        use = await (await self.engine()).memories.find_use(MemoryId(memory_id))
        return None if use is None else {"count": use.count, "used_at": format_instant(use.used_at)}

    async def count_by_time(self, scope: str | None, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories of a scope, or of all, between each of *edges* and the next."""
        return await (await self.engine()).memories.count_by_time(_in_scope(scope), edges)

    async def find_years(self, scope: str | None) -> tuple[int, int] | None:
        """Return the years of the oldest and of the newest memory; None where there are none."""
        engine, years = await self.engine(), []
        for newest_first in (False, True):
            page = await engine.memories.list_page(_in_scope(scope), 1, newest_first=newest_first)
            years += [on_clock(memory.occurred_at, self.zone).year for memory in page.memories]
        return (years[0], years[1]) if len(years) == 2 else None

    async def find_time_words(self, question: str) -> TimeWords | None:
        """Return the time in a question and what it says beside it; None where there is none."""
        return await find_time_words(question, (await self.engine()).now(), self.zone)

    async def read_all(self, memory_ids: Sequence[str]) -> list[Json]:
        """Read those of some memories that are live and seen, in order."""
        engine = await self.engine()
        found = await engine.memories.find([MemoryId(memory_id) for memory_id in memory_ids])
        return [
            serialize_memory(engine, memory) for memory_id in memory_ids if (memory := found.get(MemoryId(memory_id)))
        ]

    async def find_duplicates(self, kind: str) -> list[list[str]]:
        """List all groups of memories that say the same, by id; reads every memory.

        Raises:
            ForbiddenError: who asks does not see everything.
        """
        groups = await (await self._request.administration()).find_duplicates(kind)
        return [[str(memory_id) for memory_id in group] for group in groups]

    async def list_between(
        self, scope: str | None, start: dt.datetime, end: dt.datetime, limit: int, cursor: str | None
    ) -> Json:
        """List the memories of a stretch of time, oldest first."""
        engine = await self.engine()
        where = ScopedFilter(None if scope is None else (scope,), Filter(time=TimeRange(start, end)))
        page = await engine.memories.list_page(where, limit, cursor, newest_first=False)
        results = [serialize_memory(engine, memory) for memory in page.memories]
        return {"results": results, "total": page.total, "next_cursor": page.next_cursor}

    async def manage_tokens(self, what: str, fields: Mapping[str, Any]) -> Json:
        """Create, list, replace or revoke tokens.

        Raises:
            InfiniteMemoryError: a field is wrong, or who asks does not see everything.
        """
        if self.is_narrow:
            raise ForbiddenError("a token that is bound to users or scopes manages no tokens")
        return await tokens.manage(await self.engine(), what, fields, self._request.checking)

    async def check_health(self) -> dict[str, str]:
        """Return what each part says of itself, "ok" where it works; looks at no documents, which takes long in a large memory.

        Raises:
            ForbiddenError: who asks does not see everything.
        """
        if self.is_narrow:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")
        health = await (await self.engine()).stats.health(look=False)
        return {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar}

    async def list_scopes(self) -> list[Json]:
        """List scopes with the number of their memories, archived ones last.

        By the index and not by `get_memory_stats`, which measures the whole memory.
        """
        engine = await self.engine()
        scopes = sorted(
            await engine.scopes.list_all(), key=lambda scope: (scope.archived_at is not None, fold(scope.name))
        )
        return [
            {
                "scope_name": scope.name,
                "description": scope.description,
                "archived": scope.archived_at is not None,
                "count": await engine.memories.count(_in_scope(scope.name)) if scope.archived_at is None else None,
            }
            for scope in scopes
        ]

    async def count_scope(self, name: str) -> int:
        """Count all that is in a scope, with what was forgotten softly.

        Raises:
            ForbiddenError: who asks does not see everything.
        """
        return await (await self.engine()).scopes.count(name)

    async def scope_id(self, name: str) -> ScopeId:
        """Return what tells a scope from another one that gets its name."""
        return (await (await self.engine()).scopes.get(name)).scope_id

    async def scope_names(self) -> list[str]:
        """List the names of scopes that are not archived."""
        listed = (await self.run("list_memory_scopes", {}))["scopes"]
        return sorted((str(one["scope_name"]) for one in listed), key=str.casefold)

    async def forget_tagged(self, tag: str, scope: str | None, most: int) -> ForgetResult:
        """Forget softly all that has a tag, in one scope or everywhere; where that is more than *most*, nothing is done.

        Raises:
            InvalidRequestError: more would go than was shown.
        """
        engine = await self.engine()
        with _describing_changes():
            target = ForgetTarget(tag=tag, scope=scope)
            return await engine.forget.matching(target, ForgetMode.SOFT, agreed=Agreement(most=most))

    async def bring_back(self, hidden_at: dt.datetime) -> int:
        """Bring back what was forgotten at an instant, in whatever scope, and return how many memories that were."""
        scopes = (await self.engine()).scopes
        return sum([(await scopes.restore(name, hidden_at))[1] for name in await self.scope_names()])

    async def move(self, memory_id: str, scope: str) -> Moved:
        """Put a memory into another scope; it keeps its id, its history and its links.

        Raises:
            InfiniteMemoryError: it is not there, or the other scope takes nothing; then nothing was changed.
        """
        return await (await self.engine()).memories.move(MemoryId(memory_id), scope)

    async def move_back(self, memory_id: str, scope_id: ScopeId) -> Moved:
        """Put a memory into the scope of that id, whatever it is called by now.

        Raises:
            InfiniteMemoryError: the scope or the memory is gone; nothing was changed.
        """
        for scope in await (await self.engine()).scopes.find_by_ids([scope_id]):
            return await self.move(memory_id, scope.name)
        raise InvalidRequestError("", "the scope where it was is gone")


@contextlib.contextmanager
def _describing_changes() -> Iterator[None]:
    """Say in the page's words that something changed since it was shown."""
    try:
        yield
    except ChangedSinceAskedError as exc:
        message = (
            f"{exc.what} since this was shown; nothing was changed. Look at it as it is now, and go on if it is right"
        )
        raise InvalidRequestError("", message) from exc


def _in_scope(scope: str | None) -> ScopedFilter:
    return ScopedFilter(None if scope is None else (scope,))
