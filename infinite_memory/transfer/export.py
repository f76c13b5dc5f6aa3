"""Exports: the contents of a memory as text for people and other programs.

JSON Lines is the form that loses nothing but vectors, which a model makes again, and the ids of scopes; Markdown and CSV are made
from its lines. An export is a consistent snapshot, as a backup is. Soft-forgotten memories are included on request only;
hard-forgotten ones no longer exist.
"""

from __future__ import annotations

import csv
import enum
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.backup.folder import atomic_write, make_stem, unwritable
from infinite_memory.clock import Clock
from infinite_memory.engine.types import Progress
from infinite_memory.file_work import file_work, in_file_thread
from infinite_memory.models import DETAILS, Scope, ScopeId
from infinite_memory.store.base import Store
from infinite_memory.store.copies import FACTS, LINKS, MEMORIES_PREFIX, REVISIONS, SCOPES, Chunk, Copies, Snapshot
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.transfer.serialization import (
    CR_NOTE,
    escape_cell,
    escape_returns,
    fact_to_json,
    header_to_json,
    link_to_json,
    memory_to_json,
    revision_to_json,
    scope_to_json,
)

Json = dict[str, Any]
_COLUMNS = (
    "memory_id", "scope", "timestamp", "text", "tags", "source",
    *(field.name for field in DETAILS if field.is_exported and field.name != "status"),  # tables of 0.1.0 have none
    "created_at", "updated_at", "deleted_at", "metadata",
)  # fmt: skip


class ExportFormat(enum.Enum):
    """What an export is written as."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    CSV = "csv"


SUFFIXES = {ExportFormat.JSONL: ".jsonl", ExportFormat.MARKDOWN: ".md", ExportFormat.CSV: ".csv"}


@dataclass(frozen=True, slots=True)
class Exported:
    """A written export and how many lines of each kind it has."""

    file: Path
    size_bytes: int
    counts: Mapping[str, int]


@file_work()
async def export(
    folder: Path,
    *,
    store: Store,
    scopes: ScopeCache,
    clock: Clock,
    form: ExportFormat = ExportFormat.JSONL,
    scope: str | None = None,
    deleted: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write an export into *folder*, under a new file name.

    Args:
        scope: Export this scope only, archived or not; None exports all.
        deleted: Whether to include soft-forgotten memories.

    Raises:
        ScopeNotFoundError: there is no such scope.
        BackupError: it could not be written.
    """
    counts: Counter[str] = Counter()
    only = (await scopes.get(scope)).scope_id if scope is not None else None
    now = clock()
    with atomic_write(folder, make_stem("export", now), SUFFIXES[form]) as target:
        try:
            async with store.copies.snapshot() as snapshot:
                lines = [header_to_json(now, __version__)]
                total = sum(snapshot.head.totals.values())
                async for records in _records(store.copies, snapshot, only, deleted=deleted):
                    counts.update(record["kind"] for record in records)
                    if progress is not None:
                        progress(counts.total(), total)
                    lines += records
                    if form is ExportFormat.JSONL:
                        await in_file_thread(partial(target.file.write, _to_lines(lines)))
                        lines = []
            rest = await in_file_thread(lambda: "".join(rendered(lines, form)).encode())
            await in_file_thread(partial(target.file.write, rest))
            await in_file_thread(target.sync)
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        size_bytes = target.part.stat().st_size
        return Exported(target.publish(), size_bytes, dict(counts))


async def _records(
    copies: Copies, snapshot: Snapshot, scope_id: ScopeId | None, *, deleted: bool
) -> AsyncIterator[list[Json]]:
    scopes: dict[str, Scope] = {}
    exported: set[str] = set()
    async for chunk in snapshot.chunks():
        if chunk.collection == SCOPES:
            batch = [_scope(document) for document in copies.documents_of(chunk) if scope_id in (None, document["_id"])]
            scopes |= {entry.scope_id: entry for entry in batch}
            yield [scope_to_json(entry) for entry in batch]
        elif chunk.collection.startswith(MEMORIES_PREFIX):
            scope = scopes.get(chunk.collection.removeprefix(MEMORIES_PREFIX))
            if scope is not None:
                memories = [
                    memory
                    for memory in await in_file_thread(partial(copies.memories_of, chunk))
                    if deleted or memory.deleted_at is None
                ]
                exported |= {memory.memory_id for memory in memories}
                yield [memory_to_json(memory, scope.name) for memory in memories]
        elif chunk.collection in (REVISIONS, FACTS, LINKS):
            yield await in_file_thread(partial(_belonging, copies, chunk, scopes, exported))


def _scope(document: Json) -> Scope:
    return Scope(
        ScopeId(document["_id"]), document["name"], document["description"], document["created_at"],
        document.get("archived_at"),
    )  # fmt: skip


def _belonging(copies: Copies, chunk: Chunk, scopes: Mapping[str, Scope], shown: set[str]) -> list[Json]:
    """Write the revisions of the exported memories, the links between them, and the facts of the exported scopes."""
    if chunk.collection == REVISIONS:
        versions = copies.revisions_of(chunk)
        return [
            revision_to_json(version, scopes[version.scope_id].name)
            for version in versions
            if version.memory_id in shown and version.scope_id in scopes
        ]
    if chunk.collection == FACTS:
        facts = copies.facts_of(chunk)
        return [fact_to_json(fact, scopes[fact.scope_id].name) for fact in facts if fact.scope_id in scopes]
    links = copies.links_of(chunk)
    return [
        link_to_json(link, scopes[scope_id].name)
        for link, scope_id in links
        if scope_id in scopes and {link.from_id, link.to_id} <= shown
    ]


def rendered(lines: Iterable[Json], form: ExportFormat) -> Iterator[str]:
    """Yield the lines of an export in the given format, in chunks of text."""
    if form is ExportFormat.JSONL:
        yield _to_lines(lines).decode()
    elif form is ExportFormat.CSV:
        yield from to_csv(lines)
    else:
        for _, text in to_markdown(lines):
            yield text


def to_csv(lines: Iterable[Json]) -> Iterator[str]:
    """Write the memories as a table, RFC 4180; tags are joined by commas (`_joined`), metadata is JSON.

    A cell that a spreadsheet would read as a formula is prefixed with an apostrophe, which our import removes.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(_COLUMNS)
    for line in lines:
        if line["kind"] == "memory":
            writer.writerow([_cell(line.get(name)) for name in _COLUMNS])
            if buffer.tell() > 1 << 20:
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
    yield buffer.getvalue()


def to_markdown(lines: Iterable[Json]) -> Iterator[tuple[str, str]]:
    """Yield a readable page for each scope, as (scope name, page)."""
    pages: dict[str, list[str]] = {}
    for line in lines:
        if line["kind"] == "scope":
            about = f"{_quoted(line['description'])}\n\n" if line["description"] else ""
            pages[line["name"]] = [f"# {_one_line(line['name'])}\n\n{about}"]
        elif line["kind"] == "memory":
            pages.setdefault(line["scope"], []).append(_entry(line))
    for name, page in pages.items():
        yield name, "".join(page)


def _entry(line: Json) -> str:
    """Write one memory; its text is quoted to set it apart from its metadata."""
    about = [f"- id: {line['memory_id']}", f"- source: {_one_line(line['source'])}"]
    if line["tags"]:
        about.append(f"- tags: {_one_line(_joined(line['tags']))}")
    about += [f"- {name}: {_one_line(str(line[name]))}" for name in ("speaker", "conversation_id") if name in line]
    if "\r" in line["text"]:
        about.append(f"- {CR_NOTE}")
    title = f": {_one_line(line['title'])}" if line.get("title") else ""
    return f"## {line['timestamp']}{title}\n\n{_quoted(line['text'])}\n\n" + "\n".join(about) + "\n\n"


def _quoted(text: str) -> str:
    """Quote every line of a text; a carriage return also ends a line in Markdown, so it is written as a character reference."""
    escaped = escape_returns(text) if "\r" in text else text
    return "\n".join(f"> {line}" for line in escaped.split("\n"))


def _joined(tags: list[str]) -> str:
    """Write tags with commas between, or as a JSON list where an import would read others from that."""
    joined = ", ".join(tags)
    is_plain = joined.split(", ") == tags and not ("," in joined.replace(", ", "") or joined.startswith("["))
    return joined if is_plain else json.dumps(tags, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return escape_cell(_joined(value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else escape_cell(str(value))


def _to_lines(lines: Iterable[Json]) -> bytes:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
