"""The exception tree: every class has a code of its own, messages name the value and what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from infinite_memory import errors
from infinite_memory.contracts.errors import Column, failure, get_number
from infinite_memory.errors import (
    BackupError,
    InfiniteMemoryError,
    InvalidRequestError,
    LimitExceededError,
    MemoryNotFoundError,
    NotFoundError,
    ScopeNotFoundError,
    SidecarUnsavedError,
    format_count,
    truncated_repr,
)


def classes() -> Iterator[type[InfiniteMemoryError]]:
    for _, one in inspect.getmembers(errors, inspect.isclass):
        if issubclass(one, InfiniteMemoryError):
            yield one


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [one.code for one in classes()]
    assert len(codes) == len(set(codes))
    assert all(code == code.lower() and " " not in code for code in codes)


def test_every_class_is_drawn_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    assert [one.__name__ for one in classes() if one.__name__ not in tree] == []


def test_a_wrong_value_is_told_with_field_value_and_expectation() -> None:
    problem = InvalidRequestError.invalid_value("filter.tags[2]", 7, "a text")
    assert str(problem) == "filter.tags[2]: 7 is not a text"
    assert problem.field == "filter.tags[2]"


def test_a_limit_tells_size_and_limit() -> None:
    problem = LimitExceededError("content", 2_000_000, 1_048_576, "bytes")
    assert str(problem) == "content: 2,000,000 bytes is more than the limit of 1,048,576"
    assert isinstance(problem, InvalidRequestError)


def test_a_scope_that_is_not_found_names_the_nearest() -> None:
    assert str(ScopeNotFoundError("Wrok", ["Work"])) == "there is no scope 'Wrok'; did you mean 'Work'?"
    assert isinstance(MemoryNotFoundError("abc"), NotFoundError)


def test_a_megabyte_is_never_carried_back() -> None:
    assert len(truncated_repr("x" * 1_000_000)) < 200
    assert len(truncated_repr(["x" * 1000] * 1000)) < 200
    assert truncated_repr("short") == "'short'"


def test_a_count_agrees_with_its_noun() -> None:
    words = [format_count(count, noun) for count in (0, 1, 2, 1234) for noun in ("memory", "new scope")]
    assert words == [
        "0 memories", "0 new scopes", "1 memory", "1 new scope",
        "2 memories", "2 new scopes", "1,234 memories", "1,234 new scopes",
    ]  # fmt: skip


def test_the_whole_path_of_a_folder_is_told_to_the_user_of_this_machine_alone() -> None:
    folder = Path("/home/nora/memory/backups")
    problem = BackupError(f"the folder {folder} cannot be written to", folder=folder)
    assert str(problem) == "the folder backups cannot be written to"
    assert problem.in_full() == "the folder /home/nora/memory/backups cannot be written to"
    assert failure(problem)["error"] == str(problem)
    assert failure(problem, in_full=True)["error"] == problem.in_full()
    root = BackupError("the folder / cannot be written to", folder=Path("/"))
    assert str(root) == root.in_full() == "the folder / cannot be written to"


def test_an_index_that_cannot_be_saved_is_no_lost_connection() -> None:
    problem = SidecarUnsavedError(Path("/home/nora/memory/sidecars"), "Read-only file system")
    assert failure(problem)["error_code"] == "STORAGE_ERROR"
    assert "in the folder sidecars: Read-only file system" in str(problem)
    assert get_number(problem, Column.HTTP) == 503
