"""The errors of the Laravel contract, and a validation that reports all invalid fields of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infinite_memory.contracts.errors import NOT_FOUND, UNAVAILABLE, Column, get_number
from infinite_memory.contracts.field_types import ObjectField
from infinite_memory.contracts.fields import Field, Fields, ValidationContext, parse_fields
from infinite_memory.contracts.mcp import RpcError
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError

_STATUSES = {NOT_FOUND: 404, UNAVAILABLE: 503}


class SeveralInvalidError(InvalidRequestError):
    """More than one field is invalid; ``problems`` has each field's messages."""

    def __init__(self, problems: Mapping[str, list[str]]) -> None:
        super().__init__("", "; ".join(message for messages in problems.values() for message in messages))
        self.problems = dict(problems)


def not_found(uuid: str) -> RpcError:
    """Return the error for an id without a live memory that the caller may see."""
    return RpcError(NOT_FOUND, f"Memory {uuid} not found.", {"status": 404, "id": uuid})


def failure(exc: InfiniteMemoryError) -> RpcError:
    """Return one of our errors in the contract's form."""
    data: Any = None
    code = get_number(exc, Column.LARAVEL)
    if isinstance(exc, SeveralInvalidError):
        data = exc.problems
    elif isinstance(exc, InvalidRequestError):
        data = {exc.field or "arguments": [str(exc)]}
    elif code in _STATUSES:
        data = {"status": _STATUSES[code]}
    return RpcError(code, str(exc), data)


def parse_all(fields: Sequence[Field], values: Mapping[str, Any], path: str, checking: ValidationContext) -> Fields:
    """Validate an object as `parse_fields` does, but collect the errors of all fields before failing.

    Raises:
        SeveralInvalidError: at least one field is invalid; names each of them.
    """
    problems: dict[str, list[str]] = {}
    for field in fields:
        field_path = f"{path}.{field.name}" if path else field.name
        value, quiet = values.get(field.name), checking.without_warnings()
        try:
            if value is None or field.is_empty(value, quiet):
                field.missing_value(field_path, quiet)
            elif isinstance(field, ObjectField) and isinstance(value, dict):
                parse_all(field.fields, value, field_path, quiet)
            else:
                field.parse(value, field_path, quiet)
        except SeveralInvalidError as exc:
            problems |= exc.problems
        except InvalidRequestError as exc:
            problems.setdefault(exc.field or field_path, []).append(str(exc))
    if problems:
        raise SeveralInvalidError(problems)
    return parse_fields(fields, values, path, checking)
