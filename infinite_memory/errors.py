"""All exceptions that InfiniteMemory raises on purpose.

    InfiniteMemoryError
    ├── InvalidRequestError          a field is missing or wrong; says which, what came, what was expected
    │   ├── LimitExceededError       a text, list or line is larger than its limit
    │   └── ChangedSinceAskedError   what a user agreed to is more, or something else, by now
    ├── NotFoundError
    │   ├── MemoryNotFoundError
    │   ├── ScopeNotFoundError       carries the nearest names
    │   ├── AgentNotFoundError
    │   └── BackupNotFoundError
    ├── AlreadyExistsError
    │   └── ScopeExistsError
    ├── AuthenticationError          no token came, or one that is not known
    ├── ForbiddenError               the token is known and may not do this
    ├── RateLimitError               too many requests; says when to come again
    ├── ScopeArchivedError           storing into a scope that is archived
    ├── StoreError                   MongoDB refused or failed
    │   ├── StoreUnavailableError    MongoDB cannot be reached; says what to do
    │   ├── MemoryChangedError       somebody else changed the memory meanwhile; read it again
    │   ├── FeedLostError            the change feed cannot be resumed; compare instead
    │   └── SchemaTooNewError        the data was written by a newer version
    ├── EmbeddingError               the model cannot be loaded or run
    ├── SidecarError
    │   ├── SidecarDamagedError      a file fails its checks; it is rebuilt, never served
    │   ├── SidecarUnsavedError      its files cannot be written; names the folder and the cause
    │   ├── SidecarNotReadyError     still loading or rebuilding; says how far it is
    │   └── IndexUnavailableError    the server of the index cannot be reached; says what to do
    ├── BackupError
    ├── ConfigError                  a setting is unknown or wrong; names it and who set it
    ├── ModelError                   the language model that may be configured
    │   ├── ModelUnavailableError    cannot be reached, is too slow or has no room
    │   ├── ModelRefusedError        does not want to answer
    │   └── ModelReplyError          sent something that is no answer
    └── DaemonError                  no daemon could be reached or started

Each class has a stable ``code``, which contracts map to their own replies; messages may change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from infinite_memory.redaction import redacted

if TYPE_CHECKING:
    from pathlib import PurePath

_SHOWN = 120


def truncated_repr(value: object) -> str:
    """Return the repr of *value* for a message, truncated so that a reply never echoes a megabyte."""
    text = value[: _SHOWN + 1] if isinstance(value, str) else value
    written = repr(text)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


# Compiled on first use (`re` caches them): every hook imports this module, and few need them.
# Control characters except line feed and tab, marks of text direction (Unicode's Bidi_Control), line separators, surrogates.
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
# Not allowed in new names: the above without NUL and the marks, and with line feed and tab.
_CONTROLS = "[\x01-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def escaped(text: str, *, line: bool = False) -> str:
    """Return *text* for a terminal, with unprintable characters as ``\\u`` and four digits; *line* escapes line feeds and tabs too."""
    if line:
        text = text.replace("\n", "\\n").replace("\t", "\\t")
    return re.sub(_UNPRINTABLE, lambda match: f"\\u{ord(match[0]):04x}", text)


_SURROGATE = "[\ud800-\udfff]"


def without_surrogates(text: str) -> str:
    """Return *text* with U+FFFD for each unpaired surrogate, which neither UTF-8 nor BSON can encode."""
    return re.sub(_SURROGATE, "\ufffd", text)


class InfiniteMemoryError(Exception):
    """Base of the tree; caught where any failure of ours is turned into a reply. Its text never holds a secret setting.

    ``folder`` is a folder whose full path is in the message: `str` shows only its last part, because the reader may be on another
    machine, and `in_full` the full path.
    """

    code = "internal_error"

    def __init__(self, *args: object, folder: PurePath | None = None) -> None:
        super().__init__(*args)
        self._folder = folder

    def __str__(self) -> str:
        full = self.in_full()
        return full.replace(str(self._folder), self._folder.name) if self._folder and self._folder.name else full

    def in_full(self) -> str:
        """Return the message with the full path of its folder, for the user of this machine."""
        return redacted(super().__str__())


class InvalidRequestError(InfiniteMemoryError):
    """A request cannot be understood or must not be carried out.

    ``field`` is the path of the offending field as the client wrote it (``metadata.tags[2]``), or "" for the request as a whole.
    """

    code = "invalid_request"

    def __init__(self, field: str, problem: str, *, name: str = "") -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field, self.problem, self.name = field, problem, name  # the name that may not be given to anything

    @classmethod
    def invalid_value(cls, field: str, value: object, expected: str) -> InvalidRequestError:
        """Return an error with the usual message: the value and what was expected."""
        return cls(field, f"{truncated_repr(value)} is not {expected}")


def check_printable(name: str, field: str) -> None:
    """Refuse a new name that contains control characters or line breaks.

    NUL and marks of text direction are accepted: terminals ignore NUL, names in Hebrew or Arabic may need the marks, and both are
    displayed escaped.

    Raises:
        InvalidRequestError: it contains a control character or a line break.
    """
    if re.search(_CONTROLS, name):
        problem = f"{truncated_repr(name)} holds a control character or a line break; a name has none"
        raise InvalidRequestError(field, problem, name=name)


class ChangedSinceAskedError(InvalidRequestError):
    """What a user agreed to is more, or something else, by now; nothing beyond it is done."""

    code = "changed_since_asked"

    def __init__(self, subject: str, done: str = "nothing was changed") -> None:
        super().__init__(
            "", f"{subject} since the user was asked; {done}. Call again to have the user asked about it as it is now"
        )
        self.what = subject


class LimitExceededError(InvalidRequestError):
    """Something is larger than its limit; the message says the limit and the size."""

    code = "limit_exceeded"

    def __init__(self, field: str, size: int, limit: int, unit: str) -> None:
        super().__init__(field, f"{size:,} {unit} is more than the limit of {limit:,}")
        self.size, self.limit = size, limit


class NotFoundError(InfiniteMemoryError):
    """What was asked for by name or id is not there."""

    code = "not_found"


class MemoryNotFoundError(NotFoundError):
    """No memory has the given id; it may have been forgotten."""

    code = "memory_not_found"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"no memory has id {truncated_repr(memory_id)}")


class ScopeNotFoundError(NotFoundError):
    """No scope has the given name, or it is archived and so hidden."""

    code = "scope_not_found"

    def __init__(self, name: str, nearest: Sequence[str] = (), *, archived: bool = False) -> None:
        hint = f"; did you mean {', '.join(truncated_repr(scope_name) for scope_name in nearest)}?" if nearest else ""
        if archived:
            hint = "; one of that name is archived, restore_memory takes it out again"
        super().__init__(f"there is no scope {truncated_repr(name)}{hint}")
        self.name, self.nearest = name, tuple(nearest)


class AgentNotFoundError(NotFoundError):
    """No memory was ever stored for that agent, and nobody made it."""

    code = "agent_not_found"

    def __init__(self, agent_id: str) -> None:
        super().__init__(
            f"there is no agent {truncated_repr(agent_id)}; an agent exists once it is made, or from its first memory on"
        )
        self.agent_id = agent_id


class BackupNotFoundError(NotFoundError):
    """No backup has the given name or path."""

    code = "backup_not_found"


class AlreadyExistsError(InfiniteMemoryError):
    """Something of that name is there already."""

    code = "already_exists"


class ScopeExistsError(AlreadyExistsError):
    """A scope of that name exists; names are the same when they differ in case or Unicode form only."""

    code = "scope_exists"

    def __init__(self, name: str, *, archived: bool = False) -> None:
        hint = " and is archived; restore_memory takes it out again" if archived else ""
        super().__init__(f"a scope named {truncated_repr(name)} exists already{hint}")


class AuthenticationError(InfiniteMemoryError):
    """No token came, or one that is not known."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("a valid bearer token was expected")


class ForbiddenError(InfiniteMemoryError):
    """The token is known and may not do this."""

    code = "forbidden"


class RateLimitError(InfiniteMemoryError):
    """Too many requests; ``retry_after_s`` says when to come again."""

    code = "rate_limit_exceeded"

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too many requests; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class ScopeArchivedError(InfiniteMemoryError):
    """The scope is archived: nothing is stored into it until it is brought back."""

    code = "scope_archived"

    def __init__(self, name: str) -> None:
        scope = truncated_repr(name)
        super().__init__(
            f"the scope {scope} is archived; take it out with restore_memory (scope: {scope}) or choose another"
        )


class StoreError(InfiniteMemoryError):
    """MongoDB refused or failed; nothing is known to be written unless it was acknowledged."""

    code = "store_error"


class StoreUnavailableError(StoreError):
    """MongoDB cannot be reached. The same request may be sent again once it can."""

    code = "store_unavailable"


class MemoryChangedError(StoreError):
    """A memory was changed by somebody else since it was read; read it again."""

    code = "memory_changed"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"memory {memory_id} changed meanwhile; read it again")


class FeedLostError(StoreError):
    """The change feed cannot be resumed from a token: it is too old, foreign, or the memories were replaced."""

    code = "feed_lost"


class SchemaTooNewError(StoreError):
    """The database was written by a newer version of InfiniteMemory."""

    code = "schema_too_new"

    def __init__(self, found: int, known: int, program: str | None = None) -> None:
        needed = f"infinite-memory {program} or newer" if program else "a newer infinite-memory"
        super().__init__(f"the data has schema version {found}, this program knows up to {known}; install {needed}")


class EmbeddingError(InfiniteMemoryError):
    """The embedding model cannot be loaded or run."""

    code = "embedding_error"


class SidecarError(InfiniteMemoryError):
    """Derived data is unusable at the moment; it can always be rebuilt from MongoDB."""

    code = "sidecar_error"


class SidecarDamagedError(SidecarError):
    """A sidecar file fails its checks, or belongs to another model, database or version.

    Args:
        is_missing: It does not exist yet, as in a new home.
    """

    code = "sidecar_damaged"

    def __init__(self, problem: str, *, is_missing: bool = False) -> None:
        super().__init__(problem)
        self.is_missing = is_missing


class SidecarUnsavedError(SidecarError):
    """The files of a sidecar cannot be written (a full disk, a folder that may only be read). What is searched is complete."""

    code = "storage_error"

    def __init__(self, folder: PurePath, problem: object) -> None:
        super().__init__(
            f"the index cannot be saved in the folder {folder}: {problem}; no memory is lost by it, what is searched is complete, "
            "and saving is tried again",
            folder=folder,
        )


class SidecarNotReadyError(SidecarError):
    """The sidecar is still loading or being rebuilt."""

    code = "sidecar_not_ready"


class IndexUnavailableError(SidecarNotReadyError):
    """The server of the index cannot be reached, or refuses us. What is stored meanwhile is entered once it answers.

    ``is_gone``: the server answers, but the index in use no longer exists or is not loaded; it is reopened.
    """

    code = "index_unavailable"

    def __init__(self, problem: str, *, is_gone: bool = False) -> None:
        super().__init__(problem)
        self.is_gone = is_gone


class BackupError(InfiniteMemoryError):
    """A backup could not be written, read or verified."""

    code = "backup_error"


class ConfigError(InfiniteMemoryError):
    """A setting is unknown or has a wrong value; the message names it and where it was set."""

    code = "config_error"


class ModelError(InfiniteMemoryError):
    """The language model did not answer; nothing that was stored depends on it."""

    code = "model_error"


class ModelUnavailableError(ModelError):
    """It cannot be reached, is too slow, or has no room."""

    code = "model_unavailable"


class ModelRefusedError(ModelError):
    """It does not want to answer, or its user does not want it to."""

    code = "model_refused"


class ModelReplyError(ModelError):
    """What it sent is not an answer."""

    code = "model_reply"


class DaemonError(InfiniteMemoryError):
    """The daemon could not be reached, started or stopped."""

    code = "daemon_error"
