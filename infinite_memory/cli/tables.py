"""Prints memories: a table with colours on a terminal, otherwise one line each with tab-separated columns.

Stored values go through `in_one_line` or `escaped` first, because tables bypass the escaping stream.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from infinite_memory.cli import terminal_table
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.terminal_table import Cell, Column, Span
from infinite_memory.errors import escaped

Json = dict[str, Any]

MAX_CHARS = 300  # of a text in a table; `show` prints all of it
SURE, DOUBTFUL = 0.8, 0.5  # a match is green from this confidence, and dim below that one
UNCHANGED = "nothing was changed"


def is_terminal() -> bool:
    """True if standard output is a terminal."""
    return sys.stdout.isatty()


def note(text: object) -> None:
    """Print a note on standard error, so that it is not mistaken for a result in a pipe."""
    print(f"infinite-memory: {in_one_line(text)}", file=sys.stderr)


def confirm(question: str) -> bool:
    """Ask on the terminal; True if the answer is yes, otherwise print that nothing was changed."""
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    is_yes = answer.strip().casefold() in ("y", "yes")
    if not is_yes:
        note(UNCHANGED)
    return is_yes


def print_memories(memories: Sequence[Json], words: str = "") -> None:
    """Print memories; on a terminal the words of *words* are highlighted in their texts."""
    if is_terminal():
        _print_table(memories, words)
    else:
        for memory in memories:
            print("\t".join(in_one_line(value) for value in _columns(memory)))


def _columns(memory: Json) -> tuple[object, ...]:
    """Return the columns for a pipe: id, timestamp, scope, tags, confidence ("" in a listing), text."""
    return (
        memory["memory_id"],
        memory.get("timestamp", ""),
        memory.get("scope") or "",
        ",".join(memory.get("tags", ())),
        memory.get("confidence", ""),
        memory["text"],
    )


def _print_table(memories: Sequence[Json], words: str) -> None:
    ranked = any("confidence" in memory for memory in memories)
    columns = [
        Column("day"),
        Column("text", flexible=True),
        Column("scope, tags", max_width=20),
        Column("id", "dim"),
    ]
    standing_out = [word for word in words.split() if len(word) > 2]
    rows: list[list[Cell]] = []
    for memory in memories:
        text = to_cell(memory.get("excerpt") or memory["text"])
        scope, tags = in_one_line(memory.get("scope") or ""), in_one_line(", ".join(memory.get("tags", ())))
        row: list[Cell] = [
            local_day(memory.get("timestamp")),
            terminal_table.highlighted(text, standing_out),
            [(scope, "cyan"), ("\n" if scope and tags else "", ""), (tags, "magenta")],
            in_one_line(memory["memory_id"]),
        ]
        rows.append([[_confidence(memory)], *row] if ranked else row)
    terminal_table.write_table([Column("sure", is_number=True), *columns] if ranked else columns, rows)


def local_day(timestamp: str | None) -> str:
    """Return the local day of a timestamp; "" if there is none, as in a preview of `forget`."""
    import datetime as dt

    from infinite_memory.contracts.timestamps import on_clock

    return on_clock(dt.datetime.fromisoformat(timestamp), None).date().isoformat() if timestamp else ""


def _confidence(memory: Json) -> Span:
    value = memory.get("confidence")
    if value is None:
        return "", ""
    return f"{value:.2f}", "green" if value >= SURE else "dim" if value < DOUBTFUL else ""


def to_cell(text: str) -> str:
    """Return a stored text for a table: on one line with whitespace collapsed for people; unchanged but escaped in a pipe."""
    return shorten(in_one_line(" ".join(text.split())))


def shorten(text: str) -> str:
    """Truncate a text for a table."""
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


def print_fields(fields: Json, text: str = "") -> None:
    """Print names and values, one per line, then a text unchanged."""
    width = max(map(len, fields), default=0) + 2
    if not is_terminal():
        for name, value in fields.items():
            print(f"{name + ':':<{width}}{in_one_line(value)}")
        if text:
            print(f"\n{text}")
        return
    for name, value in fields.items():
        terminal_table.write_line((f"{name:<{width}}", "cyan"), (in_one_line(value), ""))
    if text:
        terminal_table.write_line((f"\n{escaped(text)}", ""))
