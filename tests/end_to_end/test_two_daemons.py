"""Two daemons, as on two machines, over one MongoDB: each sees the other's writes and deletions within about a second."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.jobs.state import JOBS, JobState, load_state, save_state
from tests.mongo_server import StandaloneMongo, fresh_database, open_store, run, shared_mongo
from tests.processes import LONG, Client, Installation, is_alive, need_parts, until

PROMPT_S = 10.0  # a second is meant; a machine that is busy with other tests may take longer

DUE = tuple(name for name in JOBS if name != "retention")
"""What runs each night without a limit or a switch under retention."""


ONE_SERVER = pytest.mark.parametrize("two", ["replica set", "standalone"] if LONG else ["replica set"], indirect=True)
"""For what takes long and asks a server for nothing that only a replica set has."""


@pytest.fixture(params=["replica set", "standalone"])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Installation, Installation]]:
    need_parts()
    server = shared_mongo(StandaloneMongo) if request.param == "standalone" else shared_mongo()
    place = {
        "INFINITE_MEMORY_MONGODB__URI": server.uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": fresh_database(),
    }
    with Installation(tmp_path / "one", place) as one, Installation(tmp_path / "two", place) as other:
        yield one, other


@pytest.fixture
def pair(two: tuple[Installation, Installation]) -> tuple[Client, Client]:
    here, there = (one.serve() for one in two)
    for client in (here, there):
        assert client.ask("list_memories")["total"] == 0
    return here, there


def seen(look: Callable[[], Any]) -> float:
    """Look until it is so; gives how long it took."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < PROMPT_S, "the other daemon does not see it"
        time.sleep(0.02)
    return time.monotonic() - began


def test_what_one_stored_is_forgotten_by_the_other_before_its_index_knows_it(pair: tuple[Client, Client]) -> None:
    here, there = pair
    for number in range(5):
        stored = here.ask("store_memory", content=f"The lamp no. {number} is new")["memory_id"]
        gone = there.ask("delete_memory", target={"memory_id": stored})
        assert (gone["status"], gone.get("deleted_count")) == ("OK", 1), gone


def test_writes_and_deletions_of_one_are_seen_by_the_other(pair: tuple[Client, Client]) -> None:
    here, there = pair
    kept = here.ask("store_memory", content="My favorite color is blue", tags=["colors"], scope="Personal")["memory_id"]

    def found(client: Client) -> list[str]:
        return [one["memory_id"] for one in client.ask("search_by_tag", tag="colors")["results"]]

    seen(lambda: found(there) == [kept])
    query = {"query": "which colour do I like?", "filter": {"scope": "Personal"}}
    assert there.ask("retrieve_memory", **query)["results"][0]["memory_id"] == kept

    there.ask("update_memory", memory_id=kept, content="My favorite color is green")
    seen(lambda: here.ask("retrieve_memory", **query)["results"][0]["text"].endswith("green"))

    assert here.ask("delete_memory", target={"memory_id": kept})["deleted_count"] == 1
    seen(lambda: found(there) == [])
    there.ask("restore_memory", memory_id=kept)
    seen(lambda: found(here) == [kept])

    assert there.ask("delete_memory", target={"memory_id": kept}, forget_mode="hard")["deleted_count"] == 1
    seen(lambda: found(here) == [])
    seen(lambda: here.ask("get_memory", memory_id=kept)["status"] == "ERROR")


def test_scopes_of_one_are_the_others_too(pair: tuple[Client, Client]) -> None:
    here, there = pair
    assert here.ask("create_memory_scope", scope_name="Work")["status"] == "OK"
    assert there.ask("create_memory_scope", scope_name="work")["error_code"] == "ALREADY_EXISTS"
    assert there.ask("store_memory", content="deadline", scope="Work")["status"] == "OK"
    seen(lambda: here.ask("search_by_scope", scope="Work")["total"] == 1)
    assert here.ask("delete_memory", target={"scope": "Work"})["scope"] == "Work"
    seen(lambda: there.ask("search_by_scope", scope="Work")["status"] == "ERROR")
    assert here.ask("restore_memory", scope="Work")["status"] == "OK"
    seen(lambda: there.ask("search_by_scope", scope="Work")["status"] == "OK")
    gone = here.ask("delete_memory", target={"scope": "Work"}, forget_mode="hard")
    assert gone.get("scope") == "Work", gone
    seen(lambda: there.ask("search_by_scope", scope="Work").get("error_code") == "NOT_FOUND")


def make_due(two: tuple[Installation, Installation]) -> None:
    """Have every job of both daemons be due: the last run was days ago."""
    environ = two[0].environ
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=3)

    async def work() -> None:
        uri, database = environ["INFINITE_MEMORY_MONGODB__URI"], environ["INFINITE_MEMORY_MONGODB__DATABASE"]
        async with open_store(uri, database) as store:
            for name in DUE:
                await save_state(store, JobState(name, long_ago, long_ago, long_ago, "long ago"))

    run(work())


def done_jobs(two: tuple[Installation, Installation]) -> set[str]:
    """Name the jobs that were done since."""
    environ = two[0].environ

    async def work() -> set[str]:
        uri, database = environ["INFINITE_MEMORY_MONGODB__URI"], environ["INFINITE_MEMORY_MONGODB__DATABASE"]
        async with open_store(uri, database) as store:
            states = [await load_state(store, name) for name in DUE]
        return {state.name for state in states if state.said != "long ago" and state.failure is None}

    return run(work())


def begun(two: tuple[Installation, Installation], job: str) -> int:
    """Count how often both daemons together have begun a job."""
    logs = [one.home / "logs" / "infinite-memory.log" for one in two]
    return sum(log.read_text().count(f"the job {job} begins") for log in logs if log.exists())


@ONE_SERVER
def test_what_is_due_is_done_by_one_of_two(two: tuple[Installation, Installation]) -> None:
    assert two[0].call("store_memory", content="tea")["status"] == "OK"
    assert two[0].command("daemon", "stop").returncode == 0
    make_due(two)
    clients = [one.serve() for one in two]
    for client in clients:
        client.send({"action": "list_memories"})
    assert [client.reply()["total"] for client in clients] == [1, 1]
    until(lambda: done_jobs(two) == set(DUE), "every job is done")
    backups = [file for one in two for file in (one.home / "backups").glob("*.dump")]
    assert len(backups) == 1, backups
    assert [begun(two, job) for job in DUE] == [1, 1, 1]


@ONE_SERVER
def test_the_other_daemon_does_what_is_due_once_the_lease_of_a_dead_one_ends(
    two: tuple[Installation, Installation],
) -> None:
    """The lease of the dead one ends by itself, after some time: here the test ends it."""
    here, there = two
    assert here.call("store_memory", content="tea")["status"] == "OK"
    pid = here.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "it is dead")
    make_due(two)
    environ = here.environ

    async def lease_of_the_dead(duration: dt.timedelta) -> None:
        uri, database = environ["INFINITE_MEMORY_MONGODB__URI"], environ["INFINITE_MEMORY_MONGODB__DATABASE"]
        async with open_store(uri, database) as store:
            for name in DUE:
                assert await store.copies.take_lease(name, "the dead one", duration)

    run(lease_of_the_dead(dt.timedelta(hours=1)))
    client = there.serve()
    assert client.ask("list_memories")["total"] == 1
    assert not done_jobs(two), "the lease still holds"
    run(lease_of_the_dead(dt.timedelta(0)))
    until(lambda: done_jobs(two) == set(DUE), "the other one has done it all", 120)
    assert len(list((there.home / "backups").glob("*.dump"))) == 1
