"""What a program that was killed in the middle of a transaction had written stands in nobody's way; what a living one holds is left."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bson import ObjectId
from pymongo import MongoClient

from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.mongo.drivers import DRIVERS, close_client, make_client
from infinite_memory.store.mongo.stale_transactions import APP_NAME, end_abandoned
from tests.mongo_server import fresh_database, open_store

from .conftest import global_scope, make_memory

_HOLD = """
import sys
from bson import ObjectId
from pymongo import MongoClient
uri, app, database, scope, key = sys.argv[1:]
client = MongoClient(uri, appname=app)
with client.start_session() as session:
    session.start_transaction()
    client[database]["mem_" + scope].insert_one({"_id": ObjectId(key)}, session=session)
    print("held", flush=True)
    sys.stdin.readline()
    session.abort_transaction()
    print("let go", flush=True)
"""


class Holder:
    """A process that has written a memory's id in a transaction, and does not end it."""

    def __init__(self, uri: str, app: str, database: str, scope: ScopeId, key: MemoryId) -> None:
        command = [sys.executable, "-c", _HOLD, uri, app, database, scope, key]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        assert self._output.readline() == "held\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()

    def let_go(self) -> str:
        said, _ = self._process.communicate("\n")
        return said


@pytest.mark.parametrize("driver", DRIVERS)
async def test_what_a_killed_process_was_writing_can_be_written_at_once_by_the_next(
    mongo_uri: str, driver: str
) -> None:
    database = fresh_database()
    memory_id = MemoryId(str(ObjectId()))

    async with open_store(mongo_uri, database, driver) as store:
        scope = await global_scope(store)
    holder = Holder(mongo_uri, APP_NAME, database, scope.scope_id, memory_id)
    holder.kill()
    async with open_store(mongo_uri, database, driver) as store:
        await store.insert([make_memory(scope, memory_id=memory_id)])
        assert await store.locate([memory_id]) == {memory_id: scope.scope_id}


@pytest.mark.parametrize("driver", DRIVERS)
async def test_transactions_of_the_living_and_of_other_programs_are_left_alone(mongo_uri: str, driver: str) -> None:
    database, scope = fresh_database(), ScopeId(str(ObjectId()))
    ours = Holder(mongo_uri, APP_NAME, database, scope, MemoryId(str(ObjectId())))
    foreign = Holder(mongo_uri, "another", database, scope, MemoryId(str(ObjectId())))
    foreign.kill()

    client = make_client(driver, mongo_uri, {})
    assert await end_abandoned(client) == 0
    ours.kill()
    assert await end_abandoned(client) == 1
    assert await end_abandoned(client) == 0
    await close_client(client)
    with MongoClient(mongo_uri) as client:
        seen = list(client.admin.aggregate([{"$currentOp": {"idleSessions": True}}]))
        left = [one["lsid"]["id"] for one in seen if one["type"] == "idleSession" and one["appName"] == "another"]
        assert len(left) == 1
        client.admin.command("killSessions", [{"id": one} for one in left])


async def test_a_living_transaction_can_still_be_ended_by_its_own_program(mongo_uri: str) -> None:
    database, scope = fresh_database(), ScopeId(str(ObjectId()))
    holder = Holder(mongo_uri, APP_NAME, database, scope, MemoryId(str(ObjectId())))

    async with open_store(mongo_uri, database):
        pass
    assert holder.let_go() == "let go\n"
