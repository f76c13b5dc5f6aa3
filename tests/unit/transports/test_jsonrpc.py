"""The JSON-RPC front over streams in memory: parse, shape, session state, dispatch, cancellation, questions, the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.mcp import INVALID_PARAMS, RpcError
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, NotFoundError
from infinite_memory.transports import jsonrpc
from infinite_memory.transports.jsonrpc import RpcCall, RpcSession
from infinite_memory.transports.protocol_detection import serve_session
from infinite_memory.transports.strict_json import Speaks, detect_protocol
from infinite_memory.transports.turns import PLACES
from tests.mongo_server import run

Json = dict[str, Any]
LIMIT = 10_000
BEGIN = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {}}


class Script:
    """Gives lines one by one; a line that is a function is called and its result awaited first."""

    def __init__(self, *lines: Any) -> None:
        self._lines = list(lines)

    async def read(self) -> bytes:
        while self._lines:
            line = self._lines.pop(0)
            if isinstance(line, bytes):
                return line
            if not callable(line):
                return json.dumps(line).encode() + b"\n"
            await line()
        return b""


class Collected:
    """Takes lines; breaks after ``breaks_after`` of them."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.messages: list[Json] = []
        self.came = asyncio.Event()
        self._breaks_after = breaks_after

    async def write(self, data: bytes) -> None:
        if self._breaks_after is not None and len(self.messages) >= self._breaks_after:
            raise BrokenPipeError
        self.messages.append(json.loads(data))
        self.came.set()

    def by_id(self, number: Any) -> Json:
        [found] = [message for message in self.messages if message.get("id") == number and "method" not in message]
        return found


class Ledger:
    """A contract of a few methods, which remembers what it was told."""

    def __init__(self, **effects: Effect) -> None:
        self.effects: dict[Any, Effect] = {number if number != "one" else 1: one for number, one in effects.items()}
        self.done: list[Any] = []
        self.waits: list[Any] = []
        self.notices: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.stopped: list[Any] = []
        self.has_ended = False

    def serves(self, call: RpcCall) -> bool:
        return call.method in {"ping", "echo", "wait", "refuse", "ask", "miss", "break"}

    def allowed_before_initialize(self, call: RpcCall) -> bool:
        return call.method == "ping"

    async def initialize(self, params: Json, session: RpcSession) -> Json:
        return {"told": params}

    async def handle(self, call: RpcCall) -> Json:
        match call.method:
            case "wait":
                self.begun.set()
                self.waits.append(call.id)
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self.stopped.append(call.id)
                    raise
                self.done.append(call.id)
            case "refuse":
                raise InvalidRequestError("x", "is wrong")
            case "miss":
                raise RpcError(-32004, "gone", {"status": 404})
            case "break":
                raise ZeroDivisionError
            case "ask":
                return {"answer": await call.ask("elicitation/create", {"message": "sure?"})}
        return {"echo": call.params}

    def effect(self, call: RpcCall) -> Effect:
        return self.effects.get(call.id, Effect.READS)

    def takes_turn(self, call: RpcCall) -> bool:
        return call.method != "ping"

    async def notified(self, method: str, params: Json, session: RpcSession) -> None:
        self.notices.append(method)

    def failure(self, problem: InfiniteMemoryError) -> RpcError:
        return RpcError(INVALID_PARAMS, str(problem))

    async def on_disconnect(self) -> None:
        self.has_ended = True


def request(number: Any, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def note(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def talk(*lines: Any, contract: Ledger | None = None, sink: Collected | None = None, start: bool = True) -> Collected:
    """Send lines to a fresh session and give what came back."""

    async def session() -> Collected:
        taken = sink or Collected()
        served = contract or Ledger()

        script = Script(*([BEGIN] if start else []), *lines)
        await serve_session(None, lambda: served, script, taken, limit=LIMIT, stop=asyncio.Event())
        assert served.has_ended
        return taken

    return run(session())


def code_of(number: Any, *lines: Any, **options: Any) -> int:
    code = talk(*lines, **options).by_id(number)["error"]["code"]
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("line", "speaks"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', Speaks.JSON_RPC),
        (b'{"jsonrpc": "1.0"}', Speaks.JSON_RPC),
        (b'{"jsonrpc": "2.0", "action": "ping"}', Speaks.JSON_RPC),
        (b'{"action": "ping"}', Speaks.ACTIONS),
        (b'{"action": 5}', None),
        (b'{"action": null}', None),
        (b"{}", None),
        (b"[]", None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None),
        (b"42", None),
        (b'"jsonrpc"', None),
        (b'{"jsonrpc": ', None),
        (b'{"jsonrpc": "2.0", "jsonrpc": "2.0"}', None),
        (b'{"action": "\xff"}', None),
        (b"[" * 100_000, None),
    ],
)
def test_only_a_well_formed_request_tells_which_protocol_is_spoken(line: bytes, speaks: Speaks | None) -> None:
    assert detect_protocol(line) is speaks


@pytest.mark.parametrize("number", [0, "", "7", -1, 9007199254740993, 'aé"'])
def test_a_reply_carries_the_id_of_its_request_whatever_it_is(number: int | str) -> None:
    """FC-032."""
    assert talk(request(number, "ping")).by_id(number)["result"] == {"echo": {}}


def test_what_is_no_json_is_a_parse_error_without_an_id() -> None:
    """FC-035."""
    taken = talk(b'{"jsonrpc":"2.0","id":1,\n', request(5, "ping"))
    assert taken.by_id(None)["error"]["code"] == -32700
    assert "result" in taken.by_id(5)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (2, {"jsonrpc": "2.0", "id": 2}),
        (3, {"id": 3, "method": "ping"}),
        (4, {"jsonrpc": "1.0", "id": 4, "method": "ping"}),
        (5, {"jsonrpc": "2.0", "id": 5, "method": 5}),
        (None, {"jsonrpc": "2.0", "id": None, "method": "echo"}),
        (None, {"jsonrpc": "2.0", "id": [1], "method": "echo"}),
        (None, {"jsonrpc": "2.0", "id": 1.5, "method": "echo"}),
        (None, {"jsonrpc": "2.0", "id": True, "method": "echo"}),
        (None, [request(1, "ping"), request(2, "ping")]),
        (None, []),
        (6, b'{"jsonrpc": "2.0", "id": 6, "method": "echo", "params": {"a": 1, "a": 2}}\n'),
        (None, b'{"jsonrpc": "2.0", "id": 7, "method": "' + b"x" * LIMIT + b'"}\n'),
    ],
)
def test_what_is_no_single_request_is_an_invalid_request(number: Any, line: Any) -> None:
    """FC-031, FC-035: a batch, an id of null, no method, no version, a key twice, a line too long."""
    assert code_of(number, line) == -32600


def test_parameters_are_an_object_or_nothing() -> None:
    assert code_of(1, {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": [1]}) == -32602
    assert talk({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": None}).by_id(1)["result"] == {"echo": {}}


def test_an_unknown_method_is_told_even_before_the_handshake() -> None:
    """FC-035, FC-037."""
    assert code_of(4, request(4, "no/such")) == -32601
    assert code_of(4, request(4, "no/such"), start=False) == -32601


def test_before_the_handshake_only_ping_is_answered_and_afterwards_there_is_no_second_one() -> None:
    """FC-029."""
    taken = talk(
        request(1, "echo"), request(2, "ping"), BEGIN, request(3, "echo"), BEGIN | {"id": "again"}, start=False
    )
    assert taken.by_id(1)["error"]["code"] == -32002
    assert "result" in taken.by_id(2)
    assert "result" in taken.by_id(3)
    assert taken.by_id("again")["error"]["code"] == -32002


def test_a_request_without_an_id_does_nothing_and_is_not_answered() -> None:
    """FC-031."""
    contract = Ledger()
    taken = talk(note("echo"), request(7, "ping"), contract=contract)
    assert contract.notices == ["echo"]
    assert [message["id"] for message in taken.messages] == ["init", 7]


def test_failures_are_mapped_by_the_contract_and_a_fault_of_ours_tells_nothing() -> None:
    taken = talk(request(1, "refuse"), request(2, "miss"), request(3, "break"))
    assert taken.by_id(1)["error"] == {"code": -32602, "message": "x: is wrong"}
    assert taken.by_id(2)["error"] == {"code": -32004, "message": "gone", "data": {"status": 404}}
    assert taken.by_id(3)["error"] == {"code": -32603, "message": "internal error; the log has the details"}


def test_replies_come_as_they_are_ready() -> None:
    contract = Ledger()

    async def open_gate() -> None:
        await contract.begun.wait()
        contract.gate.set()

    taken = talk(request(1, "wait"), request(2, "echo"), open_gate, contract=contract)
    assert [message["id"] for message in taken.messages] == ["init", 2, 1]


def test_what_is_under_way_at_the_end_of_input_is_still_answered() -> None:
    """FC-020."""
    contract = Ledger()
    contract.gate.set()
    taken = talk(request(1, "wait"), request(2, "echo"), request(3, "echo"), contract=contract)
    assert {message["id"] for message in taken.messages} == {"init", 1, 2, 3}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_cancelled_request_is_stopped_and_not_answered(at_once: bool) -> None:
    """FC-034; also when both come in one piece."""
    contract = Ledger()
    cancels = [note("notifications/cancelled", requestId=41), note("notifications/cancelled", requestId=41),
               note("notifications/cancelled", requestId=12345), note("notifications/cancelled")]  # fmt: skip
    lines: list[Any] = [request(41, "wait"), contract.begun.wait, *cancels, request(42, "ping")]
    if at_once:
        lines = [b"".join(json.dumps(one).encode() + b"\n" for one in (lines[0], *lines[2:]))]
    taken = talk(*lines, contract=contract)
    assert [one["id"] for one in taken.messages] == ["init", 42]
    assert contract.stopped == [41] or at_once


def test_an_id_may_be_used_again_once_it_is_free() -> None:
    contract = Ledger()
    taken = talk(
        request(1, "wait"), request(1, "echo"), note("notifications/cancelled", requestId=1), contract=contract
    )
    assert taken.by_id(1)["error"]["code"] == -32600


def test_a_contract_may_ask_the_client_and_goes_on_with_its_answer() -> None:
    sink = Collected()

    async def asked() -> None:
        while not any(message.get("method") == "elicitation/create" for message in sink.messages):
            sink.came.clear()
            await sink.came.wait()

    answer = {"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept"}}
    stray = {"jsonrpc": "2.0", "id": "ask-9", "result": {}}
    taken = talk(request(1, "ask"), asked, stray, answer, sink=sink)
    assert taken.by_id(1)["result"] == {"answer": {"action": "accept"}}


def test_a_question_that_nobody_can_answer_any_more_fails() -> None:
    assert code_of(1, request(1, "ask")) == -32603


def test_a_question_that_nobody_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrpc, "ANSWER_S", 0.01)
    sink = Collected()

    async def answered() -> None:
        while not any(message.get("id") == 1 for message in sink.messages):
            sink.came.clear()
            await sink.came.wait()

    taken = talk(request(1, "ask"), answered, sink=sink)
    assert taken.by_id(1)["error"]["code"] == -32603
    [cancelled] = [message for message in taken.messages if message.get("method") == "notifications/cancelled"]
    assert cancelled["params"] == {"requestId": "ask-1"}


def test_a_client_that_is_gone_stops_what_is_read_for_it() -> None:
    contract = Ledger()
    talk(request(1, "wait"), contract.begun.wait, request(2, "echo"), contract=contract, sink=Collected(breaks_after=1))
    assert contract.stopped == [1]


@pytest.mark.parametrize("effect", [Effect.WRITES, Effect.LONG])
def test_what_a_client_that_is_gone_wrote_is_finished_and_what_it_sent_is_begun(effect: Effect) -> None:
    contract = Ledger(one=effect, second=effect)

    async def open_gate() -> None:
        await contract.begun.wait()
        contract.gate.set()

    sink = Collected(breaks_after=1)
    talk(request(1, "wait"), contract.begun.wait, request(2, "echo"), open_gate, request("second", "wait"),
         contract=contract, sink=sink)  # fmt: skip
    assert (contract.done, contract.stopped, len(sink.messages)) == ([1, "second"], [], 1)


def test_a_cancelled_write_is_finished_and_not_answered() -> None:
    contract = Ledger(one=Effect.WRITES)

    async def open_gate() -> None:
        contract.gate.set()

    cancel = note("notifications/cancelled", requestId=1)
    taken = talk(request(1, "wait"), contract.begun.wait, cancel, request(2, "ping"), open_gate, contract=contract)
    assert [message["id"] for message in taken.messages] == ["init", 2]
    assert (contract.done, contract.stopped) == ([1], [])


def test_a_write_that_is_cancelled_while_its_user_is_asked_does_nothing() -> None:
    contract, sink = Ledger(one=Effect.WRITES), Collected()

    async def asked() -> None:
        while not any(message.get("method") == "elicitation/create" for message in sink.messages):
            sink.came.clear()
            await sink.came.wait()

    talk(request(1, "ask"), asked, note("notifications/cancelled", requestId=1), contract=contract, sink=sink)
    assert [message.get("id") for message in sink.messages] == ["init", "ask-1", None]
    assert sink.messages[-1]["method"] == "notifications/cancelled"


async def test_a_session_that_is_cut_short_finishes_its_writes_first() -> None:
    contract = Ledger(one=Effect.WRITES)

    async def for_ever() -> None:
        await asyncio.Event().wait()

    script = Script(BEGIN, request(1, "wait"), contract.begun.wait, request(2, "wait"), for_ever)
    serving = asyncio.create_task(
        serve_session(None, lambda: contract, script, Collected(), limit=LIMIT, stop=asyncio.Event())  # type: ignore[arg-type,return-value]
    )
    while set(contract.waits) != {1, 2}:
        await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving}, timeout=0.05)
    assert not serving.done()
    contract.gate.set()
    await asyncio.wait({serving})
    assert (contract.done, contract.stopped) == ([1], [2])


async def test_a_stop_lets_what_was_sent_be_answered() -> None:
    async def session() -> list[Json]:
        contract, sink, stop = Ledger(), Collected(), asyncio.Event()

        async def stop_now() -> None:
            await contract.begun.wait()
            stop.set()
            contract.gate.set()

        async def for_ever() -> None:
            await asyncio.Event().wait()

        script = Script(BEGIN, request(1, "wait"), stop_now, request(2, "echo"), for_ever, request(3, "echo"))
        await serve_session(None, lambda: contract, script, sink, limit=LIMIT, stop=stop)
        return sink.messages

    assert sorted(one["id"] for one in (await session())[1:]) == [1, 2]


def test_a_resource_that_is_not_there_is_no_internal_error() -> None:
    assert Ledger().failure(NotFoundError("x")).code == INVALID_PARAMS


class Lingering(Collected):
    """Takes a line at once, and comes back from it late, as a socket may."""

    async def write(self, data: bytes) -> None:
        await super().write(data)
        await asyncio.sleep(0.05)


def test_an_id_may_be_used_again_as_soon_as_its_reply_is_there() -> None:
    sink, echo = Lingering(), {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {}}

    async def replied() -> None:
        while not any(message.get("id") == 1 for message in sink.messages):
            sink.came.clear()
            await sink.came.wait()

    talk(BEGIN, echo, replied, echo, sink=sink, start=False)
    assert [("result" in message) for message in sink.messages if message.get("id") == 1] == [True, True]


def test_one_session_has_only_so_many_commands_under_way_and_the_rest_begin_in_their_order() -> None:
    contract, taken = Ledger(), Collected()

    async def look() -> None:
        while not any(message.get("id") == "ping" for message in taken.messages):
            await asyncio.sleep(0)
        assert contract.waits == list(range(PLACES))  # and a ping was answered beside them
        contract.gate.set()

    waits = [request(number, "wait") for number in range(10 * PLACES)]
    talk(*waits, request("ping", "ping"), look, contract=contract, sink=taken)
    assert contract.waits == contract.done == list(range(10 * PLACES))


def test_a_command_that_waits_for_its_turn_can_be_taken_back_and_what_writes_is_finished() -> None:
    last, write = PLACES + 1, PLACES
    contract = Ledger(**{"one": Effect.READS})
    contract.effects[write] = Effect.WRITES
    taken = Collected()

    async def leave() -> None:
        await until_begun(contract, PLACES)
        asyncio.get_running_loop().call_later(0.05, contract.gate.set)

    waits = [request(number, "wait") for number in range(PLACES + 2)]
    cancelled = [note("notifications/cancelled", requestId=number) for number in (write, last, 0)]
    talk(*waits, *cancelled, leave, contract=contract, sink=taken)
    assert contract.stopped == [0]
    assert write in contract.done
    assert last not in contract.waits
    assert {message["id"] for message in taken.messages} == {"init", *range(1, PLACES)}


async def until_begun(contract: Ledger, count: int) -> None:
    while len(contract.waits) < count:
        await asyncio.sleep(0)


def test_a_command_that_asks_its_client_leaves_its_place_to_others_meanwhile() -> None:
    contract, taken = Ledger(), Collected()

    async def answered() -> None:
        while not any(message.get("id") == "echo" for message in taken.messages):
            await asyncio.sleep(0)

    asks = [request(number, "ask") for number in range(2 * PLACES)]
    replies = [{"jsonrpc": "2.0", "id": f"ask-{number + 1}", "result": {}} for number in range(2 * PLACES)]
    talk(*asks, request("echo", "echo"), answered, *replies, contract=contract, sink=taken)
    assert [taken.by_id(number)["result"] for number in range(2 * PLACES)] == [{"answer": {}}] * 2 * PLACES
