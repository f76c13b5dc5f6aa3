"""The API as an ASGI application: whatever fails looks the same, is counted, and is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

import pytest

from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.transports.http.api.app import RestApp
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.api.backend import Backend
from infinite_memory.transports.http.api.dispatch import failed

TOKEN = "the-owners-token"


async def ask(app: RestApp, path: str) -> tuple[int, bytes]:
    """Send a GET with the owner's token; give status and body."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
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
    return starts[0]["status"], b"".join(one.get("body", b"") for one in sent)


def app_that_fails(problem: Exception) -> RestApp:
    """Build the API over an engine that cannot be had."""

    async def engine() -> Any:
        raise problem

    backend = Backend(engine, cast("Any", None), None, 1.0)
    return RestApp(backend, Authenticator(lambda: TOKEN, None, None), lambda: None, body_bytes=1000)


def test_a_fault_beside_the_table_has_the_form_of_every_error_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        app = app_that_fails(RuntimeError("/home/ada/secret"))
        status, body = await ask(app, "/healthz")
        assert status == 500
        assert json.loads(body)["error"]["code"] == "INTERNAL_ERROR"
        assert b"secret" not in body
        counted = (await ask(app, "/metrics"))[1].decode()
        assert 'infinite_memory_http_requests_total{method="GET",route="/healthz",status="500"} 1.0' in counted

    with caplog.at_level(logging.ERROR, "infinite_memory"):
        asyncio.run(scenario())
    assert "secret" in caplog.text


def test_a_fault_of_ours_that_has_no_status_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "infinite_memory"):
        assert failed(InfiniteMemoryError("the odd case")).status == 500
    assert "the odd case" in caplog.text
