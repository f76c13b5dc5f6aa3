"""Read the source of an import in its own thread: a file or folder becomes batches of validated entries."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from infinite_memory.settings import LimitsSettings
from infinite_memory.transfer.formats import (
    Budget,
    Entry,
    Incoming,
    Opened,
    Refused,
    find_format,
)
from infinite_memory.transfer.formats.caps import MAX_ENTRIES, MAX_REFUSED, CapReachedError
from infinite_memory.transfer.formats.sources import open_source
from infinite_memory.transfer.validation import Admitted, admit

BATCH = 160  # memories embedded and stored together: blocks the event loop for about 5 ms at most
BATCH_CHARS = 4 << 20  # of their texts together

T = TypeVar("T")


class EntryReader:
    """Reads and validates entries in its own thread: a SQLite connection belongs to one. Leaving the context ends the thread."""

    def __init__(self, limits: LimitsSettings) -> None:
        self._limits, self._budget = limits, Budget()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="import")
        self._opened: Opened | None = None
        self.entries: Iterator[Entry] = iter(())
        self._count, self._refused, self._is_over = 0, 0, False
        self.digests: list[str] = []  # of the batches that were read

    def __enter__(self) -> EntryReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.cancel()
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    async def open(self, root: Path, names: tuple[str, ...], form: str | None) -> Opened:
        """Open what was named, and find its format."""
        return await self._do(lambda: self._open(root, names, form))

    async def next_batch(self) -> list[Entry | Admitted]:
        """Return the next entries, an empty batch at the end."""
        return await self._do(self._next_batch)

    async def _do(self, func: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, func)

    def _open(self, root: Path, names: tuple[str, ...], form: str | None) -> Opened:
        source = open_source(root, names, self._budget)
        try:
            self._opened = find_format(source, form)
        except BaseException:
            source.close()
            raise
        self.entries = self._opened.entries()
        return self._opened

    def _next_batch(self) -> list[Entry | Admitted]:
        batch: list[Entry | Admitted] = []
        chars = 0
        while not self._is_over and len(batch) < BATCH and chars < BATCH_CHARS:
            self._budget.renew()
            try:
                entry = next(self.entries, None)
            except CapReachedError as exc:
                entry, self._is_over = Refused("the rest", str(exc)), True
            if entry is None:
                self._is_over = True
            elif self._count >= MAX_ENTRIES or self._refused >= MAX_REFUSED:
                too_many = f"an import takes {MAX_ENTRIES:,} entries at most"
                too_many_refused = f"it is given up after {MAX_REFUSED:,} entries that cannot be taken"
                batch.append(Refused("the rest", too_many_refused if self._refused >= MAX_REFUSED else too_many))
                self._is_over = True
            else:
                admitted = admit(entry, self._limits)
                self._count += 1
                self._refused += isinstance(admitted, Refused)
                batch.append(admitted)
                chars += len(entry.text) if isinstance(entry, Incoming) else 0
        if batch:
            self.digests.append(hashlib.sha256(repr(batch).encode("utf-8", "surrogatepass")).hexdigest())
        return batch

    def _close(self) -> None:
        if self._opened is not None:
            close = getattr(self.entries, "close", None)
            if close is not None:
                close()
            self._opened.source.close()
