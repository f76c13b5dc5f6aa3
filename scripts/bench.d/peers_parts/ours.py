"""Our side: a home with the same memories, and the processes that work for its windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

import psutil
from scale_parts.homes import Corpus, environ_of, fill, scope_name
from scale_parts.running import COMMAND, Running

from peers_parts.windows import Server, Window, cpu_s, quiet, tree


class Ours:
    """A home in *folder* with the first *count* memories."""

    def __init__(self, folder: Path, corpus: Corpus, count: int) -> None:
        self._home = folder / "home"
        fill(self._home, corpus, 0, count)
        with Running(self._home, pinned=False) as running:
            running.until_searchable()  # what is made once is made: words and vectors are indexed and saved
        command = [*COMMAND, "serve", "--scope", scope_name(0)]
        environ = environ_of(self._home)
        self.server = Server(
            "InfiniteMemory", command, environ, folder / "ours.log", "store_memory", "retrieve_memory", "top_k"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the daemon, where one runs."""
        quiet([*COMMAND, "daemon", "stop"], self.server.environ)

    def daemon(self) -> psutil.Process:
        """The process behind all windows."""
        return psutil.Process(self._status()["pid"])

    def mongod(self) -> psutil.Process:
        """The MongoDB that it started."""
        return psutil.Process(self._status()["mongod_pid"])

    def cpu_s(self, window: Window) -> float:
        """CPU seconds of daemon and window together; the daemon's MongoDB is not in it."""
        daemon, mongod = self.daemon(), self.mongod()
        return cpu_s([one for one in (*tree(daemon), *tree(window.process)) if one != mongod])

    def mongod_cpu_s(self) -> float:
        """CPU seconds of MongoDB."""
        return cpu_s([self.mongod()])

    def _status(self) -> dict[str, int]:
        told: dict[str, int] = json.loads(quiet([*COMMAND, "daemon", "status", "--json"], self.server.environ))
        return told
