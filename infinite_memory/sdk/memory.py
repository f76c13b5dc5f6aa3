"""`Memory`: the client that stores and searches memories. `AsyncMemory` in `async_memory` is the same for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from infinite_memory.sdk.errors import UnavailableError, to_error
from infinite_memory.sdk.requests import (
    TIME_NAMES,
    Instant,
    check_page,
    check_place,
    narrow,
    refuse,
    to_forget_mode,
    to_instant,
    to_object,
    to_range,
    to_tags,
    to_user_type,
)
from infinite_memory.sdk.results import (
    ChatAnswer,
    Deleted,
    History,
    Memories,
    MemoryItem,
    MovedMemory,
    ScopeItem,
    StoredMemory,
    read_answer,
    read_deleted,
    read_history,
    read_memories,
    read_memory,
    read_moved,
    read_scopes,
    read_stored,
)
from infinite_memory.sdk.transport import to_daemon, to_url

ReadT = TypeVar("ReadT")
_OK = range(200, 300)


class Memory:
    """A memory, on this machine or behind a URL. May be shared by threads.

    With a user (here or in a call) it works on that user's memories, which are deduplicated and may belong to an agent, run or
    session; without one it works on scopes. Connections are opened on first use, and closed by `close`, a ``with`` block or the
    end of the program.

    Every method raises `ApiError`, whose ``code`` and ``field`` say what is wrong, also for an argument that cannot be sent. A call
    may name a user or a scope, not both.

    Args:
        user_id: The user of calls that name no user.
        scope: The scope of calls that name no scope. None stores into the active scope and searches it and ``Global``; ``"ALL"``
            searches everywhere.
        home: Home folder whose daemon is used, and started if necessary; None is the user's own (``INFINITE_MEMORY_HOME``).
        url: Address of an HTTP API to use instead, such as ``http://127.0.0.1:8765``.
        token: Token for the URL, made by ``infinite-memory tokens create``. It is sent only to a server that has proved that it knows it.
        tunnel_to: Where the server at the far end of a tunnel listens (``127.0.0.1:8765``), if *url* is the near end of one.
        timeout_s: How long to wait for one answer, in seconds.
    """

    def __init__(
        self,
        user_id: str | None = None,
        *,
        scope: str | None = None,
        home: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
        tunnel_to: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        check_place(home, url, token, tunnel_to, timeout_s)
        if user_id is not None and scope is not None:
            refuse("scope", "give user_id or scope, not both: a user's memories have a scope of their own")
        self.user_id, self.scope = user_id, scope
        self._link = to_daemon(home, timeout_s) if url is None else to_url(url, token, timeout_s, tunnel_to)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The memory can be used on; it opens new ones."""
        self._link.close()

    def add(
        self,
        content: str,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        tags: Sequence[str] | str | None = (),
        timestamp: Instant | None = None,
        metadata: Mapping[str, Any] | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        org_id: str | None = None,
        memory_type: str | None = None,
    ) -> StoredMemory:
        """Remember a text, for good.

        Args:
            timestamp: When it happened; default: now.
            metadata: Any JSON-serializable data; returned in results, not filterable. In a scope's memory the keys ``title``,
                ``speaker``, ``conversation_id``, ``importance`` (0 to 10), ``source``, ``type`` and ``confidence`` are special; in a
                user's only ``importance``, from 0 to 1, which is stored multiplied by ten.
            agent_id: Only for a user's memory, like *run_id* (returned in results only), *session_id*, *org_id* and *memory_type* (a
                type of the AgentMem contract). For a scope's memory set ``conversation_id`` and ``type`` in *metadata*.

        Returns:
            The memory; ``outcome`` is ``stored``, or ``duplicate`` if the user already has it for this agent, run and session.
        """
        whose = self._whose(user_id, scope)
        about = to_object("metadata", metadata) or {}
        fields: dict[str, Any] = {
            "content": content, "tags": to_tags(tags) or None, "metadata": about or None,
            "agent_id": agent_id, "run_id": run_id, "session_id": session_id, "org_id": org_id,
            "memory_type": memory_type,
        }  # fmt: skip
        written = to_instant("timestamp", timestamp)
        if written is not None and "user_id" in whose:
            fields["timestamp"] = written
        elif written is not None:
            fields["metadata"] = {**about, "timestamp": written}
        names = {} if written is None else {"metadata.timestamp": "timestamp"}
        return self._ask("store_memory", whose | fields, read_stored, names)

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 10,
        when: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        tags: Sequence[str] | str | None = (),
        min_confidence: float | None = None,
        memory_type: str | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Memories:
        """Find what answers a question, by meaning and by words, best first.

        Args:
            agent_id: Only this agent's memories of the user; cannot be combined with times, *tags*, *session_id* or *filter*.
            session_id: Only memories of this session of the user; for a scope's memories, of this ``conversation_id``.
            limit: Maximum number of results, 1 to 1000; with an agent up to 100.
            when: Only memories of a time range in words, such as "last week".
            since: Only memories of a time range that starts here, and ends at *until* if given; both ends inclusive.
            tags: Only memories with all of these tags.
            min_confidence: Only results with at least this confidence, 0 to 1.
            memory_type: Only memories of this type; for a user, one of the AgentMem contract's.
            filter: Other keys of ``filter`` of ``retrieve_memory``: ``tags_mode`` (``all``, ``any``), ``source``, ``type``,
                ``speaker``, ``conversation_id``, ``min_importance``, ``min_confidence`` (as stored), ``scope``, ``tags``,
                ``time_query``, ``time_range``. Other metadata cannot be filtered by.

        Raises:
            InvalidError: *agent_id* is combined with an argument that it excludes, or *filter* has an unknown key.
        """
        whose = self._whose(user_id, scope)
        if agent_id is not None:  # of a user: the search of the AgentMem contract, which has no filter
            named = {"when": when, "since": since, "until": until, "tags": tags or None, "session_id": session_id,
                     "filter": filter}  # fmt: skip
            if conflicting := [name for name, value in named.items() if value is not None]:
                refuse(conflicting[0], "an agent's memories are not narrowed by it")
            fields = {
                "query": query,
                "limit": limit,
                "agent_id": agent_id,
                "memory_type": memory_type,
                "min_score": min_confidence,
            }
            return self._ask("search", whose | fields, read_memories, {"min_score": "min_confidence"})
        kind = to_user_type(memory_type) if "user_id" in whose else memory_type
        narrowed = narrow(filter, tags, session_id, kind, {"when": when, "since": since, "until": until})
        fields = {
            "query": query, "limit": limit, "filter": narrowed.keys or None, "min_confidence": min_confidence,
            "time_query": when, "range": to_range(since, until),
        }  # fmt: skip
        names = TIME_NAMES | {f"filter.{key}": name for key, name in narrowed.names.items()}
        return self._ask("search", whose | fields, read_memories, names)

    def recall(
        self,
        when: str | None = None,
        *,
        since: Instant | None = None,
        until: Instant | None = None,
        query: str | None = None,
        user_id: str | None = None,
        scope: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        now: Instant | None = None,
        timezone: str | None = None,
    ) -> Memories:
        """List the memories of a stretch of time, oldest first; with a *query*, the nearest to it first.

        Args:
            when: The time range in words: "yesterday", "last week", "in March".
            since: Start of the time range, which ends at *until* if given; both ends inclusive. Takes precedence over *when*.
            now: Reference instant for words; default: the present.
            timezone: IANA time zone for words and dates; default: the user's.

        Returns:
            The memories; without *query*, ``time_frame`` is the time range that the words were parsed as.

        Raises:
            InvalidError: neither a time nor a query is given, or *when* contains no time.
        """
        if when is None and since is None and until is None and query is None:
            refuse("when", "is required: the time in words, or since or until")
        fields = {
            "time_query": when, "range": to_range(since, until), "query": query, "limit": limit, "cursor": cursor,
            "now": to_instant("now", now), "timezone": timezone,
        }  # fmt: skip
        return self._ask("search", self._whose(user_id, scope) | fields, read_memories, TIME_NAMES)

    def list_memories(
        self,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        tags: Sequence[str] | str | None = (),
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Memories:
        """List memories, newest first, page by page: give ``next_cursor`` of one page as *cursor* for the next. *filter* and
        *session_id* are those of `search`."""
        narrowed = narrow(filter, tags, session_id)
        ends = to_object("filter.time_range", narrowed.keys.pop("time_range", None)) or {}
        names = narrowed.names | {end: f"filter.time_range.{end}" for end in ends}
        fields = narrowed.keys | ends | {"limit": limit, "cursor": cursor}
        return self._ask("list_memories", self._whose(user_id, scope) | fields, read_memories, names)

    def iterate(
        self,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        tags: Sequence[str] | str | None = (),
        session_id: str | None = None,
        page: int = 500,
        filter: Mapping[str, Any] | None = None,
    ) -> Iterator[MemoryItem]:
        """Return every memory that `list_memories` would list, newest first, reading a *page* (1 to 1000) at a time."""
        check_page(page)
        cursor: str | None = None
        while True:
            listed = self.list_memories(
                user_id=user_id, scope=scope, tags=tags, session_id=session_id, limit=page, cursor=cursor, filter=filter
            )
            yield from listed
            cursor = listed.next_cursor
            if cursor is None:
                return

    def get(self, memory_id: str, *, user_id: str | None = None, scope: str | None = None) -> MemoryItem:
        """Read one memory; of a user, where one is named, else of any scope: *scope* narrows nothing here and in what follows.

        Raises:
            MissingError: there is no memory of that id.
        """
        return self._ask("read_memory", self._one(memory_id, user_id, scope), read_memory)

    def update(
        self,
        memory_id: str,
        content: str | None = None,
        *,
        tags: Sequence[str] | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        scope: str | None = None,
    ) -> StoredMemory:
        """Change the text, the tags (all of them) or parts of the metadata (None removes a key of yours). Its history keeps the rest."""
        fields = {
            "content": content,
            "tags": None if tags is None else to_tags(tags),
            "metadata": to_object("metadata", metadata),
        }
        return self._ask("change_memory", self._one(memory_id, user_id, scope) | fields, read_stored)

    def delete(
        self, memory_id: str, *, hard: bool = False, user_id: str | None = None, scope: str | None = None
    ) -> Deleted:
        """Forget one memory. Softly: `restore` brings it back for 30 days. *hard* removes text, vectors and earlier versions."""
        return self._ask(
            "forget_memory", self._one(memory_id, user_id, scope) | {"forget_mode": to_forget_mode(hard)}, read_deleted
        )

    def delete_all(
        self,
        *,
        user_id: str | None = None,
        scope: str | None = None,
        tag: str | None = None,
        query: str | None = None,
        hard: bool = False,
        dry_run: bool = False,
    ) -> Deleted:
        """Forget every memory that all selectors name; a user alone names all memories of that user. *dry_run* only tells which.
        A *scope* is where *tag* or *query* look; alone it is refused. ``infinite-memory forget --scope`` and ``scopes delete`` empty one.
        """
        fields = {"tag": tag, "query": query, "forget_mode": to_forget_mode(hard), "dry_run": dry_run or None}
        return self._ask("forget_memories", self._whose(user_id, scope) | fields, read_deleted)

    def restore(self, memory_id: str, *, user_id: str | None = None, scope: str | None = None) -> StoredMemory:
        """Bring a soft-deleted memory back."""
        return self._ask("restore_memory", self._one(memory_id, user_id, scope), read_stored)

    def move(self, memory_id: str, to: str, *, user_id: str | None = None, scope: str | None = None) -> MovedMemory:
        """Put a memory, of no user, into the scope *to*, which must exist; it keeps its id, its history and its links."""
        fields = self._one(memory_id, user_id, scope) | {"scope": to}
        return self._ask("move_memory", fields, read_moved, {"scope": "to"})

    def history(
        self,
        memory_id: str,
        *,
        before_revision: int | None = None,
        user_id: str | None = None,
        scope: str | None = None,
    ) -> History:
        """Return what a memory says, and what it said before it was changed; of a long history the latest part."""
        page = {} if before_revision is None else {"before_revision": before_revision}
        return self._ask("read_history", self._one(memory_id, user_id, scope) | page, read_history)

    def chat(
        self,
        message: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        max_memories: int = 5,
    ) -> ChatAnswer:
        """Answer a message with what is remembered of a user in mind; without a language model, with the memories themselves."""
        fields = {"message": message, "agent_id": agent_id, "session_id": session_id, "max_memories": max_memories}
        return self._ask("chat", self._whose(user_id, None) | fields, read_answer)

    def scopes(self) -> list[ScopeItem]:
        """List the scopes."""
        return self._ask("list_scopes", {}, read_scopes)

    def _whose(self, user_id: str | None, scope: str | None) -> dict[str, Any]:
        """Return the user or scope fields of a request; arguments of the call take precedence over those of the client.

        Raises:
            InvalidError: the call names both.
        """
        if user_id is not None and scope is not None:
            refuse("scope", "give user_id or scope, not both: a user's memories have a scope of their own")
        user = user_id if user_id is not None else (self.user_id if scope is None else None)
        if user is not None:
            return {"user_id": user}
        named = self.scope if scope is None else scope
        return {} if named is None else {"scope": named}

    def _one(self, memory_id: str, user_id: str | None, scope: str | None) -> dict[str, Any]:
        """Return the fields that identify one memory: a user's, or one of any scope."""
        user = self._whose(user_id, scope).get("user_id")
        return {"memory_id": memory_id} | ({} if user is None else {"user_id": user})

    def _ask(
        self,
        name: str,
        fields: Mapping[str, Any],
        parse: Callable[[Mapping[str, Any]], ReadT],
        names: Mapping[str, str] | None = None,
    ) -> ReadT:
        """Send a request and parse its reply; *names* maps its fields to arguments, for errors that name a field."""
        status, body = self._link.ask(name, {key: value for key, value in fields.items() if value is not None})
        if status not in _OK:
            raise to_error(status, body, names)
        try:
            return parse(body)
        except (KeyError, TypeError, ValueError) as exc:  # a proxy's page, for example
            raise UnavailableError(
                f"{name}: the answer cannot be read ({exc!r})", code="CONNECTION_ERROR", status=status
            ) from exc
