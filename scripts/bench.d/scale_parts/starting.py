"""How soon a home is searchable: after a plain start, with its sidecar lost, with everything derived lost; and who waits for a save."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from infinite_memory.paths import Home
from scale_parts.running import QUESTION, Client, Running

SETTLED_S = 2.0


def measure(home: Path, size: int) -> dict[str, float]:
    """Start the daemon in the states that a home may be in; leaves everything built and saved."""
    sidecars = Home(home, explicit=True).sidecars
    shutil.rmtree(sidecars, ignore_errors=True)
    made: dict[str, float] = {}
    with Running(home, pinned=False) as running:
        made["everything derived built anew, s"] = running.until_searchable()
        made["longest wait of another beside a save, ms"] = _longest_wait(running)
    with Running(home, pinned=False) as running:
        made["start to searchable, s"] = running.until_searchable()
    for generation in sidecars.glob("generation-*"):
        shutil.rmtree(generation)
    with Running(home, pinned=False) as running:
        made["sidecar lost: first answer by words, s"] = _until_words(running)
        running.client.ask("retrieve_memory", query=QUESTION)  # reads the vocabulary, once
        # This one waits for the vectors: to ask for them again and again would be a load.
        running.client.ask("retrieve_memory", query=QUESTION, mode="semantic")
        running.until_searchable()
        whole = time.perf_counter() - running.began
        made["sidecar lost: searchable again, s"] = whole
        made["sidecar lost: rebuilt memories a second"] = size / (whole - made["start to searchable, s"] + 1e-9)
    return made


def _until_words(running: Running) -> float:
    """Seconds from the start to the first answer by words."""
    while True:
        reply = running.client.ask("retrieve_memory", query=QUESTION, mode="text")
        if reply["status"] == "OK" and reply["results"]:
            return time.perf_counter() - running.began
        time.sleep(0.02)


def _longest_wait(running: Running) -> float:
    """Milliseconds that a reader waited at most while memories were stored and saved (with training, after a rebuild)."""
    reader = Client(running.home)
    memory_id = reader.get("list_memories", limit=1)["results"][0]["memory_id"]
    longest, stop = [0.0], threading.Event()

    def read() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            reader.get("get_memory", memory_id=memory_id)
            longest[0] = max(longest[0], time.perf_counter() - began)

    thread = threading.Thread(target=read)
    thread.start()
    running.client.get("optimize_memory", operations=["compact"])
    time.sleep(SETTLED_S)
    stop.set()
    thread.join()
    reader.end()
    return 1000 * longest[0]
