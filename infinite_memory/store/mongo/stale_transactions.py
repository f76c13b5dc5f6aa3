"""Ends transactions whose program died: a server keeps them, and with them what they wrote locked, for a minute.

Until then whoever writes the same things waits: the next import after a kill -9, for one. A transaction is taken for abandoned when
nothing of it is being carried out and its connection is closed, which a server notices some milliseconds after a death. Ending one
that was not is harmless, for it is all or nothing and begun again by whoever made it.
"""

from __future__ import annotations

import asyncio
import logging

from bson.binary import Binary
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from infinite_memory.store.mongo.drivers import Client, aggregate

APP_NAME = "infinite-memory"
"""What our clients call themselves; others' transactions are left alone."""

LOOKS, BETWEEN_S = 3, 0.1  # a connection of a program that died is closed by the system within a moment

log = logging.getLogger(__name__)


async def end_abandoned(client: Client) -> int:
    """End the transactions of our own programs that are no more; says how many there were.

    Looks again for a moment while one is at rest whose connection is open. A server that does not let its user look is left as it is.
    """
    ended = 0
    try:
        for _ in range(LOOKS):
            abandoned, resting = await _at_rest(client)
            if abandoned:
                await client.admin.command("killSessions", [{"id": one} for one in abandoned])
                log.info("%d abandoned transactions were ended", len(abandoned), extra={"event": "abandoned_ended"})
                ended += len(abandoned)
            if not resting:
                break
            await asyncio.sleep(BETWEEN_S)
    except OperationFailure as exc:
        log.warning("abandoned transactions cannot be looked for: %s", exc, extra={"event": "abandoned_not_sought"})
    return ended


async def _at_rest(client: Client) -> tuple[list[Binary], list[Binary]]:
    """List the sessions of ours whose transaction is at rest: those without a connection, and those with one."""
    admin = client.get_database("admin", read_concern=ReadConcern("local"))  # the only one that this stage takes
    seen = await aggregate(admin, [{"$currentOp": {"idleSessions": True, "idleConnections": True}}])
    living = {one.get("connectionId") for one in seen if one["type"] != "idleSession"}
    held = [one for one in seen if one["type"] == "idleSession" and one.get("appName") == APP_NAME]
    sides: tuple[list[Binary], list[Binary]] = ([], [])
    for transaction in held:
        sides[transaction["connectionId"] in living].append(transaction["lsid"]["id"])
    return sides
