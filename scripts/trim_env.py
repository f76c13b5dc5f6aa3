"""Removes from a checkout's environment what is installed there and never loaded: a fifth of it. Standard library only.

Called by `setup_env.py`, on the environment that set-up made itself and on no other. What goes:

- The C library of onnxruntime. The Python module holds the same code and does not link to it (its ``NEEDED`` entries name system
  libraries alone).
- The symbol table of MongoDB's server, which only debuggers read: what no segment of an ELF file maps is cut off. The result must run
  before it takes the original's place.
- Tests of packages, and what pip compiled of itself.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

UNUSED = ("onnxruntime/capi/libonnxruntime.so*", "numpy/**/tests", "pip/**/__pycache__")
MONGOD = "fiftyone/db/bin/mongod"
ELF64_LITTLE = b"\x7fELF\x02\x01"
HEADER_BYTES, SEGMENT_BYTES = 64, 56
VERSION_S = 60.0


def trim(venv: Path) -> int:
    """Remove what is never loaded; return how many bytes that were."""
    saved = 0
    for packages in (*venv.glob("lib/python*/site-packages"), *venv.glob("Lib/site-packages")):
        for pattern in UNUSED:
            saved += sum(_remove(path) for path in list(packages.glob(pattern)))
        saved += drop_symbols(packages / MONGOD)
    return saved


def drop_symbols(program: Path) -> int:
    """Cut off what follows the last segment of *program*, if that leaves one that runs; return how many bytes that were."""
    try:
        content = program.read_bytes()
    except OSError:
        return 0
    if (end := segments_end(content)) is None or end >= len(content):
        return 0
    smaller = bytearray(content[:end])
    struct.pack_into("<Q", smaller, 40, 0)  # e_shoff: the table of sections was behind the segments
    struct.pack_into("<HH", smaller, 60, 0, 0)  # e_shnum, e_shstrndx
    beside = program.with_name(f".{program.name}.trimmed")
    try:
        beside.write_bytes(smaller)
        shutil.copymode(program, beside)
        beside.chmod(beside.stat().st_mode | 0o111)
        if (version := _version(program)) is None or _version(beside) != version:
            return 0
        beside.replace(program)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    finally:
        beside.unlink(missing_ok=True)
    return len(content) - end


def segments_end(content: bytes) -> int | None:
    """Return where the last segment of a 64-bit little-endian ELF file ends in it; None for any other file."""
    if content[: len(ELF64_LITTLE)] != ELF64_LITTLE or len(content) < HEADER_BYTES:
        return None
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    end = table + size * count
    if size != SEGMENT_BYTES or not count or end > len(content):
        return None
    for position in range(table, end, size):
        (offset,) = struct.unpack_from("<Q", content, position + 8)
        (length,) = struct.unpack_from("<Q", content, position + 32)
        end = max(end, offset + length)
    return int(end)


def _version(program: Path) -> bytes | None:
    """Return what *program* says of itself; None where it does not run."""
    done = subprocess.run([str(program), "--version"], capture_output=True, check=False, timeout=VERSION_S)
    return done.stdout if done.returncode == 0 else None


def _remove(path: Path) -> int:
    """Remove a file or folder; return how many bytes that were, 0 where it cannot be removed: it costs room and nothing else."""
    try:
        files = [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]
        size = sum(entry.lstat().st_size for entry in files)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return 0
    return size
