"""A memory as documents of the text index, one for each passage: their fields, and what is read back of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tantivy

from infinite_memory.models import MemoryId, Row, fold
from infinite_memory.sidecar.catalog import milliseconds
from infinite_memory.sidecar.keys import KEY_DTYPE, Keys
from infinite_memory.sidecar.recent import Passage, Recent

FIRST = "first"
"""The field that the first passage of a memory has, and no other."""


def schema() -> tantivy.Schema:
    """Give the fields of a memory in the index."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("stems", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("words", tokenizer_name="whitespace", index_option="position")
    for name in ("id", "scope", "tag", "source", "type", "speaker", "conversation", FIRST):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in ("id_head", "id_tail", "revision", "length", "passages"):
        builder.add_integer_field(name, fast=True)
    builder.add_integer_field("occurred", indexed=True, fast=True)
    for name in ("confidence", "importance"):
        builder.add_float_field(name, indexed=True, fast=True)
    return builder.build()


def to_documents(made: Recent) -> Iterator[tantivy.Document]:
    """Write a memory as the index has it: a document for each passage, the first of which stands for the memory."""
    for number, passage in enumerate(made.passages):
        document = _to_document(made.row, passage)
        document.add_integer("passages", len(made.passages))
        if number == 0:
            document.add_text(FIRST, FIRST)
        yield document


def _to_document(row: Row, passage: Passage) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text("stems", " ".join(passage.stems))
    document.add_text("words", " ".join(passage.words))
    for field, value in (("id", row.memory_id), ("scope", row.scope_id), ("source", row.source), ("type", row.type)):
        if value is not None:
            document.add_text(field, value)
    for field, value in (("speaker", row.speaker), ("conversation", row.conversation_id)):
        if value is not None:
            document.add_text(field, fold(value))
    for key in row.tag_keys:
        document.add_text("tag", key)
    key_bytes = bytes.fromhex(row.memory_id)
    document.add_integer("id_head", int.from_bytes(key_bytes[:8], signed=True))
    document.add_integer("id_tail", int.from_bytes(key_bytes[8:]))
    document.add_integer("revision", row.revision)
    document.add_integer("length", passage.length)
    document.add_integer("occurred", milliseconds(row.occurred_at))
    for field, number in (("confidence", row.confidence), ("importance", row.importance)):
        if number is not None:
            document.add_float(field, float(number))
    return document


def ids_at(searcher: tantivy.Searcher, places: list[tantivy.DocAddress]) -> list[MemoryId]:
    """Read the ids of the memories at *places*."""
    heads, tails = searcher.fast_field_values("id_head", places), searcher.fast_field_values("id_tail", places)
    return [
        MemoryId(f"{int(head or 0) & 0xFFFF_FFFF_FFFF_FFFF:016x}{int(tail or 0):08x}")
        for head, tail in zip(heads, tails, strict=True)
    ]


def keys_at(searcher: tantivy.Searcher, places: list[tantivy.DocAddress]) -> Keys:
    """Read the keys of the memories at *places*."""
    heads, tails = searcher.fast_field_values("id_head", places), searcher.fast_field_values("id_tail", places)
    keys = np.empty(len(places), [("head", ">i8"), ("tail", ">u4")])
    keys["head"], keys["tail"] = heads, tails
    return keys.view(KEY_DTYPE)


def sum_lengths(searcher: tantivy.Searcher) -> float:
    """Add up the lengths of all passages in the files, in stems."""
    if not searcher.num_docs:
        return 0.0
    figures = searcher.aggregate(tantivy.Query.all_query(), {"words": {"sum": {"field": "length"}}})
    return float(figures["words"]["value"])
