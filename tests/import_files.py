"""What tests of imports share: the example files, and reading one as an import does, without a memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from infinite_memory.settings import LimitsSettings
from infinite_memory.transfer.formats import Budget, Entry, Incoming, Refused, find_format
from infinite_memory.transfer.formats.sources import open_source
from infinite_memory.transfer.import_folders import locate_anywhere
from infinite_memory.transfer.validation import Admitted, admit

FILES = Path(__file__).resolve().parent / "data" / "imports"


def read_entries(path: Path, form: str | None = None, budget: Budget | None = None) -> tuple[str, list[Entry]]:
    """Read a file or folder; returns the name of its format, and its entries as they would be taken."""
    with closing(open_source(*locate_anywhere(path), budget or Budget())) as source:
        opened = find_format(source, form)
        return opened.form.name, list(_taken(opened.entries()))


def _taken(entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        taken = admit(entry, LimitsSettings())
        yield taken.memory if isinstance(taken, Admitted) else taken


def memories(entries: list[Entry]) -> list[Incoming]:
    """List the memories among entries."""
    return [entry for entry in entries if isinstance(entry, Incoming)]


def left_out(entries: list[Entry]) -> dict[str, int]:
    """Count what is left out, by its reason."""
    counts: dict[str, int] = {}
    for entry in entries:
        if isinstance(entry, Refused):
            counts[entry.reason] = counts.get(entry.reason, 0) + entry.count
    return counts


def zip_folder(folder: Path, file: Path, prefix: str = "") -> Path:
    """Write the files of a folder into a zip."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(folder.rglob("*")):
            if one.is_file():
                archive.write(one, prefix + one.relative_to(folder).as_posix())
    return file


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files, with the folders in which they lie."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
