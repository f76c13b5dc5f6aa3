"""The tantivy documents of a memory, one per passage: their fields, and reading them back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tantivy

from infinite_memory.index.id_map import KEY_BYTES, KEY_DTYPE, Keys
from infinite_memory.index.metadata_table import milliseconds
from infinite_memory.index.text.write_buffer import BufferedMemory, Passage
from infinite_memory.models import FILTERED_NUMBERS, FILTERED_TEXTS, IndexRow, MemoryId

FIRST = "first"
"""A field that only the first passage of a memory has."""


def schema() -> tantivy.Schema:
    """Return the schema of the documents."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("stems", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="position")
    for name in ("id", "scope", "tag", *(by.column for by in FILTERED_TEXTS.values()), FIRST):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("id_head", "id_tail", "revision", "length", "passages"):
        builder.add_integer_field(name, fast=True)
    builder.add_integer_field("occurred", indexed=True, fast=True)
    for by in FILTERED_NUMBERS.values():
        builder.add_float_field(by.column, indexed=True, fast=True)
    return builder.build()


def to_documents(memory: BufferedMemory) -> Iterator[tantivy.Document]:
    """Yield the documents of a memory, one per passage; the first one represents the memory."""
    for number, passage in enumerate(memory.passages):
        document = _to_document(memory.row, passage)
        document.add_integer("passages", len(memory.passages))
        if number == 0:
            document.add_text(FIRST, FIRST)
        yield document


def _to_document(row: IndexRow, passage: Passage) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text("stems", " ".join(passage.stems))
    document.add_text("words", " ".join(passage.words))
    document.add_text("id", row.memory_id)
    document.add_text("scope", row.scope_id)
    for name, by in FILTERED_TEXTS.items():
        if (value := getattr(row, name)) is not None:
            document.add_text(by.column, by.match_key(value))
    for key in row.tag_keys:
        document.add_text("tag", key)
    key_bytes = bytes.fromhex(row.memory_id)
    document.add_integer("id_head", int.from_bytes(key_bytes[:8], signed=True))
    document.add_integer("id_tail", int.from_bytes(key_bytes[8:]))
    document.add_integer("revision", row.revision)
    document.add_integer("length", passage.length)
    document.add_integer("occurred", milliseconds(row.occurred_at))
    for name, by in FILTERED_NUMBERS.items():
        if (number := getattr(row, name)) is not None:
            document.add_float(by.column, float(number))
    return document


def ids_at(searcher: tantivy.Searcher, positions: list[tantivy.DocAddress]) -> list[MemoryId]:
    """Return the ids of the memories at *positions*."""
    digits = keys_at(searcher, positions).tobytes().hex()
    return [MemoryId(digits[offset : offset + 2 * KEY_BYTES]) for offset in range(0, len(digits), 2 * KEY_BYTES)]


def keys_at(searcher: tantivy.Searcher, positions: list[tantivy.DocAddress]) -> Keys:
    """Return the keys of the memories at *positions*."""
    heads, tails = searcher.fast_field_values("id_head", positions), searcher.fast_field_values("id_tail", positions)
    keys = np.empty(len(positions), [("head", ">i8"), ("tail", ">u4")])
    keys["head"], keys["tail"] = heads, tails
    return keys.view(KEY_DTYPE)


def sum_lengths(searcher: tantivy.Searcher) -> float:
    """Return the total length of all passages in the files, in stems."""
    if not searcher.num_docs:
        return 0.0
    figures = searcher.aggregate(tantivy.Query.all_query(), {"words": {"sum": {"field": "length"}}})
    return float(figures["words"]["value"])
