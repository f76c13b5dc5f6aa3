"""Markdown notes: a folder of basic-memory, a vault of Obsidian, any folder or archive of ``.md`` files, or one such file.

Each note becomes one memory, with its front matter as metadata. Tags come from the front matter and from the text (``#tag``), relations of
basic-memory (``- part_of [[Other]]``) are kept as metadata beside the text that holds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from infinite_memory.transfer.formats.caps import MAX_NOTE_BYTES, CapReachedError
from infinite_memory.transfer.formats.front_matter import FrontMatterError, parse_front_matter, split_note
from infinite_memory.transfer.formats.json_stream import Json
from infinite_memory.transfer.formats.reading import Head, Reading
from infinite_memory.transfer.formats.types import Entry, Incoming, get_time, to_tags, to_text

SUFFIXES = (".md", ".markdown")
MAX_TEXT_TAGS = 50  # from a note's text; those of the front matter come first
MAX_RELATIONS = 100
_DATES = ("created", "date", "created_at", "date created", "creation_date")
_CHANGES = ("modified", "updated", "updated_at", "date modified", "last_modified")
_KNOWN = frozenset({"title", "type", "tags", "tag", "permalink", *_DATES, *_CHANGES})
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"(?<![\w/#&])#((?=[\w/-]*[^\W\d_])[\w/-]{1,100})")
_RELATION = re.compile(r"^[-*][ \t]+([^\[\]\n]{1,100}?)[ \t]+\[\[([^\[\]\n]{1,300})\]\]", re.MULTILINE)


def is_note(file_suffix: str, head: Head) -> bool:
    """True if a file is a Markdown note."""
    return file_suffix in SUFFIXES and head.text is not None and not head.is_archive


def is_basic_memory(file_suffix: str, head: Head) -> bool:
    """True if a file is a note with basic-memory's front matter."""
    if not is_note(file_suffix, head) or head.text is None:
        return False
    front, _ = split_note(head.text.replace("\r\n", "\n"))
    return front is not None and re.search(r"^permalink[ \t]*:", front, re.MULTILINE) is not None


def read_note(reading: Reading) -> Iterator[Entry]:
    """Read a note."""
    name = reading.file.name
    try:
        text = reading.text(MAX_NOTE_BYTES)
    except UnicodeDecodeError:
        yield reading.refused("the note", "is no text in UTF-8")
        return
    except CapReachedError as exc:
        reading.budget.check()  # an exhausted budget ends the whole import
        yield reading.refused("the note", str(exc))
        return
    front_text, body = split_note(text)
    front: Json = {}
    if front_text is not None:
        try:
            front = parse_front_matter(front_text)
        except FrontMatterError as exc:
            yield reading.refused("the front matter", f"{exc}; the note is taken without it")
    if not body.strip():
        yield reading.refused("the note", "has no text")
        return
    yield reading.take("the note", lambda: _note(reading, name, front, body.strip("\n")))


def _note(reading: Reading, name: str, front: Json, body: str) -> Incoming:
    dates = {
        key: front[key] for key in (*_DATES, *_CHANGES) if not isinstance(front.get(key), dict | list | type(None))
    }
    date = get_time(dates, *_DATES)
    permalink = to_text(front.get("permalink"))
    about = {key: value for key, value in front.items() if key not in _KNOWN and value not in (None, "", [], {})}
    relations = _relations(body)
    return Incoming(
        key=f"basic-memory {permalink or name}",
        text=body,
        where=reading.where("the note"),
        is_undated=date is None,
        occurred_at=date or reading.file.modified_at,
        updated_at=get_time(dates, *_CHANGES),
        title=(to_text(front.get("title")) or PurePosixPath(name).stem).strip()
        or None,  # a folded scalar ends in a line break
        type=to_text(front.get("type")),
        source="basic-memory" if permalink else "markdown",
        tags=_tags(front, body),
        metadata=about
        | {"path": name}
        | ({"permalink": permalink} if permalink else {})
        | ({"relations": relations} if relations else {}),
    )


def _tags(front: Json, body: str) -> tuple[str, ...]:
    """Return the tags of the front matter (a list, or one text with commas or spaces) and of the text."""
    named: list[Any] = []
    for value in (front.get("tags"), front.get("tag")):
        if isinstance(value, str):
            named += value.split(",") if "," in value else value.split()
        elif isinstance(value, list):
            named += value
        elif value is not None:
            named.append(value)
    in_text = list(dict.fromkeys(_TAG.findall(_CODE.sub(" ", body))))[:MAX_TEXT_TAGS]
    bare = [tag.strip().removeprefix("#") if isinstance(tag, str) else tag for tag in [*named, *in_text]]
    return to_tags(bare)


def _relations(body: str) -> list[str]:
    """Return the relations of a note, as ``part_of [[Other]]``."""
    return [
        f"{kind} [[{target}]]" for kind, target in _RELATION.findall(body)[:MAX_RELATIONS] if not kind.startswith("[")
    ]
