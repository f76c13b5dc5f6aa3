"""Bad days of a daemon whose index is on a Milvus server: it is not there, dies, freezes, takes no writes, or lost what it held."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.index.follower import RETRY_S
from infinite_memory.index.milvus.collection import Collection, list_collections
from infinite_memory.index.milvus.connection import Connection
from infinite_memory.index.rechecks import RECHECK_S
from tests.milvus_server import LiteServer
from tests.mongo_server import fresh_database, shared_mongo
from tests.processes import Client, Installation, need_parts, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the server is frozen and filled by Linux' means")

TEA, COFFEE = "Ada has green tea for breakfast", "Bert has black coffee for breakfast"
HIDDEN_WORDS = "what do they drink in the morning?"
TIMEOUT_S = 6  # of a call; nobody is to wait for it where a server is silent
AWAY, FULL = "Milvus does not answer", "Milvus takes no writes"


class Home:
    """A daemon that was started while its Milvus was not there, and one of its clients."""

    def __init__(self, milvus: LiteServer, installation: Installation) -> None:
        self.milvus, self.installation = milvus, installation
        self.client: Client = installation.serve()

    def ask(self, action: str, **fields: Any) -> dict[str, Any]:
        reply = self.client.ask(action, **fields)
        assert reply["status"] == "OK", reply
        return reply

    def store(self, text: str) -> str:
        return str(self.ask("store_memory", content=text)["memory_id"])

    def count_by_meaning(self) -> int:
        """Count what is found where no word is alike; 0 while anything is said against the answer."""
        reply = self.client.ask("retrieve_memory", query=HIDDEN_WORDS, top_k=20)
        return 0 if reply["status"] != "OK" or reply.get("note") else len(reply["results"])

    def check_words_alone(self, count: int, reason: str = AWAY) -> None:
        """Look whether all memories are found by a word, with a note that says why no more is sought."""
        reply = self.ask("retrieve_memory", query="breakfast", top_k=20)
        assert (len(reply["results"]), reason in reply.get("note", "")) == (count, True), reply

    def check_health(self, reason: str = AWAY) -> None:
        assert reason in self.ask("health_check")["checks"]["sidecar"]

    def cluster(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.installation.command("cluster", "status", "--json").stdout)
        return told

    def wait_level(self, count: int) -> None:
        until(lambda: self.count_by_meaning() == count, f"{count} are found by meaning, without a note", 120)
        assert self.ask("list_memories", scope="ALL")["total"] == count


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Return a home that holds nothing yet; its Milvus was never started."""
    need_parts()
    folder = tmp_path_factory.mktemp("bad_days")
    milvus = LiteServer(folder / "milvus")
    environ = {
        "INFINITE_MEMORY_MONGODB__URI": shared_mongo().uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": fresh_database(),
        "INFINITE_MEMORY_INDEX__ENGINE": "milvus",
        "INFINITE_MEMORY_INDEX__URI": milvus.uri,
        "INFINITE_MEMORY_INDEX__TIMEOUT_S": str(TIMEOUT_S),
        "INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "1",
    }
    try:
        with Installation(folder / "home", environ) as installation:
            yield Home(milvus, installation)
    finally:
        milvus.kill()


def test_a_server_that_was_never_there_keeps_nothing_from_being_stored_and_found_by_words(home: Home) -> None:
    tea = home.store(TEA)
    until(lambda: home.client.ask("retrieve_memory", query="breakfast")["status"] == "OK", "the words answer")
    home.check_words_alone(1)
    home.store(COFFEE)
    home.check_words_alone(2)
    assert home.ask("get_memory", memory_id=tea)["memory"]["text"] == TEA
    home.check_health()
    for action in ("list_memories", "get_memory_stats"):
        refused = home.client.ask(action)
        assert (refused["status"], AWAY in refused["error"]) == ("ERROR", True)
    assert AWAY in home.cluster()["daemons"][0]["index_state"]
    home.milvus.start()
    home.wait_level(2)
    assert home.cluster()["problems"] == []


def test_a_server_that_dies_is_noted_and_caught_up_with(home: Home) -> None:
    home.milvus.kill()
    home.store("Cleo has water for breakfast")
    home.check_words_alone(3)
    home.check_health()
    assert home.installation.command("daemon", "stop").returncode == 0
    home.store("Dora has milk for breakfast")  # by the next daemon, which finds none either
    until(lambda: home.client.ask("retrieve_memory", query="breakfast")["status"] == "OK", "the words answer")
    home.check_words_alone(4)
    home.milvus.start()
    home.wait_level(4)


def test_a_server_that_answers_nothing_is_waited_for_once(home: Home) -> None:
    others: list[str] = []
    home.milvus.freeze()
    try:
        home.store("Emil has juice for breakfast")
        began = time.monotonic()
        for count in range(5, 9):
            home.check_words_alone(count)
            others.append(home.store(f"Person {count} has juice for breakfast"))
            time.sleep(RETRY_S)
        assert time.monotonic() - began - 4 * RETRY_S < TIMEOUT_S  # of one call, and here were dozens
        assert home.ask("health_check")["checks"]["sidecar"] != "ok"
    finally:
        home.milvus.thaw()
    home.wait_level(9)
    for one in others:
        assert home.ask("delete_memory", target={"memory_id": one})["deleted_count"] == 1
    home.wait_level(5)


def test_a_server_that_was_killed_and_started_again_is_told_to_load_what_it_has(home: Home) -> None:
    home.milvus.kill()
    home.milvus.start()
    home.wait_level(5)  # the daemon, which stayed, needs no word of anybody


def test_a_server_without_room_answers_with_what_it_has_and_a_note(home: Home) -> None:
    home.milvus.fill()
    try:
        home.store("Fay has cocoa for breakfast")
        home.check_words_alone(6, FULL)
        assert FULL in home.ask("retrieve_memory", query=HIDDEN_WORDS)["note"]
        listed = home.ask("list_memories", scope="ALL")
        assert (listed["total"], FULL in listed["note"]) == (5, True)
    finally:
        home.milvus.make_room()
    home.wait_level(6)


def test_what_a_server_lost_is_entered_again(home: Home, tmp_path: Path) -> None:
    """Milvus' embedded form, for one, reads its log up to where its disk was full, and has forgotten what was written after it."""
    count = home.ask("list_memories", scope="ALL")["total"]
    [rows] = (home.milvus.data / "collections").glob(
        "infinite_memory_1_*"
    )  # and not the notes, where it says what it has
    shutil.copytree(rows, tmp_path / "older")
    lost = home.store("Gil has mead for breakfast")
    home.wait_level(count + 1)
    time.sleep(RECHECK_S + 2)  # by then it is noted that this was entered, and looked at once more
    home.milvus.kill()
    shutil.rmtree(rows)
    shutil.copytree(tmp_path / "older", rows)
    home.milvus.start()

    def is_whole() -> bool:
        reply = home.client.ask("retrieve_memory", query="breakfast", top_k=20)
        if reply["status"] != "OK" or "note" in reply:
            return False
        assert len(reply["results"]) == count + 1, reply  # not without a note
        return True

    until(is_whole, "all is found again", 120)
    assert home.ask("delete_memory", target={"memory_id": lost})["deleted_count"] == 1
    home.ask("restore_memory", memory_id=lost)
    home.wait_level(count + 1)


def test_a_collection_that_was_dropped_is_built_again(home: Home) -> None:
    connection = Connection(home.milvus.uri, None, 10)
    for name in list_collections(connection):
        Collection(connection, name).drop()
    connection.close()
    home.store("Gus has broth for breakfast")
    home.wait_level(8)


def test_what_a_router_would_be_asked_is_told_and_a_set_refuses_it(home: Home) -> None:
    told = home.installation.command("cluster", "prepare", "--min-memories", "8")
    assert (told.returncode, told.stdout.count('{"shardCollection": ')) == (0, 1), told
    assert "a replica set: this can be done through a router" in told.stderr
    refused = home.installation.command("cluster", "prepare", "--min-memories", "8", "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "nothing was sharded" in refused.stderr


def test_the_log_says_once_that_the_server_is_away(home: Home) -> None:
    log = Path(home.installation.home / "logs" / "infinite-memory.log").read_text("utf-8")
    said = [line for line in log.splitlines() if "event=index_away" in line and AWAY in line]
    assert 1 <= len(said) <= 6, said  # for each of the days above, however long it was
