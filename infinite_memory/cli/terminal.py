"""Safe output on a terminal: no stored name or text can move the cursor, ring the bell or reverse text direction.

Everything printed goes through `Printed`, whoever prints it; `in_one_line` is for values within a line. The escapes are those of
JSON, so printed JSON keeps its meaning. Standard library only: `serve` imports this.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from infinite_memory.errors import escaped


class Printed:
    """A text stream that escapes terminal control characters; all other attributes are the wrapped stream's."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write *text*; line breaks and tabs are kept."""
        self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: TextIO) -> TextIO:
    """Return the wrapped stream, for code that draws on a terminal and escapes names with `in_one_line` first."""
    return stream.stream if isinstance(stream, Printed) else stream


def in_one_line(value: object) -> str:
    """Return a stored name or text, escaped so that it is harmless and stays on one line."""
    return escaped(str(value), line=True)


@contextlib.contextmanager
def printing_safely() -> Iterator[None]:
    """Escape everything that is printed in this context."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", stream and Printed(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
