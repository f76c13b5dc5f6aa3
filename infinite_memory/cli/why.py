"""`infinite-memory why`: the parts of each result's score, or why a memory is not among the results.

Exit codes: 0 done, 1 the request failed or no memory has the id, 2 usage error.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from infinite_memory.cli import daemon_requests, memories, tables, terminal_table
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.terminal_table import Column

Json = dict[str, Any]

_ID = re.compile(r"[0-9a-f]{24}")
PARTS = ("score", "meaning", "words", "tag", "exact_phrase", "conversation")


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    parser = commands.add_parser(
        "why", parents=[common], help="show why results are where they are, or why one is not shown"
    )
    parser.add_argument(
        "query",
        nargs="+",
        metavar="QUERY",
        help="what `search` was asked, - reads it; with an id behind it only of that memory, also where it is not shown",
    )
    memories.add_filter(parser)
    parser.add_argument("--mode", choices=memories.MODES, help="what to go by; default: hybrid")
    parser.add_argument("-n", "--limit", type=int, default=10, metavar="N", help="most results; default: 10")
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")


def run(options: argparse.Namespace) -> int:
    """Explain a search, or the rank of one memory in it."""
    *words, last = options.query
    memory_id = last if words and _ID.fullmatch(last) else None
    if memory_id is not None:
        options.query = words
    request = memories.build_query(options) | {"explain": True, "top_k": options.limit}
    request |= {} if options.mode is None else {"mode": options.mode}
    request |= {} if memory_id is None else {"explain_id": memory_id}
    reply = daemon_requests.ask(options, request)
    if reply["status"] != "OK":
        return daemon_requests.report(reply)
    code = 1 if reply.get("explained", {}).get("reason") == "unknown" else 0
    if options.json:
        print(json.dumps(reply, ensure_ascii=False))
    elif memory_id is not None:
        _print_standing(reply["explained"], reply["results"])
    else:
        _print_results(reply["results"])
    memories.print_notes(reply)
    return code


def _print_standing(explained: Json, results: list[Json]) -> None:
    print(in_one_line(explained["says"]))
    if parts := explained.get("explain"):
        print()
        tables.print_fields(_to_fields(parts))
    above = [result for result in results if result["memory_id"] != explained["memory_id"]]
    if explained["reason"] == "rank" and above:
        print()
        _print_results(above)


def _to_fields(parts: Json) -> Json:
    named = {name.replace("_", " "): f"{parts[name]:.3f}" for name in PARTS}
    if parts["by_word"]:
        named["words"] += f" ({_by_word(parts)})"
    for name in ("rank", "cosine", "rerank_score"):
        if name in parts:
            named[name.replace("_", " ")] = str(parts[name])
    return named


def _by_word(parts: Json) -> str:
    ordered = sorted(parts["by_word"].items(), key=lambda pair: -pair[1])
    return ", ".join(f"{in_one_line(word)} {score:.3f}" for word, score in ordered)


def _columns(result: Json) -> list[str]:
    """Return the columns of a line: score, its parts, the score of each word, id, text."""
    parts = result["explain"]
    numbers = [f"{parts[name]:.3f}" for name in PARTS]
    return [*numbers, _by_word(parts), in_one_line(result["memory_id"]), in_one_line(result["text"])]


def _print_results(results: list[Json]) -> None:
    if not tables.is_terminal():
        for result in results:
            print("\t".join(_columns(result)))
        return
    titles = ("score", "meaning", "words", "tag", "exact", "talk")
    lines = [_columns(result) for result in results]
    # Columns that are zero in every row are left out on a terminal.
    present = [index for index in range(len(titles)) if any(float(line[index]) for line in lines)]
    columns = [Column(titles[index], is_number=True) for index in present]
    columns += [Column("each word", "magenta", max_width=16), Column("text", flexible=True), Column("id", "dim")]
    rows = []
    for result, (*parts, by_word, memory_id, _) in zip(results, lines, strict=True):
        rows.append([*(parts[index] for index in present), by_word, tables.to_cell(result["text"]), memory_id])
    terminal_table.write_table(columns, rows)


COMMANDS = {"why": run}
