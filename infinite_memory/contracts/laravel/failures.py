"""From our errors to the Laravel contract's JSON-RPC errors: the one place where they are mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infinite_memory.contracts.fields import Checking, Field, Fields, parse_fields
from infinite_memory.contracts.kinds import ObjectField
from infinite_memory.contracts.mcp import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from infinite_memory.errors import (
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryNotFoundError,
    NotFoundError,
    ScopeArchivedError,
    SidecarNotReadyError,
    StoreUnavailableError,
)

NOT_FOUND = -32004
UNAVAILABLE = -32001


class SeveralInvalidError(InvalidRequestError):
    """More than one field is wrong; ``problems`` has each field's messages."""

    def __init__(self, problems: Mapping[str, list[str]]) -> None:
        super().__init__("", "; ".join(message for messages in problems.values() for message in messages))
        self.problems = dict(problems)


def not_found(uuid: str) -> RpcError:
    """Answer for an id that names no live memory the caller may see."""
    return RpcError(NOT_FOUND, f"Memory {uuid} not found.", {"status": 404, "id": uuid})


def failure(problem: InfiniteMemoryError) -> RpcError:
    """Map one of our errors; what has no code of its own is an internal error."""
    if isinstance(problem, SeveralInvalidError):
        return RpcError(INVALID_PARAMS, str(problem), problem.problems)
    if isinstance(problem, InvalidRequestError):
        return RpcError(INVALID_PARAMS, str(problem), {problem.field or "arguments": [str(problem)]})
    if isinstance(problem, MemoryNotFoundError):
        return RpcError(NOT_FOUND, str(problem), {"status": 404})
    if isinstance(problem, NotFoundError | ScopeArchivedError):
        return RpcError(INVALID_PARAMS, str(problem))
    if isinstance(problem, StoreUnavailableError | SidecarNotReadyError):
        return RpcError(UNAVAILABLE, str(problem), {"status": 503})
    return RpcError(INTERNAL_ERROR, str(problem))


def parse_all(fields: Sequence[Field], values: Mapping[str, Any], path: str, checking: Checking) -> Fields:
    """Check an object as `parse_fields` does, and gather what is wrong with every field before refusing.

    Raises:
        SeveralInvalidError: at least one field is wrong; names each of them.
    """
    problems: dict[str, list[str]] = {}
    for field in fields:
        at = f"{path}.{field.name}" if path else field.name
        value = values.get(field.name)
        try:
            if value is None:
                field.absent(at, Checking(checking.limits, checking.zone))
            elif isinstance(field, ObjectField) and isinstance(value, dict):
                parse_all(field.fields, value, at, Checking(checking.limits, checking.zone))
            else:
                field.parse(value, at, Checking(checking.limits, checking.zone))
        except SeveralInvalidError as problem:
            problems |= problem.problems
        except InvalidRequestError as problem:
            problems.setdefault(problem.field or at, []).append(str(problem))
    if problems:
        raise SeveralInvalidError(problems)
    return parse_fields(fields, values, path, checking)
