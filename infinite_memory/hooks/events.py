"""Handles a raw hook event in the daemon; the counterpart of `client`, which does it without one."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from infinite_memory.hooks.client import LATE
from infinite_memory.hooks.clients import CAPTURING, EVENTS, make_envelope, make_message
from infinite_memory.hooks.control import OFF, read_control
from infinite_memory.hooks.files import notice_of_failures, record_event, spool
from infinite_memory.hooks.run import CARRIED, SHORT_BYTES, TOLD_IN_FULL

log = logging.getLogger(__name__)

Json = dict[str, Any]

ENVIRON_BYTES = 128 << 10  # maximum size of the variables carried by an event


class Answering(Protocol):
    """An object that answers messages (`service.HookService`)."""

    async def answer(self, message: Mapping[str, Any]) -> Json:
        """Answer one message of a hook."""
        ...


def sizes_of(greeting: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the sizes in bytes of variables and event after a handshake; None if nothing follows, or more than a hook sends."""
    match greeting.get("sizes"):
        case [int(environ), int(data)] if 0 <= environ <= ENVIRON_BYTES and 0 <= data <= SHORT_BYTES:
            return environ, data
    return None


async def handle_event(
    service: Answering, home: Path, greeting: Mapping[str, Any], environ: bytes, data: bytes
) -> bytes:
    """Return the hook's output, b"" for none. Failures are recorded for `doctor`.

    Args:
        service: Answers the message.
        home: The home, which holds spool and event records.
        greeting: Names the client and its event.
        environ: Variables of the client, ``NAME=value``, separated by null characters.
        data: The hook's standard input.
    """
    client, name = str(greeting.get("client")), str(greeting.get("name"))
    if client not in TOLD_IN_FULL or read_control(home).state == OFF:
        return b""
    event = name if name in EVENTS[client] else "unknown"
    try:
        output = await _handle(service, home, client, name, make_message(client, name, data, _read_environ(environ)))
    except (ValueError, OSError) as exc:
        record_event(home, client, event, f"{type(exc).__name__}: {exc}"[:300])
    except Exception as exc:
        log.exception("an event of a hook failed", extra={"event": "hook_failed"})
        record_event(home, client, event, type(exc).__name__)
    else:
        record_event(home, client, event)
        if output is not None:
            return json.dumps(output).encode("ascii") + b"\n"
    return b""


def _read_environ(environ: bytes) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in os.fsdecode(environ).split("\0"))
    return {name: value for name, equals, value in pairs if equals and name.startswith(CARRIED)}


async def _handle(service: Answering, home: Path, client: str, name: str, message: Json) -> Json | None:
    if message["event"] in CAPTURING:
        try:
            await asyncio.to_thread(spool, home, message)
        except OSError:
            # For example a full disk: the transcript may be readable now, and the next event reads it anyway.
            await service.answer(message | {"what": "capture"})
            raise
        await service.answer({"what": "drain"})
        return None
    answer = await service.answer(message | {"what": "recall"})
    if answer.get("late"):
        raise TimeoutError(LATE)
    context = answer.get("context")
    notice = await asyncio.to_thread(notice_of_failures, home) if message["event"] == "SessionStart" else ""
    return make_envelope(client, name, context if isinstance(context, str) else "", notice)
