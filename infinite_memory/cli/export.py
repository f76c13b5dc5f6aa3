"""Exports memories as text: to standard output, to a file, or to a Markdown file for each scope.

Exports are private, so each file is readable by its owner only from its first byte. It gets its name when it is complete, and never
replaces another file.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from infinite_memory.cli import daemon_requests
from infinite_memory.errors import BackupError, ConfigError, escaped

Json = dict[str, Any]
Ask = Callable[[Json], Json]
_CHUNK_BYTES = 1 << 20
_MAX_STEM_BYTES = 200  # of a file name; file systems limit it to 255 bytes, suffix included
_STANDARD_OUTPUT = Path("-")


def export(options: argparse.Namespace, ask: Ask) -> int:
    """Write the export to standard output, or to a new file or folder."""
    output: Path | None = None if options.output == _STANDARD_OUTPUT else options.output
    tells = getattr(options, "json", False)  # `scopes export` writes to standard output only
    if tells and output is None:
        raise ConfigError("export: --json goes with --output PATH: without one the export itself is printed")
    one_file_a_scope = options.format == "markdown" and output is not None
    if output is not None and (output.exists() or output.is_symlink()) and not one_file_a_scope:
        raise BackupError(f"{output} exists already; nothing was written")
    request: Json = {"action": "export_memory", "format": "jsonl" if one_file_a_scope else options.format}
    request |= {"scope": options.only_scope} if options.only_scope else {}
    request |= {"include_deleted": True} if options.include_deleted else {}
    reply = ask(request)
    if reply["status"] != "OK":
        return daemon_requests.report(reply)
    written = Path(reply["path"])
    try:
        with written.open("rb") as source:
            if output is not None and one_file_a_scope:
                _write_pages(source, output)
            elif output is not None:
                with _writing(output.parent, output.name) as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
            else:
                _copy_out(source)
    finally:
        written.unlink(missing_ok=True)
    if tells:
        print(json.dumps({"status": "OK", "output": str(output), "counts": reply["counts"]}, ensure_ascii=False))
    return 0


@contextmanager
def _writing(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a new file, which gets its name when it is complete; on failure nothing is left of it.

    Raises:
        BackupError: the file cannot be written, or exists already.
    """
    from infinite_memory.backup.folder import atomic_write, unwritable

    with atomic_write(folder, name[:40], "", is_ours=False) as target:
        try:
            yield target.file
            target.sync()
            target.publish_as(name)
        except FileExistsError as exc:
            raise BackupError(f"{folder / name} exists already; nothing was written") from exc
        except OSError as exc:
            raise unwritable(folder, exc) from exc


def _write_pages(source: BinaryIO, folder: Path) -> None:
    """Write a Markdown file for each scope; the file is named after the scope, where possible."""
    from infinite_memory.transfer.export import to_markdown

    pages = list(to_markdown(json.loads(line) for line in source))
    with _new_folders(folder) as written:
        for name, page in pages:
            file = _free_name(folder, _stem(name), len(pages) + 1)
            with _writing(folder, file) as target:
                target.write(page.encode("utf-8", "surrogatepass"))
            written.append(folder / file)


@contextmanager
def _new_folders(folder: Path) -> Iterator[list[Path]]:
    """Create *folder* and its missing parents, and yield a list to collect the files written into it.

    If the body fails, those files and the new folders are removed.

    Raises:
        BackupError: the folder cannot be created.
    """
    from infinite_memory.backup.folder import unwritable

    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    written: list[Path] = []
    try:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise unwritable(folder, exc) from exc
        yield written
    except BaseException:
        with suppress(OSError):  # another program put something into it
            for file in written:
                file.unlink(missing_ok=True)
            for directory in missing:  # innermost first
                directory.rmdir()
        raise


def _free_name(folder: Path, stem: str, max_tries: int) -> str:
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.md" for number in range(1, max_tries + 1))
    for name in names:
        if not (folder / name).exists():
            return name
    raise BackupError(f"there are {max_tries} files named {stem} already")


def _stem(scope: str) -> str:
    """Return a file name for a scope, without characters that file systems forbid or commands interpret."""
    stem = "".join(char if char.isalnum() or char in " -_" else "_" for char in scope)
    cut = stem.encode("utf-8", "replace")[:_MAX_STEM_BYTES].decode("utf-8", "ignore")
    return cut[:80].strip().lstrip("-") or "scope"


def _copy_out(source: BinaryIO) -> None:
    """Copy the export to standard output: byte for byte to a file or pipe, escaped on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.writelines(map(escaped, io.TextIOWrapper(source, "utf-8", newline="")))
        return
    shutil.copyfileobj(source, sys.stdout.buffer, _CHUNK_BYTES)
    sys.stdout.buffer.flush()
