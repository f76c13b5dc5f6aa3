"""Abort transactions of dead processes: a server keeps them, with write locks on what they changed, for a minute.

Until then writes to the same documents wait: the next import after a kill -9, for example. A transaction counts as abandoned if it is idle
and its connection is closed, which a server notices some milliseconds after a crash. Aborting one that was not is harmless, because it is
all or nothing and its owner retries it.
"""

from __future__ import annotations

import asyncio
import logging

from bson.binary import Binary
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from infinite_memory.store.mongo.drivers import Client, aggregate

APP_NAME = "infinite-memory"
"""The application name of our clients; others' transactions are left alone."""

LOOKS, BETWEEN_S = 3, 0.1  # the operating system closes a dead process's connections promptly

log = logging.getLogger(__name__)


async def end_abandoned(client: Client) -> int:
    """Abort the transactions of our own dead processes; return how many there were.

    Retries briefly while there is an idle one whose connection is open. Does nothing if the user lacks the privilege to list sessions.
    """
    ended = 0
    try:
        for _ in range(LOOKS):
            abandoned, resting = await _at_rest(client)
            if abandoned:
                await client.admin.command("killSessions", [{"id": session_id} for session_id in abandoned])
                log.info("%d abandoned transactions were ended", len(abandoned), extra={"event": "abandoned_ended"})
                ended += len(abandoned)
            if not resting:
                break
            await asyncio.sleep(BETWEEN_S)
    except OperationFailure as exc:
        log.warning("abandoned transactions cannot be looked for: %s", exc, extra={"event": "abandoned_not_sought"})
    return ended


async def _at_rest(client: Client) -> tuple[list[Binary], list[Binary]]:
    """Return our sessions with an idle transaction: those without a connection, and those with one."""
    admin = client.get_database("admin", read_concern=ReadConcern("local"))  # this stage accepts no other
    seen = await aggregate(admin, [{"$currentOp": {"idleSessions": True, "idleConnections": True}}])
    living = {session.get("connectionId") for session in seen if session["type"] != "idleSession"}
    idle = [session for session in seen if session["type"] == "idleSession" and session.get("appName") == APP_NAME]
    sides: tuple[list[Binary], list[Binary]] = ([], [])
    for transaction in idle:
        sides[transaction["connectionId"] in living].append(transaction["lsid"]["id"])
    return sides
