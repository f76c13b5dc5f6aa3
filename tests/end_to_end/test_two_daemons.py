"""Two daemons, as on two machines, over one MongoDB: each sees the other's writes and deletions within about a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mongo_server import StandaloneMongo, fresh_database, shared_mongo
from tests.processes import Client, Installation, need_parts

PROMPT_S = 10.0  # a second is meant; a machine that is busy with other tests may take longer


@pytest.fixture(params=["replica set", "standalone"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Client, Client]]:
    need_parts()
    server = shared_mongo(StandaloneMongo) if request.param == "standalone" else shared_mongo()
    place = {
        "INFINITE_MEMORY_MONGODB__URI": server.uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": fresh_database(),
    }
    with Installation(tmp_path / "one", place) as one, Installation(tmp_path / "two", place) as two:
        clients = one.serve(), two.serve()
        for client in clients:
            assert client.ask("list_memories")["total"] == 0
        yield clients


def seen(look: Callable[[], Any]) -> float:
    """Look until it is so; gives how long it took."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < PROMPT_S, "the other daemon does not see it"
        time.sleep(0.02)
    return time.monotonic() - began


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
