"""A daemon whose index is on a Milvus server: a user's evening, on which the way to the server is cut and opened again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.milvus_server import TOKEN, MilvusServer
from tests.mongo_server import fresh_database, shared_mongo
from tests.processes import Client, Installation, need_parts, until
from tests.tcp_gate import TcpGate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the server's package is for Linux")

HIDDEN_WORDS = "what does she drink in the morning?"


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """Return a server that asks for a token."""
    need_parts()
    server = MilvusServer(tmp_path_factory.mktemp("milvus"), wants_token=True)
    server.start()
    yield server
    server.stop()


def place(milvus: MilvusServer, database: str, **changes: str) -> dict[str, str]:
    environ = {
        "INFINITE_MEMORY_MONGODB__URI": shared_mongo().uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": database,
        "INFINITE_MEMORY_INDEX__ENGINE": "milvus",
        "INFINITE_MEMORY_INDEX__URI": milvus.uri,
        "INFINITE_MEMORY_INDEX__TOKEN": TOKEN,
        "INFINITE_MEMORY_INDEX__TIMEOUT_S": "20",
    }
    return environ | changes


def texts(reply: dict[str, Any]) -> list[str]:
    assert reply["status"] == "OK", reply
    return [hit["text"] for hit in reply["results"]]


def store(client: Client, text: str, **fields: Any) -> str:
    reply = client.ask("store_memory", content=text, **fields)
    assert reply["status"] == "OK", reply
    memory_id: str = reply["memory_id"]
    return memory_id


def found_by_meaning(client: Client) -> int:
    """Count what is found where no word is alike; 0 while meaning cannot be asked."""
    reply = client.ask("retrieve_memory", query=HIDDEN_WORDS)
    return 0 if reply["status"] != "OK" or reply.get("note") else len(reply["results"])


def test_memories_are_stored_found_filtered_changed_and_forgotten(milvus: MilvusServer, tmp_path: Path) -> None:
    with Installation(tmp_path / "home", place(milvus, fresh_database())) as one:
        client = one.serve()
        tea = store(client, "Ada has green tea for breakfast", tags=["drinks"], scope="Kitchen")
        store(client, "The harbour is closed on Sundays", tags=["town"], scope="Town")
        assert texts(client.ask("retrieve_memory", query=HIDDEN_WORDS))[0].startswith("Ada")
        assert texts(client.ask("search_by_tag", tag="drinks")) == ["Ada has green tea for breakfast"]
        assert client.ask("search_by_scope", scope="Town")["total"] == 1
        assert client.ask("update_memory", memory_id=tea, content="Ada has coffee for breakfast")["status"] == "OK"
        assert texts(client.ask("retrieve_memory", query=HIDDEN_WORDS))[0] == "Ada has coffee for breakfast"
        assert client.ask("delete_memory", target={"memory_id": tea})["deleted_count"] == 1
        assert client.ask("list_memories", scope="ALL")["total"] == 1
        assert client.ask("restore_memory", memory_id=tea)["status"] == "OK"
        assert client.ask("list_memories", scope="ALL")["total"] == 2
        stats = client.ask("get_memory_stats")["stats"]
        assert (stats["total_memories"], stats["sidecar"]["count"]) == (2, 2)
        assert one.command("daemon", "stop").returncode == 0
        assert texts(one.call("retrieve_memory", query=HIDDEN_WORDS))[0] == "Ada has coffee for breakfast"


def test_two_daemons_share_one_index(milvus: MilvusServer, tmp_path: Path) -> None:
    environ = place(milvus, fresh_database())
    with Installation(tmp_path / "one", environ) as one, Installation(tmp_path / "two", environ) as other:
        here, there = one.serve(), other.serve()
        memory_id = store(here, "My bicycle is in the cellar", tags=["bicycle"])
        until(
            lambda: texts(there.ask("search_by_tag", tag="bicycle")) == ["My bicycle is in the cellar"],
            "the other sees it",
        )
        assert there.ask("update_memory", memory_id=memory_id, content="My bicycle is in the attic")["status"] == "OK"
        until(
            lambda: texts(here.ask("retrieve_memory", query="where is my bike?"))[:1] == ["My bicycle is in the attic"],
            "it changed",
        )
        assert here.ask("delete_memory", target={"memory_id": memory_id}, forget_mode="hard")["deleted_count"] == 1
        until(lambda: there.ask("list_memories")["total"] == 0, "it is gone")


def test_without_the_server_memories_are_stored_and_found_by_words_and_it_catches_up(
    milvus: MilvusServer, tmp_path: Path
) -> None:
    way = TcpGate(milvus.port)
    way.open()
    uri = f"http://127.0.0.1:{way.port}"
    environ = place(milvus, fresh_database(), INFINITE_MEMORY_INDEX__TIMEOUT_S="5", INFINITE_MEMORY_INDEX__URI=uri)
    with Installation(tmp_path / "home", environ) as one, contextlib.closing(way):
        client = one.serve()
        store(client, "Ada has green tea for breakfast")
        until(lambda: found_by_meaning(client) == 1, "it is found by meaning")
        way.cut()
        store(client, "Bert has black coffee for breakfast")
        reply = client.ask("retrieve_memory", query="breakfast")
        assert sorted(texts(reply)) == ["Ada has green tea for breakfast", "Bert has black coffee for breakfast"]
        assert "Milvus does not answer" in reply["note"]
        refused = client.ask("list_memories")
        assert refused["status"] == "ERROR"
        assert "index.uri" in refused["error"]
        assert TOKEN not in str(refused)
        way.open()
        until(lambda: found_by_meaning(client) == 2, "both are found by meaning", 180)
        assert client.ask("list_memories", scope="ALL")["total"] == 2


def test_a_wrong_token_is_said_and_never_shown(milvus: MilvusServer, tmp_path: Path) -> None:
    environ = place(milvus, fresh_database(), INFINITE_MEMORY_INDEX__TOKEN="root:not-the-password")
    environ["INFINITE_MEMORY_RECALL__WAIT_S"] = "5"
    with Installation(tmp_path / "home", environ) as one:
        client = one.serve()
        store(client, "Ada has green tea for breakfast")
        until(lambda: "index.token" in client.ask("list_memories")["error"], "the refusal names the setting", 180)
        reply = client.ask("list_memories")
        assert reply["error_code"] != "INTERNAL_ERROR"
        assert "not-the-password" not in one.command("config", "show").stdout + str(reply) + str(one.status())
