"""Every exception that InfiniteMemory raises on purpose, and nothing else.

    InfiniteMemoryError
    ├── InvalidRequestError          a field is missing or wrong; says which, what came, what was expected
    │   └── LimitExceededError       a text, list or line is larger than its limit
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
    ├── ScopeArchivedError           storing into a scope that was put away
    ├── StoreError                   MongoDB refused or failed
    │   ├── StoreUnavailableError    MongoDB cannot be reached; says what to do
    │   ├── MemoryChangedError       somebody else changed the memory meanwhile; read it again
    │   ├── FeedLostError            the change feed cannot be resumed; compare instead
    │   └── SchemaTooNewError        the data was written by a newer version
    ├── EmbeddingError               the model cannot be loaded or run
    ├── SidecarError
    │   ├── SidecarDamagedError      a file fails its checks; it is rebuilt, never served
    │   └── SidecarNotReadyError     still loading or rebuilding; says how far it is
    ├── BackupError
    ├── ConfigError                  a setting is unknown or wrong; names it and who set it
    ├── ModelError                   the language model that may be configured
    │   ├── ModelUnavailableError    cannot be reached, is too slow or has no room
    │   ├── ModelRefusedError        does not want to answer
    │   └── ModelReplyError          sent something that is no answer
    └── DaemonError                  no daemon could be reached or started

Each class has a stable ``code``: contracts map codes to replies of their own, so a code is a promise and a message is not.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 120


def shown(value: object) -> str:
    """Write *value* for a message: its repr, cut so that a reply never carries back a megabyte."""
    text = value[: _SHOWN + 1] if isinstance(value, str) else value
    written = repr(text)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"


class InfiniteMemoryError(Exception):
    """Base of the tree; caught where any failure of ours is turned into a reply."""

    code = "internal_error"


class InvalidRequestError(InfiniteMemoryError):
    """A request cannot be understood or must not be carried out.

    ``field`` is the path of the offending field as the client wrote it (``metadata.tags[2]``), or "" for the request as a whole.
    """

    code = "invalid_request"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field

    @classmethod
    def wrong(cls, field: str, value: object, expected: str) -> InvalidRequestError:
        """Build the usual message: what came and what was expected."""
        return cls(field, f"{shown(value)} is not {expected}")


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
        super().__init__(f"no memory has id {shown(memory_id)}")


class ScopeNotFoundError(NotFoundError):
    """No scope has the given name, or it is archived and so hidden."""

    code = "scope_not_found"

    def __init__(self, name: str, nearest: Sequence[str] = (), *, archived: bool = False) -> None:
        hint = f"; did you mean {', '.join(shown(one) for one in nearest)}?" if nearest else ""
        if archived:
            hint = "; one of that name is archived, restore_memory takes it out again"
        super().__init__(f"there is no scope {shown(name)}{hint}")
        self.name, self.nearest = name, tuple(nearest)


class AgentNotFoundError(NotFoundError):
    """No memory was ever stored for that agent, and nobody made it."""

    code = "agent_not_found"

    def __init__(self, agent_id: str) -> None:
        super().__init__(
            f"there is no agent {shown(agent_id)}; an agent exists once it is made, or from its first memory on"
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

    def __init__(self, name: str) -> None:
        super().__init__(f"a scope named {shown(name)} exists already")


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
    """The scope was put away: nothing is stored into it until it is taken out again."""

    code = "scope_archived"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the scope {shown(name)} is archived; take it out with restore_memory (scope: {shown(name)}) or choose another"
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

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the data has schema version {found}, this program knows up to {known}; update InfiniteMemory"
        )


class EmbeddingError(InfiniteMemoryError):
    """The embedding model cannot be loaded or run."""

    code = "embedding_error"


class SidecarError(InfiniteMemoryError):
    """Derived data is unusable at the moment; it can always be rebuilt from MongoDB."""

    code = "sidecar_error"


class SidecarDamagedError(SidecarError):
    """A sidecar file fails its checks, or belongs to another model, database or version."""

    code = "sidecar_damaged"


class SidecarNotReadyError(SidecarError):
    """The sidecar is still loading or being rebuilt."""

    code = "sidecar_not_ready"


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
    """What it sent is no answer."""

    code = "model_reply"


class DaemonError(InfiniteMemoryError):
    """The daemon could not be reached, started or stopped."""

    code = "daemon_error"
