"""The manifest of a text index folder: its store, its change token and the checksums of its files."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.index.generations import check_files, measure, replace_file
from infinite_memory.text.analyzer import ANALYZER_VERSION

MANIFEST = "manifest.json"

_UNLISTED = re.compile(r"\..*|manifest\.json.*|.*\.tmp")  # lock files and lists that tantivy manages itself


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a generation. With an empty ``token`` it is unknown how current it is."""

    database: str
    token: bytes
    count: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of *folder* durably; checksums of files already listed are kept.

    Raises:
        OSError: it cannot be written.
    """
    previous: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        previous = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    files: dict[str, Any] = {}
    for path in _listed(folder):
        entry = previous.get(path.name)
        is_unchanged = path.name != "meta.json" and entry is not None and entry["size"] == path.stat().st_size
        files[path.name] = entry if is_unchanged else measure(path).to_json()
    body = {
        "recipe": ANALYZER_VERSION, "database": manifest.database, "token": base64.b64encode(manifest.token).decode("ascii"),
        "count": manifest.count, "files": files,
    }  # fmt: skip
    replace_file(folder / MANIFEST, json.dumps(body).encode("utf-8"))


def read_manifest(folder: Path, database: str) -> Manifest:
    """Return the manifest of *folder* after verifying its files.

    Raises:
        SidecarDamagedError: files differ, it cannot be read, or it belongs to another store or analyzer version.
    """
    try:
        body = json.loads((folder / MANIFEST).read_text("utf-8"))
        if body["recipe"] != ANALYZER_VERSION:
            raise SidecarDamagedError(
                f"{folder.name} was made by recipe {body['recipe']}, this program's is {ANALYZER_VERSION}"
            )
        if body["database"] != database:
            raise SidecarDamagedError(f"{folder.name} belongs to another store")
        if {path.name for path in _listed(folder)} != set(body["files"]):
            raise SidecarDamagedError(f"{folder.name} holds other files than were written")
        check_files(folder, body["files"])
        return Manifest(database, base64.b64decode(body["token"], validate=True), int(body["count"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, binascii.Error) as exc:
        raise SidecarDamagedError(f"{folder.name} cannot be read: {exc}") from exc


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not _UNLISTED.fullmatch(path.name))
