"""Import formats: readers that turn other programs' files into memories. `FORMATS` lists them; `find_format` detects a file's format.

A reader yields one `Incoming` for each memory and one `Refused` for everything it cannot import, so that a report can say what was left
out and why. One bad entry never stops it. Formats are recognised by content; file names matter only for ``.md`` and ``.csv``, which
cannot be told from other text otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.formats import (
    chatgpt,
    claude,
    csv,
    json_lines,
    memory_servers,
    native,
    notes,
    sqlite_service,
)
from infinite_memory.transfer.formats.archives import open_archive
from infinite_memory.transfer.formats.caps import Budget
from infinite_memory.transfer.formats.reading import Head, Reading, read_head
from infinite_memory.transfer.formats.sources import Source, SourceFile, describe_fault
from infinite_memory.transfer.formats.types import (
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    Refused,
    is_our_id,
)

_OTHER = "is in no form that can be imported"


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: how to recognise it and how to read it. Files of the same ``family`` are read together."""

    name: str
    about: str
    matches: Callable[[SourceFile, Head], bool]
    read: Callable[[Reading], Iterator[Entry]]
    family: str = ""

    @property
    def group(self) -> str:
        """The name shared by files that belong together."""
        return self.family or self.name


def _database(file: SourceFile, head: Head) -> bool:
    return head.is_database and sqlite_service.is_service_database(file, Budget(max_silent_s=_LOOK_S))


_LOOK_S = 10.0  # seconds to inspect a database: two queries of its schema

# Order matters: an assistant's export contains files uploaded by its user, in any format.
FORMATS = (
    Format("infinite-memory", "our own export, JSON Lines", lambda _, head: native.is_export(head), native.read_export),
    Format("chatgpt", "data export of ChatGPT: the zip, its folder, or a file of conversations",
           lambda _, head: chatgpt.is_chatgpt(head), chatgpt.read_chatgpt),
    Format("claude", "data export of Claude: the zip, its folder, or a file of conversations, projects or memories",
           lambda _, head: claude.is_claude(head), claude.read_claude),
    Format("openmemory", "export of OpenMemory: the zip, or `memories.json` in it",
           lambda _, head: memory_servers.is_openmemory(head), memory_servers.read_openmemory),
    Format("mcp-memory-service", "JSON export of mcp-memory-service", lambda _, head: memory_servers.is_service(head),
           memory_servers.read_service),
    Format("mcp-memory-service-sqlite", "SQLite file of mcp-memory-service", _database, sqlite_service.read_service_database),
    Format("mem0", "JSON of Mem0: a list, `results` or `memories`", lambda _, head: memory_servers.is_mem0(head), memory_servers.read_mem0),
    Format("server-memory", "`memory.jsonl` of the MCP reference server memory, or its graph as JSON",
           lambda _, head: memory_servers.is_graph(head), memory_servers.read_graph),
    Format("csv", "a CSV or TSV table, ours or any with a column text, content or memory",
           lambda file, head: csv.is_table(file.suffix, head), csv.read_table),
    Format("markdown", "our own export, Markdown: a file or a folder", lambda _, head: native.is_markdown(head), native.read_markdown),
    Format("basic-memory", "Markdown folder of basic-memory, also zipped",
           lambda file, head: notes.is_basic_memory(file.suffix, head), notes.read_note, "notes"),
    Format("notes", "vault of Obsidian, or any Markdown notes: a folder, a zip or a file",
           lambda file, head: notes.is_note(file.suffix, head), notes.read_note, "notes"),
    # Last: among notes, a JSON object with a text belongs to another program.
    Format("json-lines", "JSON Lines of your own, or a list: objects with a text or content",
           lambda _, head: json_lines.is_lines(head), json_lines.read_lines),
)  # fmt: skip


@dataclass(slots=True)
class Opened:
    """The source of an import, its format and the files to read."""

    form: Format
    source: Source
    files: list[SourceFile]

    def entries(self) -> Iterator[Entry]:
        """Read every file, then report everything that was skipped."""
        for file in self.files:
            reading = Reading(file, self.source.budget, f"{file.name}: " if self.source.is_many else "")
            try:
                yield from reading.guarded("the rest of the file", partial(self.form.read, reading))
            except OSError as exc:
                yield reading.refused("the file", describe_fault(exc))
        yield from self.source.left_out


def find_format(source: Source, name: str | None = None) -> Opened:
    """Return the format of *source*, or check that it is the one called *name*.

    Raises:
        InvalidRequestError: it is in none of them, or not in the one that is named; says why as far as that can be told, and never
            what the file holds.
    """
    if not source.is_many and _is_archive(source):
        open_archive(source)
    forms: dict[str, list[SourceFile]] = {}
    left_out: list[Refused] = []
    by_form: Counter[str] = Counter()
    for file in source.files:
        source.budget.renew()
        form, reason = _find_format(file, name, source)
        if form is None:
            left_out.append(Refused(file.name, reason))
        else:
            by_form[form.name] += 1
            forms.setdefault(form.group, []).append(file)
    chosen = _choose(by_form)
    if chosen is None:
        raise InvalidRequestError("path", _no_form(source, name, left_out))
    for group, files in forms.items():
        if group != chosen.group:
            left_out += (Refused(file.name, _why_not(file, chosen)) for file in files)
    source.left_out += left_out
    return Opened(chosen, source, forms[chosen.group])


def _why_not(file: SourceFile, chosen: Format) -> str:
    """Return why a file is skipped when the others have the format *chosen*."""
    if chosen.name == "markdown" and native.is_empty_page(read_head(file)):
        return "holds a scope without memories"
    return f"is in another form than {chosen.name}; import it by itself"


def _choose(by_form: Counter[str]) -> Format | None:
    """Choose the first format that any file has; one page of our own among many notes does not make them an export."""
    matching = [form for form in FORMATS if by_form[form.name]]
    if matching and matching[0].name == "markdown":
        others = [form for form in matching if form.family == "notes"]
        if sum(by_form[form.name] for form in others) > by_form["markdown"]:
            return others[0]
    return matching[0] if matching else None


def _is_archive(source: Source) -> bool:
    [file] = source.files
    try:
        return read_head(file).is_archive
    except OSError as exc:
        raise InvalidRequestError("path", f"{file.name!r} {describe_fault(exc)}") from None


def _find_format(file: SourceFile, name: str | None, source: Source) -> tuple[Format | None, str]:
    """Return the format of a file, or why it has none."""
    try:
        head = read_head(file)
    except OSError as exc:
        return None, describe_fault(exc)
    for form in FORMATS:
        if name in (None, form.name) and form.matches(file, head):
            return form, ""
    if source.is_many and claude.is_account(head):
        return None, claude.ACCOUNT
    if head.is_archive:
        return None, "is an archive inside another; unpack it and import it by itself"
    if head.is_database and file.path is None:
        return None, "is a database inside an archive; unpack it and import it by itself"
    if name is not None and not head.fault:
        return None, f"is not in the form {name}"
    if file.suffix in csv.SUFFIXES and head.text is not None and not head.fault:
        return None, "has no one column named text, content or memory in its first line"
    return None, head.fault or _OTHER


def _no_form(source: Source, name: str | None, refused: list[Refused]) -> str:
    names = ", ".join(form.name for form in FORMATS)
    if not source.is_many and refused:
        reason = refused[0].reason
        return f"{refused[0].where!r} {reason}" + (f"; known: {names}" if reason == _OTHER else "")
    if name is not None:
        return f"{source.path.name!r} holds no file in the form {name}"
    return f"{source.path.name!r} holds no file in a form that can be imported; known: {names}"


__all__ = [
    "FORMATS",
    "Budget",
    "Entry",
    "Format",
    "Incoming",
    "IncomingFact",
    "IncomingLink",
    "IncomingScope",
    "IncomingVersion",
    "Opened",
    "Refused",
    "Source",
    "find_format",
    "is_our_id",
]
