"""What a restore had staged is cleared away once its process is known to be dead, and not while it may live elsewhere."""

from __future__ import annotations

import datetime as dt
import socket
import subprocess
import sys

import pytest
from bson import ObjectId

from infinite_memory.store.mongo import restore_steps

from .conftest import Place


def dead_pid() -> int:
    """Give the id of a process that ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("who", "silent_for", "stays"),
    [
        ({"machine": restore_steps.this_machine()}, dt.timedelta(0), False),
        ({"machine": f"{socket.gethostname()}:another"}, dt.timedelta(0), True),
        ({"host": socket.gethostname()}, dt.timedelta(0), True),
        ({"machine": f"{socket.gethostname()}:another"}, restore_steps.ABANDONED * 2, False),
        ({"host": socket.gethostname()}, restore_steps.ABANDONED * 2, False),
    ],
)
async def test_only_a_machine_of_its_own_says_that_a_restore_is_dead_before_its_time(
    place: Place, who: dict[str, str], silent_for: dt.timedelta, stays: bool
) -> None:
    restore_id = ObjectId()
    staged = f"staged_{restore_id}_facts"

    async with place.open() as store, store._connection.operation() as database:
        at = dt.datetime.now(dt.UTC) - silent_for
        journal = {"_id": f"restore.{restore_id}", "state": "staging", "at": at, "pid": dead_pid()}
        await database["meta"].insert_one(journal | who)
        await database[staged].insert_one({"x": 1})
    async with place.open() as store, store._connection.operation() as database:
        assert (staged in await database.list_collection_names()) is stays
