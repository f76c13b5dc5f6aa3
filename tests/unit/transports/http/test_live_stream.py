"""The page's live stream: it ends with its token and with its login, whatever else happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infinite_memory.engine.events import Event
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page import live
from infinite_memory.transports.http.page.live import stream_changes
from infinite_memory.transports.http.page.sessions import IDLE_S, PageSessions, Session

MANY = 500  # changes, one after the other with no pause in which the token would be looked at anyway


async def test_a_stream_ends_with_its_token_also_while_memories_keep_coming(tmp_path: Path) -> None:
    """The token is replaced at the moment at which a change is sent."""

    owner, stopping, sent = OwnerToken(tmp_path / "token"), asyncio.Event(), list[bytes]()
    sessions, listeners = PageSessions(), list[Callable[[Event], None]]()
    _, session = sessions.open(owner.read())

    def subscribe(listener: Callable[[Event], None]) -> Callable[[], None]:
        listeners.append(listener)
        return listeners.clear

    app: Any = SimpleNamespace(
        services=SimpleNamespace(subscribe=subscribe), stopping=stopping, owner=owner,
        gate=Authenticator(owner.read, None, None), sessions=sessions,
    )  # fmt: skip

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if sum(b"event: memory" in part for part in sent) == 1 and b"event: memory" in sent[-1]:
            owner.rotate()

    async def receive() -> Mapping[str, Any]:
        await stopping.wait()
        return {"type": "http.disconnect"}

    queries: Any = SimpleNamespace(is_narrow=False)
    streaming = asyncio.create_task(stream_changes(app, session, queries, receive, send))
    for number in range(MANY):
        await asyncio.sleep(0.01)
        for listener in list(listeners):
            listener(Event(memory_id=MemoryId(f"{number:024x}")))
        if streaming.done():
            break
    stopping.set()
    await streaming
    assert b"event: ended\ndata: {}\n\n" in sent
    assert sum(b"event: memory" in part for part in sent) == 1


@pytest.mark.parametrize("ending", ["logged out in another tab", "idle for too long"])
async def test_a_stream_ends_with_its_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """The token stays valid; what is checked is the login that opened the stream."""
    monkeypatch.setattr(live, "RECHECK_S", 0.05)

    owner, stopping, hours = OwnerToken(tmp_path / "token"), asyncio.Event(), [0.0]
    sessions, sent = PageSessions(lambda: hours[0]), list[bytes]()
    key, session = sessions.open(owner.read())
    sessions.open(owner.read())  # another login of the same token changes nothing
    streaming = asyncio.create_task(_stream(owner, sessions, session, stopping, sent))
    await asyncio.sleep(0.3)
    assert not streaming.done()
    if ending == "idle for too long":
        hours[0] = IDLE_S + 1
    else:
        sessions.close(key)
    await asyncio.wait({streaming}, timeout=10)
    ended = streaming.done()
    stopping.set()
    await streaming
    assert ended
    assert b"event: ended\ndata: {}\n\n" in sent


async def _stream(
    owner: OwnerToken, sessions: PageSessions, session: Session, stopping: asyncio.Event, sent: list[bytes]
) -> None:
    app: Any = SimpleNamespace(
        services=SimpleNamespace(subscribe=lambda _: lambda: None), stopping=stopping, owner=owner, sessions=sessions,
        gate=Authenticator(owner.read, None, None),
    )  # fmt: skip

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Mapping[str, Any]:
        await stopping.wait()
        return {"type": "http.disconnect"}

    queries: Any = SimpleNamespace(is_narrow=False)
    await stream_changes(app, session, queries, receive, send)
