"""Requests of the native contract that need no engine: what is wrong is named, `ping` and `help` wait for nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.contracts.native.contract import TABLE, NativeContract
from infinite_memory.contracts.session import ClientSession
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import StoreUnavailableError
from infinite_memory.settings import LimitsSettings
from infinite_memory.transports.strict_json import format_line

CONTRACT_DOCUMENT = (
    "store_memory", "retrieve_memory", "search_by_tag", "search_by_scope", "recall_memory_by_time", "delete_memory",
    "get_memory_stats", "backup_memory", "optimize_memory", "create_memory_scope", "list_memory_scopes",
)  # fmt: skip
EXTRA_ACTIONS = (
    "restore_backup", "list_backups", "verify_backup", "export_memory", "import_memory", "update_memory", "get_memory",
    "list_memories", "restore_memory", "set_active_scope", "store_memories", "health_check", "ping", "help",
)  # fmt: skip


class NotStartedError(StoreUnavailableError):
    """A request got as far as the engine, which is not there."""


def ask(request: dict[str, Any]) -> dict[str, Any]:
    async def engine() -> Engine:
        raise NotStartedError

    session = ClientSession(active_scope="Global", zone=ZoneInfo("UTC"), limits=LimitsSettings())
    return asyncio.run(NativeContract(engine, session).handle(request))


def refusal(request: dict[str, Any]) -> str:
    reply = ask(request)
    assert (reply["status"], reply["error_code"]) == ("ERROR", "INVALID_REQUEST"), reply
    assert len(reply["error"]) < 600
    return str(reply["error"])


@pytest.mark.parametrize("name", CONTRACT_DOCUMENT + EXTRA_ACTIONS)
def test_every_command_of_the_contract_is_in_the_table(name: str) -> None:
    if name in ("export_memory", "import_memory") and TABLE.find(name) is None:
        pytest.skip("comes with the lifecycle")
    command = TABLE.find(name)
    assert command is not None
    assert command.about.endswith(".")
    json.dumps(command.schema())


def test_ping_and_help_need_no_engine() -> None:
    assert ask({"action": "ping"})["pong"] is True
    listed = {one["action"]: one for one in ask({"action": "help"})["commands"]}
    assert set(listed) == {command.name for command in TABLE}
    [one] = ask({"action": "help", "command": "store_memory"})["commands"]
    assert [field["name"] for field in one["fields"]] == ["content", "metadata", "scope", "tags"]


def test_a_request_id_comes_back_whatever_it_is() -> None:
    for value in (7, "seven", [1, {"a": None}], {"a": 1}, False):
        assert ask({"action": "ping", "request_id": value})["request_id"] == value
        assert ask({"action": "nothing", "request_id": value})["request_id"] == value
    assert "request_id" not in ask({"action": "ping", "request_id": None})


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        (None, {"action": None}, "action: is required"),
        (None, {}, "action: is required"),
        (5, {}, "action: 5 is not the name of a command"),
        ("store_memroy", {}, "did you mean store_memory"),
        ("STORE_MEMORY", {}, "is not a command"),
        ("x" * 1_000_000, {}, "is not a command"),
        ("store_memory", {}, "content: is required"),
        ("store_memory", {"content": None}, "content: is required"),
        ("store_memory", {"content": ""}, "content: is blank"),
        ("store_memory", {"content": " \n\t"}, "content: is blank"),
        ("store_memory", {"content": 5}, "content: 5 is not a text"),
        ("store_memory", {"content": ["a"]}, "content: ['a'] is not a text"),
        ("store_memory", {"content": "é" * 524_289}, "content: 1,048,578 bytes is more than the limit of 1,048,576"),
        ("store_memory", {"content": "a", "metadata": "b"}, "metadata: 'b' is not an object"),
        ("store_memory", {"content": "a", "tags": 5}, "tags: 5 is not a list of texts"),
        ("store_memory", {"content": "a", "tags": ["b", 5]}, "tags[1]: 5 is not a text"),
        ("store_memory", {"content": "a", "tags": {"$ne": ""}}, "tags: {'$ne': ''} is not a list"),
        ("store_memory", {"content": "a", "tags": ["x" * 201]}, "tags[0]: 201 characters is more than"),
        ("store_memory", {"content": "a", "tags": [f"t{n}" for n in range(101)]}, "101 tags is more than the limit of 100"),
        ("store_memory", {"content": "a", "tags": '["a", 5]'}, "tags[1]: 5 is not a text"),
        ("store_memory", {"content": "a", "tags": '["\\ud800"]'}, "tags[0]: '\\ud800' is not a text"),
        ("store_memory", {"content": "a", "scope": " "}, "scope: is blank"),
        ("store_memory", {"content": "a", "scope": "x" * 257}, "scope: 257 characters is more than the limit of 256"),
        ("store_memory", {"content": "a", "scope": ["A"]}, "scope: ['A'] is not a text"),
        ("store_memory", {"content": "a", "metadata": {"timestamp": "soon"}}, "metadata.timestamp"),
        ("store_memory", {"content": "a", "metadata": {"importance": 11}}, "metadata.importance: 11 is not a number from 0 to 10"),
        ("store_memory", {"content": "a", "metadata": {"importance": True}}, "metadata.importance: True is not"),
        ("store_memory", {"content": "a", "metadata": {"title": "x" * 3_000_000}}, "metadata.title: 3,000,000 characters is more than"),
        ("store_memory", {"content": "a", "metadata": {"source": "x" * 10_001}}, "metadata.source: 10,001 characters is more than"),
        ("store_memory", {"content": "a", "metadata": {"speaker": "x" * 10_001}}, "metadata.speaker: 10,001 characters"),
        ("store_memory", {"content": "a", "metadata": {"conversation_id": "x" * 10_001}}, "metadata.conversation_id: 10,001 char"),
        ("store_memory", {"content": "a", "metadata": {"type": "x" * 10_001}}, "metadata.type: 10,001 characters is more than"),
        ("delete_memory", {"target": {"tag": "a", "scpoe": "Work"}}, "target.scpoe: is not known here; did you mean scope?"),
        ("store_memories", {"memories": []}, "memories: [] is not a list with at least one entry"),
        ("store_memories", {"memories": [{}] * 1001}, "1,001 entries is more than the limit of 1,000"),
        ("retrieve_memory", {}, "query: is required"),
        ("retrieve_memory", {"query": {"$gt": ""}}, "query: {'$gt': ''} is not a text"),
        ("retrieve_memory", {"query": "a" * 10_001}, "query: 10,001 characters is more than the limit of 10,000"),
        ("retrieve_memory", {"query": "a", "top_k": 0}, "top_k: 0 is not a whole number from 1 to 1,000"),
        ("retrieve_memory", {"query": "a", "top_k": 5.5}, "top_k: 5.5 is not a whole number"),
        ("retrieve_memory", {"query": "a", "top_k": "five"}, "top_k: 'five' is not a whole number"),
        ("retrieve_memory", {"query": "a", "top_k": True}, "top_k: True is not a whole number"),
        ("retrieve_memory", {"query": "a", "top_k": "1e400"}, "top_k: '1e400' is not a whole number"),
        ("retrieve_memory", {"query": "a", "top_k": "nan"}, "top_k: 'nan' is not a whole number"),
        ("retrieve_memory", {"query": "a", "filter": {"scope": {"$ne": ""}}}, "filter.scope: {'$ne': ''} is not a text"),
        ("retrieve_memory", {"query": "a", "filter": {"tags_mode": "some"}}, "filter.tags_mode: 'some' is not one of 'all', 'any'"),
        ("retrieve_memory", {"query": "a", "filter": {"time_range": {"from": "2024-02-30"}}}, "time_range.from"),
        ("retrieve_memory", {"query": "a", "filter": {"time_range": {"from": "2025", "to": "2024-01-01"}}}, "time_range.from"),
        ("retrieve_memory", {"query": "a", "filter": {"time_range": {"from": "2025-01-01", "to": "2024-01-01"}}}, "is after to"),
        ("retrieve_memory", {"query": "a", "min_confidence": 2}, "min_confidence: 2 is not a number from 0 to 1"),
        ("retrieve_memory", {"query": "a", "timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not an IANA"),
        ("retrieve_memory", {"query": "a", "timezone": "../../etc/passwd"}, "timezone"),
        ("retrieve_memory", {"query": "a", "timezone": "America"}, "timezone"),
        ("retrieve_memory", {"query": "a", "timezone": "a\0b"}, "timezone"),
        ("search_by_tag", {}, "tag: is required"),
        ("search_by_tag", {"tag": ""}, "tag: is blank"),
        ("search_by_scope", {"scope": None}, "scope: is required"),
        ("delete_memory", {}, "target: is required"),
        ("delete_memory", {"target": "all"}, "target: 'all' is not an object"),
        ("delete_memory", {"target": {"memory_id": {"$ne": ""}}}, "target.memory_id"),
        ("delete_memory", {"target": {"tag": "a"}, "forget_mode": "HARD"}, "forget_mode: 'HARD' is not one of 'soft', 'hard'"),
        ("optimize_memory", {"operations": ["compact", "delete_all"]}, "operations[1]: 'delete_all' is not one of"),
        ("optimize_memory", {"dry_run": "yes"}, "dry_run: 'yes' is not true or false"),
        ("create_memory_scope", {}, "scope_name: is required"),
        ("update_memory", {"content": "a"}, "memory_id: is required"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_field_value_and_expectation(
    action: Any, fields: dict[str, Any], said: str
) -> None:
    assert said in refusal({"action": action} | fields)


@pytest.mark.parametrize("value", [5, "5", 5.0, " 5 ", "+5"])
def test_a_numeric_text_is_taken_where_a_whole_number_is_expected(value: Any) -> None:
    assert ask({"action": "retrieve_memory", "query": "a", "top_k": value})["error_code"] == "CONNECTION_ERROR"


def test_brackets_without_end_in_a_tag_are_a_tag_or_a_refusal_but_no_crash() -> None:
    reply = ask({"action": "store_memory", "content": "a", "tags": "[" * 200_000})
    assert reply["error_code"] == "INVALID_REQUEST"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_no_fields_of_any_kind_end_in_an_internal_error_before_the_engine(data: st.DataObject) -> None:
    command = data.draw(st.sampled_from(list(TABLE)))
    names = [field.name for field in command.fields] + ["metadata", "filter", "x"]
    request = {"action": command.name} | data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=5))
    reply = ask(request)
    assert reply.get("error_code") != "INTERNAL_ERROR"
    format_line(reply)


@pytest.mark.parametrize("path", [(), ("filter",), ("filter", "time_range")])
def test_of_very_many_unknown_fields_some_are_named_and_the_others_counted(path: tuple[str, ...]) -> None:
    unknown: dict[str, Any] = {f"queri{number:06}": 1 for number in range(100_000)}
    for name in reversed(path):
        unknown = {name: unknown}
    warnings = ask({"action": "list_memories", **unknown})["warnings"]
    prefix = "".join(f"{name}." for name in path)
    assert warnings[0].startswith(f"{prefix}queri000000 is not known and was ignored")
    assert warnings[-1] == f"{prefix}queri000050 and 99,949 more are not known and were ignored"
    assert len(warnings) == 51


def test_of_very_many_tags_no_more_are_looked_at_than_may_be() -> None:
    class Seen(str):
        looked = 0

        def strip(self, chars: str | None = None, /) -> str:
            Seen.looked += 1
            return super().strip(chars)

    tags = [Seen(f"t{number}") for number in range(100_000)]
    assert "100,000 tags is more than the limit of 100" in refusal(
        {"action": "store_memory", "content": "a", "tags": tags}
    )
    assert Seen.looked < 1_000
