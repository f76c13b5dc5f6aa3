"""The shared data types: frozen, typed, and independent of MongoDB, FAISS and JSON.

Instants are aware UTC datetimes. A `TimeRange` is half-open, ``start <= t < end``. Tags and scope names are displayed as first
written and matched by `fold`.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NewType

from infinite_memory.normalization import normalize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MemoryId = NewType("MemoryId", str)
"""24 hexadecimal digits: a MongoDB ObjectId as text."""

ScopeId = NewType("ScopeId", str)
"""24 hexadecimal digits; names the scope's collection."""

MILLISECOND = dt.timedelta(milliseconds=1)


def fold(text: str) -> str:
    """Return the form in which spellings of a tag or name are compared: NFC, case folded, trimmed."""
    return normalize("NFC", normalize("NFC", text).casefold()).strip()


def content_hash(text: str) -> str:
    """Return the hash of a text, ignoring case, Unicode form and white space: SHA-256 in hexadecimal."""
    folded = " ".join(normalize("NFC", text).casefold().split())
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


def floor_to_millisecond(instant: dt.datetime) -> dt.datetime:
    """Return *instant* in UTC, truncated to milliseconds, the precision of MongoDB and of replies."""
    utc = instant.astimezone(dt.UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open time range, ``start <= t < end``; None is an open end. Both ends are aware."""

    start: dt.datetime | None
    end: dt.datetime | None

    def holds(self, instant: dt.datetime) -> bool:
        """True if *instant* is in the range."""
        return (self.start is None or self.start <= instant) and (self.end is None or instant < self.end)


@dataclass(frozen=True, slots=True)
class Scope:
    """A namespace of memories. `scope_id` names the collection, `name` is any text chosen by the user."""

    scope_id: ScopeId
    name: str
    description: str
    created_at: dt.datetime
    archived_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text that has its own vector: ``text[start:end]``, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """The vectors of one memory, one row per window of its text.

    ``vectors`` is float32 of shape ``(len(windows), dim)`` with rows of unit length; ``space`` names model, dimension and
    precision, and vectors of different spaces are never compared.
    """

    space: str
    windows: tuple[Window, ...]
    vectors: Vectors


class FieldType(enum.Enum):
    """The type of a memory's field."""

    TEXT, NUMBER, INSTANT, TEXTS, INSTANTS, OBJECT, JSON, COUNT, FLAG, ID, VECTORS = range(11)


class FilterRule(enum.Enum):
    """How a filter compares a field: exactly, by `fold` as for tags, or as a minimum."""

    SAME, FOLDED, AT_LEAST = range(3)


@dataclass(frozen=True, slots=True)
class FieldFilter:
    """How a field is filtered: its names in `Filter` (``part``) and in requests, and its column in the index."""

    rule: FilterRule
    part: str
    request_name: str
    column: str

    def match_key(self, text: str) -> str:
        """Return the form in which a text is compared."""
        return fold(text) if self.rule is FilterRule.FOLDED else text


@dataclass(frozen=True, slots=True)
class MemoryField:
    """One field of a memory. ``maximum``: of a number from 0; ``is_mutable``: by updates; ``is_exported``: also imported."""

    name: str
    type: FieldType
    title: str
    maximum: float | None = None
    is_mutable: bool = False
    is_exported: bool = True
    filter: FieldFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """Optional attributes of a memory apart from its text, each a string or a number, or None. `FIELDS` describes them."""

    type: str | None = None
    title: str | None = None
    importance: float | None = None
    confidence: float | None = None
    status: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord(MemoryDetails):
    """One stored memory.

    ``embedding`` is None while it is pending (the model failed or was not ready): the memory is stored all the same.
    ``occurred_at`` is when it happened, ``created_at`` when it was stored; `revision` counts its changes from 1. ``is_pruned``
    marks a memory that was hidden only to free space, which is kept longer than a forgotten one.
    """

    memory_id: MemoryId
    scope_id: ScopeId
    text: str
    source: str
    occurred_at: dt.datetime
    created_at: dt.datetime
    updated_at: dt.datetime
    tags: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    structured: Any = None
    occurrences: tuple[dt.datetime, ...] = ()
    content_hash: str = ""
    revision: int = 1
    deleted_at: dt.datetime | None = None
    is_pruned: bool = False
    embedding: Embedding | None = None

    @property
    def tag_keys(self) -> frozenset[str]:
        """The folded tags that this memory is matched by, including its speaker and conversation."""
        return tag_keys(self.tags, self.speaker, self.conversation_id)


def _by(rule: FilterRule, name: str, part: str = "", column: str = "") -> FieldFilter:
    asked = f"min_{name}" if rule is FilterRule.AT_LEAST else name
    return FieldFilter(rule, part or asked, asked, column or name)


_T, _R = FieldType, FilterRule
FIELDS: Mapping[str, MemoryField] = {
    spec.name: spec
    for spec in (
        MemoryField("memory_id", _T.ID, "Its id"),
        MemoryField("scope_id", _T.ID, "The scope it belongs to"),
        MemoryField("text", _T.TEXT, "The text to remember", is_mutable=True),
        MemoryField("source", _T.TEXT, "Where it comes from", is_mutable=True, filter=_by(_R.SAME, "source")),
        MemoryField("occurred_at", _T.INSTANT, "When it happened", is_mutable=True),
        MemoryField("created_at", _T.INSTANT, "When it was stored"),
        MemoryField("updated_at", _T.INSTANT, "When it was last changed"),
        MemoryField("tags", _T.TEXTS, "Tags for finding it again", is_mutable=True),
        MemoryField("type", _T.TEXT, "What kind of memory it is, a word of yours", is_mutable=True, filter=_by(_R.SAME, "type")),
        MemoryField("title", _T.TEXT, "A short title", is_mutable=True),
        MemoryField("status", _T.TEXT, "Its state, in the words of its contract", is_mutable=True),
        MemoryField("speaker", _T.TEXT, "Who said it", is_mutable=True, filter=_by(_R.FOLDED, "speaker")),
        MemoryField("conversation_id", _T.TEXT, "Conversation it belongs to", is_mutable=True,
                    filter=_by(_R.FOLDED, "conversation_id", column="conversation")),
        MemoryField("confidence", _T.NUMBER, "How sure it is, 0 to 1", 1, is_mutable=True,
                    filter=_by(_R.AT_LEAST, "confidence", "min_stored_confidence")),
        MemoryField("importance", _T.NUMBER, "How much it matters, 0 to 10", 10, is_mutable=True, filter=_by(_R.AT_LEAST, "importance")),
        MemoryField("owners", _T.OBJECT, "Whose it is", is_mutable=True),
        MemoryField("metadata", _T.OBJECT, "What else is known about it", is_mutable=True),
        MemoryField("structured", _T.JSON, "Structured content that the text was made from"),
        MemoryField("occurrences", _T.INSTANTS, "Every time it happened"),
        MemoryField("content_hash", _T.TEXT, "The hash of its text", is_exported=False),
        MemoryField("revision", _T.COUNT, "The number of its version"),
        MemoryField("deleted_at", _T.INSTANT, "When it was soft-deleted"),
        MemoryField("is_pruned", _T.FLAG, "Whether it was hidden only to make room"),
        MemoryField("embedding", _T.VECTORS, "Its vectors", is_exported=False),
    )
}  # fmt: skip
"""Every field of a memory: the single description that documents, updates, exports, imports, filters and schemas are derived from. A new
string or number is a row here and an attribute of `MemoryDetails`; if it can be filtered by, of `Filter` and `IndexRow` too."""

DETAILS = tuple(FIELDS[detail.name] for detail in fields(MemoryDetails))
FILTERED: Mapping[str, FieldFilter] = {spec.name: spec.filter for spec in FIELDS.values() if spec.filter is not None}
"""The fields that can be filtered by value; an index has a column for each."""
FILTERED_TEXTS = {name: by for name, by in FILTERED.items() if FIELDS[name].type is FieldType.TEXT}
FILTERED_NUMBERS = {name: by for name, by in FILTERED.items() if FIELDS[name].type is FieldType.NUMBER}


def get_details(memory: MemoryDetails) -> dict[str, Any]:
    """Return the details of a memory by field, without those that are None."""
    return {detail.name: value for detail in DETAILS if (value := getattr(memory, detail.name)) is not None}


@dataclass(frozen=True, slots=True, eq=False)
class IndexRow:
    """The entry of one live memory in an index: its filterable fields and its vectors, but no text."""

    memory_id: MemoryId
    scope_id: ScopeId
    revision: int
    occurred_at: dt.datetime
    created_at: dt.datetime
    tag_keys: frozenset[str]
    source: str
    type: str | None
    speaker: str | None
    conversation_id: str | None
    confidence: float | None
    importance: float | None
    embedding: Embedding | None

    @classmethod
    def of(cls, memory: MemoryRecord) -> IndexRow:
        """Return the index entry of *memory*."""
        return cls(*_indexed(memory))


_indexed = operator.attrgetter(*(column.name for column in fields(IndexRow)))


@dataclass(frozen=True, slots=True, eq=False)
class IndexBatch:
    """Many rows as columns, each memory at most once: position *i* of every column belongs to the same memory.

    Why in addition to `IndexRow`: when a million memories are read, creating an object for each takes longer than everything else.

    ``keys`` are the ids as twelve bytes, times are milliseconds since 1970, ``tag_keys`` have no duplicates. ``values`` has a column for
    each of `FILTERED`, by its name; a missing number is NaN. ``vectors`` are concatenated little-endian float32: as many as ``windows``
    says, of the space in ``spaces``; empty, 0 and None for a memory without vectors.
    """

    keys: Sequence[bytes]
    scope_ids: Sequence[ScopeId]
    revisions: Sequence[int]
    occurred_ms: Sequence[int]
    created_ms: Sequence[int]
    tag_keys: Sequence[Collection[str]]
    values: Mapping[str, Sequence[Any]]
    spaces: Sequence[str | None]
    windows: Sequence[int]
    vectors: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def memory_ids(self) -> list[MemoryId]:
        """Return the keys as ids."""
        return [MemoryId(key.hex()) for key in self.keys]

    def take(self, positions: Sequence[int]) -> IndexBatch:
        """Return the rows at *positions*."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        values = {name: [column[position] for position in positions] for name, column in columns.pop("values").items()}
        selected = {name: [column[position] for position in positions] for name, column in columns.items()}
        return IndexBatch(**selected, values=values)


class TagsMode(enum.Enum):
    """How several tags are combined in a filter."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on memories, combined by AND; None, or an empty ``tag_keys``, is no condition.

    ``scope_ids`` None means every scope that is not archived; empty means no scope. ``tag_keys`` are folded (`tag_key`).
    """

    scope_ids: frozenset[ScopeId] | None = None
    tag_keys: frozenset[str] = frozenset()
    tags_mode: TagsMode = TagsMode.ALL
    time: TimeRange | None = None
    source: str | None = None
    type: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None
    min_stored_confidence: float | None = None
    min_importance: float | None = None
    memory_ids: frozenset[MemoryId] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """One hit of a recall. ``confidence`` is 0 to 1 and decreases with rank; ``window`` is the part that matched best.

    ``repeated_at`` are the times of other memories of the same text that were collapsed into this hit. ``window`` is None for a text
    short enough to be embedded whole; ``windows`` is the number of windows, 1 if unknown.
    """

    memory: MemoryRecord
    confidence: float
    window: Window | None = None
    repeated_at: tuple[dt.datetime, ...] = ()
    windows: int = 1


MAX_MEMORY_TAGS = 2000  # also after merging; an array in Milvus holds little more
SPEAKER_PREFIXES, CONVERSATION_PREFIXES = ("speaker:", "person:"), ("session:", "conversation:")


def tag_key(tag: str) -> str:
    """Return the key that *tag* is matched by: folded, ``person:`` as ``speaker:``, ``conversation:`` as ``session:``."""
    folded = fold(tag)
    for prefixes in (SPEAKER_PREFIXES, CONVERSATION_PREFIXES):
        for prefix in prefixes:
            if folded.startswith(prefix):
                return prefixes[0] + folded[len(prefix) :].strip()
    return folded


def tag_keys(tags: Sequence[str], speaker: str | None = None, conversation_id: str | None = None) -> frozenset[str]:
    """Return the keys of *tags*; a speaker or conversation counts as the equivalent tag."""
    keys = {tag_key(tag) for tag in tags}
    if speaker:
        keys.add(SPEAKER_PREFIXES[0] + fold(speaker))
    if conversation_id:
        keys.add(CONVERSATION_PREFIXES[0] + fold(conversation_id))
    return frozenset(keys)


def tagged_value(tags: Sequence[str], prefixes: tuple[str, ...]) -> str | None:
    """Return the value of the first tag with one of *prefixes*, such as ``speaker:Ada``, as written, or None."""
    for tag in tags:
        for prefix in prefixes:
            if tag.strip().casefold().startswith(prefix) and (value := tag.strip()[len(prefix) :].strip()):
                return value
    return None


FactId = NewType("FactId", str)
"""24 hexadecimal digits: a MongoDB ObjectId as text."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple of the temporal knowledge graph: *subject* *predicate* *object*, true from ``valid_from`` up to ``valid_to``.

    ``valid_to`` None means that it is still true. ``confidence`` is 0 to 1, ``provenance`` is its source.
    """

    fact_id: FactId
    scope_id: ScopeId
    subject: str
    predicate: str
    object: str
    valid_from: dt.datetime
    valid_to: dt.datetime | None = None
    confidence: float = 1.0
    provenance: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A directed relation between two memories, identified by both ids and the relation."""

    from_id: MemoryId
    to_id: MemoryId
    relation: str
    created_at: dt.datetime
