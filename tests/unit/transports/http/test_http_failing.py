"""HTTP that cannot start leaves nobody waiting."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.server import HOST, HttpServer


async def test_http_that_fails_closes_its_port_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer(HttpSettings(port=0, rate="no rate"), tmp_path, {}, body_bytes=1000)
    assert "url" in server.about()
    with caplog.at_level(logging.CRITICAL, "infinite_memory"):
        await server.run()
    assert server.about() == {"error": "HTTP failed and is off (ValueError); the log has the details"}
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, server.port)
    await server.close()
