"""The table of the Laravel contract, its enums, and what its rows share: the call and the fields of a memory."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.field_types import AnyField, ChoiceField, IntegerField, NameField, ObjectField, TextField
from infinite_memory.contracts.fields import Field, Json, ValidationContext
from infinite_memory.contracts.laravel.spec import SPEC
from infinite_memory.contracts.metadata import MetadataField
from infinite_memory.contracts.session import ClientSession, RequestContext
from infinite_memory.errors import InvalidRequestError

SCOPE = "Laravel"
"""The engine's scope of all memories of this contract."""

NAME_CHARS = 200
UUID_FORM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
RELATION_CHARS = 64


class ScopeType(enum.Enum):
    """How widely a memory is visible, from everybody to one user."""

    SYSTEM = "system"
    ORGANIZATION = "organization"
    REPOSITORY = "repository"
    USER = "user"


class Status(enum.Enum):
    """The status of a memory."""

    DRAFT = "draft"
    VERIFIED = "verified"
    LOCKED = "locked"
    DEPRECATED = "deprecated"
    ACTIVE = "active"


class MemoryType(enum.Enum):
    """The type of a memory."""

    BUSINESS_RULE = "business_rule"
    DECISION_LOG = "decision_log"
    PREFERENCE = "preference"
    SYSTEM_CONSTRAINT = "system_constraint"
    DOCUMENTATION = "documentation"
    TECH_STACK = "tech_stack"
    FACT = "fact"
    TASK = "task"
    ARCHITECTURE = "architecture"
    USER_CONTEXT = "user_context"
    CONVENTION = "convention"
    RISK = "risk"


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a client, from the contract's settings."""

    organization: str | None = None
    user: str | None = None

    @classmethod
    def of(cls, session: ClientSession) -> Caller:
        """Return the identity of a session's client."""
        return cls(**session.contracts.get(SPEC.section, {}))


class LaravelCall(RequestContext):
    """A running tool call."""

    __slots__ = ()

    @property
    def caller(self) -> Caller:
        """The identity of the client."""
        return Caller.of(self.session)


TABLE: Table[LaravelCall] = Table()


@dataclass(frozen=True, slots=True, kw_only=True)
class UuidField(Field):
    """A UUID in its canonical form with hyphens; the case of its digits is ignored (RFC 9562, section 4)."""

    def parse(self, value: object, path: str, checking: ValidationContext) -> str:
        if isinstance(value, str) and UUID_FORM.fullmatch(value):
            return value.lower()
        raise InvalidRequestError.invalid_value(path, value, "a UUID such as 550e8400-e29b-41d4-a716-446655440000")

    def schema(self) -> Json:
        return {"type": "string", "format": "uuid"}


def id_field(name: str = "id", about: str = "UUID of the memory", *, required: bool = True) -> UuidField:
    """Return the field of a memory's id."""
    return UuidField(name=name, about=about, required=required)


def scope_type(*, required: bool = False) -> Field:
    """Return the field of a memory's scope type."""
    return ChoiceField(name="scope_type", about="How far it reaches", choices=ScopeType, required=required)


def memory_type(*, required: bool = False) -> Field:
    """Return the field of a memory's type."""
    return ChoiceField(name="memory_type", about="What kind of knowledge it is", choices=MemoryType, required=required)


def status() -> Field:
    """Return the field of a memory's status. Without a default: a write that updates keeps it."""
    return ChoiceField(name="status", about="Its state; a new memory is a draft", choices=Status)


CONTENT = TextField(name="current_content", about="What is to be remembered: one concept", limit="text_bytes")
TITLE = TextField(name="title", about="One short sentence, at most 12 words", limit="query_chars")
REPOSITORY = NameField(name="repository", about="Slug of the repository it belongs to", max_chars=NAME_CHARS, new=True)
METADATA = MetadataField(name="metadata", about="Up to five flat keys and values")


def importance() -> Field:
    """Return the field of a memory's importance. Without a default: a write that updates keeps it."""
    return IntegerField(name="importance", about="How much it matters, 1 to 10; a new memory has 1", low=1, high=10)


WRITE_FIELDS: tuple[Field, ...] = (
    NameField(name="organization", about="Slug of the organization", required=True, max_chars=NAME_CHARS, new=True),
    scope_type(required=True),
    memory_type(required=True),
    TextField(name="current_content", about=CONTENT.about, required=True, limit="text_bytes"),
    id_field(required=False, about="UUID: updates that memory, or makes it; without one a new memory is made"),
    REPOSITORY,
    TITLE,
    status(),
    importance(),
    METADATA,
)

FILTERS = ObjectField(
    name="filters", about="What the memories must be",
    fields=(
        NameField(name="repository", about="Memories of this repository, and of what it belongs to", max_chars=NAME_CHARS),
        memory_type(),
        status(),
        scope_type(),
        MetadataField(name="metadata", about="Keys and values that their metadata has"),
    ),
)  # fmt: skip

VECTOR = AnyField(name="vector", about="An embedding of the same model, as a list of numbers, in place of `query`")
