"""A power cut in the middle of storing: whatever was answered OK is found by id, by tag and by meaning, and none twice."""

from __future__ import annotations

import threading
from typing import Any

from tests.processes import LONG, Client, Installation, until

MEMORIES = 500 if LONG else 120
CLIENTS = 3
_ANIMALS = ("heron", "badger", "lynx", "otter", "falcon", "salmon", "beetle", "hedgehog", "raven", "walrus")
_PLACES = ("Lisbon", "Oslo", "Kyoto", "Nairobi", "Quito", "Perth", "Tbilisi", "Hanoi", "Dublin", "Havana", "Riga")


def text_of(number: int) -> str:
    return f"Number {number}: the {_ANIMALS[number % 10]} was seen near {_PLACES[number % 11]} on day {number}"


def test_killing_everything_in_the_middle_of_storing_loses_nothing_and_doubles_nothing(
    installation: Installation,
) -> None:
    answered: dict[int, dict[str, Any]] = {}
    clients = [installation.serve() for _ in range(CLIENTS)]

    def store(client: Client, first: int) -> None:
        numbers = list(range(first, MEMORIES, CLIENTS))
        client.send(
            *({"action": "store_memory", "content": text_of(n), "tags": [f"day-{n}"], "request_id": n} for n in numbers)
        )
        for _ in numbers:
            reply = client.reply()
            answered[reply["request_id"]] = reply

    threads = [threading.Thread(target=store, args=pair) for pair in zip(clients, range(CLIENTS), strict=True)]
    for thread in threads:
        thread.start()
    until(lambda: len(answered) >= MEMORIES // 3, "a third is stored")
    installation.kill_everything()
    for thread in threads:
        thread.join(60)
    assert sorted(answered) == list(range(MEMORIES)), "each request got one answer"
    stored = {n: reply["memory_id"] for n, reply in answered.items() if reply["status"] == "OK"}
    failed = [reply for reply in answered.values() if reply["status"] != "OK"]
    assert len(stored) >= MEMORIES // 3
    assert failed
    assert {reply["error_code"] for reply in failed} == {"CONNECTION_ERROR"}

    client = installation.serve()
    for number, memory_id in stored.items():
        text = text_of(number)
        assert client.ask("get_memory", memory_id=memory_id)["memory"]["text"] == text
        assert [one["memory_id"] for one in client.ask("search_by_tag", tag=f"day-{number}")["results"]] == [memory_id]
        nearest = client.ask("retrieve_memory", query=text, top_k=1)["results"]
        assert [one["memory_id"] for one in nearest] == [memory_id]
    listed = client.ask("list_memories", limit=1000)
    texts = [one["text"] for one in listed["results"]]
    assert len(texts) == len(set(texts)) == listed["total"], "none is there twice"
