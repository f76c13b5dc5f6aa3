"""What the user is asked over MCP before an assistant removes, replaces or hands on what is there, or takes files in.

Every hard deletion asks, also of one memory by its id: a misled assistant may not empty the memory piece by piece. A soft one asks
where it is wider than one memory. Commands that rehearse (``dry_run``) ask nothing, where they have that field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from infinite_memory.contracts.base import Command
from infinite_memory.contracts.field_types import FlagField
from infinite_memory.contracts.fields import Fields, Json, ValidationContext
from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.engine.types import ForgetMode
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, NotFoundError, StoreError, truncated_repr
from infinite_memory.store.copies import RestoreMode

CONFIRM = FlagField(
    name="confirm", about="True once the user has agreed to what cannot be undone or concerns more than one memory"
)
Ask = Callable[..., Awaitable[Json]]
REMOVING = ("purge_deleted", "deduplicate", "merge_similar", "prune")  # operations of `optimize_memory`


@dataclass(frozen=True, slots=True)
class Refused:
    """The request fails anyway: the reply that says why."""

    reply: Json


@dataclass(frozen=True, slots=True)
class Consent:
    """A request on the way to its question. *ask* sends another request of the same client."""

    contract: NativeContract
    fields: Fields
    arguments: Json
    ask: Ask


async def question_for(
    command: Command[CommandContext], arguments: Json, contract: NativeContract, ask: Ask
) -> str | Refused | None:
    """Return the question to put before *command* is carried out; None where there is nothing to ask."""
    checking = ValidationContext(contract.session.limits, contract.session.zone)
    try:
        fields = contract.check(command, {**arguments, "action": command.name}, checking)
    except InvalidRequestError:
        return None  # the command refuses it, with the same words and all warnings
    if any(field.name == "dry_run" for field in command.fields) and fields.flag("dry_run"):
        return None
    return await QUESTIONS[command.name](Consent(contract, fields, arguments, ask))


async def _delete(asked: Consent) -> str | Refused | None:
    target, hard = asked.fields.inner("target"), asked.fields["forget_mode"] is ForgetMode.HARD
    named = list(target.given())
    if not named or ("memory_id" in named and not hard):
        return None  # one memory, which can be brought back, or a request that is refused by itself
    reply = await asked.ask("delete_memory", **{**asked.arguments, "dry_run": True})
    if reply.get("status") != "OK":
        return Refused(reply)
    count = int(reply.get("would_delete", 0))
    if count == 0 and named != ["scope"]:
        return None
    if count == 1 and named != ["scope"] and not hard:
        return None
    how = "for good; this cannot be undone" if hard else "softly; restore_memory brings them back"
    if "memory_id" in named:
        texts = [memory["text"] for memory in reply.get("memories", ())]
        return f"Forget the memory {truncated_repr(texts[0] if texts else target.text('memory_id'))} {how}?"
    memories = f"{count} {'memory' if count == 1 else 'memories'}"
    if named == ["scope"]:
        return f"Forget the whole scope {truncated_repr(target['scope'])} and its {memories} {how}?"
    selectors = ", ".join(
        f"{name} {truncated_repr(target[name])}" for name in ("scope", "tag", "query") if name in named
    )
    return f"Forget the {memories} of {selectors} {how}?"


async def _restore(asked: Consent) -> str | Refused | None:
    """Ask before memories are replaced, and before a file from elsewhere becomes memory that the assistant believes."""
    name = asked.fields.text("file")
    if asked.fields["mode"] is RestoreMode.REPLACE:
        return f"Put the backup {truncated_repr(name)} in the place of everything stored now?"
    if asked.contract.open_administration is None:
        return None  # the command is refused
    try:
        if (await asked.contract.open_administration()).is_own_backup(name):
            return None
    except (InfiniteMemoryError, OSError):
        return None  # the command fails for the same reason
    reply = await asked.ask("restore_backup", **{**asked.arguments, "dry_run": True})
    if reply.get("status") != "OK":
        return Refused(reply)
    return f"Restore {reply['restored_memories']:,} memories from {truncated_repr(name)}, which is not in the folder of backups?"


async def _merge(asked: Consent) -> str:
    source, target = asked.fields.text("scope"), asked.fields.text("into")
    return f"Move every memory of the scope {truncated_repr(source)} into {truncated_repr(target)}, and remove the emptied scope?"


async def _rename(asked: Consent) -> str | None:
    """Ask where a token is bound to the scope: who made it knows the memories by the old name."""
    new_name = asked.fields.find_text("new_name")
    if new_name is None:
        return None
    try:
        engine = await asked.contract.engine()
        scope = await engine.scopes.get(asked.fields.text("scope"))
        tokens = await engine.tokens.all()
    except (StoreError, NotFoundError):
        return None  # the command fails for the same reason
    holders = [token.name for token in tokens if scope.scope_id in (token.scope_ids or ())]
    if not holders:
        return None
    bound = (
        f"the HTTP token {truncated_repr(holders[0])} is" if len(holders) == 1 else f"{len(holders)} HTTP tokens are"
    )
    old, new = truncated_repr(scope.name), truncated_repr(new_name)
    return f"Rename the scope {old} to {new}, although {bound} bound to it? They stay bound to it."


async def _optimize(asked: Consent) -> str | Refused | None:
    chosen = [operation.value for operation in asked.fields["operations"] or ()]
    removing = [name for name in chosen or REMOVING[:1] if name in REMOVING]
    if not removing:
        return None
    reply = await asked.ask("optimize_memory", operations=removing, dry_run=True)
    if reply.get("status") != "OK":
        return Refused(reply)
    counts = {name: count for name, count in reply["counts"].items() if count}
    if not counts:
        return None
    return f"Tidy up: {', '.join(reply['operations'])}. Go on?"


async def _import(asked: Consent) -> str | Refused:
    """Ask with what would be read, and how much would come in: what a file says becomes memory that the assistant believes."""
    reply = await asked.ask("import_memory", **{**asked.arguments, "dry_run": True})
    if reply.get("status") != "OK":
        return Refused(reply)
    scope = asked.fields.find_text("scope")
    source = reply.get("path") or asked.fields.find_text("path") or "another database"
    return (
        f"Import {reply['added']:,} memories ({reply['format']}) from {source}{f' into {truncated_repr(scope)}' if scope else ''}? "
        f"{reply['present']:,} are there already, {reply['skipped']:,} entries are left out."
    )


QUESTIONS: Mapping[str, Callable[[Consent], Awaitable[str | Refused | None]]] = {
    "delete_memory": _delete,
    "restore_backup": _restore,
    "merge_memory_scopes": _merge,
    "change_memory_scope": _rename,
    "optimize_memory": _optimize,
    "import_memory": _import,
}
"""What each command asks. One that is here has the field ``confirm`` over MCP, for clients that cannot ask their user."""
