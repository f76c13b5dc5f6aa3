"""Confirmation by the user over MCP before an assistant removes, replaces or exports memories, or imports files.

Every hard deletion asks, also of one memory by its id: a misled assistant must not empty the memory piece by piece. A soft deletion
asks if it affects more than one memory. Dry runs (``dry_run``) ask nothing, for commands that have that field.

The question is based on a dry run, and the command is then limited to what the dry run found (`engine.agreement`): also
if no question was asked, as that too was decided by the dry run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.contracts.base import Command
from infinite_memory.contracts.field_types import FlagField
from infinite_memory.contracts.fields import Fields, Json, ValidationContext

# First of all commands' modules: it defines the order in which they are listed.
from infinite_memory.contracts.native.contract import NativeContract  # isort: skip
from infinite_memory.contracts.native.admin import tidy_up
from infinite_memory.contracts.native.forget import forget
from infinite_memory.contracts.native.lifecycle import restore, take_in
from infinite_memory.contracts.native.scopes import merge
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import ForgetMode, ForgetResult
from infinite_memory.errors import (
    InfiniteMemoryError,
    InvalidRequestError,
    format_count,
    truncated_repr,
    without_surrogates,
)
from infinite_memory.models import MemoryId
from infinite_memory.store.copies import RestoreMode

CONFIRM = FlagField(
    name="confirm", about="True once the user has agreed to what cannot be undone or concerns more than one memory"
)
MAX_LOOKED_AT = 100
"""Memories whose history is read for a question."""

UNLOCKED = "It is not locked, as backups of this memory are: anybody who can write there can have made it."

REMOVING = ("purge_deleted", "deduplicate", "merge_similar", "prune")  # operations of `optimize_memory`


@dataclass(frozen=True, slots=True)
class Refused:
    """The request fails in any case: the reply that says why."""

    reply: Json


@dataclass(frozen=True, slots=True)
class Proposal:
    """The effect of a command, and the question to ask first; None if no question is needed."""

    agreement: Agreement
    question: str | None


@dataclass(frozen=True, slots=True)
class Consent:
    """The input for a question."""

    contract: NativeContract
    fields: Fields
    arguments: Json
    checking: ValidationContext

    async def rehearse(self, action: str, **fields: Any) -> CommandContext:
        """Return the same request as a dry run."""
        return await self.contract.open_call(action, {**(fields or self.arguments), "dry_run": True}, self.checking)


async def propose(
    command: Command[CommandContext], arguments: Json, contract: NativeContract
) -> Proposal | Refused | None:
    """Return the effect and the question of *command*; None if they add nothing to the request itself."""
    checking = ValidationContext(contract.session.limits, contract.session.zone)
    try:
        fields = contract.check(command, {**arguments, "action": command.name}, checking)
    except InvalidRequestError:
        return None  # the command rejects it, with the same message and all warnings
    if any(field.name == "dry_run" for field in command.fields) and fields.flag("dry_run"):
        return None
    try:
        return await QUESTIONS[command.name](Consent(contract, fields, arguments, checking))
    except InfiniteMemoryError as exc:
        return Refused(contract.refuse(exc) | ({"warnings": checking.warnings} if checking.warnings else {}))


async def _delete(consent: Consent) -> Proposal | None:
    target, hard = consent.fields.inner("target"), consent.fields["forget_mode"] is ForgetMode.HARD
    named = list(target.given())
    if not named or ("memory_id" in named and not hard):
        return None  # one memory, which can be restored, or a request that is rejected anyway
    call = await consent.rehearse("delete_memory")
    result = (await forget(call)).result
    removed = () if result.removed_scope is None else (result.removed_scope.scope_id,)
    agreement = Agreement({memory_id: result.texts.get(memory_id) for memory_id in result.memory_ids}, removed)
    question = _ask_to_forget(target, result, hard=hard)
    if question is not None and hard:
        named_one = target.find_text("memory_id")
        question += await _tell_versions(call.engine, result.memory_ids if named_one is None else [MemoryId(named_one)])
    return Proposal(agreement, question)


async def _tell_versions(engine: Engine, memory_ids: Sequence[MemoryId]) -> str:
    """Return which earlier versions go too, and a single memory's text: an edit, which needs no consent, may have disguised it."""
    pages = [
        page for memory_id in memory_ids[:MAX_LOOKED_AT] if (page := await engine.memories.history(memory_id)).revisions
    ]
    if not pages:
        return ""
    if len(memory_ids) > 1:
        of_these = "them" if len(memory_ids) <= MAX_LOOKED_AT else f"the first {MAX_LOOKED_AT}"
        return f" {len(pages)} of {of_these} said something else before; their earlier versions go too."
    [page] = pages
    count = len(page.revisions) + page.older
    longest = truncated_repr(max((version.text for version in page.revisions), key=len))
    return f" It has {count} earlier version{'' if count == 1 else 's'}, which {'goes' if count == 1 else 'go'} too; it said {longest}."


def _ask_to_forget(target: Fields, result: ForgetResult, *, hard: bool) -> str | None:
    named, count = list(target.given()), len(result.memory_ids)
    if named != ["scope"] and (count == 0 or (count == 1 and not hard)):
        return None
    how = "for good; this cannot be undone" if hard else "softly; restore_memory brings them back"
    if "memory_id" in named:
        memory_id = target.text("memory_id")
        excerpt = truncated_repr(result.texts.get(MemoryId(memory_id), memory_id))
        hidden = f" and its {format_count(len(result.doubles), 'hidden duplicate')}" if result.doubles else ""
        return f"Forget the memory {excerpt}{hidden} {how}?"
    memories = f"{count} {'memory' if count == 1 else 'memories'}"
    if result.doubles:
        memories += f" (with {format_count(len(result.doubles), 'hidden duplicate')})"
    if named == ["scope"]:
        return f"Forget the whole scope {truncated_repr(target['scope'])} and its {memories} {how}?"
    selectors = ", ".join(
        f"{name} {truncated_repr(target[name])}" for name in ("scope", "tag", "query") if name in named
    )
    return f"Forget the {memories} of {selectors} {how}?"


async def _restore(consent: Consent) -> Proposal | None:
    """Ask before memories are replaced, and before a file from elsewhere becomes memory that the assistant trusts."""
    name = consent.fields.text("file")
    if consent.contract.open_administration is None:
        return None  # the command is rejected
    administration = await consent.contract.open_administration()
    try:
        is_own, agreement = administration.is_own_backup(name), Agreement(contents=(administration.mark_backup(name),))
        is_unlocked = administration.is_unlocked_backup(name)
    except OSError:
        return None  # the command fails for the same reason
    file_name = truncated_repr(name)
    if consent.fields["mode"] is RestoreMode.REPLACE:
        question = f"Put the backup {file_name} in the place of everything stored now?"
        if not is_unlocked:
            return Proposal(agreement, question)
    elif is_own and not is_unlocked:
        return Proposal(agreement, None)
    count = (await restore(await consent.rehearse("restore_backup"))).done.memories
    if consent.fields["mode"] is not RestoreMode.REPLACE:
        question = f"Restore {format_count(count, 'memory')} from {file_name}{'' if is_own else ', which is not in the folder of backups'}?"
    else:
        question += f" {format_count(count, 'memory')} are in it."
    return Proposal(agreement, question + (f" {UNLOCKED}" if is_unlocked else ""))


async def _merge(consent: Consent) -> Proposal:
    merged = await merge(await consent.rehearse("merge_memory_scopes"), dry_run=True)
    source, target = truncated_repr(merged.source.name), truncated_repr(merged.target.name)
    question = f"Move every memory of the scope {source} into {target}, and remove the emptied scope?"
    return Proposal(Agreement(scopes=(merged.source.scope_id, merged.target.scope_id)), question)


async def _rename(consent: Consent) -> Proposal | None:
    """Ask if a token is bound to the scope: its creator knows the memories by the old name."""
    new_name = consent.fields.find_text("new_name")
    if new_name is None:
        return None
    engine = await consent.contract.engine()
    scope = await engine.scopes.get(consent.fields.text("scope"))
    agreement = Agreement(scopes=(scope.scope_id,))
    holders = [token.name for token in await engine.tokens.all() if scope.scope_id in (token.scope_ids or ())]
    if not holders:
        return Proposal(agreement, None)
    bound = (
        f"the HTTP token {truncated_repr(holders[0])} is" if len(holders) == 1 else f"{len(holders)} HTTP tokens are"
    )
    old, new = truncated_repr(scope.name), truncated_repr(new_name)
    return Proposal(agreement, f"Rename the scope {old} to {new}, although {bound} bound to it? They stay bound to it.")


async def _optimize(consent: Consent) -> Proposal | None:
    chosen = [operation.value for operation in consent.fields["operations"] or ()]
    removing = [name for name in chosen or REMOVING[:1] if name in REMOVING]
    if not removing:
        return None
    call = await consent.rehearse("optimize_memory", operations=removing)
    results = [(name, result) async for name, done in tidy_up(call) for result in done]
    agreement = Agreement(groups={name: result.groups for name, result in results})
    if not any(result.count for _, result in results):
        return Proposal(agreement, None)
    return Proposal(agreement, f"Tidy up: {', '.join(result.message for _, result in results)}. Go on?")


async def _import(consent: Consent) -> Proposal:
    """Ask, showing what would be read and how much: the content of a file becomes memory that the assistant trusts."""
    done = await take_in(await consent.rehearse("import_memory"))
    scope = consent.fields.find_text("scope")
    source = without_surrogates(str(done.path)) if done.path else consent.fields.find_text("path") or "another database"
    refused = f"{format_count(done.refused_count, 'entry')} {_be(done.refused_count)} left out"
    question = (
        f"Import {format_count(done.added, 'memory')} ({done.form}) from {source}{f' into {truncated_repr(scope)}' if scope else ''}? "
        f"{done.present:,} {_be(done.present)} there already, {refused}."
    )
    return Proposal(Agreement(contents=done.contents), question)


QUESTIONS: Mapping[str, Callable[[Consent], Awaitable[Proposal | None]]] = {
    "delete_memory": _delete,
    "restore_backup": _restore,
    "merge_memory_scopes": _merge,
    "change_memory_scope": _rename,
    "optimize_memory": _optimize,
    "import_memory": _import,
}
"""The question of each command. These commands have the field ``confirm`` over MCP, for clients that cannot ask their user."""


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
