"""The page's only access to the memory: commands of the native contract, and the few queries that no command covers.

A client with restricted visibility gets a restricted engine (`http.api.visibility`), and may only run the commands in
`BOUND_COMMANDS`, which are known to respect it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
NEIGHBOURS = 4  # memories of the same conversation before and after it
MAX_LINKS = 50
MAX_SUBJECTS = 10


class Queries:
    """The queries of one request."""

    def __init__(self, request: ApiRequest) -> None:
        self._request = request

    @classmethod
    async def open(cls, backend: Backend, grant: TokenPermissions, user: str | None) -> Queries:
        """Begin a request of *grant*; *user* is the selected user of a token that is bound to several.

        Raises:
            ForbiddenError: the user or scopes of the token no longer exist.
        """
        fields = {"user_id": user} if user is not None else {}
        return cls(await backend.open(grant, fields))

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which times are shown and read."""
        return self._request.session.zone

    @property
    def is_narrow(self) -> bool:
        """True if visibility is restricted."""
        return self._request.is_narrow

    def counts(self, *, is_asked: bool) -> bool:
        """True if results count as used: the user *is_asked* for them and may change something."""
        return is_asked and not self._request.grant.read_only

    async def run(
        self, action: str, fields: Mapping[str, Any], progress: Progress = no_progress, *, counts_use: bool = False,
        expected_revision: int | None = None, uploads: Path | None = None, agreement: Agreement | None = None,
        max_texts: int = MAX_REPORTED_IDS,
    ) -> Json:  # fmt: skip
        """Return the reply of a command of the native contract.

        Args:
            counts_use: Whether the user asked for the results; results shown while typing do not count as use.
            expected_revision: Reject a change if the memory has another revision by then.
            uploads: The folder of a file to import that the caller sent: it may see its contents.
            agreement: What the page showed before; anything beyond it is rejected.
            max_texts: The number of memories to be forgotten whose text is shown.

        Raises:
            InfiniteMemoryError: it failed, or needs full visibility.
        """
        request = self._request
        request.session.counts_use = self.counts(is_asked=counts_use)
        request.session.expected_revision = expected_revision
        request.session.uploads = uploads
        request.session.max_texts = max_texts
        if self.is_narrow and action not in BOUND_COMMANDS:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")
        contract = NativeContract(
            request.engine, request.session, administration=request.open_administration, agreement=agreement
        )
        try:
            with _describing_changes():
                return await contract.run({**fields, "action": action}, request.checking, progress)
        except ScopeNotFoundError as exc:
            if self.is_narrow and exc.nearest:  # names of scopes that are not visible
                raise ScopeNotFoundError(exc.name) from exc
            raise

    async def engine(self) -> Engine:
        """Return the engine, restricted to what the caller may see."""
        return await self._request.engine()

    async def sees(self, memory_id: str) -> bool:
        """True if a memory is live and visible."""
        try:
            await (await self.engine()).memories.get(MemoryId(memory_id))
        except MemoryNotFoundError:
            return False
        return True

    async def find_links(self, memory_id: str) -> list[Json]:
        """Return the links from and to a memory, with the text at their other end."""
        engine = await self.engine()
        links: list[Json] = []
        for link in (await engine.graph.get_links(MemoryId(memory_id)))[:MAX_LINKS]:
            other_id = link.to_id if link.from_id == memory_id else link.from_id
            try:
                memory = await engine.memories.get(other_id)
            except MemoryNotFoundError:
                continue
            is_from = link.from_id == memory_id
            links.append({"relation": link.relation, "is_from": is_from, "memory_id": other_id, "text": memory.text})
        return links

    async def find_facts(self, scope: str, subjects: Sequence[str]) -> list[Json]:
        """Return the valid facts about *subjects* in a scope; none for a client with restricted visibility."""
        if self.is_narrow:
            return []
        engine = await self.engine()
        facts: list[Json] = []
        for subject in list(dict.fromkeys(subjects))[:MAX_SUBJECTS]:
            facts += [
                {"subject": fact.subject, "predicate": fact.predicate, "object": fact.object,
                 "since": format_instant(fact.valid_from)}
                for fact in await engine.graph.get_facts(scope, subject)
            ]  # fmt: skip
        return facts

    async def find_neighbours(self, memory: Mapping[str, Any]) -> tuple[list[Json], list[Json]]:
        """Return the memories just before and just after one in its conversation, each in order of time."""
        if memory.get("conversation_id") is None:
            return [], []
        engine = await self.engine()
        moment = dt.datetime.fromisoformat(memory["timestamp"])
        scopes = (str(memory["scope"]),)

        async def list_others(span: TimeRange, *, newest_first: bool) -> list[Json]:
            where = ScopedFilter(scopes, Filter(conversation_id=memory["conversation_id"], time=span))
            page = await engine.memories.list_page(where, NEIGHBOURS + 1, newest_first=newest_first)
            others = [neighbour for neighbour in page.memories if neighbour.memory_id != memory["memory_id"]]
            return [serialize_memory(engine, neighbour) for neighbour in others[:NEIGHBOURS]]

        before = await list_others(TimeRange(None, moment), newest_first=True)
        return before[::-1], await list_others(TimeRange(moment, None), newest_first=False)

    async def find_use(self, memory_id: str) -> Json | None:
        """Return how often a memory was a result, and when last; None if it never was."""
        use = await (await self.engine()).memories.find_use(MemoryId(memory_id))
        return None if use is None else {"count": use.count, "used_at": format_instant(use.used_at)}

    async def count_by_time(self, scope: str | None, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories of a scope, or of all, between each of *edges* and the next."""
        return await (await self.engine()).memories.count_by_time(_in_scope(scope), edges)

    async def find_years(self, scope: str | None) -> tuple[int, int] | None:
        """Return the years of the oldest and of the newest memory; None if there is no memory."""
        engine, years = await self.engine(), []
        for newest_first in (False, True):
            page = await engine.memories.list_page(_in_scope(scope), 1, newest_first=newest_first)
            years += [on_clock(memory.occurred_at, self.zone).year for memory in page.memories]
        return (years[0], years[1]) if len(years) == 2 else None

    async def find_time_words(self, question: str) -> TimeWords | None:
        """Return the time expression in a question and the rest of the question; None if there is none."""
        return await find_time_words(question, (await self.engine()).now(), self.zone)

    async def read_all(self, memory_ids: Sequence[str]) -> list[Json]:
        """Return those of the memories that are live and visible, in order."""
        engine = await self.engine()
        by_id = await engine.memories.find([MemoryId(memory_id) for memory_id in memory_ids])
        return [
            serialize_memory(engine, memory) for memory_id in memory_ids if (memory := by_id.get(MemoryId(memory_id)))
        ]

    async def find_duplicates(self, kind: str) -> list[list[str]]:
        """Return the ids of all groups of memories with the same text; reads every memory.

        Raises:
            ForbiddenError: the caller's visibility is restricted.
        """
        groups = await (await self._request.administration()).find_duplicates(kind)
        return [[str(memory_id) for memory_id in group] for group in groups]

    async def list_between(
        self, scope: str | None, start: dt.datetime, end: dt.datetime, limit: int, cursor: str | None
    ) -> Json:
        """Return the memories of a time range, oldest first."""
        engine = await self.engine()
        where = ScopedFilter(None if scope is None else (scope,), Filter(time=TimeRange(start, end)))
        page = await engine.memories.list_page(where, limit, cursor, newest_first=False)
        results = [serialize_memory(engine, memory) for memory in page.memories]
        return {"results": results, "total": page.total, "next_cursor": page.next_cursor}

    async def manage_tokens(self, action: str, fields: Mapping[str, Any]) -> Json:
        """Create, list, replace or revoke tokens.

        Raises:
            InfiniteMemoryError: a field is invalid, or the caller's visibility is restricted.
        """
        if self.is_narrow:
            raise ForbiddenError("a token that is bound to users or scopes manages no tokens")
        return await tokens.manage(await self.engine(), action, fields, self._request.checking)

    async def check_health(self) -> dict[str, str]:
        """Return the status of each component, "ok" if it works; reads no documents, which takes long in a large memory.

        Raises:
            ForbiddenError: the caller's visibility is restricted.
        """
        if self.is_narrow:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")
        health = await (await self.engine()).stats.health(recheck=False)
        return {"mongodb": health.mongodb, "model": health.model, "sidecar": health.sidecar}

    async def list_scopes(self) -> list[Json]:
        """Return the scopes with the number of their memories, archived ones last.

        Reads the index and not `get_memory_stats`, which measures the whole memory.
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
        """Count the memories of a scope, including soft-forgotten ones.

        Raises:
            ForbiddenError: the caller's visibility is restricted.
        """
        return await (await self.engine()).scopes.count(name)

    async def scope_id(self, name: str) -> ScopeId:
        """Return the id of a scope, which distinguishes it from another one that gets its name."""
        return (await (await self.engine()).scopes.get(name)).scope_id

    async def scope_names(self) -> list[str]:
        """Return the names of scopes that are not archived."""
        listed = (await self.run("list_memory_scopes", {}))["scopes"]
        return sorted((str(row["scope_name"]) for row in listed), key=str.casefold)

    async def forget_tagged(self, tag: str, scope: str | None, limit: int) -> ForgetResult:
        """Soft-delete all memories with a tag, in one scope or everywhere; if there are more than *limit*, do nothing.

        Raises:
            InvalidRequestError: there are more than were shown.
        """
        engine = await self.engine()
        with _describing_changes():
            target = ForgetTarget(tag=tag, scope=scope)
            return await engine.forget.matching(target, ForgetMode.SOFT, agreement=Agreement(max_count=limit))

    async def bring_back(self, hidden_at: dt.datetime) -> tuple[int, list[str]]:
        """Restore all memories that were soft-forgotten at an instant, in any scope.

        Returns:
            Their number, and the names of the archived scopes of some of them: those are not seen yet.
        """
        count, archived = await (await self.engine()).scopes.restore_hidden_at(hidden_at)
        return count, [scope.name for scope in archived]

    async def restore(self, memory_ids: Iterable[str]) -> list[str]:
        """Restore soft-forgotten memories by id; returns the names of the archived scopes of some of them: those are not seen yet."""
        homes: dict[str, None] = {}
        for memory_id in memory_ids:
            reply = await self.run("restore_memory", {"memory_id": memory_id})
            homes[reply["memory"]["scope"]] = None
        scopes = await (await self.engine()).scopes.list_all()
        return [scope.name for scope in scopes if scope.name in homes and scope.archived_at is not None]

    async def move(self, memory_id: str, scope: str) -> Moved:
        """Move a memory to another scope; it keeps its id, history and links.

        Raises:
            InfiniteMemoryError: it does not exist, or the other scope accepts nothing; then nothing was changed.
        """
        return await (await self.engine()).memories.move(MemoryId(memory_id), scope)

    async def move_back(self, memory_id: str, scope_id: ScopeId) -> Moved:
        """Move a memory to the scope of that id, whatever its current name.

        Raises:
            InfiniteMemoryError: the scope or the memory no longer exists; nothing was changed.
        """
        for scope in await (await self.engine()).scopes.find_by_ids([scope_id]):
            return await self.move(memory_id, scope.name)
        raise InvalidRequestError("", "the scope where it was is gone")


@contextlib.contextmanager
def _describing_changes() -> Iterator[None]:
    """Report in the page's words that something changed since it was shown."""
    try:
        yield
    except ChangedSinceAskedError as exc:
        message = (
            f"{exc.what} since this was shown; nothing was changed. Look at it as it is now, and go on if it is right"
        )
        raise InvalidRequestError("", message) from exc


def _in_scope(scope: str | None) -> ScopedFilter:
    return ScopedFilter(None if scope is None else (scope,))
