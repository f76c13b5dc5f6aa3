"""Writes the README's table of requests from the native contract's table; a test holds the README to it."""

from __future__ import annotations

import re
from pathlib import Path

from infinite_memory.contracts.native import TABLE

FILE = Path(__file__).resolve().parent.parent / "README.md"
_PART = re.compile(r"(<!-- commands: begin [^\n]*-->\n).*?(<!-- commands: end -->)", re.DOTALL)


def table() -> str:
    """Give the table of requests in Markdown."""
    rows = ["| request | fields (**required**) | what it does |", "| --- | --- | --- |"]
    for one in TABLE:
        fields = ", ".join(f"**`{field.name}`**" if field.required else f"`{field.name}`" for field in one.fields)
        rows.append(f"| `{one.name}` | {fields} | {one.about.split('. ')[0].rstrip('.')} |")
    return "\n".join(rows) + "\n"


def with_table(readme: str) -> str:
    """Give *readme* with its table made anew."""
    return _PART.sub(lambda part: part[1] + table() + part[2], readme)


if __name__ == "__main__":
    FILE.write_text(with_table(FILE.read_text("utf-8")), "utf-8")
