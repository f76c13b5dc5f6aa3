"""What the scale bench asks, each time something new."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

from scale_parts import texts
from scale_parts.homes import FIRST, GROUP, RARE, SHARES
from scale_parts.running import Cost, Json, Running

Request = tuple[str, Json]
STORED = "asked"  # the tag of what is stored on top, which is removed in the end
FLAT = ("store", "get", "by tag", "by time")
"""Operations whose result has the same size however many memories there are."""


class Asking:
    """Makes requests against one home of *size* memories; never the same question twice."""

    def __init__(self, size: int, rounds: int) -> None:
        self._size, self._rounds = size, rounds
        self._rng = random.Random(size)
        self._questions = iter(texts.questions(60 * rounds, size))

    def run(self, running: Running, *, everywhere: bool = False) -> Iterator[tuple[str, Cost]]:
        """Measure one operation after the other; *everywhere* asks ALL scopes, and only what that concerns."""
        scope: Json = {"scope": "ALL"} if everywhere else {}
        running.measure(self._retrieve(20, **scope))
        yield "retrieve", running.measure(self._retrieve(self._rounds, **scope))
        yield "by tag", running.measure(self._by_tag(**scope))
        yield "by time", running.measure(self._by_time(**scope))
        if everywhere:
            return
        ids = [one["memory_id"] for one in running.client.get("list_memories", limit=500)["results"]]
        yield "get", running.measure(("get_memory", {"memory_id": self._rng.choice(ids)}) for _ in range(self._rounds))
        yield "store", running.measure(self._store())
        for kind in ("random", "near"):
            for share in SHARES:
                some = self._retrieve(self._rounds // 2, filter={"tags": [f"{kind}:{share:g}"]})
                yield f"{kind} {share:g} %", running.measure(some)
        running.client.get("delete_memory", target={"tag": STORED}, forget_mode="hard")

    def _retrieve(self, count: int, **more: Any) -> Iterator[Request]:
        for _ in range(count):
            yield "retrieve_memory", {"query": next(self._questions), **more}

    def _by_tag(self, **more: Any) -> Iterator[Request]:
        for _ in range(self._rounds):
            number = self._rng.randrange(min(RARE, self._size // GROUP))
            yield "search_by_tag", {"tag": f"rare:{number}", "limit": GROUP, **more}

    def _by_time(self, **more: Any) -> Iterator[Request]:
        for _ in range(self._rounds):
            start = FIRST + dt.timedelta(minutes=self._rng.randrange(self._size - GROUP))
            end = start + dt.timedelta(minutes=GROUP - 1)
            span = {"from": start.isoformat(), "to": end.isoformat()}
            yield "recall_memory_by_time", {"range": span, "limit": GROUP, **more}

    def _store(self) -> Iterator[Request]:
        for number, text in enumerate(texts.questions(self._rounds, self._size + 1)):
            told = text.removesuffix("?") + f", they asked on page {number}."
            yield "store_memory", {"content": told, "metadata": {"tags": [STORED]}}
