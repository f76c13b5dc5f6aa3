"""What people read on a terminal: no stored name or text may move its cursor, ring its bell or turn its letters round.

Everything that is printed passes through `Printed`, whoever prints it; `in_one_line` is for values that stand in a line of their own.
The escapes are those of JSON, so JSON that is printed keeps its meaning. Standard library only: `serve` imports this.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from infinite_memory.errors import escaped


class Printed:
    """A text stream that escapes what a terminal would carry out; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write *text*; its lines and tabs stay."""
        self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: TextIO) -> TextIO:
    """Return the stream below, for a library that draws on a terminal and escapes names by `in_one_line` first."""
    return stream.stream if isinstance(stream, Printed) else stream


def in_one_line(value: object) -> str:
    """Write a stored name or text so that it is harmless and stays on its line."""
    return escaped(str(value), line=True)


@contextlib.contextmanager
def printing_safely() -> Iterator[None]:
    """Escape everything that is printed meanwhile."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", stream and Printed(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
