"""Progress of long operations on standard error: a bar on a terminal, otherwise periodic lines. Short operations show nothing."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from infinite_memory.cli import daemon_requests
from infinite_memory.cli.terminal import raw

Json = dict[str, Any]
Progress = Callable[[int, int], None]

FIRST_LINE_S = 3.0  # shorter operations print nothing
NEXT_LINE_S = 5.0
_BAR = "{desc} {bar} {n_fmt}/{total_fmt} {elapsed}"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the flag that turns progress off."""
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def asking(options: argparse.Namespace, title: str, *, any_path: bool = False) -> Callable[[Json], Json]:
    """Return a function that sends a request to the daemon and shows progress; *title* is the command's name.

    With *any_path* the daemon accepts any path in the request.
    """

    def ask(request: Json) -> Json:
        if options.quiet:
            return daemon_requests.ask(options, request, any_path=any_path)
        with show_progress(title, sys.stderr) as progress:
            return daemon_requests.ask(options, request, progress, any_path=any_path)

    return ask


@contextlib.contextmanager
def show_progress(title: str, stream: TextIO) -> Iterator[Progress]:
    """Show progress on a stream; yield a function that takes the number done and the total (0: unknown)."""
    if stream.isatty():
        with _bar(title, stream) as progress:
            yield progress
    else:
        yield Lines(title, stream)


class Lines:
    """Writes a line every `NEXT_LINE_S`, the first after `FIRST_LINE_S`."""

    def __init__(self, title: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._stream, self._clock = title, stream, clock
        self._next_at = clock() + FIRST_LINE_S

    def __call__(self, done: int, total: int) -> None:
        """Report the number done and the total."""
        if self._clock() >= self._next_at:
            self._next_at = self._clock() + NEXT_LINE_S
            of = f" of {total:,}" if total else ""
            print(f"infinite-memory {self._title}: {done:,}{of} done", file=self._stream, flush=True)


@contextlib.contextmanager
def _bar(title: str, stream: TextIO) -> Iterator[Progress]:
    from tqdm import tqdm

    with tqdm(desc=title, file=raw(stream), leave=False, bar_format=_BAR, dynamic_ncols=True) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total or None
            bar.update(done - bar.n)
            if done == total:
                bar.refresh()

        yield progress
