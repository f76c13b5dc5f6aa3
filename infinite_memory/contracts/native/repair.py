"""The command that repairs or removes unreadable documents. For the operator of this machine: no MCP tool, no HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import FlagField, IntegerField
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.table import TABLE, CommandContext
from infinite_memory.errors import InvalidRequestError
from infinite_memory.store.repairs import Repaired, RepairOutcome
from infinite_memory.store.set_aside import SetAsideDocument

MAX_NAMED = 100
"""Documents that `health_check` names; `repair` names all."""

_PAGE = 200


@TABLE.command(
    "repair_documents",
    FlagField(name="mend", about="Mend what can be mended: recomputed keys, defaults", default=False),
    FlagField(name="remove", about="Permanently remove what is not mended, a scope with its memories", default=False),
    FlagField(name="export", about="Give the documents too, as lines of MongoDB's Extended JSON", default=False),
    FlagField(name="dry_run", about="Only tell what would be done", default=True),
    IntegerField(name="offset", about="How many to pass over", default=0, low=0, high=10_000_000),
    IntegerField(name="limit", about="Most documents", default=_PAGE, low=1, high=1000),
    title="Repair documents", destructive=True, idempotent=True,
)  # fmt: skip
async def repair_documents(call: CommandContext) -> Reply:
    """Look at every document in the database, list those that are set aside because they cannot be read, and mend or remove them
    when told to. Changes nothing unless `dry_run` is false."""
    fields = call.fields
    dry_run, mend, remove = fields.flag("dry_run"), fields.flag("mend"), fields.flag("remove")
    if not dry_run and not (mend or remove):
        raise InvalidRequestError("mend", "say what is to be done: mend, remove or both")
    done = await call.engine.maintenance.repair(
        mend=mend, remove=remove, export=fields.flag("export"), dry_run=dry_run, offset=fields.integer("offset"),
        limit=fields.integer("limit"), progress=call.progress,
    )  # fmt: skip
    reply: Reply = {
        "documents": [_serialize_repaired(repaired) for repaired in done.repaired],
        "mended": done.count(RepairOutcome.MENDED),
        "removed": done.count(RepairOutcome.REMOVED),
        "left": done.count(RepairOutcome.LEFT),
        "dry_run": dry_run,
    }
    return reply | ({"exported": list(done.exported)} if fields.flag("export") else {})


def _serialize_repaired(repaired: Repaired) -> Json:
    reply = serialize_set_aside(repaired.document) | {"outcome": repaired.outcome.value}
    return reply | ({"memories": repaired.memories} if repaired.memories else {})


def serialize_set_aside(document: SetAsideDocument) -> Json:
    """Serialize which document is set aside, and why: ids and fields, without its content."""
    return {
        "collection": document.collection,
        "id": document.id_text,
        "faults": [{"field": fault.field, "expected": fault.expected} for fault in document.faults],
    }


def named(documents: Sequence[SetAsideDocument]) -> list[Json]:
    """Serialize the first of many."""
    return [serialize_set_aside(document) for document in documents[:MAX_NAMED]]
