"""A soak over a cluster: clients at three daemons over one replica set and one Milvus, every part of which dies, freezes and is cut off.

The clients and their books are those of `scripts/soak` (`soak_users`); here they change from one daemon to another, and write some
memories together. After each fault every index must be level within a minute. At the end the books are held against every daemon,
MongoDB and Milvus.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pymilvus import MilvusClient
from pymongo import MongoClient

from infinite_memory.index.milvus import schema
from scripts.soak_checks import ask, bring_back_hidden, check_books, check_logs, check_mongodb
from scripts.soak_cluster_parts import LEVEL_S, Faults, Parts
from scripts.soak_run import choose_faults
from scripts.soak_users import MIB, PATIENCE_S, Shared, User, word_of
from tests.processes import Client, Installation, rss_bytes

Json = dict[str, Any]
PAUSE_S = (2.0, 6.0)  # between faults
LOOK_AGAIN_S = 0.25
TOGETHER, TOGETHER_SCOPE = 8, "Together"  # memories that all clients change
RESTS, REST_S = 8, 0.5  # of some thirty steps that a client takes so many are rests, so long on average
ROWS_AT_ONCE = 1000
SAMPLED = 5  # memories of each client that each daemon is asked for by id, words and meaning: others at each


@dataclasses.dataclass
class ClusterShared(Shared):
    """What the clients share: the daemons too, and what is done to them just now."""

    homes: list[Installation] = dataclasses.field(default_factory=list)
    together: list[str] = dataclasses.field(default_factory=list)
    fault: str = "none"
    harmed: Callable[[], Installation | None] = lambda: None
    longest_s: dict[str, tuple[float, str]] = dataclasses.field(default_factory=dict)  # of a request, by fault
    lag_s: float = 0.0  # longest until what was written by another daemon was found


class ClusterUser(User):
    """A client that is now at one daemon, now at another."""

    soak: ClusterShared

    def __init__(self, soak: ClusterShared, number: int) -> None:
        self._written_at: dict[str, Installation] = {}
        super().__init__(soak, number)

    def _new_client(self) -> Client:
        self.installation = self._dice.choice(self.soak.homes)
        return super()._new_client()

    def _steps(self) -> list[Callable[[], None]]:
        own = [self._change_daemon, self._change_together, self._change_together, *[self._rest] * RESTS]
        return [*super()._steps(), *own]

    def _rest(self) -> None:
        """Think, as people do: a Milvus written in Python is not to be asked all the time by everybody."""
        time.sleep(self._dice.uniform(0, 2 * REST_S))

    def _ask(self, action: str, allowed: tuple[str, ...] = (), **fields: Any) -> Json:
        began, before, at = time.monotonic(), self.soak.fault, self.installation
        harmed = self.soak.harmed()
        reply = super()._ask(action, allowed, **fields)
        took_s, fault = time.monotonic() - began, self.soak.fault if before == "none" else before
        if at not in (harmed, self.soak.harmed()):
            longest = self.soak.longest_s.get(fault, (0.0, ""))
            self.soak.longest_s[fault] = max(longest, (round(took_s, 2), f"{action} {reply['status']}"))
        if reply["status"] == "OK" and action in ("store_memory", "store_memories", "update_memory", "restore_memory"):
            ids = [one.get("memory_id") for one in (reply, fields, *reply.get("results", ()))]
            self._written_at |= {one: at for one in ids if one is not None}
        return reply

    def _must_find(self, memory_id: str) -> None:
        """Find at once what this daemon wrote, and within a minute what another one did."""
        began = time.monotonic()
        patience_s = 0.0 if self._written_at.get(memory_id) is self.installation else LEVEL_S
        missed = self._look_for(memory_id)
        while missed and time.monotonic() - began < patience_s:
            time.sleep(LOOK_AGAIN_S)
            missed = self._look_for(memory_id)
            self.soak.lag_s = max(self.soak.lag_s, time.monotonic() - began)
        for one in missed:
            self._say(f"{one}, by {self.installation.home.name}, {patience_s:g} s later, fault {self.soak.fault}")

    def _change_daemon(self) -> None:
        if self._dice.random() < 0.3:
            self._client.close()
            self._client = self._new_client()

    def _change_together(self) -> None:
        """Change a memory that others change in the same moment."""
        text = self._text()
        self._ask("update_memory", memory_id=self._dice.choice(self.soak.together), content=text, tags=[word_of(text)])


class ClusterSoak:
    """One run."""

    def __init__(self, shared: ClusterShared, parts: Parts, faults: Faults, chosen: list[str]) -> None:
        self._shared, self._parts, self._faults, self._chosen = shared, parts, faults, chosen
        self._level_s: dict[str, float] = {}

    def run(self, clients: int, seconds: float) -> list[User]:
        """Let *clients* work for some time under faults; gives them with their books."""
        self._store_together()
        users: list[User] = [ClusterUser(self._shared, number) for number in range(clients)]
        threads = [threading.Thread(target=user.work, name=f"client {user.number}") for user in users]
        for thread in threads:
            thread.start()
        dice, end = random.Random(f"{self._shared.seed} faults"), time.monotonic() + seconds
        while self._chosen and time.monotonic() < end:
            time.sleep(dice.uniform(*PAUSE_S))
            self._do_harm(dice.choice(self._chosen))
        time.sleep(max(0.0, end - time.monotonic()))
        self._shared.calm.set()
        self._shared.over.set()
        for thread in threads:
            thread.join(2 * PATIENCE_S)
            if thread.is_alive():
                self._shared.wrong.append(f"{thread.name} hangs")
        return users

    def _store_together(self) -> None:
        client = self._shared.installation.serve("--scope", TOGETHER_SCOPE)
        for number in range(TOGETHER):
            reply = ask(client, "store_memory", content=f"zqt0x{number} before all")
            self._shared.together.append(reply["memory_id"])
        client.close()

    def _do_harm(self, name: str) -> None:
        shared = self._shared
        shared.counts[f"fault {name}"] += 1
        print(f"soak: {name}", file=sys.stderr, flush=True)
        shared.fault = name
        self._faults.do(name)
        level_s = self._parts.level_after()
        shared.fault = "none"
        if level_s is None:
            shared.wrong.append(f"not level {LEVEL_S:g} s after {name}: {json.dumps(self._parts.status())[:1500]}")
        else:
            self._level_s[name] = max(self._level_s.get(name, 0.0), level_s)

    def check(self, users: list[User]) -> Json:
        """Hold the books against every daemon, MongoDB and Milvus; then against new daemons."""
        shared, books = self._shared, [user.book for user in users]
        began = time.monotonic()
        with ThreadPoolExecutor(len(shared.homes)) as pool:
            counted = pool.map(lambda home: self._check_at(home, users), shared.homes)
            totals = {home.home.name: total for home, total in zip(shared.homes, counted, strict=True)}
        hidden = sum(len(book.hidden) for book in books)
        client = shared.installation.serve()
        for book in books:
            bring_back_hidden(shared, client, book)
        client.kill()
        check_mongodb(shared, users, self._parts.members.uri)
        used = [round(rss_bytes(pid) / MIB) for home in shared.homes if (pid := home.daemon_pid())]
        for home in shared.homes:
            if home.command("daemon", "stop").returncode:
                shared.wrong.append(f"the daemon of {home.home.name} does not stop when all is calm")
            check_logs(shared, home)
        totals["a new daemon"] = self._check_at(shared.homes[-1], users) - hidden
        if len(set(totals.values())) > 1:
            shared.wrong.append(f"memories by daemon: {totals}")
        self._check_milvus(totals["a new daemon"] + hidden, books_live={one for book in books for one in book.live})
        checked_s = round(time.monotonic() - began)
        return {
            "memories": totals["a new daemon"],
            "acknowledged": sum(len(book.live) + len(book.removed) for book in books),
            "in_doubt": sum(len(book.doubtful) + len(book.unknown) for book in books),
            "longest_until_level_s": self._level_s,
            "longest_lag_s": round(shared.lag_s, 1),
            "longest_request_s": {name: list(one) for name, one in sorted(shared.longest_s.items())},
            "daemons_mib": used,
            "checked_in_s": checked_s,
        }

    def _check_at(self, home: Installation, users: list[User]) -> int:
        client = home.serve()
        dice = random.Random(f"{self._shared.seed} {home.home.name}")
        total = check_books(
            self._shared, client, users, lambda book: dice.sample(list(book.live), min(SAMPLED, len(book.live)))
        )
        self._check_together(client, home)
        client.kill()
        return total

    def _read_documents(self) -> dict[str, Json]:
        """Return every live memory as MongoDB has it, read with the driver alone."""
        with MongoClient[Json](self._parts.members.uri) as mongo:
            database = mongo["infinite_memory"]
            return {
                str(document["_id"]): document
                for name in database.list_collection_names(filter={"name": {"$regex": "^mem_[0-9a-f]{24}$"}})
                for document in database[name].find({"deleted_at": None}, {"text": 1, "revision": 1})
            }

    def _check_together(self, client: Client, home: Installation) -> None:
        """What several clients changed is as MongoDB says, by its tag, its word and its meaning."""
        texts = {memory_id: str(document["text"]) for memory_id, document in self._read_documents().items()}
        for memory_id in self._shared.together:
            word = word_of(text := texts[memory_id])
            replies = {"tag": ask(client, "search_by_tag", tag=word)}
            for mode in ("text", "semantic"):
                replies[mode] = ask(
                    client, "retrieve_memory", query=text, mode=mode, scope=TOGETHER_SCOPE, top_k=TOGETHER
                )
            for mode, reply in replies.items():
                if (memory_id, text) not in {(one["memory_id"], one["text"]) for one in reply.get("results", ())}:
                    self._shared.wrong.append(
                        f"{home.home.name} has {memory_id} not as it is, by {mode}: {reply}"[:500]
                    )

    def _check_milvus(self, total: int, books_live: set[str]) -> None:
        """Read the rows with the library alone: one for each memory that there is, of its revision and with its vectors."""
        client = MilvusClient(uri=self._parts.milvus.uri, timeout=30)
        names = [name for name in client.list_collections() if name.startswith("infinite_memory_1_")]
        if len(names) != 1:
            self._shared.wrong.append(f"not one index in Milvus: {names}")
            return
        pages = client.query_iterator(
            names[0],
            batch_size=ROWS_AT_ONCE,
            filter=schema.MEMORIES,
            output_fields=[schema.MEMORY, schema.REVISION, schema.WINDOWS],
        )
        found = [row for page in iter(pages.next, []) for row in page]
        pages.close()
        client.close()
        rows = Counter(row[schema.MEMORY] for row in found)
        documents = self._read_documents()
        for row in found:
            revision = documents.get(row[schema.MEMORY], {}).get("revision")
            if row[schema.REVISION] != revision or not row[schema.WINDOWS]:
                self._shared.wrong.append(f"in Milvus not as in MongoDB, revision {revision}: {row}")
        if doubled := [one for one, times in rows.items() if times > 1]:
            self._shared.wrong.append(f"twice in Milvus: {doubled}")
        if missing := sorted(books_live - rows.keys()):
            self._shared.wrong.append(f"LOST in Milvus: {missing}")
        if len(rows) != total:
            self._shared.wrong.append(f"{len(rows)} memories in Milvus, {total} in MongoDB")


def main() -> int:
    """Run one soak; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak --cluster", description=__doc__)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and told")
    parser.add_argument("--faults", default="all", help="all, none, or names with commas between them")
    parser.add_argument("--standalone", action="store_true", help="Milvus' server 2.3.5 instead of its embedded form")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the logs of a run that went wrong")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"soak: {options.clients} clients, {options.minutes:g} minutes, seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="im-soak-") as name, contextlib.suppress(AssertionError):
        parts = Parts(Path(name), standalone=options.standalone)
        (Path(name) / "members").mkdir()
        with parts.running():
            shared = ClusterShared(parts.homes[0], seed, homes=parts.homes)
            faults = Faults(parts, random.Random(f"{seed} harm"))
            shared.harmed = lambda: faults.harmed
            chosen = choose_faults(options.faults, list(faults.all), parser)
            soak, figures = ClusterSoak(shared, parts, faults, chosen), {}
            try:
                figures = soak.check(soak.run(options.clients, 60 * options.minutes))
                for home in parts.homes:
                    home.check_loop()
            except AssertionError as exc:
                shared.wrong.append(f"the checks did not end, or a loop was held up: {exc}")
            report = {"seed": seed, **figures, "counts": dict(sorted(shared.counts.items())), "wrong": shared.wrong}
            print(json.dumps(report, indent=2, ensure_ascii=False), flush=True)
            if shared.wrong and options.keep is not None:
                for home in parts.homes:
                    shutil.copytree(home.home / "logs", options.keep / home.home.name, dirs_exist_ok=True)
    return 1 if shared.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
