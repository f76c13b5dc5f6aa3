"""What waits for an answer when a daemon goes: each request gets one error, in order, and a handshake is remembered or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infinite_memory.daemon.pending_requests import MAX_STORED_BYTES, PendingRequests
from infinite_memory.transports.strict_json import Speaks


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def call(number: Any, method: str = "tools/call", **params: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def failed(waiting: PendingRequests) -> list[Any]:
    """Give the ids, or echoed request ids, that are answered with an error."""
    replies = [json.loads(reply) for reply in waiting.fail("gone")]
    assert all("gone" in json.dumps(reply) for reply in replies)
    return [reply["id"] if "jsonrpc" in reply else reply.get("request_id") for reply in replies]


def in_lines(*lines: bytes) -> PendingRequests:
    waiting = PendingRequests()
    for one in lines:
        waiting.note(one)
    return waiting


def in_rpc(*lines: bytes | None) -> PendingRequests:
    waiting = in_lines(call("first", "ping"))
    waiting.settle(line({"jsonrpc": "2.0", "id": "first", "result": {}}))
    for one in lines:
        waiting.note(one)
    return waiting


def test_lines_are_answered_in_order_and_echo_their_ids() -> None:
    waiting = in_lines(
        line({"action": "ping", "request_id": 1}), b"no json\n", line({"action": "ping", "request_id": [2]})
    )
    assert len(waiting) == 3
    assert waiting.settle(b'{"status": "OK"}')
    assert failed(waiting) == [None, [2]]
    assert len(waiting) == 0
    assert failed(waiting) == []


def test_of_a_long_line_only_what_is_echoed_is_kept() -> None:
    waiting = in_lines(line({"action": "store_memory", "content": "x" * 10 * MAX_STORED_BYTES, "request_id": "long"}))
    assert sum(map(len, waiting._lines)) < 100
    assert failed(waiting) == ["long"]


def test_a_line_too_long_to_be_read_is_answered_too() -> None:
    waiting = in_lines(line({"action": "ping"}))
    waiting.note(None)
    assert failed(waiting) == [None, None]
    assert failed(in_rpc(call(1), None, call(2))) == [1, 2, None]


@pytest.mark.parametrize(
    "refused",
    [b"no json\n", b"[]\n", b'"text"\n', line({"jsonrpc": "2.0"}), call(None), call([1]), call(True), call(1.5)],
)
def test_what_is_refused_without_an_id_is_counted_until_it_is_answered(refused: bytes) -> None:
    waiting = in_rpc(refused)
    assert failed(in_rpc(refused)) == [None]
    assert waiting.settle(line({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}))
    assert len(waiting) == 0


def test_notifications_answers_and_cancelled_calls_wait_for_nothing() -> None:
    waiting = in_rpc(
        call(1), call(2),
        line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        line({"jsonrpc": "2.0", "id": "ask-1", "result": {}}),
    )  # fmt: skip
    assert failed(waiting) == [2]


def test_ids_that_look_alike_are_kept_apart() -> None:
    waiting = in_rpc(call(1), call("1"))
    waiting.settle(line({"jsonrpc": "2.0", "id": "1", "result": {}}))
    assert failed(waiting) == [1]


def test_a_handshake_is_told_to_the_next_daemon_and_its_reply_dropped() -> None:
    greeting, begun = call(0, "initialize"), line({"jsonrpc": "2.0", "method": "notifications/initialized"})
    waiting = in_lines(greeting)
    assert waiting.settle(line({"jsonrpc": "2.0", "id": 0, "result": {}}))
    waiting.note(begun)
    assert waiting.drop_handshake() == greeting + begun
    assert not waiting.settle(line({"jsonrpc": "2.0", "id": 0, "result": {}}))
    waiting.note(call(0))  # the client may use the id again
    assert waiting.settle(line({"jsonrpc": "2.0", "id": 0, "result": {}}))


@pytest.mark.parametrize("answered", [True, False])
def test_a_handshake_that_failed_is_not_repeated(answered: bool) -> None:
    waiting = in_lines(call(0, "initialize"))
    if answered:
        waiting.settle(line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "no"}}))
    else:
        assert failed(waiting) == [0]
    assert waiting.drop_handshake() == b""
    again = call(5, "initialize")
    waiting.note(again)
    assert waiting.drop_handshake() == again


def test_a_session_of_the_action_loop_has_no_handshake() -> None:
    assert in_lines(line({"action": "initialize"})).drop_handshake() == b""


@pytest.mark.parametrize(
    "junk",
    [
        b"no json\n",
        b"[]\n",
        b"42\n",
        b"{}\n",
        b'{"action": 1}\n',
        b'{"jsonrpc": "2.0", "jsonrpc": "2.0"}\n',
        b"\xff\n",
        None,
    ],
)
def test_what_came_before_the_first_request_is_answered_in_the_form_of_the_action_loop(junk: bytes | None) -> None:
    waiting = PendingRequests()
    for one in (junk, call(1), junk):
        waiting.note(one)
    assert waiting.settle(b'{"status": "ERROR"}')  # the daemon's answer to the first of them
    assert failed(waiting) == [1, None]
    waiting = PendingRequests()
    for one in (junk, call(1)):
        waiting.note(one)
    lines = [json.loads(reply) for reply in waiting.fail("gone")]
    assert ["jsonrpc" in one for one in lines] == [False, True]
    assert waiting.speaks is Speaks.JSON_RPC
    waiting = PendingRequests()
    for one in (junk, line({"action": "ping"}), junk, call(2)):
        waiting.note(one)
    assert ["jsonrpc" in json.loads(reply) for reply in waiting.fail("gone")] == [False] * 4


def test_a_contract_speaks_json_rpc_from_its_first_line() -> None:
    waiting = PendingRequests(Speaks.JSON_RPC)
    waiting.note(b"no json\n")
    waiting.note(None)
    assert failed(waiting) == [None, None]
