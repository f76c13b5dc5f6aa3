"""What a `Visibility` allows: nothing by default, and each of its parts no more than it says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from infinite_memory.engine.types import MemoryUpdate, NewMemory
from infinite_memory.engine.visibility import ANYBODYS, EVERYTHING, OwnerRule, Visibility
from infinite_memory.errors import ForbiddenError, InvalidRequestError
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope, ScopeId
from infinite_memory.store.owners import Agent

NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
NOBODY = Visibility()
ADA = Visibility(
    scope_names=("Work",), owners=((OwnerRule.equals("user", "ada"),),), source="of ada", filtered_owners=frozenset({"user"}),
    other_sources=frozenset({"old of ada"}), types=("note",), agents_of="ada", described="the user 'ada'",
)  # fmt: skip


def make_record(status: str | None = None, **owners: str) -> MemoryRecord:
    """Make a memory of some owners."""
    return MemoryRecord(MemoryId("1"), ScopeId("w"), "tea", "s", NOW, NOW, NOW, owners=owners, status=status)


def make_scope(name: str = "Work", scope_id: str = "w") -> Scope:
    """Make a scope."""
    return Scope(ScopeId(scope_id), name, "", NOW, None)


def test_the_default_allows_nothing() -> None:
    assert not NOBODY.allows(make_record())
    assert not NOBODY.allows_owners({})
    assert not NOBODY.allows_scope(make_scope())
    for refuse in (NOBODY.check_everything, lambda: NOBODY.check_new(NewMemory("tea", "Work"))):
        with pytest.raises(ForbiddenError):
            refuse()
    with pytest.raises(ForbiddenError):
        NOBODY.check_agent(Agent("a", None, "A", "", NOW))


def test_everything_is_everything() -> None:
    assert EVERYTHING.allows(make_record("gone", user="bob"))
    assert EVERYTHING.allows_scope(make_scope())
    EVERYTHING.check_everything()
    EVERYTHING.check_new(NewMemory("tea", "Work"))
    EVERYTHING.check_update(MemoryUpdate(source="x", type="y", owners={"user": "bob"}))
    assert EVERYTHING.narrow(Filter(source="s")) == Filter(source="s")


@pytest.mark.parametrize(
    ("owners", "allowed"), [({"user": "ada"}, True), ({"user": "Ada"}, False), ({"user": "bob"}, False), ({}, False)]
)
def test_owners_are_compared_letter_for_letter(owners: dict[str, str], allowed: bool) -> None:
    assert ADA.allows(make_record(**owners)) is allowed
    assert ADA.allows_owners(owners) is allowed


@pytest.mark.parametrize(
    ("rule", "owners", "allowed"),
    [
        (OwnerRule("o", frozenset({"acme"}), is_folded=True), {"o": "ACME"}, True),
        (OwnerRule("o", frozenset({"acme"})), {"o": "ACME"}, False),
        (OwnerRule("o", frozenset({"acme", None})), {}, True),
        (OwnerRule("o", frozenset({"acme"})), {}, False),
        (OwnerRule("o", frozenset({None})), {"o": ""}, False),
        (OwnerRule("o", frozenset()), {"o": "acme"}, False),
    ],
)
def test_a_rule_knows_case_and_absence(rule: OwnerRule, owners: dict[str, str], allowed: bool) -> None:
    assert rule.allows(owners) is allowed


def test_rules_of_one_alternative_hold_together_and_one_alternative_is_enough() -> None:
    either = Visibility(
        owners=((OwnerRule.equals("a", "1"), OwnerRule.equals("b", "2")), (OwnerRule.equals("c", "3"),))
    )
    assert either.allows_owners({"a": "1", "b": "2"})
    assert either.allows_owners({"c": "3"})
    assert not either.allows_owners({"a": "1"})
    assert either.exact_owners == {}
    assert Visibility(owners=ANYBODYS).allows_owners({"a": "x"})


def test_states_that_are_hidden_are_not_seen_whoever_owns_the_memory() -> None:
    current = Visibility(owners=ANYBODYS, hidden_statuses=frozenset({"superseded"}))
    assert current.allows(make_record("active"))
    assert not current.allows(make_record("superseded"))


def test_a_scope_is_meant_by_its_name_or_by_its_id() -> None:
    by_id = Visibility(scope_ids=(ScopeId("w"),))
    assert by_id.allows_scope(make_scope("renamed"))
    assert not by_id.allows_scope(make_scope("Work", "other"))
    assert ADA.allows_scope(make_scope("WORK", "other"))


def test_a_filter_is_narrowed_by_the_source_and_never_widened() -> None:
    assert ADA.narrow(Filter()).source == "of ada"
    assert ADA.narrow(Filter(source="of bob")).memory_ids == frozenset()
    assert ADA.is_filtered
    assert dict(ADA.exact_owners) == {"user": "ada"}


@pytest.mark.parametrize(
    "changes", [{"source": "of bob"}, {"type": "other"}, {"owners": {"user": "bob"}}, {"owners": {}}]
)
def test_a_change_that_takes_a_memory_out_of_sight_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        ADA.check_update(MemoryUpdate(**changes))
    ADA.check_update(MemoryUpdate(text="tea", source="old of ada", type="note", owners={"user": "ada"}))


def test_nothing_is_stored_out_of_sight() -> None:
    ADA.check_new(NewMemory("tea", "Work", "of ada", owners={"user": "ada"}))
    for memory in (NewMemory("tea", "Work", "of ada"), NewMemory("tea", "Work", owners={"user": "ada"})):
        with pytest.raises(ForbiddenError, match="only memories of the user 'ada' are stored here"):
            ADA.check_new(memory)
    ADA.check_agent(Agent("a", "ada", "A", "", NOW))
    with pytest.raises(ForbiddenError, match="only agents of the user 'ada' are made here"):
        ADA.check_agent(Agent("a", "bob", "A", "", NOW))
