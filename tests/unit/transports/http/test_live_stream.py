"""The page's live stream: it ends when its token opens nothing any more, whatever else happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from infinite_memory.engine.events import Event
from infinite_memory.models import MemoryId
from infinite_memory.transports.http.api.auth import Authenticator
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page.live import stream_changes

MANY = 500  # changes, one after the other with no pause in which the token would be looked at anyway


def test_a_stream_ends_with_its_token_also_while_memories_keep_coming(tmp_path: Path) -> None:
    """The token is replaced at the moment at which a change is sent."""

    async def look() -> None:
        owner, stopping, sent = OwnerToken(tmp_path / "token"), asyncio.Event(), list[bytes]()
        session, listeners = SimpleNamespace(token=owner.read()), list[Callable[[Event], None]]()

        def subscribe(listener: Callable[[Event], None]) -> Callable[[], None]:
            listeners.append(listener)
            return listeners.clear

        app: Any = SimpleNamespace(
            services=SimpleNamespace(subscribe=subscribe), stopping=stopping, owner=owner,
            gate=Authenticator(owner.read, None, None),
        )  # fmt: skip

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message.get("body", b""))
            if sum(b"event: memory" in part for part in sent) == 1 and b"event: memory" in sent[-1]:
                owner.rotate()

        async def receive() -> Mapping[str, Any]:
            await stopping.wait()
            return {"type": "http.disconnect"}

        queries: Any = SimpleNamespace(is_narrow=False)
        streaming = asyncio.create_task(stream_changes(app, session, queries, receive, send))  # type: ignore[arg-type]
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

    asyncio.run(look())
