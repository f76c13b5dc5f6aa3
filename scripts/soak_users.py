"""The clients of a soak: each sends one request after the other and keeps a book of what it was told.

Half of them speak the action loop, half MCP. What a book says is what the memory promised: a text that was acknowledged is
there from that moment on, one that was deleted is not; whatever was answered with an error may be either. Every request has a
number of its own, which the reply must bear, or a reply that went astray would pass for the next one's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.processes import Client, Installation

Json = dict[str, Any]
MIB = 1 << 20
PATIENCE_S = 90.0  # no request takes this long, whatever happens at the same moment
_WORDS = (
    "heron", "badger", "lynx", "otter", "falcon", "Lisbon", "Oslo", "Kyoto", "Quito", "tea", "coffee", "bread", "rain", "snow",
)  # fmt: skip


@dataclasses.dataclass
class Book:
    """What one client knows of its memories."""

    live: dict[str, set[str]] = dataclasses.field(default_factory=dict)  # id to the texts that it may have
    hidden: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    removed: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    doubtful: dict[str, set[str]] = dataclasses.field(default_factory=dict)  # deleted or restored, perhaps
    unknown: set[str] = dataclasses.field(default_factory=set)  # texts whose storing was not answered OK


@dataclasses.dataclass
class Shared:
    """What all clients of one soak share."""

    installation: Installation
    seed: int
    over: threading.Event = dataclasses.field(default_factory=threading.Event)
    calm: threading.Event = dataclasses.field(default_factory=threading.Event)  # no faults any more, nor hard deletions
    wrong: list[str] = dataclasses.field(default_factory=list)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")


def word_of(text: str) -> str:
    """Give the word that a text of the soak has alone."""
    return text.split(maxsplit=1)[0]


class User:
    """One client with its book."""

    def __init__(self, soak: Shared, number: int) -> None:
        self.soak, self.number, self.book = soak, number, Book()
        self.installation = soak.installation
        self.scope, self.tag = f"Client {number}", f"client-{number}"
        self._dice = random.Random(f"{soak.seed} {number}")
        self._is_mcp = number % 2 == 1
        self._sent = self._stored = 0
        self._client = self._new_client()

    def work(self) -> None:
        """Send one request after the other until the soak is over."""
        steps = self._steps()
        while not self.soak.over.is_set():
            self._dice.choice(steps)()
            if self._dice.random() < 0.003:
                self._send_too_much()
        with contextlib.suppress(Exception):
            if (code := self._client.close()) != 0:
                self._say(f"the client ended with {code}: {self._client.errors()}")

    def _steps(self) -> list[Callable[[], None]]:
        """Return what is done, as often as it is there."""
        steps = [self._store] * 8 + [self._store_several, self._read, self._read, self._find, self._find, self._recall]
        steps += [self._recall, self._update, self._update, self._hide, self._remove, self._bring_back, self._list]
        return [*steps, self._leave]

    # one request

    def _ask(self, action: str, allowed: tuple[str, ...] = (), **fields: Any) -> Json:
        began = time.monotonic()
        self._sent += 1
        try:
            reply = self._exchange(action, fields)
        except (AssertionError, OSError) as exc:
            reply = self._left_alone(action, exc)
        took_s = time.monotonic() - began
        self.soak.slowest = max(self.soak.slowest, (took_s, f"{action} of client {self.number}"))
        code = reply.get("error_code", "OK")
        self.soak.counts[f"{action} {code}"] += 1
        if reply["status"] != "OK" and code not in ("CONNECTION_ERROR", *allowed):
            self._say(f"{action} {fields}: {reply}")
        return reply

    def _exchange(self, action: str, fields: Json) -> Json:
        if not self._is_mcp:
            self._client.send({"action": action, "request_id": self._sent, **fields})
            reply = self._client.reply(PATIENCE_S)
            if reply.get("request_id") != self._sent:
                self._say(f"request {self._sent} was answered with {reply}")
            return reply
        call = {"name": action, "arguments": fields}
        self._client.send({"jsonrpc": "2.0", "id": self._sent, "method": "tools/call", "params": call})
        reply = self._answer()
        if reply.get("id") != self._sent:
            self._say(f"request {self._sent} was answered with {reply}")
        if "error" in reply:
            if reply["error"]["code"] != -32603:
                self._say(f"{action}: {reply}")
            return {"status": "ERROR", "error_code": "CONNECTION_ERROR", "error": reply["error"]["message"]}
        content: Json = reply["result"]["structuredContent"]
        return content

    def _answer(self) -> Json:
        """Give the next message that is an answer: notifications come at any time."""
        while "method" in (reply := self._client.reply(PATIENCE_S)):
            pass
        return reply

    def _left_alone(self, action: str, problem: Exception) -> Json:
        """Nothing came, or the client ended: which it may only where no daemon could be started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.process.wait(5)
        code = self._client.process.poll()
        if code is None:
            self._say(f"{action} hangs: {problem}")
        elif code == 1:  # no daemon could be started, and it said why
            said = self._client.errors().strip().splitlines()[-1:]
            self.soak.counts[f"client ended: {' '.join(said)[:100]}"] += 1
            if not said:
                self._say(f"{action}: the client ended without a word")
        elif code != -signal.SIGKILL:
            self._say(f"{action}: the client ended with {code}: {self._client.errors()}")
        self._client.kill()
        self._client = self._new_client()
        return {"status": "ERROR", "error_code": "CONNECTION_ERROR", "error": str(problem)}

    def _new_client(self) -> Client:
        client = self.installation.serve("--scope", self.scope)
        if self._is_mcp:
            with contextlib.suppress(AssertionError, OSError):  # the next request notices
                about = {"name": "soak", "version": "1"}
                handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
                begin = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": handshake}
                end = time.monotonic() + PATIENCE_S
                client.send(begin)
                while "result" not in (reply := client.reply(PATIENCE_S)) and time.monotonic() < end:
                    if "error" in reply:  # nobody could be asked just then: a client tries again
                        self.soak.counts[f"initialize {reply['error']['message'][:60]}"] += 1
                        time.sleep(0.2)
                        client.send(begin)
                client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    def _say(self, what: str) -> None:
        self.soak.wrong.append(f"client {self.number}: {what}"[:600])

    def _some(self, of: dict[str, set[str]]) -> str | None:
        return self._dice.choice(list(of)) if of else None

    def _text(self) -> str:
        self._stored += 1
        return f"zq{self.number}x{self._stored} {self.scope}: {' '.join(self._dice.choices(_WORDS, k=8))}"

    # what a client does

    def _store(self) -> None:
        text = self._text()
        reply = self._ask("store_memory", content=text, tags=[self.tag, word_of(text)])
        if reply["status"] != "OK":
            self.book.unknown.add(text)
            return
        self.book.live[reply["memory_id"]] = {text}
        if reply["scope"] != self.scope:
            self._say(f"stored into {reply['scope']}")
        if self._dice.random() < 0.3:
            self._must_find(reply["memory_id"])

    def _store_several(self) -> None:
        texts = [self._text() for _ in range(self._dice.randint(2, 5))]
        entries = [{"content": text, "tags": [self.tag, word_of(text)]} for text in texts]
        reply = self._ask("store_memories", memories=entries, atomic=self._dice.random() < 0.5)
        results = reply["results"] if reply["status"] == "OK" else [{}] * len(texts)
        for text, result in zip(texts, results, strict=True):
            if "memory_id" in result:
                self.book.live[result["memory_id"]] = {text}
            else:
                self.book.unknown.add(text)

    def _read(self) -> None:
        if memory_id := self._some(self.book.live):
            reply = self._ask("get_memory", ("NOT_FOUND",), memory_id=memory_id)
            if reply.get("error_code") == "NOT_FOUND":
                self._say(f"LOST: {memory_id} was acknowledged and is not found")
            elif reply["status"] == "OK" and reply["memory"]["text"] not in self.book.live[memory_id]:
                self._say(f"LOST: {memory_id} says {reply['memory']['text']!r}, not {self.book.live[memory_id]}")

    def _find(self) -> None:
        if memory_id := self._some(self.book.live):
            self._must_find(memory_id)

    def _must_find(self, memory_id: str) -> None:
        """Look for a live memory by its tag and by the word that it has alone."""
        for missed in self._look_for(memory_id):
            self._say(missed)

    def _look_for(self, memory_id: str) -> list[str]:
        """Say by what a live memory is not found, without a note or an error that says why."""
        texts, missed = self.book.live[memory_id], []
        if len(texts) > 1:
            return []
        [text] = texts
        by_tag = self._ask("search_by_tag", tag=word_of(text))
        if by_tag["status"] == "OK" and memory_id not in _ids(by_tag) and "note" not in by_tag:
            missed.append(f"{memory_id} is not found by its tag {word_of(text)}: {by_tag}")
        by_word = self._ask("retrieve_memory", query=word_of(text), mode="text", scope=self.scope)
        if by_word["status"] == "OK" and memory_id not in _ids(by_word) and "note" not in by_word:
            missed.append(f"{memory_id} is not found by its word {word_of(text)}: {by_word}")
        return missed

    def _recall(self) -> None:
        allowed = ("NOT_FOUND",) if not self.book.live else ()  # its scope comes with the first memory
        query = " ".join(self._dice.choices(_WORDS, k=3))
        self._must_not_hold(self._ask("retrieve_memory", allowed, query=query, top_k=5))

    def _list(self) -> None:
        self._must_not_hold(self._ask("search_by_tag", tag=self.tag, limit=50))

    def _must_not_hold(self, reply: Json) -> None:
        if gone := _ids(reply) & (self.book.removed.keys() | self.book.hidden.keys()):
            self._say(f"{gone} was deleted and is found")

    def _update(self) -> None:
        if memory_id := self._some(self.book.live):
            text = self._text()
            tags = [self.tag, word_of(text)]
            reply = self._ask("update_memory", memory_id=memory_id, content=text, tags=tags)
            self.book.live[memory_id] = {text} if reply["status"] == "OK" else self.book.live[memory_id] | {text}

    def _hide(self) -> None:
        self._delete("soft")

    def _remove(self) -> None:
        if not self.soak.calm.is_set():  # or a late one would hide what an earlier one left behind
            self._delete("hard")

    def _delete(self, mode: str) -> None:
        if memory_id := self._some(self.book.live):
            # Over MCP what cannot be undone is asked for, of a client that cannot ask its user by a field.
            agreed = {"confirm": True} if self._is_mcp and mode == "hard" else {}
            reply = self._ask("delete_memory", target={"memory_id": memory_id}, forget_mode=mode, **agreed)
            texts = self.book.live.pop(memory_id)
            if reply["status"] != "OK":
                self.book.doubtful[memory_id] = texts
            elif reply["deleted_count"] != 1:
                self._say(f"LOST: {memory_id} was acknowledged and there was nothing to delete: {reply}")
            elif mode == "soft":
                self.book.hidden[memory_id] = texts
            else:
                self.book.removed[memory_id] = texts

    def _bring_back(self) -> None:
        if memory_id := self._some(self.book.hidden):
            reply = self._ask("restore_memory", memory_id=memory_id)
            texts = self.book.hidden.pop(memory_id)
            if reply["status"] == "OK":
                self.book.live[memory_id] = texts
            else:
                self.book.doubtful[memory_id] = texts

    def _leave(self) -> None:
        """Die now and then in the middle of a request, as a window does that is closed."""
        if self._dice.random() < 0.2:
            text = self._text()
            self.book.unknown.add(text)
            self._sent += 1
            fields = {"content": text, "tags": [self.tag, word_of(text)]}
            call = {"jsonrpc": "2.0", "id": self._sent, "method": "tools/call",
                    "params": {"name": "store_memory", "arguments": fields}}  # fmt: skip
            with contextlib.suppress(OSError):
                self._client.send(call if self._is_mcp else {"action": "store_memory", **fields})
            self._client.kill()
            self.soak.counts["client killed"] += 1
            self._client = self._new_client()

    def _send_too_much(self) -> None:
        """Send a line above the limit, now and then one that the client does not keep whole; it is refused, and no more."""
        size = self._dice.choice((16 * MIB + 1, 20 * MIB, 40 * MIB))
        self.soak.counts["line of 16 MiB and more"] += 1
        try:
            self._client.send_bytes(b'{"jsonrpc": "2.0", "id": 0, "action": "ping", "x": "' + b"y" * size + b'"}\n')
            reply = self._answer()
        except (AssertionError, OSError) as exc:
            self._left_alone("a line too long", exc)
            return
        said = str(reply.get("error", reply))
        if (
            "16777216" not in said
            and "16,777,216" not in said
            and "CONNECTION_ERROR" not in str(reply)
            and "-32603" not in said
        ):
            self._say(f"a line of {size} bytes was answered with {str(reply)[:300]}")


def _ids(reply: Json) -> set[str]:
    return {one["memory_id"] for one in reply.get("results", ())}
