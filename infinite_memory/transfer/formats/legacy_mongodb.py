"""The MongoDB database of the older InfiniteMemoryMCP, read as memories.

Its collections, as its documentation and its code describe them: ``conversation_history`` (a message each: ``text``, ``speaker``,
``conversation_id``, ``scope``, ``tags``, ``timestamp``), ``summaries`` (``summary_text``), ``user_profile`` (an entry of ``key``,
``value`` and ``category`` each, or one document for a user with ``preferences``, ``facts``, ``contacts`` and ``notes``), the
scopes in ``metadata`` or ``metadata_scopes``, and vectors in ``memory_index``, which are made again. The documentation writes the
names of collections in capitals as well.

It wrote the time on the machine's clock as if that were UTC. The id of a document tells when it was made, so a time that is off by
a time zone is known and put right.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infinite_memory.errors import InvalidRequestError, format_count
from infinite_memory.store.mongo.legacy_mongodb import LegacyDatabase, LegacyDocument
from infinite_memory.transfer.formats.types import Entry, Incoming, IncomingScope, Refused, to_instant, to_tags, to_text
from infinite_memory.transfer.serialization import plain

NAME = "infinite-memory-mcp"

_QUARTER_S = 900  # zones differ by quarters of an hour
_WIDEST_ZONE = 14 * 4
_NEAR_S = 60  # what passes between the making of a document's time and of its id
_ABOUT_USER = ("user_id", "embedding", "updated_at", "created_at", "timestamp", "scope", "tags")


def read_legacy(database: LegacyDatabase) -> Iterator[Entry]:
    """Read everything of an older database, scopes first.

    Raises:
        InvalidRequestError: it holds none of the collections, or the server went away.
    """
    named: dict[str, list[str]] = {}  # conversation_history and ConversationHistory may stand side by side
    for name in database.collections:
        named.setdefault(_plain_name(name), []).append(name)
    kinds = [key for key in _READERS if key in named]
    if not kinds:
        names = ", ".join(database.collections[:10]) or "nothing"
        raise InvalidRequestError("database", f"{database.name!r} is none of InfiniteMemoryMCP: it holds {names}")
    for kind in kinds:
        for name in named[kind]:
            for document in database.read(name):
                yield from _READERS[kind](document)
    for name in database.collections:
        kind = _plain_name(name)
        if kind in _READERS or name.startswith("system."):
            continue
        reason = "are made anew" if kind == "memoryindex" else "are of no kind that is known"
        yield Refused(f"{format_count(database.count(name), 'document')} of {name}", reason)


def _plain_name(name: str) -> str:
    return name.replace("_", "").casefold()


def _scope(document: LegacyDocument) -> Iterator[Entry]:
    name = to_text(document.fields.get("scope_name"))
    if name is not None and document.fields.get("type", "scope") == "scope":
        about = document.fields.get("description")
        yield IncomingScope(name, about if isinstance(about, str) else "", _instant(document, "created_at"))


def _message(document: LegacyDocument) -> Iterator[Entry]:
    text = to_text(document.fields.get("text")) or to_text(document.fields.get("content"))
    if text is None:
        yield Refused(_where("message", document), "has no text")
        return
    yield _incoming(document, text, source=to_text(document.fields.get("source")) or "conversation")


def _summary(document: LegacyDocument) -> Iterator[Entry]:
    text = to_text(document.fields.get("summary_text"))
    if text is None:
        yield Refused(_where("summary", document), "has no text")
        return
    metadata = {
        name: plain(document.fields[name])
        for name in ("topic_id", "time_range", "message_refs")
        if document.fields.get(name)
    }
    yield _incoming(document, text, source="summary", metadata=metadata)


def _profile(document: LegacyDocument) -> Iterator[Entry]:
    user = str(document.fields.get("user_id") or document.key)
    if (key := to_text(document.fields.get("key"))) is not None:
        yield _profile_entry(
            document, user, str(document.fields.get("category") or "facts"), key, document.fields.get("value")
        )
        return
    for category, values in document.fields.items():
        if category in _ABOUT_USER or values in (None, "", [], {}):
            continue
        if isinstance(values, Mapping):
            for key, value in values.items():
                yield _profile_entry(document, user, category, str(key), value)
        elif isinstance(values, list):
            for number, value in enumerate(values, 1):
                yield _profile_entry(document, user, category, f"{category} {number}", value)
        else:
            yield _profile_entry(document, user, category, category, values)


def _profile_entry(document: LegacyDocument, user: str, category: str, key: str, value: Any) -> Entry:
    """Make a memory of one thing that is known of the user: "favorite color: blue"."""
    value_text = _format_value(value)
    if not value_text.strip():
        return Refused(f"{key} of {user}", "has no value")
    has_own_document = "key" in document.fields  # a document each, whose id can be kept
    text = value_text if category == "notes" else f"{key.replace('_', ' ')}: {value_text}"
    return _incoming(
        document, text, source="user_profile", type_=category, title=key, metadata={"key": key, "user_id": user},
        name=None if has_own_document else f"{user}\0{category}\0{key}",
    )  # fmt: skip


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_format_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(plain(value))


def _incoming(
    document: LegacyDocument,
    text: str,
    *,
    source: str,
    type_: str | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Incoming:
    has_our_form = document.made_at is not None and name is None
    return Incoming(
        key=f"{NAME} {source} {name or document.key}",
        text=text,
        scope=to_text(document.fields.get("scope")),
        memory_id=document.key if has_our_form else None,
        occurred_at=_instant(document, "timestamp"),
        created_at=document.made_at,
        source=source,
        tags=to_tags(document.fields.get("tags")),
        type=type_,
        title=title,
        speaker=to_text(document.fields.get("speaker")),
        conversation_id=to_text(document.fields.get("conversation_id")),
        metadata=metadata or {},
    )


def _instant(document: LegacyDocument, field: str) -> dt.datetime | None:
    """Read a time; one that is off by a time zone from the making of its document is put right."""
    instant = to_instant(document.fields.get(field))
    if instant is None or document.made_at is None:
        return instant
    off_s = (instant - document.made_at).total_seconds()
    quarters = round(off_s / _QUARTER_S)
    if 0 < abs(quarters) <= _WIDEST_ZONE and abs(off_s - quarters * _QUARTER_S) < _NEAR_S:
        return instant - dt.timedelta(seconds=quarters * _QUARTER_S)
    return instant


def _where(kind: str, document: LegacyDocument) -> str:
    return f"{kind} {document.key}"


_READERS: dict[str, Callable[[LegacyDocument], Iterator[Entry]]] = {
    "metadata": _scope,
    "metadatascopes": _scope,
    "conversationhistory": _message,
    "summaries": _summary,
    "userprofile": _profile,
}
"""The reader of each collection, by its name without underscores and in small letters; scopes first."""
