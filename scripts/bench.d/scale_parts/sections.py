"""Sections of docs/performance-peers.md: each script writes its own, between two marks, and leaves those of the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_SECTION = re.compile(r"<!-- (\w+): begin .*?<!-- \1: end -->\n?", re.DOTALL)


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put the section of the script called *name* into the page, in the place of the one before."""
    text = page.read_text("utf-8") if page.is_file() else "# Performance\n"
    made = "\n".join((f"<!-- {name}: begin (written by scripts/bench {name}) -->", *lines, f"<!-- {name}: end -->", ""))
    for found in _SECTION.finditer(text):
        if found[1] == name:
            page.write_text(text[: found.start()] + made + text[found.end() :], "utf-8")
            return
    page.write_text(text.rstrip("\n") + "\n\n" + made, "utf-8")


def all_of(page: Path) -> str:
    """Give all sections of a page that is about to be written anew, to be put at its end."""
    text = page.read_text("utf-8") if page.is_file() else ""
    return "\n".join(found[0].rstrip("\n") + "\n" for found in _SECTION.finditer(text))
