"""What a peer needs for the same work: mcp-memory-service with 10,000 memories of the same vectors, in one run.

    scripts/bench peers [--memories 10000] [--stores 100] [--recalls 200] [--windows 10]
        [--cache FOLDER] [--report FILE] [--unpadded]

The peer gets an environment of its own (kept in the cache folder), our model, and the memories straight into its SQLite file; ours are
written with their vectors through the store. Then both are asked in turn through the official MCP client: stores and recalls of
something new each time, five results, each product with its own defaults. Printed: CPU of an operation (ours: daemon and client
together, MongoDB's beside it; the peer's: its process; less what each uses when idle), wall clock, how soon the reply to the handshake
comes, the memory of ten windows, and how many times more of each the peer needs. The run fails when the peer does not embed with the model.

The model's tokenizer file asks for padding every text to 128 tokens, which the peer does and we do not; ``--unpadded`` takes that out
of the peer's copy. The memories are years old: before each store the peer compares the new one with all that it stored within a day,
so a busy day would make its stores dearer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from peers_parts import report  # noqa: E402
from peers_parts.ours import Ours  # noqa: E402
from peers_parts.peer import NAME, PYTHON, Peer  # noqa: E402
from peers_parts.report import Operation, Result  # noqa: E402
from peers_parts.windows import Server, Window, cpu_s, memory_bytes, opened, tree  # noqa: E402
from scale_parts import texts  # noqa: E402
from scale_parts.homes import MODEL, Corpus  # noqa: E402

from infinite_memory.embedding.base import Embedder  # noqa: E402
from infinite_memory.embedding.factory import open_embedder  # noqa: E402

HANDSHAKES = 5
RESULTS = 5
ALIKE = 0.75  # cosine; the peer refuses from 0.85 on
IDLE_S = 10.0
SETTLE_S = 1.0  # what a server still does after its last reply belongs to the work

Work = Callable[[Window, int], Awaitable[None]]


async def measure(
    made: Result, ours: Ours, peer: Server, embedder: Embedder, options: argparse.Namespace, checked: Peer
) -> None:
    """Do everything and note the figures in *made*."""
    for _ in range(HANDSHAKES):
        made.handshakes["peer"].append(await handshake(peer))
        ours.stop()
        made.handshakes["ours, no daemon"].append(await handshake(ours.server))
        made.handshakes["ours"].append(await handshake(ours.server))
    async with opened(peer) as theirs, opened(ours.server) as own:
        await own.search("is there anything about a lighthouse?", RESULTS)
        await theirs.search("is there anything about a lighthouse?", RESULTS)
        told = stories(options.stores, options.memories, embedder)
        at_rest = await idle(ours, own, theirs)
        made.idle_ms = 1000 * float(at_rest[0]), 1000 * float(at_rest[1]), 1000 * float(at_rest[2])

        async def store(window: Window, at: int) -> None:
            await window.store(told[at], ("asked",))

        made.operations["store"] = await compared(ours, own, theirs, at_rest, options.stores, store)
        checked.check_vector(told[0], embedder.embed([told[0]])[0])
        questions = texts.questions(options.recalls, options.memories)

        async def recall(window: Window, at: int) -> None:
            reply = await window.search(questions[at], RESULTS)
            if not any(name in reply for name in texts.PEOPLE):
                raise SystemExit(f"{window.server.name} found nothing for {questions[at]!r}: {reply[:300]}")

        made.operations["retrieve"] = await compared(ours, own, theirs, at_rest, options.recalls, recall)
    for server in (peer, ours.server):
        await many_windows(made, ours, server, options.windows)


def run(work: Coroutine[None, None, None]) -> None:
    """Run *work*; what ended it comes out as it was raised, and not in the groups of the client's tasks."""
    try:
        asyncio.run(work)
    except BaseExceptionGroup as group:
        problem: BaseException = group
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        raise problem from None


async def handshake(server: Server) -> float:
    """Seconds from the start of a window to the reply to its handshake."""
    async with opened(server) as window:
        return window.handshake_s


def used(ours: Ours, own: Window, theirs: Window) -> np.ndarray:
    """CPU seconds so far: ours, MongoDB's, the peer's."""
    return np.asarray([ours.cpu_s(own), ours.mongod_cpu_s(), cpu_s(tree(theirs.process))])


async def idle(ours: Ours, own: Window, theirs: Window) -> np.ndarray:
    """CPU seconds a second when nobody asks anything."""
    before = used(ours, own, theirs)
    await asyncio.sleep(IDLE_S)
    return (used(ours, own, theirs) - before) / IDLE_S


async def compared(ours: Ours, own: Window, theirs: Window, at_rest: np.ndarray, count: int, work: Work) -> Operation:
    """Do one kind of work on both, in turn; what either uses when idle is not counted, for most of the time it waits for the other."""
    made = Operation(count)
    before, began = used(ours, own, theirs), time.perf_counter()
    for at in range(count):
        for name, window in (("ours", own), ("peer", theirs)):
            await made.timed(name, work(window, at))
    await asyncio.sleep(SETTLE_S)
    took = time.perf_counter() - began
    cost = 1000 * (used(ours, own, theirs) - before - at_rest * took) / count
    made.ours_ms, made.mongod_ms, made.peer_ms = map(float, cost)
    return made


async def many_windows(made: Result, ours: Ours, server: Server, count: int) -> None:
    """Open windows, ask one question in each, and note the memory of all that runs for them."""
    asked = texts.questions(count, count)
    async with AsyncExitStack() as stack:
        windows = [await stack.enter_async_context(opened(server)) for _ in range(count)]
        for window, question in zip(windows, asked, strict=True):
            await window.search(question, RESULTS)
        processes = [one for window in windows for one in tree(window.process)]
        if server is not ours.server:
            made.memory["peer"] = memory_bytes(processes)
            return
        made.memory["ours"] = memory_bytes([*processes, ours.daemon()])
        made.memory["MongoDB's"] = memory_bytes([ours.mongod()])


def stories(count: int, seed: int, embedder: Embedder) -> list[str]:
    """Give new texts to store that differ in meaning: the peer refuses what is like something that it stored a short while ago."""
    chosen: list[str] = []
    kept = np.empty((0, embedder.dim), np.float32)
    sentences = texts.parents(seed)
    random.Random(seed).shuffle(sentences)
    for sentence in sentences:
        vector = embedder.embed([sentence])
        if not len(kept) or float((kept @ vector[0]).max()) < ALIKE:
            chosen.append(sentence)
            kept = np.concatenate((kept, vector))
        if len(chosen) == count:
            return chosen
    raise SystemExit(f"there are only {len(chosen)} texts that differ enough")


def main() -> int:
    """Measure and print; gives 1 when a ratio is below its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--stores", type=int, default=100)
    parser.add_argument("--recalls", type=int, default=200)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "infinite-memory-scale")
    parser.add_argument("--python", default=PYTHON, help="an interpreter whose SQLite loads extensions")
    parser.add_argument("--unpadded", action="store_true", help="take the padding out of the peer's tokenizer")
    parser.add_argument("--report", type=Path, help="write the section of that page")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="peers-"))
    peer = Peer(options.cache, folder, options.python)
    made = Result(NAME, options.memories, options.windows, padded=not options.unpadded)
    try:
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
        peer.install()
        peer.give_model(padded=not options.unpadded)
        corpus = Corpus(options.cache)
        peer.fill(corpus, options.memories)
        server = Server(NAME, peer.command, peer.environ, folder / "peer.log", "memory_store", "memory_search", "limit")
        with Ours(folder, corpus, options.memories) as ours:
            run(measure(made, ours, server, open_embedder(MODEL), options, peer))
        if "hash embeddings" in server.log.read_text("utf-8", "replace"):
            raise SystemExit(f"{NAME} fell back to hash embeddings")
        well = report.show(made)
        if options.report:
            report.write(options.report, made)
        print(f"load at the end {os.getloadavg()[0]:.2f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
