"""What other memory servers keep or export, read from their JSON files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Incoming, get_time, to_list, to_metadata, to_tags, to_text

SUPERSEDED = "was superseded there by a newer memory"
DELETED = "was deleted there"
ARCHIVED = "was archived there"
PAUSED = "was paused there"

# The MCP reference server "memory"


def is_graph(head: Head) -> bool:
    """True if the file holds entities and relations, one a line or in two lists."""
    if head.members.get("type") in ("entity", "relation"):
        return True
    return any("entityType" in record or "observations" in record for record in head.objects("entities")) or any(
        "relationType" in record for record in head.objects("relations")
    )


def read_graph(reading: Reading) -> Iterator[Entry]:
    """Read each observation of an entity, and each relation as a sentence."""
    in_lists = False
    for item in reading.scan():
        if item.is_element and item.key in ("entities", "relations"):
            in_lists = True
            position = f"{'entity' if item.key == 'entities' else 'relation'} {item.number}"
            record = item.value if isinstance(item.value, dict) else {}
            kind = "entity" if item.key == "entities" else "relation"
            yield from (
                _graph_record(reading, position, kind, record)
                if item.fault is None
                else (reading.refused(position, item.fault),)
            )
        elif not in_lists and not item.is_element:
            break
        elif item.fault is not None:
            yield reading.refused("the file", item.fault)
    if not in_lists:
        for number, record, fault in reading.json_lines():
            if fault is not None:
                yield reading.refused(f"line {number}", fault)
            else:
                fields = record if isinstance(record, dict) else {}
                yield from _graph_record(reading, f"line {number}", fields.get("type"), fields)


def _graph_record(reading: Reading, location: str, record_kind: Any, record: Json) -> Iterator[Entry]:
    if record_kind == "entity" and to_text(record.get("name")):
        name, kind = record["name"], to_text(record.get("entityType"))
        for observation in to_list(record.get("observations")) or [f"{name} is a {kind or 'thing'}"]:
            if text := to_text(observation):
                yield Incoming(
                    key=f"server-memory {name}\0{text}", text=f"{name}: {text}" if name not in text else text,
                    where=reading.where(location), title=name, type=kind, source="server-memory", tags=(name,),
                )  # fmt: skip
            else:
                yield reading.refused(location, "has an observation without text")
    elif record_kind == "relation" and all(to_text(record.get(end)) for end in ("from", "to")):
        sentence = f"{record['from']} {to_text(record.get('relationType')) or 'is related to'} {record['to']}"
        yield Incoming(
            key=f"server-memory {sentence}", text=sentence, where=reading.where(location), type="relation", source="server-memory",
            tags=(record["from"], record["to"]),
        )  # fmt: skip
    else:
        yield reading.refused(location, "is neither an entity nor a relation")


# mcp-memory-service


def is_service(head: Head) -> bool:
    """True if the file is an export of mcp-memory-service."""
    if "export_metadata" in head.members and ("memories" in head.elements or head.members.get("memories") == []):
        return True
    return any("content" in record and "memory" not in record for record in head.objects("memories"))


def read_service(reading: Reading) -> Iterator[Entry]:
    """Read its memories; their own hash names them."""
    for number, record, fault in reading.records(("memories",)):
        position = f"memory {number}" if number else "the file"
        if fault is not None:
            yield reading.refused(position, fault)
        else:
            yield service_memory(reading, record if isinstance(record, dict) else {}, position)


def service_memory(reading: Reading, record: Json, location: str) -> Entry:
    """Read one memory of mcp-memory-service, from its export or its table."""
    text = to_text(record.get("content"))
    if text is None:
        return reading.refused(location, "has no text")
    if record.get("deleted_at") is not None:
        return reading.refused(location, DELETED)
    if to_text(record.get("superseded_by")) is not None:
        return reading.refused(location, SUPERSEDED)
    return reading.take(
        location,
        lambda: Incoming(
            key=f"mcp-memory-service {record.get('content_hash') or text}",
            text=text,
            where=reading.where(location),
            occurred_at=get_time(record, "created_at", "created_at_iso"),
            updated_at=get_time(record, "updated_at", "updated_at_iso"),
            type=to_text(record.get("memory_type")),
            source="mcp-memory-service",
            tags=to_tags(record.get("tags")),
            metadata=to_metadata(record.get("metadata")),
        ),
    )


# Mem0

_LISTS = ("results", "memories")
_TEXTS = ("memory", "text", "data", "content")


def is_mem0(head: Head) -> bool:
    """True if the file lists memories as Mem0 gives them: a list, an object with ``results`` or ``memories``, or lines."""
    lists: tuple[str | None, ...] = (None, *_LISTS)
    if any(isinstance(record.get("memory"), str) for key in lists for record in head.objects(key)):
        return True
    if isinstance(head.members.get("memory"), str):
        return True
    if any(
        "user_id" in record and to_text(record.get(name))
        for key in _LISTS
        for record in head.objects(key)
        for name in _TEXTS
    ):
        return True
    return (
        head.top == "{"
        and set(head.members) <= {*_LISTS, "relations"}
        and any(head.members.get(key) == [] for key in _LISTS)
    )


def read_mem0(reading: Reading) -> Iterator[Entry]:
    """Read its memories; users, agents and runs become owners."""
    for number, record, fault in reading.records(_LISTS):
        location = f"memory {number}" if number else "the file"
        fields = record if isinstance(record, dict) else {}
        text = next((candidate for name in _TEXTS if (candidate := to_text(fields.get(name)))), None)
        if fault is not None or text is None:
            yield reading.refused(location, fault or "has no text")
            continue
        yield reading.take(
            location,
            lambda known=fields, text=text, location=location: _mem0_memory(reading, known, text, location),  # type: ignore[misc]
        )
    yield from _mem0_relations(reading)


def _mem0_memory(reading: Reading, record: Json, text: str, location: str) -> Incoming:
    return Incoming(
        key=f"mem0 {record.get('id') or text}",
        text=text,
        where=reading.where(location),
        occurred_at=get_time(record, "created_at"),
        updated_at=get_time(record, "updated_at"),
        source="mem0",
        tags=to_tags(record.get("categories")),
        owners={name: str(record[name]) for name in ("user_id", "agent_id", "run_id") if record.get(name)},
        metadata=to_metadata(record.get("metadata")),
    )


def _mem0_relations(reading: Reading) -> Iterator[Entry]:
    """Read the relations that Mem0 keeps beside its memories, each as a sentence."""
    for item in reading.scan(keys=("relations",)):
        if item.is_element and item.key is None:
            return  # a list alone has no relations beside it
        if not item.is_element or item.key != "relations":
            continue
        position = f"relation {item.number}"
        fields = item.value if isinstance(item.value, dict) else {}
        ends = to_text(fields.get("source")), to_text(fields.get("destination")) or to_text(fields.get("target"))
        relation = to_text(fields.get("relationship")) or to_text(fields.get("relation"))
        if not (ends[0] and ends[1] and relation):
            yield reading.refused(position, item.fault or "is no whole relation")
            continue
        sentence = f"{ends[0]} {relation} {ends[1]}"
        yield Incoming(
            key=f"mem0 {sentence}",
            text=sentence,
            where=reading.where(position),
            type="relation",
            source="mem0",
            tags=(ends[0], ends[1]),
        )


# OpenMemory

_STATES = {"deleted": DELETED, "archived": ARCHIVED, "paused": PAUSED}
_ASIDE = ("status_history", "access_controls")


def is_openmemory(head: Head) -> bool:
    """True if the file is ``memories.json`` of OpenMemory's export, or its memories one a line."""
    if "state" in head.members and "content" in head.members:
        return True
    if any("state" in record and "content" in record for key in ("memories", None) for record in head.objects(key)):
        return True
    return "export_meta" in head.members and ("apps" in head.members or "apps" in head.elements)


def read_openmemory(reading: Reading) -> Iterator[Entry]:
    """Read its live memories, with the names of their categories as tags; the others are reported."""
    categories, apps, user, aside = _names(reading)
    left_out: Counter[str] = Counter()
    for number, record, fault in _openmemory_records(reading):
        location = f"memory {number}" if number else "the file"
        fields = record if isinstance(record, dict) else {}
        text = to_text(fields.get("content"))
        reason = _STATES.get(str(fields.get("state")))
        if reason is None and (fields.get("deleted_at") or fields.get("archived_at")):
            reason = DELETED if fields.get("deleted_at") else ARCHIVED
        if fault is None and reason is not None:
            left_out[reason] += 1
        elif fault is not None or text is None:
            yield reading.refused(location, fault or "has no text")
        else:
            named = [
                categories.get(str(category_id), str(category_id))
                for category_id in to_list(fields.get("category_ids"))
            ]
            about = {"app": apps.get(str(fields.get("app_id"))) or to_text(fields.get("app")), "user": user}
            yield reading.take(
                location,
                lambda known=fields, text=text, location=location, named=named, about=about: Incoming(  # type: ignore[misc]
                    key=f"openmemory {known.get('id') or text}",
                    text=text,
                    where=reading.where(location),
                    occurred_at=get_time(known, "created_at"),
                    updated_at=get_time(known, "updated_at"),
                    source="openmemory",
                    tags=to_tags([*named, *to_list(known.get("categories"))]),
                    owners={"user_id": about["user"]} if about["user"] else {},
                    metadata=to_metadata(known.get("metadata")) | ({"app": about["app"]} if about["app"] else {}),
                ),
            )
    for reason, count in (left_out + aside).items():
        yield reading.refused(f"{count} {'entries' if count > 1 else 'entry'}", reason, count)


def _openmemory_records(reading: Reading) -> Iterator[tuple[int, Any, str | None]]:
    """Yield the memories of a list, of the member ``memories``, or of lines; all are JSON values in a row."""
    return reading.records(("memories",))


def _names(reading: Reading) -> tuple[dict[str, str], dict[str, str], str | None, Counter[str]]:
    """Read the names of categories, apps and the user, and count what is no memory."""
    names: dict[str, dict[str, str]] = {"categories": {}, "apps": {}}
    user: str | None = None
    aside: Counter[str] = Counter()
    for item in reading.scan(keys=("user", "apps", "categories", *_ASIDE)):
        fields = item.value if isinstance(item.value, dict) else {}
        if item.is_element and item.key in names and to_text(fields.get("name")):
            names[item.key][str(fields.get("id"))] = fields["name"]
        elif item.key == "user" and item.is_element is False:
            user = to_text(fields.get("user_id"))
        elif item.is_element and item.key in _ASIDE:
            aside["is a record of changes or rights, and no memory"] += 1
    return names["categories"], names["apps"], user, aside
