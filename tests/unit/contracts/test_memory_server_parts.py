"""The parts of the Memory Server contract that need no engine: content as text, addresses, limits, schemas."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from infinite_memory.contracts.memory_server.addresses import (
    Address,
    MemoryChange,
    get_topic,
    parse_address,
    split_tags,
)
from infinite_memory.contracts.memory_server.limits import MemoryServerLimits
from infinite_memory.contracts.memory_server.prompts import PROMPTS, get_prompt
from infinite_memory.contracts.memory_server.serializers import (
    format_content,
    format_line,
    serialize_link,
    serialize_record,
)
from infinite_memory.contracts.memory_server.table import find_limit
from infinite_memory.engine.events import Event
from infinite_memory.errors import ConfigError, InvalidRequestError, NotFoundError
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.settings import LimitsSettings

NOW = dt.datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=dt.UTC)
RECORD = MemoryRecord(
    MemoryId("a" * 24), ScopeId("b" * 24), "tea\nat four", "test://1", NOW, NOW, NOW, tags=("topic:tea",), type="note"
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ({"text": "wrapped\nin two lines"}, "wrapped\nin two lines"),
        ({"text": "a", "more": 1}, "text: a\nmore: 1"),
        ({"steps": ["stop", "restore", 3], "done": True}, "steps: stop, restore, 3\ndone: true"),
        ({"owner": {"name": "Ada", "mail": None}}, "owner:\n- name: Ada\n- mail: null"),
        ({"rows": [{"a": 1}, {"b": 2}]}, "rows:\n- a: 1\n- b: 2"),
        ([1, "two"], "1, two"),
        (0, "0"),
        ({}, "{}"),
        ([], "[]"),
        ({"text": "  "}, '"  "'),
    ],
)
def test_structured_content_reads_as_text(content: Any, text: str) -> None:
    assert format_content(content) == text


def test_a_record_shows_every_documented_field_and_a_foreign_memory_its_text() -> None:
    record = serialize_record(RECORD)
    assert record["content"] == {"text": "tea\nat four"}
    assert record["updated_at"] == record["updatedAt"] == "2026-03-14T15:09:26.535Z"
    assert serialize_link(RECORD)["uri"] == f"mem://item/{'a' * 24}"
    assert serialize_link(RECORD)["description"] == "tea at four"
    assert "a" * 24 in format_line(RECORD, 0.5)
    assert "mem://item/" in format_line(RECORD)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("mem://item/123", Address("item", "123", None)),
        ("mem://recent", Address("recent", "", None)),
        ("mem://recent?limit=20", Address("recent", "", "20")),
        ("mem://by-tags/project:a,topic:b?limit=5", Address("by-tags", "project:a,topic:b", "5")),
        ("mem://by-tags/project%3Aa%2Ctopic%3Ab?limit=5", Address("by-tags", "project:a,topic:b", "5")),
        ("mem://by-type/a%20word", Address("by-type", "a word", None)),
        ("mem://by-type/a?limit=", Address("by-type", "a", "")),
        (
            "mem://recent?bogus=1&limit=3",
            Address("recent", "", "3", ("bogus is not known and was ignored; known: limit",)),
        ),
        ("mem://item/123?limit=3", Address("item", "123", None, ("limit is not known and was ignored; known: none",))),
    ],
)
def test_an_address_is_taken_apart_whether_encoded_or_plain(uri: str, address: Address) -> None:
    assert parse_address(uri) == address


@pytest.mark.parametrize("uri", ["mem://", "mem://item", "mem://item/", "mem://recent/x", "mem://by-type/", "memory://recent",
                                 "http://item/1", "", "mem://[", "mem://nothing/1"])  # fmt: skip
def test_an_address_that_is_none_of_ours_is_not_found(uri: str) -> None:
    with pytest.raises(NotFoundError):
        parse_address(uri)


@pytest.mark.parametrize(
    ("text", "limit"), [(None, 20), ("", 20), ("1", 1), ("7.0", 7), ("100", 100), ("101", 100), ("1e9", 100)]
)
def test_a_limit_is_lowered_to_the_maximum(text: str | None, limit: int) -> None:
    assert find_limit(text, MemoryServerLimits(), 20) == limit


@pytest.mark.parametrize("text", ["0", "-1", "abc", "nan", "inf", "0.5", "2.5"])
def test_a_limit_below_one_or_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="limit"):
        find_limit(text, MemoryServerLimits(), 20)


def test_the_default_limit_never_exceeds_the_maximum() -> None:
    limits = MemoryServerLimits.from_environ({"SEARCH_MAX_LIMIT": "5"})
    assert (limits.default_limit, limits.max_limit) == (5, 5)
    assert find_limit(None, limits, 20) == 5


def test_limits_come_from_the_environment_with_the_documents_defaults() -> None:
    assert MemoryServerLimits.from_environ({}) == MemoryServerLimits(10_000, 20, 10, 100, "2024-11-05")
    assert MemoryServerLimits.from_environ({"MAX_TAGS_COUNT": " 3 ", "MAX_CONTENT_LENGTH": ""}).tags == 3
    settings = MemoryServerLimits(tags=3).settings(LimitsSettings())
    assert (settings.tags, settings.tag_chars, settings.query_chars, settings.top_k) == (3, 100, 1000, 100)


@pytest.mark.parametrize("value", ["0", "-3", "1.5", "many", "9" * 12])
def test_a_wrong_variable_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match=f"SEARCH_MAX_LIMIT = '{value}'"):
        MemoryServerLimits.from_environ({"SEARCH_MAX_LIMIT": value})


def test_a_variable_beyond_its_maximum_is_told_so() -> None:
    for name, value, most in (("SEARCH_MAX_LIMIT", "9" * 10, "999,999,999"), ("MAX_TAGS_COUNT", "2001", "2,000")):
        with pytest.raises(ConfigError, match=f"{name} = '{value}' is more than {most}"):
            MemoryServerLimits.from_environ({name: value})


@pytest.mark.parametrize(
    ("value", "version"), [("xx", "2024-11-05"), ("2099-01-01", "2024-11-05"), (" 2025-03-26 ", "2025-03-26")]
)
def test_a_version_that_is_not_spoken_leaves_the_documents_default(value: str, version: str) -> None:
    assert MemoryServerLimits.from_environ({"MCP_PROTOCOL_VERSION": value}).protocol_version == version


def test_tags_of_an_address_are_each_taken_once() -> None:
    assert split_tags("a, b,,a") == ("a", "b")
    with pytest.raises(InvalidRequestError):
        split_tags(" , ")


def test_a_change_touches_its_item_and_every_list() -> None:
    change = MemoryChange(Event(MemoryId("a" * 24), "Global"))
    touched = ["mem://item/" + "a" * 24, "mem://recent", "mem://by-type/note", "mem://by-tags/x"]
    assert all(get_topic(uri) in change.topics for uri in touched)
    assert get_topic("mem://item/" + "b" * 24) not in change.topics
    assert get_topic("nonsense") is None


def test_both_prompts_work_without_arguments_and_take_them() -> None:
    assert [one["name"] for one in PROMPTS] == ["memory_recall", "memory_save"]
    for one in PROMPTS:
        assert get_prompt(one["name"], {})["messages"][0]["content"]["text"]
    given = get_prompt("memory_recall", {"topic": "rollbacks", "project": "alpha"})["messages"][0]["content"]["text"]
    assert "rollbacks" in given
    assert "project:alpha" in given
    with pytest.raises(InvalidRequestError, match="memory_recall, memory_save"):
        get_prompt("other", {})
