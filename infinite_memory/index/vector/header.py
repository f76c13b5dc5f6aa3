"""The manifest of a generation of the vector index: ``header.json``, two lines, the JSON and the checksum of that line."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.index.generations import Saved, check_files, put_file

FORMAT = 1
"""Increased with every change that an older version would misread."""

_MAGIC = "infinite-memory sidecar"
_HEADER = "header.json"


@dataclass(frozen=True, slots=True)
class Header:
    """The manifest of a generation.

    ``database`` identifies the store, ``token`` is where its change feed resumes, ``count`` the number of memories and ``vector_count``
    that of vectors; ``space`` and ``dim`` are those of the vectors.
    """

    database: str
    space: str
    dim: int
    count: int
    vector_count: int
    token: bytes


def write_header(folder: Path, number: int, header: Header, files: Mapping[str, Saved]) -> None:
    """Write the manifest of a generation and its files.

    Raises:
        OSError: it cannot be written.
    """
    body = {
        "magic": _MAGIC,
        "format": FORMAT,
        "generation": number,
        "database": header.database,
        "space": header.space,
        "dim": header.dim,
        "count": header.count,
        "vector_count": header.vector_count,
        "token": base64.b64encode(header.token).decode("ascii"),
        "files": {name: saved.to_json() for name, saved in files.items()},
    }
    line = json.dumps(body).encode("utf-8")
    put_file(folder / _HEADER, [line + b"\n%08x\n" % zlib.crc32(line)])


def read_header(folder: Path, number: int, database: str, space: str, dim: int) -> tuple[Header, dict[str, Saved]]:
    """Return the manifest of a generation and its files, after verifying them.

    Raises:
        SidecarDamagedError: it is incomplete, altered, of a newer format, or of another database or vector space.
    """
    try:
        body = _unseal((folder / _HEADER).read_bytes())
        if body["magic"] != _MAGIC:
            raise SidecarDamagedError(f"{folder.name} is not a sidecar")
        if body["format"] != FORMAT:
            raise SidecarDamagedError(f"{folder.name} has format {body['format']}, this program reads {FORMAT}")
        token = base64.b64decode(body["token"], validate=True)
        header = Header(body["database"], body["space"], body["dim"], body["count"], body["vector_count"], token)
        if body["generation"] != number:
            raise SidecarDamagedError(f"{folder.name} was generation {body['generation']} when it was written")
        for kind, saved, expected in (("database", header.database, database), ("vector space", header.space, space)):
            if saved != expected:
                raise SidecarDamagedError(f"{folder.name} belongs to the {kind} {saved!r}, not {expected!r}")
        if header.dim != dim:
            raise SidecarDamagedError(f"{folder.name} has vectors of {header.dim} dimensions, not {dim}")
        return header, check_files(folder, body["files"])
    except OSError as exc:
        raise SidecarDamagedError(f"{folder.name} cannot be read: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise SidecarDamagedError(f"{folder.name} has a header that makes no sense: {exc!r}") from exc


def _unseal(raw: bytes) -> dict[str, Any]:
    line, _, check = raw.partition(b"\n")
    if check != b"%08x\n" % zlib.crc32(line):
        raise SidecarDamagedError("the header of the sidecar is not what was written")
    body: dict[str, Any] = json.loads(line)
    return body
