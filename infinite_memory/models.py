"""The values that travel between the parts: frozen, typed, free of MongoDB, FAISS and JSON.

Instants are aware UTC datetimes. A `TimeRange` is half open, ``start <= t < end``. Tags and scope names are shown as first
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
"""24 hexadecimal digits, a MongoDB ObjectId in text."""

ScopeId = NewType("ScopeId", str)
"""24 hexadecimal digits; names the scope's collection."""

MILLISECOND = dt.timedelta(milliseconds=1)


def fold(text: str) -> str:
    """Bring a tag or name to the form in which two spellings are the same: NFC, case folded, blanks trimmed."""
    return normalize("NFC", normalize("NFC", text).casefold()).strip()


def content_hash(text: str) -> str:
    """Return the name of what a text says, whatever its case, Unicode form and white space: SHA-256 in hexadecimal."""
    folded = " ".join(normalize("NFC", text).casefold().split())
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


def floor_to_millisecond(instant: dt.datetime) -> dt.datetime:
    """Cut *instant* to whole milliseconds in UTC, which is what MongoDB keeps and replies show."""
    utc = instant.astimezone(dt.UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A half-open stretch of time, ``start <= t < end``; None is an open end. Both ends are aware."""

    start: dt.datetime | None
    end: dt.datetime | None

    def holds(self, instant: dt.datetime) -> bool:
        """True if *instant* lies inside."""
        return (self.start is None or self.start <= instant) and (self.end is None or instant < self.end)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where memories belong. `scope_id` names the collection, `name` is any text the user chose."""

    scope_id: ScopeId
    name: str
    description: str
    created_at: dt.datetime
    archived_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a text that has a vector of its own: ``text[start:end]``, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """The vectors of one memory, one row for each window of its text.

    ``vectors`` is float32 of shape ``(len(windows), dim)`` with rows of unit length; ``space`` names model, dimension and
    precision, and vectors of different spaces are never compared.
    """

    space: str
    windows: tuple[Window, ...]
    vectors: Vectors


class FieldType(enum.Enum):
    """What a field of a memory holds."""

    TEXT, NUMBER, INSTANT, TEXTS, INSTANTS, OBJECT, JSON, COUNT, FLAG, ID, VECTORS = range(11)


class FilterRule(enum.Enum):
    """How a filter asks for a field: the same letter for letter, the same by `fold` as tags are matched, or at least as much."""

    SAME, FOLDED, AT_LEAST = range(3)


@dataclass(frozen=True, slots=True)
class FieldFilter:
    """How a field is filtered by: what `Filter` and requests call that, and the name of its column in the index."""

    rule: FilterRule
    part: str
    request_name: str
    column: str

    def match_key(self, text: str) -> str:
        """Return what is compared of a text."""
        return fold(text) if self.rule is FilterRule.FOLDED else text


@dataclass(frozen=True, slots=True)
class MemoryField:
    """One field of a memory. ``maximum`` is of a number from 0; ``is_mutable``: by an update; ``is_exported``: and taken by imports."""

    name: str
    type: FieldType
    title: str
    maximum: float | None = None
    is_mutable: bool = False
    is_exported: bool = True
    filter: FieldFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """What may be said about a memory beside its text, each a text or a number; None where nothing was said. `FIELDS` describes them."""

    type: str | None = None
    title: str | None = None
    importance: float | None = None
    confidence: float | None = None
    status: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord(MemoryDetails):
    """One stored item, whole.

    ``embedding`` is None while it is pending (the model failed or was not ready): the memory is kept all the same.
    ``occurred_at`` is when it happened, ``created_at`` when it was stored; `revision` counts its changes from 1. ``is_pruned``
    marks one that was hidden only to make room, which is kept for longer than what was forgotten.
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
        """The folded tags by which this memory is matched, its speaker and conversation among them."""
        return tag_keys(self.tags, self.speaker, self.conversation_id)


def _by(rule: FilterRule, name: str, part: str = "", column: str = "") -> FieldFilter:
    asked = f"min_{name}" if rule is FilterRule.AT_LEAST else name
    return FieldFilter(rule, part or asked, asked, column or name)


_T, _R = FieldType, FilterRule
FIELDS: Mapping[str, MemoryField] = {
    one.name: one
    for one in (
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
        MemoryField("deleted_at", _T.INSTANT, "When it was softly forgotten"),
        MemoryField("is_pruned", _T.FLAG, "Whether it was hidden only to make room"),
        MemoryField("embedding", _T.VECTORS, "Its vectors", is_exported=False),
    )
}  # fmt: skip
"""Every field of a memory: the one description that documents, updates, exports, imports, filters and schemas are made from. A new text or
number is a row here and an attribute of `MemoryDetails`; where it is filtered by, of `Filter` and `IndexRow` too."""

DETAILS = tuple(FIELDS[one.name] for one in fields(MemoryDetails))
FILTERED: Mapping[str, FieldFilter] = {spec.name: spec.filter for spec in FIELDS.values() if spec.filter is not None}
"""The fields that a filter may ask for by a value of their own; an index has a column for each."""
FILTERED_TEXTS = {name: by for name, by in FILTERED.items() if FIELDS[name].type is FieldType.TEXT}
FILTERED_NUMBERS = {name: by for name, by in FILTERED.items() if FIELDS[name].type is FieldType.NUMBER}


def get_details(memory: MemoryDetails) -> dict[str, Any]:
    """Return what is said about a memory, by field; what is not said is left out."""
    return {one.name: value for one in DETAILS if (value := getattr(memory, one.name)) is not None}


@dataclass(frozen=True, slots=True, eq=False)
class IndexRow:
    """What a sidecar keeps of one live memory: all that filters ask for, and its vectors, but no text."""

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
        """Take from *memory* what a sidecar keeps."""
        return cls(*_indexed(memory))


_indexed = operator.attrgetter(*(one.name for one in fields(IndexRow)))


@dataclass(frozen=True, slots=True, eq=False)
class IndexBatch:
    """Many rows, column by column, each memory at most once: place *i* of every column belongs to the same memory.

    Why beside `IndexRow`: when a million memories are read, making objects of each takes longer than all else.

    ``keys`` are the twelve bytes that an id writes in hexadecimal, times are milliseconds from 1970, ``tag_keys`` have each key once.
    ``values`` has a column for each of `FILTERED`, by its name; a number that is not there is NaN. ``vectors`` are float32,
    little-endian, one after the other: as many as ``windows`` says, of the space in ``spaces``; empty, 0 and None for a memory without.
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
        """Write the keys as ids."""
        return [MemoryId(key.hex()) for key in self.keys]

    def take(self, places: Sequence[int]) -> IndexBatch:
        """Return the rows at *places*."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        values = {name: [column[at] for at in places] for name, column in columns.pop("values").items()}
        taken = {name: [column[at] for at in places] for name, column in columns.items()}
        return IndexBatch(**taken, values=values)


class TagsMode(enum.Enum):
    """How several tags narrow a search."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Filter:
    """What a memory must be to be considered at all; every part that is given narrows.

    ``scope_ids`` None means every scope that is not archived; empty means none. ``tag_keys`` are folded (`tag_key`).
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
    """One hit of a recall. ``confidence`` is 0 to 1 and falls with rank; ``window`` is the stretch that matched best.

    ``repeated_at`` are the times of other memories of the same text that collapsed into this hit. ``window`` is None for a text that is
    short enough to be embedded whole; ``windows`` is their number, 1 where it is not known.
    """

    memory: MemoryRecord
    confidence: float
    window: Window | None = None
    repeated_at: tuple[dt.datetime, ...] = ()
    windows: int = 1


MAX_MEMORY_TAGS = 2000  # however they came together; an array of Milvus holds little more
SPEAKER_PREFIXES, CONVERSATION_PREFIXES = ("speaker:", "person:"), ("session:", "conversation:")


def tag_key(tag: str) -> str:
    """Bring *tag* to the key by which it is matched: folded, ``person:`` as ``speaker:``, ``conversation:`` as ``session:``."""
    folded = fold(tag)
    for prefixes in (SPEAKER_PREFIXES, CONVERSATION_PREFIXES):
        for prefix in prefixes:
            if folded.startswith(prefix):
                return prefixes[0] + folded[len(prefix) :].strip()
    return folded


def tag_keys(tags: Sequence[str], speaker: str | None = None, conversation_id: str | None = None) -> frozenset[str]:
    """Collect the keys of *tags*; a speaker or conversation counts as the tag that means the same."""
    keys = {tag_key(tag) for tag in tags}
    if speaker:
        keys.add(SPEAKER_PREFIXES[0] + fold(speaker))
    if conversation_id:
        keys.add(CONVERSATION_PREFIXES[0] + fold(conversation_id))
    return frozenset(keys)


def tagged_value(tags: Sequence[str], prefixes: tuple[str, ...]) -> str | None:
    """Find what a tag such as ``speaker:Ada`` says, as written; None without one."""
    for tag in tags:
        for prefix in prefixes:
            if tag.strip().casefold().startswith(prefix) and (value := tag.strip()[len(prefix) :].strip()):
                return value
    return None


FactId = NewType("FactId", str)
"""24 hexadecimal digits, a MongoDB ObjectId in text."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple of the temporal knowledge graph: *subject* *predicate* *object*, true from ``valid_from`` up to ``valid_to``.

    ``valid_to`` None means that it still holds. ``confidence`` is 0 to 1, ``provenance`` says where it is known from.
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
    """A relation between two memories, from one to the other; the same three parts are the same link."""

    from_id: MemoryId
    to_id: MemoryId
    relation: str
    created_at: dt.datetime
