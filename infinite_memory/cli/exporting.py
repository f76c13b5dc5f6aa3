"""What is remembered as text: to standard output, into a file, or a Markdown file for each scope."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from infinite_memory.cli import reach
from infinite_memory.errors import BackupError

Json = dict[str, Any]
Ask = Callable[[Json], Json]
_CHUNK_BYTES = 1 << 20


def export(options: argparse.Namespace, ask: Ask) -> int:
    """Write what is remembered to standard output, or into a new file or folder."""
    one_file_a_scope = options.format == "markdown" and options.output is not None
    if options.output is not None and options.output.exists() and not one_file_a_scope:
        raise BackupError(f"{options.output} exists already; nothing was written")
    request: Json = {"action": "export_memory", "format": "jsonl" if one_file_a_scope else options.format}
    request |= {"scope": options.only_scope} if options.only_scope else {}
    request |= {"include_deleted": True} if options.include_deleted else {}
    reply = ask(request)
    if reply["status"] != "OK":
        return reach.report(reply)
    written = Path(reply["path"])
    try:
        if one_file_a_scope:
            _write_pages(written, options.output)
        elif options.output is not None:
            with written.open("rb") as source, options.output.open("xb") as target:
                shutil.copyfileobj(source, target, _CHUNK_BYTES)
        else:
            with written.open("rb") as source:
                _copy_out(source)
    finally:
        written.unlink(missing_ok=True)
    return 0


def _write_pages(written: Path, folder: Path) -> None:
    """Write a Markdown file for each scope; a scope's name decides its file's name, as far as file names can."""
    from infinite_memory.lifecycle.export import to_markdown

    folder.mkdir(parents=True, exist_ok=True)
    with written.open(encoding="utf-8") as lines:
        pages = list(to_markdown(map(json.loads, lines)))
    for name, page in pages:
        stem = "".join(one if one.isalnum() or one in " -_" else "_" for one in name).strip()[:80] or "scope"
        for number in range(1, len(pages) + 2):
            file = folder / f"{stem}{f'-{number}' if number > 1 else ''}.md"
            try:
                with file.open("x", encoding="utf-8") as target:
                    target.write(page)
            except FileExistsError:
                continue
            break


def _copy_out(source: BinaryIO) -> None:
    shutil.copyfileobj(source, sys.stdout.buffer, _CHUNK_BYTES)
    sys.stdout.buffer.flush()
