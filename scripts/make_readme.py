"""Writes the README's tables of requests and of formats to import, from the native contract and the importers; a test holds it to them."""

from __future__ import annotations

import re
from pathlib import Path

from infinite_memory.contracts.native.contract import TABLE
from infinite_memory.transfer.formats import FORMATS

FILE = Path(__file__).resolve().parent.parent / "README.md"
_PART = re.compile(r"(<!-- (\w+): begin [^\n]*-->\n).*?(<!-- \2: end -->)", re.DOTALL)


def commands() -> str:
    """Give the table of requests in Markdown."""
    rows = ["| request | fields (**required**) | what it does |", "| --- | --- | --- |"]
    for one in TABLE:
        fields = ", ".join(f"**`{field.name}`**" if field.required else f"`{field.name}`" for field in one.fields)
        rows.append(f"| `{one.name}` | {fields} | {one.about.split('. ')[0].rstrip('.')} |")
    return "\n".join(rows) + "\n"


def formats() -> str:
    """Give the table of formats in Markdown."""
    rows = ["| format | what PATH is |", "| --- | --- |", *(f"| `{one.name}` | {one.about} |" for one in FORMATS)]
    return "\n".join(rows) + "\n"


TABLES = {"commands": commands, "formats": formats}


def with_tables(readme: str) -> str:
    """Give *readme* with its tables made anew."""
    return _PART.sub(lambda part: part[1] + TABLES[part[2]]() + part[3], readme)


if __name__ == "__main__":
    FILE.write_text(with_tables(FILE.read_text("utf-8")), "utf-8")
