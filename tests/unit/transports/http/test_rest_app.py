"""The API as an ASGI application: whatever fails looks the same, is counted, and is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from starlette.requests import Request

from infinite_memory.contracts.session import ClientSession
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError
from infinite_memory.settings import LimitsSettings
from infinite_memory.transports.http import asgi
from infinite_memory.transports.http.api.app import RestApp, _endpoint, _query
from infinite_memory.transports.http.api.auth import LARGE_REPLIES, LARGE_REPLY, Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.dispatch import failed
from infinite_memory.transports.http.api.routes import ROUTES, Route
from infinite_memory.transports.http.asgi import PIECE
from infinite_memory.transports.http.page.app import PageApp

TOKEN = "the-owners-token"


async def ask(
    app: RestApp, path: str, reads: asyncio.Event | None = None, *, is_whole: bool = True
) -> tuple[int, bytes]:
    """Send a GET with the owner's token; give status and body, which the client takes once *reads* is set.

    The end of its own body never comes unless it *is_whole*.
    """
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not is_whole:
            await asyncio.sleep(0.02)
            return {"type": "http.request", "body": b"", "more_body": True}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if reads is not None:
            await reads.wait()
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {TOKEN}".encode())],
    }
    await app(scope, receive, send)
    starts = [one for one in sent if one["type"] == "http.response.start"]
    assert len(starts) == 1
    assert all(len(one.get("body", b"")) <= PIECE for one in sent)
    return starts[0]["status"], b"".join(one.get("body", b"") for one in sent)


def app_that_fails(problem: Exception) -> RestApp:
    """Build the API over an engine that cannot be had."""

    async def engine() -> Any:
        raise problem

    backend = Backend(engine, cast("Any", None), None, 1.0)
    return RestApp(backend, Authenticator(lambda: TOKEN, None, None), lambda: None, body_bytes=1000)


async def test_a_fault_beside_the_table_has_the_form_of_every_error_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "infinite_memory"):
        app = app_that_fails(RuntimeError("/home/ada/secret"))
        status, body = await ask(app, "/healthz")
        assert status == 500
        assert json.loads(body)["error"]["code"] == "INTERNAL_ERROR"
        assert b"secret" not in body
        counted = (await ask(app, "/metrics"))[1].decode()
        assert 'infinite_memory_http_requests_total{method="GET",route="/healthz",status="500"} 1.0' in counted
    assert "secret" in caplog.text


async def test_a_body_that_does_not_come_to_its_end_is_answered_with_408_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asgi, "BODY_GRACE_S", 0.05)

    with caplog.at_level(logging.ERROR, "infinite_memory"):
        app = app_that_fails(RuntimeError("not reached"))
        status, body = await ask(app, "/api/v1/memories", is_whole=False)
        assert (status, json.loads(body)["error"]["code"]) == (408, "REQUEST_TIMEOUT")
        counted = (await ask(app, "/metrics"))[1].decode()
        assert 'infinite_memory_http_requests_total{method="none",route="none",status="408"} 1.0' in counted
    assert not caplog.records, "a fault of the client's is none of ours"


async def test_the_page_leaves_a_body_that_comes_too_slowly_to_the_server() -> None:
    class Slow(PageApp):
        def __init__(self) -> None:
            pass

        async def _answer(self, *_: Any) -> None:
            raise asgi.SlowBodyError

    with pytest.raises(asgi.SlowBodyError):
        await Slow()(cast("Any", {}), cast("Any", None), cast("Any", None))


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("tags=a", {"tags": "a"}),
        ("tags=a&tags=b,c&tags=d", {"tags": ["a", "b,c", "d"]}),
        ("tags=a&limit=5&tags=b", {"tags": ["a", "b"], "limit": "5"}),
    ],
)
def test_a_list_stands_in_a_query_string_as_the_openapi_document_describes_it(query: str, fields: Any) -> None:
    [route] = [route for route in ROUTES if route.name == "list_memories"]
    assert _query(route, Request({"type": "http", "query_string": query.encode()})) == fields


def test_any_other_parameter_stands_once() -> None:
    [route] = [route for route in ROUTES if route.name == "list_memories"]
    with pytest.raises(InvalidRequestError, match="stands twice"):
        _query(route, Request({"type": "http", "query_string": b"limit=5&tags=a&limit=6"}))


@pytest.mark.parametrize("query", [b"user_id=%ff", b"limit=5&user_id=Zo%EB", b"user_id=%ed%a0%80"])
def test_a_query_string_that_is_not_utf_8_is_refused_for_two_names_would_be_one(query: bytes) -> None:
    [route] = [route for route in ROUTES if route.name == "list_memories"]
    with pytest.raises(InvalidRequestError) as refused:
        _query(route, Request({"type": "http", "query_string": query}))
    assert refused.value.field == "user_id"
    assert _query(route, Request({"type": "http", "query_string": b"user_id=Zo%C3%AB+x"})) == {"user_id": "Zo\u00eb x"}


def test_a_fault_of_ours_that_has_no_status_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "infinite_memory"):
        assert failed(InfiniteMemoryError("the odd case")).status == 500
    assert "the odd case" in caplog.text


async def test_large_replies_that_a_token_does_not_read_are_few_and_small_ones_hold_up_nothing() -> None:
    made = {"large": 0, "small": 0}

    backend = Backend(cast("Any", None), make_session, None, 1.0)
    app = RestApp(backend, Authenticator(lambda: TOKEN, None, None), lambda: None, body_bytes=1000)
    for name, size in (("large", LARGE_REPLY + PIECE), ("small", 10)):

        async def run(_: Any, name: str = name, size: int = size) -> tuple[int, dict[str, Any]]:
            made[name] += 1
            return 200, {"text": "x" * size}

        route = Route("GET", f"/{name}", name, "Made here.", run, {200: "Memory"})
        app.api.add_api_route(route.path, _endpoint(backend, route, app.finishing))
    reads = asyncio.Event()
    small = [asyncio.create_task(ask(app, "/small", reads)) for _ in range(2 * LARGE_REPLIES)]
    await settled(made, "small", 2 * LARGE_REPLIES)
    large = [asyncio.create_task(ask(app, "/large", reads)) for _ in range(2 * LARGE_REPLIES)]
    await settled(made, "large", LARGE_REPLIES)
    reads.set()
    replies = await asyncio.gather(*small, *large)
    assert {len(json.loads(body)["text"]) for _, body in replies} == {10, LARGE_REPLY + PIECE}
    assert [status for status, _ in replies] == [200] * 4 * LARGE_REPLIES
    assert made["large"] == 2 * LARGE_REPLIES


def make_session() -> ClientSession:
    return ClientSession("Global", ZoneInfo("UTC"), LimitsSettings())


async def settled(made: dict[str, int], name: str, count: int) -> None:
    """Wait for *count* replies to be made, and for more that should not be."""
    while made[name] < count:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)
    assert made[name] == count
