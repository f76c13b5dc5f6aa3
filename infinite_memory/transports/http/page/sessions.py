"""Logins to the page: one-time codes, and sessions identified by a cookie. Standard library only.

A session stores the token that it was opened with and presents it with every request, so revoking or replacing a token ends its
sessions at once. Sessions exist in this process only: after a restart of the daemon the user must log in again.

A browser sends the cookies of 127.0.0.1 to all its ports. The cookie is therefore named after the port, and means nothing elsewhere;
programs that listen on other ports still see it, which cannot be prevented, so a session ends after `IDLE_S`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CODE_S = 120.0
"""Lifetime of a one-time code; the browser started by `infinite-memory open` uses it at once."""

IDLE_S = 12 * 3600.0
MAX_SESSIONS = 200
MAX_UNDO = 20


@dataclass(slots=True)
class Undo:
    """The effect of a click that another can undo.

    Memories forgotten, or moved out of ``back_to`` (a scope's id), or a scope archived, or all in a scope (or anywhere) forgotten at
    ``hidden_at``, or one memory changed from ``revision`` on.
    """

    text: str
    memory_ids: tuple[str, ...] = ()
    scope: str | None = None
    back_to: Any = None
    revision: int | None = None
    hidden_at: Any = None


@dataclass(slots=True)
class Session:
    """One login. ``csrf`` is in every form of its pages; ``message`` is shown once, by the next page."""

    token: str
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    user: str | None = None
    message: str | None = None
    undo: dict[str, Undo] = field(default_factory=dict)
    offered: str | None = None
    searched: str | None = None  # the URL of the last search, to go back to
    secret_once: str | None = None
    verified: dict[str, str] = field(default_factory=dict)  # backups, with the instant when this login verified them
    tasks: dict[str, Any] = field(default_factory=dict)
    duplicates: tuple[str, list[list[str]]] | None = None
    seen_at: float = 0.0

    def offer_undo(self, undo: Undo) -> None:
        """Offer an undo on the next page; the oldest offers are dropped."""
        self.offered = secrets.token_hex(8)
        self.undo[self.offered] = undo
        while len(self.undo) > MAX_UNDO:
            self.undo.pop(next(iter(self.undo)))


class PageSessions:
    """The one-time codes and sessions of one server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str, tuple[float, str]] = {}
        self._sessions: dict[str, Session] = {}
        self.used_at = clock()

    def make_code(self, token: str) -> str:
        """Return a one-time code that opens a session with *token* and expires soon."""
        now = self._clock()
        self._codes = {key: entry for key, entry in self._codes.items() if entry[0] > now}
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code)] = (now + CODE_S, token)
        self.used_at = now
        return code

    def take_code(self, code: str) -> str | None:
        """Return the token of a code and invalidate the code; None if it is unknown, used or expired."""
        until, token = self._codes.pop(_digest(code), (0.0, ""))
        return token if until > self._clock() else None

    def open(self, token: str) -> tuple[str, Session]:
        """Open a session; return the value of its cookie."""
        key = secrets.token_urlsafe(32)
        session = self._sessions[_digest(key)] = Session(token, seen_at=self._clock())
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.pop(self._choose())
        return key, session

    def _choose(self) -> str:
        """Choose the session to end for a new one: the least recently used of the token that has most, so that no token logs out others."""
        [(token, _)] = Counter(session.token for session in self._sessions.values()).most_common(1)
        own = [digest for digest, session in self._sessions.items() if session.token == token]
        return min(own, key=lambda digest: self._sessions[digest].seen_at)

    def find(self, key: str) -> Session | None:
        """Return the session of a cookie; None if there is none, or it has expired."""
        digest, now = _digest(key), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now - session.seen_at > IDLE_S:
            del self._sessions[digest]
            return None
        session.seen_at = self.used_at = now
        return session

    def is_open(self, session: Session) -> bool:
        """True until a session was closed, replaced or idle for too long; does not count as its use."""
        is_known = any(other is session for other in self._sessions.values())
        return is_known and self._clock() - session.seen_at <= IDLE_S

    def touch(self) -> None:
        """Record that a page is open."""
        self.used_at = self._clock()

    def close(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(key), None)


def _digest(text: str) -> str:
    """Return the hash under which a code or cookie is stored, so that the timing of a lookup reveals nothing."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
