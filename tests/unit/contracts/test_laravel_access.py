"""Who sees which Laravel memory, as a table: scope types against callers."""

from __future__ import annotations

import datetime as dt

import pytest

from infinite_memory.contracts.laravel.access import get_owners, make_view, to_memory_id
from infinite_memory.contracts.laravel.table import ScopeType
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId, fold

NOW = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)
UUID = "550e8400-e29b-41d4-a716-446655440000"


def make_memory(
    reach: ScopeType, organization: str = "acme", repository: str | None = None, user: str | None = None
) -> MemoryRecord:
    owners = get_owners(UUID, organization, repository, reach, user)
    return MemoryRecord(MemoryId("0" * 24), ScopeId("0" * 24), "x", "laravel", NOW, NOW, NOW, owners=owners)


SYSTEM = make_memory(ScopeType.SYSTEM)
ACME = make_memory(ScopeType.ORGANIZATION)
WEB = make_memory(ScopeType.REPOSITORY, repository="web")
NAMELESS = make_memory(ScopeType.REPOSITORY)
ADA = make_memory(ScopeType.USER, user="ada")
NOBODYS = make_memory(ScopeType.USER)


@pytest.mark.parametrize(
    ("organization", "user", "repository", "seen"),
    [
        (None, None, None, [SYSTEM, ACME, WEB, NAMELESS, NOBODYS]),
        (None, "ada", None, [SYSTEM, ACME, WEB, NAMELESS, ADA]),
        (None, "Ada", None, [SYSTEM, ACME, WEB, NAMELESS]),
        ("ACME", None, None, [SYSTEM, ACME, WEB, NAMELESS, NOBODYS]),
        ("other", "ada", None, [SYSTEM, ADA]),
        ("acme", None, "app", [SYSTEM, ACME, NOBODYS]),
        (None, None, "Web", [SYSTEM, ACME, WEB, NOBODYS]),
        ("other", None, "web", [SYSTEM, NOBODYS]),
        (None, None, "nobody-knows-it", [SYSTEM, NOBODYS]),
        ("acme", "ada", "nobody-knows-it", [SYSTEM, ACME, ADA]),
    ],
)
def test_each_caller_sees_what_is_theirs(
    organization: str | None, user: str | None, repository: str | None, seen: list[MemoryRecord]
) -> None:
    everything = [SYSTEM, ACME, WEB, NAMELESS, ADA, NOBODYS]
    view = make_view(organization, user, repository, everything)
    assert [one for one in everything if view.allows(one)] == seen


def test_a_memory_that_another_contract_put_into_the_scope_is_not_shown() -> None:
    foreign = MemoryRecord(MemoryId("0" * 24), ScopeId("0" * 24), "x", "conversation", NOW, NOW, NOW)
    assert not make_view(None, None, None).allows(foreign)


def test_a_uuid_is_the_same_memory_however_it_is_written() -> None:
    assert to_memory_id(UUID) == to_memory_id(UUID.upper())
    assert to_memory_id(UUID) != to_memory_id(UUID[:-1] + "1")


def test_a_long_name_of_a_repository_is_folded_once_whatever_it_is_held_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folded = list[str]()

    def note(text: str) -> str:
        folded.append(text)
        return fold(text)

    monkeypatch.setattr("infinite_memory.contracts.laravel.access.fold", note)
    make_view(None, None, "WEB" * 1000, [WEB] * 5)
    assert folded.count("WEB" * 1000) < 5
