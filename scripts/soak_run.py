"""A soak: N clients with mixed commands, faults at random, M minutes, a seed; at the end, was anything lost?

Each client keeps a book of its own: what was acknowledged, what was deleted, and what is in doubt because the answer was
CONNECTION_ERROR. The checks at the end hold the book against the memory: acknowledged is there, once, by id and by tag;
removed for good is not; sidecar and MongoDB agree; no daemon's memory grew; nobody waited for ever.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.processes import Client, Installation, rss_bytes

Json = dict[str, Any]
MIB = 1 << 20
PATIENCE_S = 90.0  # no request takes this long, whatever happens at the same moment
GROWTH_BYTES = 200 * MIB  # a daemon may grow by this after its first seconds: caches fill, memories come
_WORDS = (
    "heron", "badger", "lynx", "otter", "falcon", "Lisbon", "Oslo", "Kyoto", "Quito", "tea", "coffee", "bread", "rain", "snow",
)  # fmt: skip


@dataclasses.dataclass
class Book:
    """What one client knows of its memories."""

    live: dict[str, set[str]] = dataclasses.field(default_factory=dict)  # id to the texts that it may have
    hidden: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    removed: set[str] = dataclasses.field(default_factory=set)
    doubtful: dict[str, set[str]] = dataclasses.field(default_factory=dict)  # deleted or restored, perhaps
    unknown: set[str] = dataclasses.field(default_factory=set)  # texts whose storing was not answered OK


@dataclasses.dataclass
class Soak:
    """One run."""

    installation: Installation
    seed: int
    faults: list[str]
    over: threading.Event = dataclasses.field(default_factory=threading.Event)
    wrong: list[str] = dataclasses.field(default_factory=list)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    slowest_s: float = 0.0
    memory: dict[int, tuple[float, int, int]] = dataclasses.field(default_factory=dict)  # pid to since, first, last

    def run(self, clients: int, seconds: float) -> list[Book]:
        """Let *clients* work for some time under faults; gives their books."""
        users = [User(self, number) for number in range(clients)]
        threads = [threading.Thread(target=user.work, name=f"user {user.number}") for user in users]
        threads += [threading.Thread(target=self._do_harm), threading.Thread(target=self._watch_memory)]
        for thread in threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        for thread in threads:
            thread.join(2 * PATIENCE_S)
            if thread.is_alive():
                self.wrong.append(f"{thread.name} hangs")
        return [user.book for user in users]

    def _do_harm(self) -> None:
        dice = random.Random(f"{self.seed} faults")
        harms: dict[str, Callable[[], None]] = {
            "kill-daemon": lambda: _signal(self.installation.daemon_pid(), signal.SIGKILL),
            "stop-daemon": lambda: _signal(self.installation.daemon_pid(), signal.SIGTERM),
            "kill-mongod": lambda: _signal(self.installation.mongod_pid(), signal.SIGKILL),
            "freeze-mongod": lambda: _freeze(self.installation.mongod_pid(), dice.uniform(0.5, 8)),
            "freeze-daemon": lambda: _freeze(self.installation.daemon_pid(), dice.uniform(0.5, 4)),
            "kill-everything": self.installation.kill_everything,
            "damage-sidecar": self._damage_sidecar,
        }
        chosen = [name for name in harms if name in self.faults or "all" in self.faults]
        while chosen and not self.over.wait(dice.uniform(4, 12)):
            name = dice.choice(chosen)
            self.counts[f"fault {name}"] += 1
            try:
                harms[name]()
            except Exception as problem:
                self.wrong.append(f"the fault {name} failed: {problem!r}")

    def _damage_sidecar(self) -> None:
        with contextlib.suppress(OSError):
            for file in (self.installation.home / "sidecars").rglob("*"):
                if file.is_file() and file.stat().st_size > 1000:
                    os.truncate(file, file.stat().st_size // 2)
        _signal(self.installation.daemon_pid(), signal.SIGKILL)

    def _watch_memory(self) -> None:
        while not self.over.wait(1):
            pid = self.installation.daemon_pid()
            with contextlib.suppress(OSError):
                if pid is not None:
                    now = time.monotonic()
                    since, first, _ = self.memory.get(pid, (now, 0, 0))
                    used = rss_bytes(pid)
                    self.memory[pid] = (since, first or (used if now - since > 8 else 0), used)


class User:
    """One client with its book."""

    def __init__(self, soak: Soak, number: int) -> None:
        self.soak, self.number, self.book = soak, number, Book()
        self._dice = random.Random(f"{soak.seed} {number}")
        self._scope, self._tag = f"Client {number}", f"client-{number}"
        self._client = self._new_client()
        self._stored = 0

    def work(self) -> None:
        """Send one request after the other until the soak is over."""
        steps = [self._store] * 9 + [self._read] * 3 + [self._recall] * 4 + [self._update] * 2
        steps += [self._hide, self._remove, self._bring_back, self._list, self._leave]
        while not self.soak.over.is_set():
            self._dice.choice(steps)()
        with contextlib.suppress(Exception):
            self._client.close()

    def _ask(self, action: str, **fields: Any) -> Json:
        began = time.monotonic()
        try:
            self._client.send({"action": action, **fields})
            reply = self._client.reply(PATIENCE_S)
        except (AssertionError, OSError) as problem:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._client.process.wait(5)
            if self._client.process.poll() is None:
                self.soak.wrong.append(f"{action} of client {self.number} hangs: {problem}")
            elif self._client.process.returncode not in (-signal.SIGKILL, 1):
                self.soak.wrong.append(f"client {self.number} ended: {problem}")
            self._client.kill()
            self._client = self._new_client()
            reply = {"status": "ERROR", "error_code": "CONNECTION_ERROR", "error": str(problem)}
        self.soak.slowest_s = max(self.soak.slowest_s, time.monotonic() - began)
        self.soak.counts[f"{action} {reply.get('error_code', 'OK')}"] += 1
        if reply["status"] != "OK" and reply["error_code"] not in ("CONNECTION_ERROR", "NOT_FOUND", "EMBEDDING_ERROR"):
            self.soak.wrong.append(f"{action} {fields}: {reply}"[:500])
        return reply

    def _new_client(self) -> Client:
        return self.soak.installation.serve("--scope", self._scope)

    def _some(self, of: dict[str, set[str]]) -> str | None:
        return self._dice.choice(list(of)) if of else None

    def _text(self) -> str:
        self._stored += 1
        return f"{self._scope} no. {self._stored}: {' '.join(self._dice.choices(_WORDS, k=8))}"

    def _store(self) -> None:
        text = self._text()
        reply = self._ask("store_memory", content=text, tags=[self._tag])
        if reply["status"] == "OK":
            self.book.live[reply["memory_id"]] = {text}
            if reply["scope"] != self._scope:
                self.soak.wrong.append(f"stored into {reply['scope']} and not into {self._scope}")
        else:
            self.book.unknown.add(text)

    def _read(self) -> None:
        if memory_id := self._some(self.book.live):
            reply = self._ask("get_memory", memory_id=memory_id)
            if reply["status"] == "OK" and reply["memory"]["text"] not in self.book.live[memory_id]:
                self.soak.wrong.append(f"{memory_id} says {reply['memory']['text']!r}")
            elif reply.get("error_code") == "NOT_FOUND":
                self.soak.wrong.append(f"{memory_id} was acknowledged and is not found")

    def _recall(self) -> None:
        reply = self._ask("retrieve_memory", query=" ".join(self._dice.choices(_WORDS, k=3)), top_k=5)
        found = {one["memory_id"] for one in reply.get("results", ())}
        if gone := found & (self.book.removed | self.book.hidden.keys()):
            self.soak.wrong.append(f"{gone} was deleted and is recalled")

    def _update(self) -> None:
        if memory_id := self._some(self.book.live):
            text = self._text()
            reply = self._ask("update_memory", memory_id=memory_id, content=text)
            self.book.live[memory_id] = {text} if reply["status"] == "OK" else self.book.live[memory_id] | {text}

    def _hide(self) -> None:
        self._delete("soft")

    def _remove(self) -> None:
        self._delete("hard")

    def _delete(self, mode: str) -> None:
        if memory_id := self._some(self.book.live):
            reply = self._ask("delete_memory", target={"memory_id": memory_id}, forget_mode=mode)
            texts = self.book.live.pop(memory_id)
            if reply["status"] != "OK":
                self.book.doubtful[memory_id] = texts
            elif reply["deleted_count"] != 1:
                self.soak.wrong.append(f"{memory_id} was acknowledged and there was nothing to delete: {reply}")
            elif mode == "soft":
                self.book.hidden[memory_id] = texts
            else:
                self.book.removed.add(memory_id)

    def _bring_back(self) -> None:
        if memory_id := self._some(self.book.hidden):
            reply = self._ask("restore_memory", memory_id=memory_id)
            texts = self.book.hidden.pop(memory_id)
            if reply["status"] == "OK":
                self.book.live[memory_id] = texts
            elif reply["error_code"] == "NOT_FOUND":
                self.soak.wrong.append(f"{memory_id} was hidden and cannot be brought back: {reply}")
            else:
                self.book.doubtful[memory_id] = texts

    def _list(self) -> None:
        self._ask("search_by_tag", tag=self._tag, limit=20)

    def _leave(self) -> None:
        """Die now and then in the middle of a request, as a window does that is closed."""
        if self._dice.random() < 0.2:
            text = self._text()
            self.book.unknown.add(text)
            with contextlib.suppress(OSError):
                self._client.send({"action": "store_memory", "content": text, "tags": [self._tag]})
            self._client.kill()
            self._client = self._new_client()


def check(soak: Soak, books: list[Book]) -> Json:
    """Hold the books against the memory; faults go to ``soak.wrong``. Gives figures."""
    client = soak.installation.serve()

    def ask(action: str, **fields: Any) -> Json:
        for _ in range(20):
            reply = client.ask(action, **fields)
            if reply.get("error_code") != "CONNECTION_ERROR":
                return reply
            time.sleep(1)
        raise AssertionError(f"{action} is not answered when all is calm: {reply}")

    for number, book in enumerate(books):
        tagged: dict[str, str] = {}
        cursor: str | None = None
        while True:
            page = ask("search_by_tag", tag=f"client-{number}", limit=500, cursor=cursor)
            tagged |= {one["memory_id"]: one["text"] for one in page["results"]}
            if (cursor := page["next_cursor"]) is None:
                break
        for memory_id, texts in book.live.items():
            reply = ask("get_memory", memory_id=memory_id)
            if reply["status"] != "OK" or reply["memory"]["text"] not in texts:
                soak.wrong.append(f"LOST: {memory_id} {texts}: {reply}"[:500])
            if memory_id not in tagged:
                soak.wrong.append(f"LOST by tag: {memory_id} {texts}")
        for memory_id in book.removed | book.hidden.keys():
            if memory_id in tagged or ask("get_memory", memory_id=memory_id)["status"] == "OK":
                soak.wrong.append(f"{memory_id} was deleted and is there")
        for memory_id in book.removed:
            if ask("restore_memory", memory_id=memory_id)["status"] == "OK":
                soak.wrong.append(f"{memory_id} was removed for good and came back")
        known = book.live.keys() | book.doubtful.keys()
        for memory_id, text in tagged.items():
            if memory_id not in known and text not in book.unknown:
                soak.wrong.append(f"{memory_id} is there and nobody stored it: {text!r}")
        if doubled := [text for text, times in Counter(tagged.values()).items() if times > 1]:
            soak.wrong.append(f"stored twice: {doubled}")
        for memory_id in list(book.live)[:10]:
            hits = ask(
                "retrieve_memory", query=tagged.get(memory_id, "?"), filter={"scope": f"Client {number}"}, top_k=10
            )
            if memory_id not in {one["memory_id"] for one in hits["results"]}:
                soak.wrong.append(f"{memory_id} is not found by its own words")
    stats = ask("get_memory_stats")["stats"]
    if stats["sidecar"]["count"] != stats["total_memories"]:
        soak.wrong.append(f"the sidecar has {stats['sidecar']['count']}, MongoDB {stats['total_memories']}")
    compared = ask("optimize_memory", operations=["check_sidecar"])
    if compared["counts"]["check_sidecar"]:
        soak.wrong.append(f"the sidecar was not level with MongoDB: {compared}")
    grown = {pid: last - first for pid, (_, first, last) in soak.memory.items() if first}
    for pid, more in grown.items():
        if more > GROWTH_BYTES:
            soak.wrong.append(f"daemon {pid} grew by {more / MIB:.0f} MiB")
    return {
        "acknowledged": sum(len(book.live) + len(book.hidden) + len(book.removed) for book in books),
        "live": sum(len(book.live) for book in books),
        "removed": sum(len(book.removed) for book in books),
        "in_doubt": sum(len(book.doubtful) + len(book.unknown) for book in books),
        "total_memories": stats["total_memories"],
        "daemons_seen": len(soak.memory),
        "most_growth_mib": round(max(grown.values(), default=0) / MIB, 1),
        "slowest_request_s": round(soak.slowest_s, 1),
    }


def main() -> int:
    """Run one soak; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and told")
    parser.add_argument("--faults", default="all", help="all, none, or names with commas between them")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"soak: {options.clients} clients, {options.minutes:g} minutes, seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="im-soak-") as folder:
        home = Path(folder) / "home"
        environ = {"INFINITE_MEMORY_MONGODB__TIMEOUT_S": "2", "INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "5"}
        with Installation(home, environ) as installation:
            soak = Soak(installation, seed, options.faults.split(","))
            books = soak.run(options.clients, 60 * options.minutes)
            try:
                figures = check(soak, books)
            except AssertionError as problem:
                soak.wrong.append(f"the checks did not end: {problem}")
                figures = {}
    report = {"seed": seed, **figures, "requests": dict(sorted(soak.counts.items())), "wrong": soak.wrong}
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 1 if soak.wrong else 0


def _signal(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _freeze(pid: int | None, seconds: float) -> None:
    if pid is not None:
        _signal(pid, signal.SIGSTOP)
        time.sleep(seconds)
        _signal(pid, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
