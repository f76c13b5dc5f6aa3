"""One client cannot stall others: whatever it sends, the daemon's event loop is free, and another client is answered meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest

from tests.processes import Client, Installation, Json

PROMPT_S = 10.0  # other clients get their answers; on a busy machine an answer takes a while, but none takes as long as the large ones


def line(**fields: object) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def times(text: str, chars: int) -> str:
    return (text * (chars // len(text) + 1))[:chars]


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a long time query": lambda: line(
        action="recall_memory_by_time", time_query=times("last week and monday 2015 ", 10_000)
    ),
    "a time query at the limit": lambda: line(action="recall_memory_by_time", time_query=times("a ", 999)),
    "a time query in a filter": lambda: line(
        action="retrieve_memory", query="tea", filter={"time_query": times("年月日上周", 10_000)}
    ),
    "tags in a text": lambda: line(action="store_memory", content="x", metadata={"tags": times("ab,", 15_000_000)}),
    "tags in a list": lambda: line(action="store_memory", content="x", metadata={"tags": ["ab"] * 2_000_000}),
    "tags that repeat": lambda: line(action="list_memories", filter={"tags": ["ab"] * 60_000}),
    "large metadata": lambda: line(
        action="store_memory", content="x", metadata={f"k{number}": 1 for number in range(60_000)}
    ),
    "unknown fields": lambda: line(action="ping", **{f"k{number}": 1 for number in range(60_000)}),
    "many empty lists": lambda: b'{"action": "ping", "x": [' + b"[]," * 2_000_000 + b"1]}\n",
    "many empty texts": lambda: b'{"action": "ping", "x": [' + b'"",' * 2_000_000 + b"1]}\n",
    "escapes without an end": lambda: b'{"action": "ping", "x": "' + b"\\u0041" * 1_000_000 + b"\n",
    "no JSON": lambda: b"[" * 15_000_000 + b"\n",
    "a long id": lambda: line(action="get_memory", memory_id="a" * 15_000_000),
    "a long cursor": lambda: line(action="list_memories", cursor="a" * 15_000_000),
    "a long echo": lambda: line(action="ping", request_id=["a"] * 60_000),
    "a question of many words": lambda: line(
        action="retrieve_memory", query=times(" ".join(f"w{number}x" for number in range(2000)), 10_000)
    ),
    "a question of many quotes": lambda: line(action="retrieve_memory", query=times('"tea a" ', 10_000)),
    "a thousand bad entries": lambda: line(action="store_memories", memories=[1] * 1000),
    "a thousand memories": lambda: line(
        action="store_memories",
        memories=[{"content": f"memory {number}", "metadata": {"tags": [f"t{number}"]}} for number in range(1000)],
    ),
    "a list of a thousand": lambda: line(action="list_memories", limit=1000),
    "a thousand matches": lambda: line(action="retrieve_memory", query="memory", top_k=1000),
    "statistics": lambda: line(action="get_memory_stats"),
    "deduplication": lambda: line(action="optimize_memory", operations=["deduplicate", "merge_similar"], dry_run=True),
    "a large deletion": lambda: line(action="delete_memory", target={"scope": "Global"}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_others_are_answered_while_one_sends(shared: Installation, what: str) -> None:
    hostile, other = shared.serve(), shared.serve()
    assert other.ask("ping")["status"] == "OK"
    done = threading.Event()
    replies: list[Json] = []

    def send(client: Client, request: bytes) -> None:
        client.send_bytes(request)
        replies.append(client.reply())
        done.set()

    sending = threading.Thread(target=send, args=(hostile, HOSTILE[what]()), daemon=True)
    sending.start()
    while not done.wait(0.02):
        began = time.monotonic()
        assert other.ask("ping")["status"] == "OK"
        assert time.monotonic() - began < PROMPT_S
    sending.join()
    assert replies[0]["status"] in ("OK", "ERROR")
    if replies[0]["status"] == "ERROR":
        assert replies[0]["error_code"] != "INTERNAL_ERROR", replies[0]
    shared.check_loop()


def test_a_question_is_embedded_before_a_long_text(shared: Installation) -> None:
    storing, asking = shared.serve(), shared.serve()
    assert asking.ask("retrieve_memory", query="warm up")["status"] == "OK"
    storing.ask("store_memory", content=times("a walk along the river with the dog ", 1_000_000))
    for number in range(10):
        began = time.monotonic()
        reply = asking.ask("retrieve_memory", query=f"question {number}", mode="semantic")
        assert reply["status"] == "OK", reply
        assert time.monotonic() - began < PROMPT_S
    shared.check_loop()
