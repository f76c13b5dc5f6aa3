"""Tools for the temporal knowledge graph of a palace."""

from __future__ import annotations

import datetime as dt
from typing import Any

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import LAST_DAY, InstantField, NumberField, TextField
from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.palace.table import PALACE, TABLE, CommandContext
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.models import MILLISECOND, Fact
from infinite_memory.time_expressions.instants import is_day, parse_day_or_instant


def _subject() -> TextField:
    return TextField(name="subject", about="What the fact is about", required=True, limit="query_chars")


class MomentField(InstantField):
    """An instant to look at; a date alone is the end of that day, when all that was asserted on it is known."""

    def parse(self, value: Any, path: str, checking: ValidationContext) -> dt.datetime:
        instant = super().parse(value, path, checking)
        if not is_day(value) or value.strip() == LAST_DAY:
            return instant
        return parse_day_or_instant(value, checking.zone, upper=True) - MILLISECOND


@TABLE.command(
    "kg_assert", PALACE, _subject(),
    TextField(name="predicate", about="What is said of it", required=True, limit="query_chars"),
    TextField(name="object", about="The value, or the other thing", required=True, limit="query_chars"),
    NumberField(name="confidence", about="How sure it is, 0 to 1", default=1.0, low=0, high=1),
    TextField(name="provenance", about="Where it is known from", blank_is_absent=True, limit="query_chars"),
    title="Assert a fact", idempotent=True,
)  # fmt: skip
async def kg_assert(call: CommandContext) -> Reply:
    """Assert a fact in the temporal knowledge graph. Another object of the same subject and predicate ends what held until now."""
    fields = call.fields
    done = await call.engine.graph.assert_fact(
        call.palace, fields.text("subject"), fields.text("predicate"), fields.text("object"),
        confidence=fields["confidence"], provenance=fields.find_text("provenance"),
    )  # fmt: skip
    reply: Json = {"status": "asserted", "outcome": done.outcome.value, "triple": _serialize_triple(done.fact)}
    return reply | ({"closed": _serialize_triple(done.closed)} if done.closed is not None else {})


@TABLE.command(
    "kg_query", PALACE, _subject(),
    MomentField(name="at", about="Instant or date (its end): what held then instead of what holds now (optional)"),
    title="Query facts", read_only=True, idempotent=True,
)  # fmt: skip
async def kg_query(call: CommandContext) -> Reply:
    """Query active knowledge-graph triples for a subject; with `at`, those that held at that time."""
    subject = call.fields.text("subject")
    facts = await call.engine.graph.get_facts(call.palace, subject, call.fields.find_instant("at"))
    return {"subject": subject, "triples": [_serialize_triple(fact) for fact in facts]}


def _serialize_triple(fact: Fact) -> Json:
    return {
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "valid_from": format_instant(fact.valid_from),
        "valid_to": format_instant(fact.valid_to) if fact.valid_to is not None else None,
        "confidence": fact.confidence,
        "provenance": fact.provenance,
    }
